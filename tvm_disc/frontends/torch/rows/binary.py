"""Converters of element-wise operators with several operands, under PyTorch's type promotion."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from tvm_disc.frontends.calls import is_float, joined_dims
from tvm_disc.frontends.loop import TensorLoop
from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.rows.elementwise import sign_bit
from tvm_disc.frontends.torch.values import Value

# Relay's operators for arithmetic on bool operands.
_ON_TRUTHS = {"add": "logical_or", "multiply": "logical_and"}


def _typed(name: str, of_bools: str = "") -> Row:
    """Return the converter to the Relay operator ``name``, or to ``of_bools`` for bools.

    The operands are cast to the result's dtype.
    """

    def row(m: Maker, a: Value | float, b: Value | float) -> Value:
        is_bool = bool(of_bools) and m.out_dtype == "bool"
        return m.apply(of_bools if is_bool else name, *m.operands(a, b))

    return row


def _arithmetic(name: str) -> Row:
    """Return the converter of ``a op alpha * b``; the operands are cast to the result's dtype."""

    def row(m: Maker, a: Value | float, b: Value | float, alpha: float = 1) -> Value:
        dtype = m.out_dtype
        a, b = m.operands(a, b)
        if dtype == "bool":
            return m.apply(_ON_TRUTHS[name], a, b)
        if alpha != 1:
            b = b * (alpha if is_float(dtype) else int(alpha))
        return m.apply(name, a, b)

    return row


_MAXIMUM, _MINIMUM = _typed("maximum", "logical_or"), _typed("minimum", "logical_and")


def _ignoring_nan(name: str, of_integers: Row) -> Row:
    """Return the converter of fmax or fmin: if one operand is NaN, the result is the other one."""

    def row(m: Maker, a: Value | float, b: Value | float) -> Value:
        if not is_float(m.out_dtype):
            return of_integers(m, a, b)  # type: ignore[no-any-return]
        a, b = m.operands(a, b)
        found = m.where(m.isnan(b), a, m.apply(name, a, b))
        return m.where(m.isnan(a), b, found)

    return row


def divided(
    m: Maker, a: Value | float, b: Value | float, *, rounding_mode: str | None = None
) -> Value:
    """Return ``a / b``, not rounded, or rounded by ``rounding_mode`` "floor" or "trunc"."""
    above, below = m.operands(a, b)
    if rounding_mode is None:
        return above / below
    below = m.divisor(below, above)
    if rounding_mode == "floor":
        return above // below
    return m.apply("trunc", above / below) if above.is_float else above / below


def _remainder(m: Maker, a: Value | float, b: Value | float) -> Value:
    """Return Python's ``%``; a zero remainder has the sign of ``a``, as in PyTorch's kernel."""
    above, below = m.operands(a, b)
    if not above.is_float:
        return above % m.divisor(below, above)
    rest = m.apply("mod", above, below)
    other = m.not_equal(rest < 0.0, below < 0.0)
    return m.where(m.not_equal(rest, 0.0) & other, rest + below, rest)


def _fmod(m: Maker, a: Value | float, b: Value | float) -> Value:
    """Return C's ``fmod``; the remainder has the sign of ``a``."""
    a, b = m.operands(a, b)
    return m.apply("mod", a, m.divisor(b, a))


def _compared(name: str) -> Row:
    def row(m: Maker, a: Value | float, b: Value | float) -> Value:
        dtype = m.promoted(a, b)
        if dtype == "bool" and name not in ("equal", "not_equal"):
            dtype = "uint8"
        return m.apply(name, m.tensor(a, dtype), m.tensor(b, dtype), dtype="bool")

    return row


def powered(m: Maker, base: object, exponent: object) -> Value:
    """Return a power; small integer exponents become multiplications."""
    dtype = m.out_dtype
    if isinstance(exponent, int | float) and not isinstance(exponent, bool):
        made = _known_power(m, m.tensor(base, dtype), exponent)
        if made is not None:
            return made
    a, b = m.operands(base, exponent)
    return a**b


