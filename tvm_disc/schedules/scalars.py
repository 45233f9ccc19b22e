"""Scalar operators: the value of every element-wise operator from the values of its operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import tvm
from tvm import tirx

from tvm_disc.schedules.math import functions, remainder
from tvm_disc.tir import integers
from tvm_disc.tir.builder import (
    BFLOAT16,
    const,
    dtype_of,
    element_dtype,
    lanes_of,
    rounded_bfloat16,
    same_lanes,
    truth,
    value_dtype,
    with_lanes,
)
from tvm_disc.typing import Expr

Binary: TypeAlias = Callable[[Expr, Expr], Expr]


def is_float(dtype: str) -> bool:
    """Return whether a dtype is a floating-point type."""
    return dtype.startswith(("float", "bfloat"))


def _by_kind(of_floats: Binary, of_integers: Binary) -> Binary:
    """Return a function that dispatches on float or integer operands."""

    def fn(a: Expr, b: Expr) -> Expr:
        return (of_floats if is_float(dtype_of(a)) else of_integers)(a, b)

    return fn


def _literal_integer(b: Expr) -> int | None:
    value = b.value if isinstance(b, tirx.Broadcast) else b
    return int(value.value) if isinstance(value, tirx.IntImm) else None


def _float_divide(a: Expr, b: Expr) -> Expr:
    """Return a quotient of floats, for any divisor.

    TVM refuses to fold a division by a literal 0. That division is emitted as a product with
    infinity, which has the same result: infinity, or NaN if the dividend is 0 or NaN.
    """
    zero = _literal_zero(b)
    if zero is not None:
        infinite = tirx.const(math.copysign(math.inf, zero), element_dtype(b))
        return a * same_lanes(infinite, b)[0]
    zero = _literal_zero(a)
    return a / b if zero is None else _minus_zero(b) / (b if zero < 0 else -b)


def _literal_zero(x: Expr) -> float | None:
    """Return 1.0 or -1.0, the sign of ``x``, if ``x`` is a literal zero of floats, else None."""
    value = x.value if isinstance(x, tirx.Broadcast) else x
    if not isinstance(value, tirx.FloatImm) or value.value != 0:
        return None
    return math.copysign(1.0, value.value)


def _minus_zero(like: Expr) -> Expr:
    """Return -0.0, as a reinterpreted integer that TVM's simplifier does not fold.

    TVM treats floats as real numbers: it folds ``x * 0.0`` and ``0.0 / x`` to 0, which is wrong if
    ``x`` is NaN or infinite, and ``x + 0.0`` to ``x``, which is wrong if ``x`` is -0.0. TVM's LLVM
    generator fails on a reinterpreted 0, so there is no such +0.0.
    """
    dtype = element_dtype(like)
    bits = int(tvm.DataType(dtype).bits)
    return same_lanes(tirx.reinterpret(dtype, const(-(1 << (bits - 1)), f"int{bits}")), like)[0]


def _product(a: Expr, b: Expr) -> Expr:
    for zero, other in ((_literal_zero(a), b), (_literal_zero(b), a)):
        if zero is not None:
            return (other if zero < 0 else -other) * _minus_zero(other)
    return integers.multiply(a, b)


def _sum(a: Expr, b: Expr) -> Expr:
    for zero, other in ((_literal_zero(a), b), (_literal_zero(b), a)):
        if zero is not None and zero > 0:
            return other - _minus_zero(other)
    return integers.add(a, b)


def _difference(a: Expr, b: Expr) -> Expr:
    zero = _literal_zero(b)
    return integers.subtract(a, b) if zero is None or zero > 0 else a - _minus_zero(a)


def _comparison(op: Binary, sides: tuple[bool | None, bool | None] = (None, None)) -> Binary:
    """Return a comparison that converts bools to bytes first, since LLVM does not order bools.

    Args:
        sides: results for unsigned operands if the left or the right one is a literal 0. TVM's
            analyzer negates the condition of a Select, and fails for ``x <= 0 - 1``.
    """

    def fn(a: Expr, b: Expr) -> Expr:
        if element_dtype(a).startswith("u"):
            for x, result in zip((a, b), sides, strict=True):
                if result is not None and _literal_integer(x) == 0:
                    return same_lanes(const(result, "bool"), a)[0]
        return op(_as_number(a), _as_number(b))

    return fn


def _differs(a: Expr, b: Expr) -> Expr:
    """Return ``a != b``, which is true if an operand is NaN."""
    return tirx.Not(tirx.EQ(a, b)) if is_float(dtype_of(a)) else tirx.NE(a, b)


def _as_number(x: Expr) -> Expr:
    return tirx.Cast(with_lanes("int8", x), x) if element_dtype(x) == "bool" else x


def _sign(x: Expr) -> Expr:
    d = dtype_of(x)
    one, zero = const(1, d), const(0, d)
    if d.startswith("u"):
        return tirx.Select(x > zero, one, zero)
    minus = const(-1, d)
    return tirx.Select(x > zero, one, tirx.Select(x < zero, minus, x if is_float(d) else zero))


def _negative(x: Expr) -> Expr:
    dtype = dtype_of(x)
    if dtype.startswith("u"):
        # TVM's analyzer folds ``0 - x`` to 0 for an unsigned x: it concludes that the result is
        # both at least and at most 0.
        return tirx.bitwise_not(x) + const(1, dtype)
    return -x if is_float(dtype) else integers.subtract(const(0, dtype), x)


def _abs(x: Expr) -> Expr:
    return x if element_dtype(x).startswith(("bool", "u")) else integers.absolute(x)


def _either(of_truths: Binary, of_numbers: Binary) -> Binary:
    """Return a function with separate rules for bools and numbers, as in NumPy's ``+``."""

    def fn(a: Expr, b: Expr) -> Expr:
        return (of_truths if element_dtype(a) == "bool" else of_numbers)(a, b)

    return fn


