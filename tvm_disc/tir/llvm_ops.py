"""Vector operations that TIR lacks: LLVM functions, linked into the program and inlined.

TIR calls them as external functions, such as ``disc.scale.v16``; :func:`link` adds their
definitions. The available operations depend on the target: templates are emitted inside
:func:`tuned_for`, and check :func:`has_native` before they use an operation.

    scale     x * 2^floor(n), rounded once, for any float n (``vscalefps``)
    clamp     x limited to [-bound, bound]; NaN becomes the bound (``vrangeps``)
    remainder x minus the nearest multiple of a power of two (``vreduceps``)
    lookup    one of sixteen floats, by the low four bits of an index (``vpermps``)
    stream    a non-temporal store (``vmovntps``)

``stream`` requires registers of at least 32 bytes; with 32, each cache line is stored as two
halves, one after the other. The other operations require AVX-512.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from tvm import tirx
from tvm.ir import StringImm

from tvm_disc.target.isa import Isa, isa_of
from tvm_disc.tir.builder import dtype_of, element_dtype, lanes_of, with_lanes
from tvm_disc.tir.imports import called_in, provided
from tvm_disc.tir.integers import definitions, opaque
from tvm_disc.typing import Expr, Target, TVMModule

LANES = 16  # float32 lanes of an AVX-512 register; also float32 elements of a cache line
STREAMS_FROM = 8  # fewest float32 lanes of a register for non-temporal stores
TABLE = 16  # entries of a lookup
_ON_DEVICE = {"float32": "__fsub_rn", "float64": "__dsub_rn"}  # subtractions of CUDA
REMAINDERS = (2,)  # the values of ``digits`` that :func:`remainder` supports
_VECTOR = re.compile(r"disc\.((scale|clamp|remainder\d|lookup|stream)\.v|fence$)")
_WIDTHS = tuple(LANES * k for k in range(1, 9))
_isa: ContextVar[Isa | None] = ContextVar("isa", default=None)


@contextmanager
def tuned_for(isa: Isa) -> Iterator[None]:
    """Return a context in which emitted code may use the operations of ``isa``."""
    token = _isa.set(isa)
    try:
        yield
    finally:
        _isa.reset(token)


def emitting_for() -> Isa | None:
    """Return the ISA that code is emitted for; None outside of :func:`tuned_for`."""
    return _isa.get()


def has_native(lanes: int) -> bool:
    """Return whether the AVX-512 operations may be emitted for float32 vectors of ``lanes``."""
    isa = _isa.get()
    return isa is not None and natively(isa, lanes)


def natively(isa: Isa, lanes: int) -> bool:
    """Return whether ``isa`` has the AVX-512 operations for float32 vectors of ``lanes``."""
    return isa.lanes_f32 == LANES and lanes in _WIDTHS


def can_stream(lanes: int) -> bool:
    """Return whether non-temporal stores of float32 vectors of ``lanes`` may be emitted."""
    isa = _isa.get()
    return isa is not None and streams(isa, lanes)


def streams(isa: Isa, lanes: int) -> bool:
    """Return whether ``isa`` has non-temporal stores of float32 vectors of ``lanes``."""
    return isa.lanes_f32 >= STREAMS_FROM and lanes in _WIDTHS


def scale(x: Expr, n: Expr) -> Expr:
    """Return ``x * 2^floor(n)``: inf on overflow, 0 on underflow, denormals are rounded once."""
    return tirx.call_extern(str(x.ty.dtype), f"disc.scale.v{lanes_of(x)}", x, n)


def clamp(x: Expr, bound: Expr) -> Expr:
    """Return ``x`` limited to the magnitude of ``bound``; NaN becomes ``bound``."""
    return tirx.call_extern(str(x.ty.dtype), f"disc.clamp.v{lanes_of(x)}", x, bound)


def remainder(x: Expr, digits: int) -> Expr:
    """Return ``x`` minus the nearest multiple of ``2^-digits``, ties to even.

    ``digits`` must be in ``REMAINDERS``.
    """
    return tirx.call_extern(str(x.ty.dtype), f"disc.remainder{digits}.v{lanes_of(x)}", x)


def lookup(table: Sequence[float], index: Expr) -> Expr:
    """Return ``table[index % 16]`` for a vector of int32."""
    lanes = lanes_of(index)
    entries = [tirx.const(v, "float32") for v in table]
    vector = tirx.Shuffle(entries, [tirx.IntImm("int32", k) for k in range(TABLE)])
    return tirx.call_extern(f"float32x{lanes}", f"disc.lookup.v{lanes}", vector, index)


def stream(value: Expr, address: Expr) -> Expr:
    """Return a non-temporal store of a float32 vector to an address aligned to a cache line.

    :func:`fence` orders the store before later ones.
    """
    return tirx.call_extern("void", f"disc.stream.v{lanes_of(value)}", value, address)


def fence() -> Expr:
    """Return a store fence: earlier non-temporal stores become visible before later stores."""
    return tirx.call_extern("void", "disc.fence")


def difference(x: Expr, y: Expr) -> Expr:
    """Return ``x - y`` of floats, with ``x`` rounded before the subtraction.

    If ``x = a * b`` and ``y`` is the maximum of ``x``, a fused multiply-subtract would return the
    rounding error of the product, up to half a unit in the last place, instead of 0. For a product
    of 2^40, the error is up to 2^16, and its exponential is infinite.
    """
    dtype = dtype_of(x)
    if element_dtype(x) not in _ON_DEVICE:
        exact = with_lanes("float32", x)
        return tirx.Cast(dtype, difference(tirx.Cast(exact, x), tirx.Cast(exact, y)))
    isa = emitting_for()
    if isa is not None and isa.device:
        return tirx.call_pure_extern(dtype, _ON_DEVICE[dtype], x, y)
    return tirx.call_llvm_pure_intrin(dtype, "llvm.arithmetic.fence", x) - y


def link(mod: TVMModule, target: Target) -> TVMModule:
    """Update ``mod``: divisions become calls (:func:`.opaque`), and the LLVM definitions that its
    calls need on ``target`` are added. Return ``mod``.
    """
    for name, func in mod.functions_items():
        body = opaque(func.body)
        if not body.same_as(func.body):
            mod.update_func(name, func.with_body(body))
    functions = dict(mod.functions_items())
    names, isa = called_in(functions.values()), isa_of(target)
    texts = [*definitions(names), *provided(names)]
    if isa.lanes_f32 >= STREAMS_FROM and any(_VECTOR.match(name) for name in names):
        texts.append(_library() if isa.lanes_f32 == LANES else _stores())
    if library := "\n".join(texts):
        name, func = next(iter(functions.items()))
        body = tirx.AttrStmt(StringImm("disc"), "pragma_import_llvm", StringImm(library), func.body)
        mod.update_func(name, func.with_body(body))
    return mod


@cache
def _stores() -> str:
    """Return the LLVM text of non-temporal stores and the fence."""
    return "\n".join([_FENCE, *(_STREAM.replace("WIDTH", str(w)) for w in _WIDTHS)])


@cache
def _library() -> str:
    parts = [_DECLARATIONS, _stores()]
    for width in _WIDTHS:
        parts += [_parts_of(width, "float"), _parts_of(width, "i32")] if width > LANES else []
        parts.append(_in_registers("scale", ("float", "float"), width, _SCALE))
        parts.append(_in_registers("clamp", ("float", "float"), width, _CLAMP))
        for digits in REMAINDERS:
            instruction = _REMAINDER.replace("DIGITS", str(digits << 4))
            parts.append(_in_registers(f"remainder{digits}", ("float",), width, instruction))
        parts.append(_in_registers("lookup", (None, "i32"), width, _LOOKUP))
    return "\n".join(parts)


_DECLARATIONS = """
declare <16 x float> @llvm.x86.avx512.mask.scalef.ps.512(
  <16 x float>, <16 x float>, <16 x float>, i16, i32)
