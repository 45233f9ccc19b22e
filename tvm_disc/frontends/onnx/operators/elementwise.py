"""Converters of arithmetic, comparisons, logic, bit operations and casts."""

from __future__ import annotations

from functools import partial, reduce
from operator import mul

import numpy as np

from tvm_disc.errors import TypeMismatch
from tvm_disc.frontends.calc import Expr, const, is_float, op
from tvm_disc.frontends.onnx.node import OnnxNode, title
from tvm_disc.frontends.onnx.table import CLASSIC, Convert, Row
from tvm_disc.frontends.onnx.tensors import dtype_of

# ONNX does not define Erfc, but converters from TensorFlow emit it.
_SAME_NAMES = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Erfc Exp Floor IsNaN Log Sign Sin Sinh "
    "Sqrt Tan"
).split()
_UNARY = {
    **{name: name.lower() for name in _SAME_NAMES},
    "BitwiseNot": "bitwise_not",
    "Neg": "negative",
    "Not": "logical_not",
}
_BINARY = {
    "Add": "add",
    "And": "logical_and",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Mul": "multiply",
    "Or": "logical_or",
    "Sub": "subtract",
    "Xor": "logical_xor",
}


def _unary(name: str) -> Convert:
    return lambda n: op(name, n[0])


def _binary(name: str) -> Convert:
    return lambda n: op(name, *operands(n))


def operands(n: OnnxNode) -> tuple[Expr, Expr]:
    """Return both operands.

    Before opset 7, the attribute ``axis`` aligns the first axis of the second operand.
    """
    a, b = n[0], n[1]
    if n.opset < 7 and n.attr("broadcast", 0) and n.attr("axis") is not None:
        missing = n.rank(a) - n.axis(int(n.attr("axis")), n.rank(a)) - n.rank(b)
        b = n.expand(b, n.rank(b), missing) if missing else b
    return a, b


def _div(n: OnnxNode) -> Expr:
    """Convert Div; integer division rounds towards zero."""
    a, b = operands(n)
    if is_float(n.dtype(a)):
        return op("divide", a, b)
    return op("trunc_divide", a, _divisor(n, a, b))


def _divisor(n: OnnxNode, a: Expr, b: Expr) -> Expr:
    """Return the integer divisor ``b``, with a check for zeros if ``check_indices`` is enabled."""
    known = n.known(b)
    if known is not None and known.all():
        return b
    return op("assert_nonzero", b, a, what=title(n.proto), default=False)


def _mod(n: OnnxNode) -> Expr:
    a, b = n[0], n[1]
    floats = is_float(n.dtype(a))
    if not floats:
        return op("trunc_mod" if n.attr("fmod", 0) else "floor_mod", a, _divisor(n, a, b))
    # If only the divisor is infinite, the remainder is the dividend.
    whole = op("isinf", b) & op("isfinite", a)
    rest = n.where(whole, a, op("trunc_mod", a, b))
    if n.attr("fmod", 0):
        return rest
    other = n.not_equal(rest, 0) & op("not_equal", rest < 0, b < 0)
    return n.where(other, rest + b, rest)


def _pow(n: OnnxNode) -> Expr:
    """Convert Pow. The result has the dtype of the base.

    Constant exponents 1, 2 and 3 become multiplications.
    """
    base, exponent = operands(n)
    power = n.known(exponent)
    if power is not None and power.size == 1 and n.rank(exponent) <= n.rank(base):
        value = float(power.reshape(-1)[0])
        if value in (1.0, 2.0, 3.0):
            return reduce(mul, [base] * int(value))
        if value == 0.5 and is_float(n.dtype(base)):
            return n.sqrt(base)
    dtype, other = n.dtype(base), n.dtype(exponent)
    if is_float(dtype) and other != "float64":
        return base ** n.cast(exponent, dtype)
    if is_float(other):
        return n.cast(n.cast(base, "float64") ** n.cast(exponent, "float64"), dtype)
    # Overflow wraps, so a power of wider integers has the same low bits.
    wide = dtype if dtype == other else "int64"
    return n.cast(n.cast(base, wide) ** n.cast(exponent, wide), dtype)


