"""Converters of arithmetic, comparisons, logic, bit operations and casts."""

from __future__ import annotations

import numpy as np

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Expr, const, is_float, op
from tvm_disc.frontends.stablehlo.node import StableHLONode, direction
from tvm_disc.frontends.stablehlo.table import Convert, OperationRow

_OF_CHLO = "acos acosh asin asinh atan atanh cosh erf erfc lgamma sinh".split()
_UNARY = {
    **{name: name for name in "abs ceil floor log rsqrt sign sqrt tan tanh".split()},
    "cosine": "cos",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "is_finite": "isfinite",
    "log_plus_one": "log1p",
    "logistic": "sigmoid",
    "negate": "negative",
    "round_nearest_afz": "round",
    "round_nearest_even": "round_even",
    "sine": "sin",
    **{f"chlo.{name}": name for name in _OF_CHLO},
    "chlo.is_inf": "isinf",
}

_COMPARISONS = {
    "EQ": "equal",
    "NE": "not_equal",
    "GE": "greater_equal",
    "GT": "greater",
    "LE": "less_equal",
    "LT": "less",
}


def plain(name: str, logical: str = "") -> Convert:
    """Return the converter to the Relay operator ``name``, or to ``logical`` for bools."""
    return lambda n: op(logical if logical and n.dtype(n[0]) == "bool" else name, *n.inputs)


def _divide(n: StableHLONode) -> Expr:
    """Convert division; integer division rounds towards zero."""
    return op("divide" if is_float(n.dtype(n[0])) else "trunc_divide", n[0], n[1])


def _power(n: StableHLONode) -> Expr:
    """Convert power; constant exponents 1, 2 and 3 of floats become multiplications."""
    known = n.known(n[1])
    if known is not None and known.size and is_float(n.dtype(n[0])):
        value = float(known.reshape(-1)[0])
        if value in (1.0, 2.0, 3.0) and (known == value).all():
            found = n[0]
            for _ in range(int(value) - 1):
                found = found * n[0]
            return found
    return op("power", n[0], n[1])


def _is_total(n: StableHLONode) -> bool:
    return n.has("compare_type") and "TOTALORDER" in str(n.op.attributes["compare_type"])


def _compare(n: StableHLONode) -> Expr:
    a, b = n[0], n[1]
    if _is_total(n) and is_float(n.dtype(a)):
        a, b = ordered(n, a), ordered(n, b)
    return op(_COMPARISONS[direction(n.op)], a, b)


def ordered(n: StableHLONode, x: Expr) -> Expr:
    """Return integers with the order of the floats in IEEE 754's total order.

    That order is -NaN, -inf, ..., -0, 0, ..., inf, NaN.
    """
    width = 8 * _bytes(n.dtype(x))
    bits = op("reinterpret", x, dtype=f"int{width}")
    return n.where(bits < 0, op("bitwise_xor", bits, n.like((1 << (width - 1)) - 1, bits)), bits)


def convert(n: StableHLONode) -> Expr:
    """Convert a cast; a cast to bool tests for nonzero."""
    dtype = n.out_dtype()
    if dtype == "bool" and n.dtype(n[0]) != "bool":
        return n.not_equal(n[0], n.like(0, n[0]))
    return n.cast(n[0], dtype)