def _known_power(m: Maker, x: Value, exponent: float) -> Value | None:
    if not math.isfinite(exponent):
        return None
    if exponent == int(exponent) and 0 <= exponent <= 8:
        return _product_power(m, x, int(exponent))
    if not x.is_float:
        if exponent != int(exponent) or exponent < 0:
            return None
        return _product_power(m, x, int(exponent)) if exponent < 64 else None
    if exponent == 0.5:
        return m.sqrt(x)
    if exponent == -0.5:
        return m.rsqrt(x)
    if exponent in (-1, -2):
        below = x if exponent == -1 else x * x
        return m.tensor(1.0, x.dtype) / below
    return None


def _product_power(m: Maker, x: Value, times: int) -> Value:
    """Return ``x`` to the power of ``times``, by repeated squaring."""
    if times == 0:
        return m.full(1, x.dims, x.dtype)
    result: Value | None = None
    while times:
        if times & 1:
            result = x if result is None else result * x
        times >>= 1
        x = x * x if times else x
    assert result is not None
    return result


def _where(m: Maker, cond: Value, a: Value | float, b: Value | float) -> Value:
    return m.where(m.cast(cond, "bool"), a, b, m.out_dtype)


def _atan2(m: Maker, y: object, x: Value | float) -> Value:
    """Return the angle of the point (x, y) in [-pi, pi]; zeros are signed, as in C's ``atan2``."""
    y, x = m.operands(y, x)
    rise, run = m.abs(y), m.abs(x)
    slope = rise / run
    slope = m.where(m.isinf(rise) & m.isinf(run), 1.0, slope)
    slope = m.where(m.equal(rise, 0.0) & m.equal(run, 0.0), 0.0, slope)
    angle = m.apply("atan", slope)
    angle = m.where(sign_bit(m, x), m.like(math.pi, angle) - angle, angle)
    return m.where(sign_bit(m, y), -angle, angle)


def _plus(name: str) -> Row:
    """Return the converter of ``x + value * (a op b)``."""

    def row(m: Maker, x: Value, a: Value, b: Value, *, value: Value | float = 1) -> Value:
        y = m.apply(name, *m.operands(a, b))
        return m.cast(x, m.out_dtype) + (y if value == 1 else y * value)

    return row


def _lerp(m: Maker, a: Value, b: Value, weight: Value | None) -> Value:
    dtype = m.out_dtype
    part = m.tensor(weight, dtype)
    step = part * (b - a)
    far = (part - 1.0) * (b - a)
    near = m.abs(part) < 0.5
    return m.where(near, a + step, b + far)


def _hypot(m: Maker, a: Value | float, b: Value | float) -> Value:
    """Return ``sqrt(a^2 + b^2)`` without overflow; it is infinite if ``a`` or ``b`` is."""
    a, b = map(m.abs, m.operands(a, b))
    top, low = m.maximum(a, b), m.minimum(a, b)
    part = low / m.where(m.equal(top, 0.0), 1.0, top)
    grown = m.sqrt(part * part + 1.0)
    infinite = m.isinf(a) | m.isinf(b)
    return m.where(infinite, math.inf, top * grown)


def _copysign(m: Maker, a: Value | float, b: Value | float) -> Value:
    """Return the magnitude of ``a`` with the sign of ``b``, including that of a zero or NaN."""
    size, sign = m.operands(a, b)
    size = m.abs(size)
    return m.where(sign_bit(m, sign), -size, size)


def _ldexp(m: Maker, a: Value | float, b: Value | float) -> Value:
    a, base, b = m.operands(a, 2.0, b)
    return a * base**b


def _logaddexp(base: str) -> Row:
    def row(m: Maker, a: Value, b: Value) -> Value:
        scale = 1.0 if base == "e" else math.log(2.0)
        a, b = (v * scale for v in m.operands(a, b))
        top = m.maximum(a, b)
        gap = -m.abs(a - b)
        grown = top + m.log1p(m.exp(gap))
        same = m.isinf(a) & m.equal(a, b)
        return m.where(same, a, grown) / scale

    return row


def _gcd(m: Maker, a: Value, b: Value) -> Value:
    """Return the greatest common divisor, by Euclid's algorithm on all elements at once."""
    a, b = m.operands(a, b)
    dims = joined_dims([a.dims, b.dims])
    begin = [m.broadcast(m.abs(x), dims) for x in (a, b)]

    def more(fixed: list[Value], state: list[Value]) -> Value:
        return m.reduce("any", m.not_equal(state[0], 0), range(len(dims)))

    def turn(fixed: list[Value], state: list[Value]) -> tuple[list[Value], list[Value]]:
        low, high = state
        divisor = m.where(m.equal(low, 0), 1, low)
        rest = m.where(m.equal(low, 0), 0, m.apply("mod", high, divisor))
        return [rest, m.where(m.equal(low, 0), high, low)], []

    return TensorLoop(m, [], begin).run(more, turn)[0][1]