def _left_shift(a: Expr, b: Expr) -> Expr:
    """Return ``a << b``, which is 0 if ``b`` is at least the number of bits."""
    inside = _shifts_inside(b)
    if inside is None:
        return tirx.shift_left(a, b)
    zero = const(0, dtype_of(a))
    return tirx.Select(inside, tirx.shift_left(a, tirx.Select(inside, b, zero)), zero)


def _right_shift(a: Expr, b: Expr) -> Expr:
    """Return ``a >> b``; a shift by at least the number of bits leaves only the sign."""
    inside = _shifts_inside(b)
    if inside is None:
        return tirx.shift_right(a, b)
    dtype = dtype_of(a)
    if dtype.startswith("u"):
        zero = const(0, dtype)
        return tirx.Select(inside, tirx.shift_right(a, tirx.Select(inside, b, zero)), zero)
    most = const(_bits(a) - 1, dtype)
    return tirx.shift_right(a, tirx.Select(inside, b, most))


def _shifts_inside(b: Expr) -> Expr | None:
    """Return the condition that a shift is less than the number of bits; None if this is known.

    If it does not hold, the result of LLVM's shift is undefined.
    """
    literal = _literal_integer(b)
    if literal is not None and 0 <= literal < _bits(b):
        return None
    dtype = dtype_of(b)
    return tirx.And(b >= const(0, dtype), b < const(_bits(b), dtype))


def _bits(x: Expr) -> int:
    return int(tvm.DataType(element_dtype(x)).bits)


def is_number(x: Expr) -> Expr:
    """Return whether ``x`` is not NaN, by comparison to inf: TVM folds ``x != x`` to false."""
    return x <= same_lanes(tirx.FloatImm(element_dtype(x), float("inf")), x)[0]


def _is_nan(x: Expr) -> Expr:
    one, zero = same_lanes(const(1, "int8"), const(0, "int8"), x)[:2]
    return truth(tirx.Select(is_number(x), zero, one))


def maximum(a: Expr, b: Expr) -> Expr:
    """Return the maximum; as in NumPy, it is NaN if an operand is NaN."""
    return _extreme(a, b, tirx.Or, tirx.max, lambda x, y: x > y)


def minimum(a: Expr, b: Expr) -> Expr:
    """Return the minimum; as in NumPy, it is NaN if an operand is NaN."""
    return _extreme(a, b, tirx.And, tirx.min, lambda x, y: x < y)


def _extreme(a: Expr, b: Expr, of_truths: Binary, of_integers: Binary, beats: Binary) -> Expr:
    if element_dtype(a) == "bool":
        return of_truths(a, b)
    if not is_float(dtype_of(a)):
        return of_integers(a, b)
    if is_literal_number(b):
        return tirx.Select(beats(b, a), b, a)
    return tirx.Select(is_number(a), tirx.Select(beats(a, b), a, b), a)


def is_literal_number(x: Expr) -> bool:
    """Return whether ``x`` is a literal other than NaN, or a vector of one."""
    literal = x.value if isinstance(x, tirx.Broadcast) else x
    return isinstance(literal, tirx.FloatImm) and not math.isnan(literal.value)


def _relu(x: Expr) -> Expr:
    return maximum(x, const(0, dtype_of(x)))