def _bitcast(n: StableHLONode) -> Expr:
    """Convert bitcast_convert.

    If the widths differ, one wide element corresponds to a last axis of narrow elements.
    """
    dtype, found = n.out_dtype(), n.dtype(n[0])
    if "bool" in (dtype, found):
        raise Unsupported(
            f"expected types other than bool, found {found} and {dtype}: the bits of a bool are "
            "undefined; use a comparison"
        )
    new, old = 8 * _bytes(dtype), 8 * _bytes(found)
    if new == old:
        return op("reinterpret", n[0], dtype=dtype)
    bits = op("reinterpret", n[0], dtype=f"uint{old}")
    if new < old:
        shifts = n.like(np.arange(0, old, new), bits)
        pieces = op("right_shift", n.expand(bits, n.rank(bits)), shifts)
        return op("reinterpret", n.cast(pieces, f"uint{new}"), dtype=dtype)
    wide = n.cast(bits, f"uint{new}")
    moved = op("left_shift", wide, n.like(np.arange(0, new, old), wide))
    joined = n.pick(moved, n.rank(moved) - 1, 0)
    for k in range(1, new // old):
        joined = op("bitwise_or", joined, n.pick(moved, n.rank(moved) - 1, k))
    return op("reinterpret", joined, dtype=dtype)


def _bytes(dtype: str) -> int:
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


def _shift(name: str) -> Convert:
    """Return the converter of a shift; a shift by at least the type's width shifts out all bits."""

    def row(n: StableHLONode) -> Expr:
        x, count = n[0], n[1]
        dtype = n.dtype(x)
        bits = 8 * _bytes(dtype)
        made = _shifted(n, name, x, count, dtype, bits)
        known = n.known(count)
        if known is not None and ((known >= 0) & (known < bits)).all():
            return made
        inside = (count < bits) if dtype.startswith("u") else (count >= 0) & (count < bits)
        rest: Expr = n.like(0, x)
        if name == "right_shift":
            rest = n.where(x < 0, n.like(-1, x), rest) if not dtype.startswith("u") else rest
        return n.where(inside, made, rest)

    return row


def _shifted(n: StableHLONode, name: str, x: Expr, count: Expr, dtype: str, bits: int) -> Expr:
    if name != "logical":
        return op(name, x, count)
    if dtype.startswith("u"):
        return op("right_shift", x, count)
    wide = op("reinterpret", x, dtype=f"uint{bits}")
    made = op("right_shift", wide, n.cast(count, f"uint{bits}"))
    return op("reinterpret", made, dtype=dtype)


def angle(n: StableHLONode, y: Expr, x: Expr) -> Expr:
    """Return the angle of the point (x, y) from arctan(y / x) and the signs of both."""
    half = n.like(np.pi / 2, x)
    ratio = op("atan", y / x)
    left = n.where(_is_negative(n, y), ratio - np.pi, ratio + np.pi)
    found = n.where(x < 0, left, ratio)
    up = n.where(_is_negative(n, y), -half, half)
    found = n.where(n.equal(x, 0) & n.not_equal(y, 0), up, found)
    zero = n.where(_is_negative(n, x), n.where(_is_negative(n, y), -np.pi + y, y + np.pi), y)
    found = n.where(n.equal(x, 0) & n.equal(y, 0), zero, found)
    both = n.isinf(x) & n.isinf(y)
    quarter = n.where(x < 0, half * 1.5, half * 0.5)
    return n.where(both, n.where(y < 0, -quarter, quarter), found)


def _is_negative(n: StableHLONode, x: Expr) -> Expr:
    """Return whether the sign bit is set, also for -0 and NaN."""
    width = 8 * _bytes(n.dtype(x))
    return op("reinterpret", x, dtype=f"int{width}") < 0


def _popcnt(n: StableHLONode) -> Expr:
    """Count the bits that are 1 by adding adjacent bit fields (Warren, Hacker's Delight, 5-1)."""
    dtype = n.dtype(n[0])
    width = 8 * _bytes(dtype)
    x = n.cast(op("reinterpret", n[0], dtype=f"uint{width}"), "uint64")
    for shift, mask in (
        (1, 0x5555555555555555),
        (2, 0x3333333333333333),
        (4, 0x0F0F0F0F0F0F0F0F),
        (8, 0x00FF00FF00FF00FF),
        (16, 0x0000FFFF0000FFFF),
        (32, 0x00000000FFFFFFFF),
    ):
        m = const(np.uint64(mask))
        up = op("right_shift", x, const(np.uint64(shift)))
        x = op("bitwise_and", x, m) + op("bitwise_and", up, m)
    return n.cast(x, dtype)


def _leading_zeros(n: StableHLONode) -> Expr:
    dtype = n.dtype(n[0])
    width = 8 * _bytes(dtype)
    x = op("reinterpret", n[0], dtype=f"uint{width}")
    zeros: Expr = n.like(0, x)
    for k in range(width):
        zeros = zeros + n.cast(n.equal(op("right_shift", x, n.like(k, x)), 0), n.dtype(x))
    return n.cast(zeros, dtype)


def _cbrt(n: StableHLONode) -> Expr:
    """Return the cube root by exp(log|x| / 3) and one step of Newton's method."""
    x = n[0]
    size = n.abs(x)
    root = n.exp(n.log(size) * (1 / 3))
    root = root - (root - size / (root * root)) * (1 / 3)
    plain = n.equal(size, 0) | n.isinf(size) | n.isnan(size)
    root = n.where(plain, size, root)
    return n.where(x < 0, -root, root)


def _precision(n: StableHLONode) -> Expr:
    """Convert reduce_precision: round to a format with fewer bits of mantissa and exponent.

    Ties are rounded to even. If the format has fewer bits of exponent than the dtype, numbers below
    its smallest normal number become 0, and numbers above its largest one become infinite.
    """
    x, dtype = n[0], n.dtype(n[0])
    exponent, mantissa = int(n.attr("exponent_bits")), int(n.attr("mantissa_bits"))
    wide = x if dtype == "float64" else n.cast(x, "float32")
    return n.cast(_reduced(n, wide, exponent, mantissa), dtype)


def _reduced(n: StableHLONode, x: Expr, exponent: int, mantissa: int) -> Expr:
    dtype = n.dtype(x)
    info = np.finfo(np.dtype(dtype))
    width, drop = info.bits, max(info.nmant - mantissa, 0)
    bits = op("reinterpret", x, dtype=f"int{width}")
    if drop:
        last = op("bitwise_and", op("right_shift", bits, n.like(drop, bits)), n.like(1, bits))
        bits = bits + last + n.like((1 << (drop - 1)) - 1, bits)
        bits = op("bitwise_and", bits, n.like(-(1 << drop), bits))
    found = op("reinterpret", bits, dtype=dtype)
    bias = (1 << (exponent - 1)) - 1
    if exponent < info.nexp:
        most = float(2.0**bias * (2 - 2.0**-mantissa))
        endless = n.where(x < 0, n.like(-np.inf, x), n.like(np.inf, x))
        found = n.where(n.abs(found) > most, endless, found)
        zero = n.where(_is_negative(n, x), n.like(-0.0, x), n.like(0.0, x))
        found = n.where(n.abs(found) < 2.0 ** (1 - bias), zero, found)
    return n.where(op("isfinite", x), found, x)


ROWS: tuple[OperationRow, ...] = (
    *(OperationRow(name, plain(relay)) for name, relay in _UNARY.items()),
    OperationRow("subtract", plain("subtract")),
    OperationRow("maximum", plain("maximum", "logical_or")),
    OperationRow("minimum", plain("minimum", "logical_and")),
    OperationRow("add", plain("add", "logical_or")),
    OperationRow("multiply", plain("multiply", "logical_and")),
    OperationRow("and", plain("bitwise_and", "logical_and")),
    OperationRow("or", plain("bitwise_or", "logical_or")),
    OperationRow("xor", plain("bitwise_xor", "logical_xor")),
    OperationRow("not", plain("bitwise_not", "logical_not")),
    OperationRow("divide", _divide),
    OperationRow("remainder", plain("trunc_mod")),
    OperationRow("power", _power),
    OperationRow("atan2", lambda n: angle(n, n[0], n[1])),
    OperationRow("cbrt", _cbrt),
    OperationRow("compare", _compare),
    OperationRow("select", plain("where")),
    OperationRow("clamp", lambda n: op("minimum", op("maximum", n[1], n[0]), n[2])),
    OperationRow("convert", convert),
    OperationRow("bitcast_convert", _bitcast),
    OperationRow("shift_left", _shift("left_shift")),
    OperationRow("shift_right_arithmetic", _shift("right_shift")),
    OperationRow("shift_right_logical", _shift("logical")),
    OperationRow("popcnt", _popcnt),
    OperationRow("count_leading_zeros", _leading_zeros),
    OperationRow("reduce_precision", _precision),
)
