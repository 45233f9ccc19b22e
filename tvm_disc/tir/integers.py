"""Integer arithmetic of run-time values: defined for all operands, opaque to TVM's analyzer.

Quotients and remainders are calls of LLVM functions, whose text :func:`definitions` returns and
which LLVM inlines. TIR's division instructions trap on x86 for a divisor of zero and for the least
integer divided by -1, which ends the process. They also compile too slowly: TVM expands a floor
division to four divisions, each with copies of both operands, and substitutes variables in them.

Division by zero gives quotient and remainder zero, as in NumPy; the least integer divided by -1
is itself.

Sums, differences and products of elements wrap around. TVM emits those of 32 and 64 bits with
LLVM's flags ``nsw`` and ``nuw``, which state that no overflow occurs: LLVM then folds ``x + 1 > x``
to true and ``x * 2 // 2`` to ``x``. PyTorch, JAX, NumPy and ONNX Runtime wrap around instead. Such
operations are therefore calls of functions without these flags. Arithmetic on positions keeps the
flags: no position overflows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_disc.errors import TypeMismatch
from tvm_disc.tir.builder import const, dtype_of, element_dtype, lanes_of, same_lanes
from tvm_disc.typing import Expr

_DIVISION = "disc.div"
_WRAPPING = "disc.wrap"
_FLAGGED = ("int32", "int64", "uint32", "uint64")  # the types for which TVM sets flags


def floor_divide(a: Expr, b: Expr) -> Expr:
    """Return ``a // b`` rounded down."""
    return _call("floor_divide", a, b)


def floor_mod(a: Expr, b: Expr) -> Expr:
    """Return ``a - floor_divide(a, b) * b``, with the sign of ``b``; 0 if ``b`` is 0."""
    return _call("floor_mod", a, b)


def trunc_divide(a: Expr, b: Expr) -> Expr:
    """Return ``a / b`` rounded towards zero."""
    return _call("trunc_divide", a, b)


def trunc_mod(a: Expr, b: Expr) -> Expr:
    """Return ``a - trunc_divide(a, b) * b``, with the sign of ``a``; 0 if ``b`` is 0."""
    return _call("trunc_mod", a, b)


def add(a: Expr, b: Expr) -> Expr:
    """Return ``a + b``; an overflow wraps around, as in :func:`subtract` and :func:`multiply`."""
    return _wrapped("add", a, b) if _wraps(a, b) else a + b


def subtract(a: Expr, b: Expr) -> Expr:
    """Return ``a - b``."""
    return _wrapped("sub", a, b) if _wraps(a, b) else a - b


def multiply(a: Expr, b: Expr) -> Expr:
    """Return ``a * b``."""
    return _wrapped("mul", a, b) if _wraps(a, b) else a * b


def absolute(x: Expr) -> Expr:
    """Return the absolute value of ``x``; that of the least integer is itself."""
    if not _wraps(x):
        return tirx.abs(x)
    zero = same_lanes(const(0, element_dtype(x)), x)[0]
    return tirx.Select(x < zero, _wrapped("sub", zero, x), x)


def _wraps(*operands: Expr) -> bool:
    """Return whether TVM would set a flag: the type has one, and the result is no literal."""
    return element_dtype(operands[0]) in _FLAGGED and not all(map(_is_literal, operands))


def _is_literal(x: Expr) -> bool:
    return isinstance(x.value if isinstance(x, tirx.Broadcast) else x, tirx.IntImm)


def _wrapped(name: str, a: Expr, b: Expr) -> Expr:
    a, b = same_lanes(a, b)
    function = f"{_WRAPPING}.{name}.{element_dtype(a)}.v{lanes_of(a)}"
    return tirx.call_pure_extern(dtype_of(a), function, a, b)


def opaque(body: Expr) -> Any:
    """Replace floor divisions and remainders, except by literals, with calls of these functions.

    Divisions in sizes and indices are replaced, too. TVM's expansion binds variables, and its LLVM
    code generator rejects a variable that is bound twice, which happens if an expression with such
    a division is used twice. Division by a size of zero would also trap.
    """

    def called(node: Expr) -> object:
        if isinstance(getattr(node.b, "value", node.b), int | tirx.IntImm):
            return node
        return (floor_divide if isinstance(node, tirx.FloorDiv) else floor_mod)(node.a, node.b)

    return tvm_ffi.structural_map(body, ((tirx.FloorDiv, tirx.FloorMod), called), order="post")


def _call(name: str, a: Expr, b: Expr) -> Expr:
    if element_dtype(a) == "bool":
        raise TypeMismatch(f"{name}: expected numbers, found bool; cast to a number type first")
    function = f"{_DIVISION}.{name}.{element_dtype(a)}.v{lanes_of(a)}"
    return tirx.call_pure_extern(dtype_of(a), function, a, b)