def _logical(op: Callable[[Expr, Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
    def fn(a: Expr, b: Expr) -> Expr:
        return op(_truth(a), _truth(b))

    return fn


def _truth(x: Expr) -> Expr:
    return x if element_dtype(x) == "bool" else truth(x)


def _chosen(cond: Expr, a: Expr, b: Expr) -> Expr:
    """Return ``a`` if ``cond`` holds, else ``b``; a literal condition is folded here.

    TVM's analyzer folds such a Select late, and fails if a bound variable becomes a literal.
    """
    cond = _truth(cond)
    if isinstance(cond, tirx.IntImm):
        return a if cond.value else b
    return tirx.Select(cond, a, b)


def _literal(value: Expr, dtype: str) -> Expr | None:
    """Return a literal converted to float ``dtype``, or None if it cannot be folded exactly.

    Element rules recognize literals, but not casts of literals.
    """
    if not isinstance(value, tirx.IntImm | tirx.FloatImm) or dtype not in ("float32", "float64"):
        return None
    number = float(value.value)
    if isinstance(value, tirx.IntImm) and abs(int(value.value)) > 1 << 53:
        return None  # it would be rounded twice: to float64, then to ``dtype``
    if math.isfinite(number) and abs(number) > np.finfo(dtype).max:
        return None
    return const(float(np.dtype(dtype).type(number)), dtype)


def cast(value: Expr, dtype: str) -> Expr:
    """Return ``value`` converted to ``dtype``; a conversion to bool means "is not zero"."""
    if dtype == BFLOAT16:
        return rounded_bfloat16(cast(value, value_dtype(dtype)))
    if element_dtype(value) == dtype:
        return value
    if dtype == "bool":
        return _truth(value)
    if (literal := _literal(value, dtype)) is not None:
        return literal
    wide = with_lanes(dtype, value)
    if element_dtype(value) == "bool" and lanes_of(value) > 1:
        # TVM's analyzer cannot cast a vector of bools to numbers.
        return tirx.Select(value, const(1, wide), const(0, wide))
    if is_float(element_dtype(value)) and dtype.startswith("uint"):
        return _unsigned(value, wide)
    return tirx.Cast(wide, value)


def _unsigned(value: Expr, wide: str) -> Expr:
    """Return a float converted to an unsigned integer; negative floats wrap around.

    LLVM leaves this conversion undefined for negative floats, so vectors and scalars would differ.
    They are converted to a signed integer, whose bits are the result.
    """
    if not wide.startswith("uint64"):
        signed = "int64" if wide.startswith("uint32") else "int32"
        return tirx.Cast(wide, tirx.Cast(with_lanes(signed, value), value))
    whole = tirx.Cast(with_lanes("int64", value), value)
    if element_dtype(value) == "float16":
        return tirx.Cast(wide, whole)
    half = same_lanes(const(2.0**63, element_dtype(value)), value)[0]
    rest = tirx.Cast(with_lanes("int64", value), value - half)
    low = same_lanes(const(-(2**63), "int64"), value)[0]
    return tirx.Cast(wide, tirx.Select(value < half, whole, rest + low))


def _nan_test(fn: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    def test(x: Expr) -> Expr:
        return fn(x) if is_float(dtype_of(x)) else const(False, "bool")

    return test


def _isinf(x: Expr) -> Expr:
    return tirx.abs(x) > _largest(x)


def _largest(x: Expr) -> Expr:
    return same_lanes(tirx.max_value(element_dtype(x)), x)[0]


BINARY: Mapping[str, Callable[..., Expr]] = {
    "add": _either(tirx.Or, _sum),
    "subtract": _difference,
    "multiply": _either(tirx.And, _product),
    "divide": _by_kind(_float_divide, integers.trunc_divide),
    "floor_divide": _by_kind(remainder.floor_divide, integers.floor_divide),
    "floor_mod": _by_kind(remainder.floor_mod, integers.floor_mod),
    "mod": _by_kind(remainder.trunc_mod, integers.trunc_mod),
    "maximum": maximum,
    "minimum": minimum,
    "equal": _comparison(lambda a, b: tirx.EQ(a, b)),
    "not_equal": _comparison(_differs),
    "less": _comparison(lambda a, b: a < b, (None, False)),
    "less_equal": _comparison(lambda a, b: a <= b, (True, None)),
    "greater": _comparison(lambda a, b: a > b, (False, None)),
    "greater_equal": _comparison(lambda a, b: a >= b, (None, True)),
    "logical_and": _logical(tirx.And),
    "logical_or": _logical(tirx.Or),
    "logical_xor": _logical(lambda a, b: tirx.NE(_as_number(a), _as_number(b))),
    "bitwise_and": tirx.bitwise_and,
    "bitwise_or": tirx.bitwise_or,
    "bitwise_xor": tirx.bitwise_xor,
    "left_shift": _left_shift,
    "right_shift": _right_shift,
    "where": _chosen,
}

UNARY: Mapping[str, Callable[[Expr], Expr]] = {
    "negative": _negative,
    "abs": _abs,
    "floor": lambda x: tirx.floor(x) if is_float(dtype_of(x)) else x,
    "ceil": lambda x: tirx.ceil(x) if is_float(dtype_of(x)) else x,
    "round": lambda x: tirx.nearbyint(x) if is_float(dtype_of(x)) else x,
    "trunc": lambda x: tirx.trunc(x) if is_float(dtype_of(x)) else x,
    "sign": _sign,
    "logical_not": lambda x: tirx.Not(_truth(x)),
    "bitwise_not": tirx.bitwise_not,
    "isnan": _nan_test(_is_nan),
    "isinf": _nan_test(_isinf),
    "isfinite": lambda x: (
        tirx.abs(x) <= _largest(x) if is_float(dtype_of(x)) else const(True, "bool")
    ),
    "nn.relu": _relu,
    **{name: functions.MATH[name] for name in functions.MATH if name not in ("power", "pow")},
}
