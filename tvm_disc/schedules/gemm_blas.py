"""Matrix products by a BLAS library that is found when the program runs.

The program does not link with BLAS: it asks the dynamic loader for ``cblas_sgemm`` once and keeps
the answer. A body holds the generated product beside the call, for processes without a library
and for sizes that the interface cannot take, so that the variant serves every shape anywhere.
"""

from __future__ import annotations

import glob
import sys
from collections.abc import Callable
from ctypes import CDLL, RTLD_GLOBAL
from ctypes.util import find_library
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import tvm
from tvm import tirx
from tvm.ir import StringImm

from tvm_disc.schedules.emit import Block, i64
from tvm_disc.schedules.gemm_spec import GemmSpec, is_one
from tvm_disc.schedules.variant import Knobs

Expr: TypeAlias = Any

# With 32-bit sizes: the interface's own name, then the one that SciPy's library gives it.
NAMES = ("cblas_{}gemm", "scipy_cblas_{}gemm")
LIBRARIES = ("openblas", "mkl_rt", "blis", "cblas")
LETTERS = {"float32": "s", "float64": "d"}
_MOST = (1 << 31) - 1
_ROW_MAJOR, _PLAIN, _TRANSPOSED = 101, 111, 112
# No times are known of a library until it is measured: the model then leaves it alone.
UNMEASURED = 3.0


@dataclass(frozen=True)
class BlasKnobs(Knobs):
    """What names the variant."""

    library: str = "blas"


@cache
def provide() -> str:
    """Make a BLAS library visible to programs in this process; its name, or nothing.

    One that the process holds already comes first, then SciPy's, then the system's.
    """
    if sys.platform != "linux":
        return ""
    if _has(CDLL(None)):
        return "this process"
    for path in (*_of_scipy(), *filter(None, map(find_library, LIBRARIES))):
        try:
            if _has(CDLL(path, RTLD_GLOBAL)):
                return Path(path).name
        except OSError:
            continue
    return ""


def _of_scipy() -> list[str]:
    spec = find_spec("scipy")
    places = spec.submodule_search_locations if spec is not None else None
    return sorted(glob.glob(f"{places[0]}.libs/*openblas*.so*")) if places else []


def _has(library: CDLL) -> bool:
    return any(hasattr(library, name.format("s")) for name in NAMES)


def takes(spec: GemmSpec) -> bool:
    """Whether a product is one that the interface can express, all operands where they lie."""
    views = (spec.a_affine, spec.b_affine)
    if spec.direct is None or spec.acc_dtype not in LETTERS or spec.dtype != spec.acc_dtype:
        return False
    return all(v is not None and (is_one(v.stride) or is_one(v.k_stride)) for v in views)


def blas_body(block: Block, spec: GemmSpec, generated: Callable[[], Any]) -> None:
    """The product of every batch item by a call if that can be, else what ``generated`` gives."""
    a, b, out = spec.a_affine, spec.b_affine, spec.direct
    assert a is not None and b is not None and out is not None
    letter = LETTERS[spec.acc_dtype]
    m, n, k = (i64(x) for x in (spec.m, spec.n, spec.k))
    # A's view runs along rows, B's along columns.
    sides = [
        (is_one(a.k_stride), a.stride, a.k_stride, m, k),
        (is_one(b.stride), b.k_stride, b.stride, k, n),
    ]
    lead = [i64(rows if plain else columns) for plain, rows, columns, _, _ in sides]
    fits = [x <= _MOST for x in (m, n, k, *lead)] + [n >= 1]
    fits += [
        ld >= tirx.max(cols if plain else rows, i64(1))
        for ld, (plain, _, _, rows, cols) in zip(lead, sides, strict=True)
    ]
    found = tirx.call_extern("int32", f"disc.blas.has.{letter}")
    block.add(_imported(letter))
    usable = block.bind("usable", tirx.all(found != 0, *fits))
    with block.when(usable), block.loop("item", spec.batch) as g:
        at = (
            a.buffer[block.bind("a_from", a.base(block, g))],
            b.buffer[block.bind("b_from", b.base(block, g))],
            out.buffer[block.bind("c_from", out.base(block, g))],
        )
        places = [tirx.address_of(x) for x in at]
        forms = [i64(_PLAIN if plain else _TRANSPOSED) for plain, *_ in sides]
        pairs = (places[0], lead[0], places[1], lead[1], places[2], i64(out.stride))
        block.eval(tirx.call_extern("int32", f"disc.blas.{letter}gemm", *forms, m, n, k, *pairs))
    with block.otherwise():
        block.add(generated())