def _lcm(m: Maker, a: Value, b: Value) -> Value:
    """Return the least common multiple, or 0 if an operand is 0.

    Elements of 8 and 16 bits are computed in 32 bits, as in PyTorch's kernel.
    """
    common, wide = _gcd(m, a, b), "int64" if m.out_dtype == "int64" else "int32"
    a, b = (m.cast(x, wide) for x in m.operands(a, b))
    common = m.cast(common, wide)
    found = m.abs(a / m.where(m.equal(common, 0), 1, common) * b)
    return m.cast(found, m.out_dtype)


def _tensor_scalar(name: str, row: Row, *suffixes: str) -> dict[str, Row]:
    return {f"{name}.{s}": row for s in suffixes or ("Tensor", "Scalar")}


_PAIRS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
          "ge": "greater_equal"}  # fmt: skip

ROWS: Mapping[str, Row] = {
    **_tensor_scalar("add", _arithmetic("add")),
    **_tensor_scalar("sub", _arithmetic("subtract")),
    **_tensor_scalar("mul", _arithmetic("multiply")),
    **_tensor_scalar("rsub", lambda m, a, b, alpha=1: _arithmetic("subtract")(m, b, a, alpha)),
    **_tensor_scalar("div", divided, "Tensor", "Scalar", "Tensor_mode", "Scalar_mode"),
    **_tensor_scalar("true_divide", divided),
    **_tensor_scalar("floor_divide", partial(divided, rounding_mode="floor"), "default", "Scalar"),
    **_tensor_scalar("fmod", _fmod),
    **_tensor_scalar("remainder", _remainder, "Tensor", "Scalar", "Scalar_Tensor"),
    **_tensor_scalar("pow", powered, "Tensor_Tensor", "Tensor_Scalar", "Scalar"),
    **_tensor_scalar("float_power", powered, "Tensor_Tensor", "Tensor_Scalar", "Scalar"),
    "maximum.default": _MAXIMUM,
    "minimum.default": _MINIMUM,
    "max.other": _MAXIMUM,
    "min.other": _MINIMUM,
    "fmax.default": _ignoring_nan("maximum", _MAXIMUM),
    "fmin.default": _ignoring_nan("minimum", _MINIMUM),
    **{
        key: row
        for name, relay in _PAIRS.items()
        for key, row in _tensor_scalar(name, _compared(relay)).items()
    },
    **{f"logical_{n}.default": _typed(f"logical_{n}") for n in ("and", "or", "xor")},
    **{
        key: row
        for n in ("and", "or", "xor")
        for key, row in _tensor_scalar(
            f"bitwise_{n}",
            _typed(f"bitwise_{n}", f"logical_{n}"),
            "Tensor",
            "Scalar",
            "Scalar_Tensor",
        ).items()
    },
    **_tensor_scalar("bitwise_left_shift", _typed("left_shift"), "Tensor", "Tensor_Scalar"),
    **_tensor_scalar("bitwise_right_shift", _typed("right_shift"), "Tensor", "Tensor_Scalar"),
    **_tensor_scalar("__lshift__", _typed("left_shift")),
    **_tensor_scalar("__rshift__", _typed("right_shift")),
    **_tensor_scalar("where", _where, "self", "ScalarSelf", "ScalarOther", "Scalar"),
    **_tensor_scalar("masked_fill", lambda m, x, mask, value: _where(m, mask, value, x)),
    "atan2.default": _atan2,
    "addcmul.default": _plus("multiply"),
    "addcdiv.default": _plus("divide"),
    **_tensor_scalar("lerp", _lerp),
    "hypot.default": _hypot,
    "ldexp.Tensor": _ldexp,
    "gcd.default": _gcd,
    "lcm.default": _lcm,
    **_tensor_scalar("copysign", _copysign),
    "logaddexp.default": _logaddexp("e"),
    "logaddexp2.default": _logaddexp("2"),
}