declare <16 x float> @llvm.x86.avx512.mask.range.ps.512(
  <16 x float>, <16 x float>, i32, <16 x float>, i16, i32)
declare <16 x float> @llvm.x86.avx512.mask.reduce.ps.512(
  <16 x float>, i32, <16 x float>, i16, i32)
declare <16 x float> @llvm.x86.avx512.permvar.sf.512(<16 x float>, <16 x i32>)
"""
_FENCE = """
declare void @llvm.x86.sse.sfence()
define linkonce_odr void @disc.fence() alwaysinline {
  call void @llvm.x86.sse.sfence()
  ret void
}
!0 = !{i32 1}
"""
_STREAM = """
define linkonce_odr void @disc.stream.vWIDTH(<WIDTH x float> %value, ptr %address) alwaysinline {
  store <WIDTH x float> %value, ptr %address, align 64, !nontemporal !0
  ret void
}"""
_SCALE = (
    "call <16 x float> @llvm.x86.avx512.mask.scalef.ps.512("
    "<16 x float> {0}, <16 x float> {1}, <16 x float> undef, i16 -1, i32 4)"
)
# Immediate 2: the operand of smaller magnitude, with the sign of the first.
_CLAMP = (
    "call <16 x float> @llvm.x86.avx512.mask.range.ps.512("
    "<16 x float> {0}, <16 x float> {1}, i32 2, <16 x float> undef, i16 -1, i32 4)"
)
# The upper four bits of the immediate are the digits; the lower bits select rounding to nearest
# even.
_REMAINDER = (
    "call <16 x float> @llvm.x86.avx512.mask.reduce.ps.512("
    "<16 x float> {0}, i32 DIGITS, <16 x float> undef, i16 -1, i32 4)"
)
_LOOKUP = "call <16 x float> @llvm.x86.avx512.permvar.sf.512(<16 x float> {0}, <16 x i32> {1})"


def _parts_of(width: int, kind: str) -> str:
    wide, one, name = f"<{width} x {kind}>", f"<16 x {kind}>", kind.replace("float", "f32")
    return (
        f"declare {one} @llvm.vector.extract.v16{name}.v{width}{name}({wide}, i64)\n"
        f"declare {wide} @llvm.vector.insert.v{width}{name}.v16{name}({wide}, {one}, i64)"
    )


def _in_registers(name: str, kinds: Sequence[str | None], width: int, instruction: str) -> str:
    """Return an LLVM function on vectors of ``width`` floats: one instruction for each register.

    ``kinds`` are the element types of the operands; None denotes an operand of one register of
    floats, which the instructions of all parts read.
    """
    wide, total = f"<{width} x float>", "undef"
    params = [f"<{width if k else LANES} x {k or 'float'}> %a{i}" for i, k in enumerate(kinds)]
    lines = [
        f"define linkonce_odr {wide} @disc.{name}.v{width}({', '.join(params)}) alwaysinline {{"
    ]
    for part in range(0, width, LANES):
        names = [
            _part(lines, f"%a{i}", k, width, part) if k else f"%a{i}" for i, k in enumerate(kinds)
        ]
        lines.append(f"  %r{part} = {instruction.format(*names)}")
        if width == LANES:
            total = f"%r{part}"
            continue
        lines.append(
            f"  %t{part} = call {wide} @llvm.vector.insert.v{width}f32.v16f32("
            f"{wide} {total}, <16 x float> %r{part}, i64 {part})"
        )
        total = f"%t{part}"
    return "\n".join([*lines, f"  ret {wide} {total}", "}"])


def _part(lines: list[str], name: str, kind: str, width: int, part: int) -> str:
    if width == LANES:
        return name
    piece, short = f"{name}.{part}", kind.replace("float", "f32")
    lines.append(
        f"  {piece} = call <16 x {kind}> @llvm.vector.extract.v16{short}.v{width}{short}("
        f"<{width} x {kind}> {name}, i64 {part})"
    )
    return piece


__all__ = [
    "can_stream",
    "clamp",
    "difference",
    "fence",
    "has_native",
    "link",
    "lookup",
    "natively",
    "remainder",
    "scale",
    "stream",
    "streams",
    "tuned_for",
]