def _imported(letter: str) -> Any:
    """A statement that brings the definitions of ``disc.blas.*`` into the program."""
    nothing = tvm.tirx.Evaluate(tirx.IntImm("int32", 0))
    text = StringImm(_definitions(letter))
    return tirx.AttrStmt(StringImm("disc"), "pragma_import_llvm", text, nothing)


def _definitions(letter: str) -> str:
    kind = {"s": "float", "d": "double"}[letter]
    first, second = (name.format(letter) for name in NAMES)
    return f"""
@disc.blas.{letter} = linkonce_odr hidden global ptr null
@disc.blas.{letter}.first = private constant [{len(first) + 1} x i8] c"{first}\\00"
@disc.blas.{letter}.second = private constant [{len(second) + 1} x i8] c"{second}\\00"
declare ptr @dlsym(ptr, ptr)
define linkonce_odr hidden ptr @disc.blas.find.{letter}() {{
entry:
  %known = load atomic ptr, ptr @disc.blas.{letter} monotonic, align 8
  %asked = icmp ne ptr %known, null
  br i1 %asked, label %done, label %search
search:
  %one = call ptr @dlsym(ptr null, ptr @disc.blas.{letter}.first)
  %is.one = icmp ne ptr %one, null
  br i1 %is.one, label %keep, label %again
again:
  %two = call ptr @dlsym(ptr null, ptr @disc.blas.{letter}.second)
  br label %keep
keep:
  %any = phi ptr [ %one, %search ], [ %two, %again ]
  %none = icmp eq ptr %any, null
  %answer = select i1 %none, ptr inttoptr (i64 1 to ptr), ptr %any
  store atomic ptr %answer, ptr @disc.blas.{letter} monotonic, align 8
  br label %done
done:
  %result = phi ptr [ %known, %entry ], [ %answer, %keep ]
  ret ptr %result
}}
define linkonce_odr hidden i32 @disc.blas.has.{letter}() {{
  %f = call ptr @disc.blas.find.{letter}()
  %there = icmp ne ptr %f, inttoptr (i64 1 to ptr)
  %result = zext i1 %there to i32
  ret i32 %result
}}
define linkonce_odr hidden i32 @disc.blas.{letter}gemm(i64 %ta, i64 %tb, i64 %m, i64 %n, i64 %k,
    ptr %a, i64 %lda, ptr %b, i64 %ldb, ptr %c, i64 %ldc) {{
  %f = call ptr @disc.blas.find.{letter}()
{_narrowed("ta", "tb", "m", "n", "k", "lda", "ldb", "ldc")}
  call void %f(i32 {_ROW_MAJOR}, i32 %ta.i, i32 %tb.i, i32 %m.i, i32 %n.i, i32 %k.i,
    {kind} 1.0, ptr %a, i32 %lda.i, ptr %b, i32 %ldb.i, {kind} 0.0, ptr %c, i32 %ldc.i)
  ret i32 0
}}
"""


def _narrowed(*names: str) -> str:
    return "\n".join(f"  %{n}.i = trunc i64 %{n} to i32" for n in names)


__all__ = ["UNMEASURED", "BlasKnobs", "blas_body", "provide", "takes"]