def _isinf(n: OnnxNode) -> Expr:
    x = n[0]
    above, below = n.attr("detect_positive", 1), n.attr("detect_negative", 1)
    found = op("isinf", x)
    if above and below:
        return found
    if not above and not below:
        return found & op("isnan", x)
    return found & (x > 0 if above else x < 0)


def _variadic(name: str) -> Convert:
    return lambda n: reduce(partial(op, name), [n[k] for k in range(len(n))])


def _mean(n: OnnxNode) -> Expr:
    total: Expr = _variadic("add")(n)
    return total / len(n) if len(n) > 1 else total


def _bit_shift(n: OnnxNode) -> Expr:
    """Convert BitShift.

    A shift by at least the width of the type returns 0, or -1 for a right shift of a negative
    number.
    """
    left = n.required("direction") == "LEFT"
    x, by = n[0], n[1]
    bits = np.iinfo(n.dtype(x)).bits
    moved = op("left_shift" if left else "right_shift", x, n.minimum(by, bits - 1))
    signed = n.dtype(x).startswith("int") and not left
    return moved if signed else n.where(by < bits, moved, 0)


# -- limits ------------------------------------------------------------------------------------


def _clip_by_attributes(n: OnnxNode) -> Expr:
    return _clipped(n, n.attr("min"), n.attr("max"))


def _clip(n: OnnxNode) -> Expr:
    limits = (None if n.get(k) is None else n.reshape(n[k], []) for k in (1, 2))
    return _clipped(n, *limits)


def _clipped(n: OnnxNode, low: Expr | float | None, high: Expr | float | None) -> Expr:
    x = n[0] if low is None else n.maximum(n[0], low)
    return x if high is None else n.minimum(x, high)


# -- casts -------------------------------------------------------------------------------------


def _cast(n: OnnxNode) -> Expr:
    to = n.required("to")
    return cast_to(n, n[0], dtype_of(int(to)) if not isinstance(to, str) else to.lower())


def cast_to(n: OnnxNode, x: Expr, dtype: str) -> Expr:
    """Return a cast with ONNX's semantics: a cast to bool tests for nonzero."""
    if dtype == "bool" and n.dtype(x) != "bool":
        known = n.known(x)
        if known is not None and known.size <= 64:
            return const(known != 0)
        return n.not_equal(x, 0)
    return n.cast(x, dtype)


def _bit_cast(n: OnnxNode) -> Expr:
    dtype = dtype_of(int(n.required("to")))
    if np.dtype(dtype).itemsize != np.dtype(n.dtype(n[0])).itemsize:
        raise TypeMismatch(
            f"to: expected a type of the same size as {n.dtype(n[0])}, found {dtype}"
        )
    x = n.cast(n[0], "uint8") if n.dtype(n[0]) == "bool" else n[0]
    if dtype == "bool":
        return n.not_equal(x, 0)
    return x if dtype == n.dtype(x) else op("reinterpret", x, dtype=dtype)


ROWS: tuple[Row, ...] = (
    *(Row(name, _unary(relay)) for name, relay in _UNARY.items()),
    *(Row(name, _binary(relay)) for name, relay in _BINARY.items()),
    Row("Div", _div),
    Row("Mod", _mod),
    Row("Pow", _pow),
    Row("Reciprocal", lambda n: 1 / n[0]),
    Row("Round", lambda n: n.round_even(n[0])),
    Row("Identity", lambda n: n.inputs[0]),
    Row("IsInf", _isinf),
    Row("Sum", _variadic("add")),
    Row("Max", _variadic("maximum")),
    Row("Min", _variadic("minimum")),
    Row("Mean", _mean),
    Row("BitShift", _bit_shift),
    Row("Where", lambda n: n.where(n[0], n[1], n[2])),
    Row(
        "Binarizer",
        lambda n: n.cast(n[0] > float(n.attr("threshold", 0.0)), n.dtype(n[0])),
        domain=CLASSIC,
    ),
    Row("Clip", _clip_by_attributes),
    Row("Clip", _clip, since=11),
    Row("Cast", _cast),
    Row("CastLike", lambda n: cast_to(n, n[0], n.dtype(n[1]))),
    Row("BitCast", _bit_cast),
)

__all__ = ["ROWS", "cast_to", "operands"]