def definitions(names: Iterable[str]) -> list[str]:
    """Return the LLVM text of the functions in ``names`` that this module calls."""
    texts = {_DIVISION: _definition, _WRAPPING: _wrapping_definition}
    pairs = [(".".join(name.split(".")[:2]), name) for name in names]
    return [texts[prefix](name) for prefix, name in pairs if prefix in texts]


def _wrapping_definition(name: str) -> str:
    kind, dtype, lanes = name.removeprefix(f"{_WRAPPING}.").split(".")
    element, count = f"i{tvm.DataType(dtype).bits}", int(lanes[1:])
    type_ = element if count == 1 else f"<{count} x {element}>"
    return (
        f"define linkonce_odr {type_} @{name}({type_} %a, {type_} %b) alwaysinline {{\n"
        f"  %value = {kind} {type_} %a, %b\n  ret {type_} %value\n}}"
    )


def _definition(name: str) -> str:
    kind, dtype, lanes = name.removeprefix(f"{_DIVISION}.").split(".")
    signed, count = not dtype.startswith("u"), int(lanes[1:])
    element = f"i{tvm.DataType(dtype).bits}"
    type_ = element if count == 1 else f"<{count} x {element}>"
    truth = "i1" if count == 1 else f"<{count} x i1>"

    def every(value: int) -> str:
        return str(value) if count == 1 else f"splat ({element} {value})"

    steps = (
        _SIGNED[kind] if signed else _UNSIGNED[kind.removeprefix("floor_").removeprefix("trunc_")]
    )
    text = "\n  ".join([*(_GUARD if signed else _UNSIGNED_GUARD), *steps])
    for word, value in (("ZERO", 0), ("ONE", 1), ("MINUS", -1)):
        text = text.replace(word, every(value))
    text = text.replace("TYPE", type_).replace("TRUTH", truth)
    head = f"define linkonce_odr {type_} @{name}({type_} %a, {type_} %b) alwaysinline {{"
    return f"{head}\n  {text}\n}}"


_GUARD = (
    "%zero = icmp eq TYPE %b, ZERO",
    "%minus = icmp eq TYPE %b, MINUS",
    "%traps = or TRUTH %zero, %minus",
    "%safe = select TRUTH %traps, TYPE ONE, TYPE %b",
)
_UNSIGNED_GUARD = (
    "%zero = icmp eq TYPE %b, ZERO",
    "%safe = select TRUTH %zero, TYPE ONE, TYPE %b",
)
_DIVIDED = (
    "%negated = sub TYPE ZERO, %a",
    "%quotient = sdiv TYPE %a, %safe",
)
_BY_ANYTHING = (
    "%some = select TRUTH %minus, TYPE %negated, TYPE %value",
    "%all = select TRUTH %zero, TYPE ZERO, TYPE %some",
    "ret TYPE %all",
)
# %traps: the divisor is 0 or -1, for which the remainder is 0.
_REST_BY_ANYTHING = (
    "%all = select TRUTH %traps, TYPE ZERO, TYPE %value",
    "ret TYPE %all",
)
_DOWN = (
    "%rest = srem TYPE %a, %safe",
    "%odd = icmp ne TYPE %rest, ZERO",
    "%signs = xor TYPE %a, %safe",
    "%apart = icmp slt TYPE %signs, ZERO",
    "%down = and TRUTH %odd, %apart",
)
_SIGNED = {
    "trunc_divide": (*_DIVIDED, "%value = add TYPE %quotient, ZERO", *_BY_ANYTHING),
    "floor_divide": (
        *_DIVIDED,
        *_DOWN,
        "%step = sext TRUTH %down to TYPE",
        "%value = add TYPE %quotient, %step",
        *_BY_ANYTHING,
    ),
    "trunc_mod": ("%value = srem TYPE %a, %safe", *_REST_BY_ANYTHING),
    "floor_mod": (
        *_DOWN,
        "%step = select TRUTH %down, TYPE %safe, TYPE ZERO",
        "%value = add TYPE %rest, %step",
        *_REST_BY_ANYTHING,
    ),
}
_UNSIGNED = {
    "divide": (
        "%value = udiv TYPE %a, %safe",
        "%all = select TRUTH %zero, TYPE ZERO, TYPE %value",
        "ret TYPE %all",
    ),
    "mod": (
        "%value = urem TYPE %a, %safe",
        "%all = select TRUTH %zero, TYPE ZERO, TYPE %value",
        "ret TYPE %all",
    ),
}

__all__ = [
    "absolute", "add", "definitions", "floor_divide", "floor_mod", "multiply", "opaque", "subtract",
    "trunc_divide", "trunc_mod",
]  # fmt: skip
