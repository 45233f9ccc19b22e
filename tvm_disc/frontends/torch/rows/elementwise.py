"""Converters of unary element-wise operators and of conversions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calls import is_float
from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.values import Value, relay_dtype, wide_dtype


def real(name: str) -> Row:
    """Return the converter to a Relay operator on floats; integers are cast to floats first."""

    def row(m: Maker, x: Value) -> Value:
        return m.apply(name, m.cast(x, m.out_dtype))

    return row


def _wide(compute: Callable[[Maker, Value], Value]) -> Row:
    """Return the converter of a formula that is computed in float32 or float64, and then cast."""

    def row(m: Maker, x: Value) -> Value:
        return m.cast(compute(m, m.cast(x, wide_dtype(m.out_dtype))), m.out_dtype)

    return row


def _whole(name: str) -> Row:
    """Return the converter of a rounding function, which is the identity for integers."""

    def row(m: Maker, x: Value) -> Value:
        return m.apply(name, x) if x.is_float else x

    return row


def identity(m: Maker, x: Value, *args: object, **kwargs: object) -> Value:
    """Return ``x``, for operators that copy, alias or annotate a tensor."""
    return x


def rounded(m: Maker, x: Value) -> Value:
    """Return the nearest integer; ties are rounded to even."""
    return m.round_even(x) if x.is_float else x


def _round_decimals(m: Maker, x: Value, *, decimals: int = 0) -> Value:
    scale = 10.0 ** abs(decimals)
    there, back = ("multiply", "divide") if decimals >= 0 else ("divide", "multiply")
    by = m.like(scale, x)
    return m.apply(back, rounded(m, m.apply(there, x, by)), by)


def _sign(m: Maker, x: Value) -> Value:
    """Return the sign; it is 0 for NaN and -0.0, as PyTorch computes (0 < x) - (x < 0)."""
    if x.dtype == "bool" or not x.is_float:
        return x if x.dtype == "bool" else m.apply("sign", x)
    below = m.where(x < 0.0, -1.0, 0.0, x.dtype)
    return m.where(x > 0.0, 1.0, below)


def _abs(m: Maker, x: Value) -> Value:
    return x if x.dtype == "bool" or x.dtype.startswith("uint") else m.abs(x)


def _reciprocal(m: Maker, x: Value) -> Value:
    x = m.cast(x, m.out_dtype)
    return m.tensor(1.0, x.dtype) / x


def _relu(m: Maker, x: Value) -> Value:
    return m.apply("nn.relu", x) if x.is_float else m.maximum(x, 0)


def clamped(m: Maker, x: Value, low: object, high: object) -> Value:
    """Return ``x`` clamped to bounds; each bound is None, a number or a tensor."""
    dtype = m.out_dtype
    x = m.cast(x, dtype)
    if low is not None:
        x = m.maximum(x, m.tensor(low, dtype))
    return x if high is None else m.minimum(x, m.tensor(high, dtype))


def _clamp(m: Maker, x: Value, min: Any = None, max: Any = None) -> Value:
    numbers = isinstance(min, int | float) and isinstance(max, int | float)
    if numbers and min <= max and is_float(m.out_dtype) and x.is_float:
        return m.apply("clip", x, a_min=float(min), a_max=float(max))
    return clamped(m, x, min, max)


def _elu(m: Maker, x: Value, alpha: float = 1, scale: Any = 1, input_scale: Any = 1) -> Value:
    scaled = x * float(input_scale) if input_scale != 1 else x
    low = m.expm1(scaled) * float(alpha)
    made = m.where(x > 0.0, x, low)
    return made * float(scale) if scale != 1 else made


def gelu(m: Maker, x: Value, *, approximate: str = "none") -> Value:
    """Return the Gaussian error linear unit, exact, or its tanh approximation."""
    if approximate == "tanh":
        cube = x * x * x
        inner = x + cube * 0.044715
        grown = m.tanh(inner * math.sqrt(2 / math.pi))
    else:
        grown = m.erf(x * math.sqrt(0.5))
    return x * 0.5 * (grown + 1.0)


def _log_sigmoid(m: Maker, x: Value) -> Value:
    size = -m.abs(x)
    return m.minimum(x, 0.0) - m.log1p(m.exp(size))


def _predicate(name: str) -> Row:
    """Return the converter of isnan, isinf or isfinite; for integers the result is constant."""

    def row(m: Maker, x: Value) -> Value:
        if x.is_float:
            return m.apply(name, x, dtype="bool")
        return m.full(name == "isfinite", x.dims, "bool")

    return row


def _bitwise_not(m: Maker, x: Value) -> Value:
    return m.apply("logical_not" if x.dtype == "bool" else "bitwise_not", x)


def _to_out(m: Maker, x: Value, *args: object, **kwargs: object) -> Value:
    """Return ``x`` cast to the dtype of the node's result."""
    return m.cast(x, m.out_dtype)


def _view_dtype(m: Maker, x: Value, dtype: object) -> Value:
    wanted = relay_dtype(dtype)
    if _width(wanted) != _width(x.dtype):
        raise Unsupported(
            f"expected a view as a type of the same size as {x.dtype}, found {wanted}"
        )
    return x if wanted == x.dtype else _bits(m, x, wanted)


def _width(dtype: str) -> int:
    """Return the number of bits of an element."""
    return int("".join(filter(str.isdigit, dtype)) or 8)


def _bits(m: Maker, x: Value, dtype: str) -> Value:
    """Return the bits of ``x`` reinterpreted as elements of ``dtype``."""
    return m.made(m.call("reinterpret", x, dtype=dtype), lambda: x.dims, dtype=dtype)


def sign_bit(m: Maker, x: Value) -> Value:
    """Return whether the sign bit is set, also for -0.0 and NaN."""
    if x.dtype == "bool" or x.dtype.startswith("uint"):
        return m.full(False, x.dims, "bool")
    if is_float(x.dtype):
        x = _bits(m, x, f"int{_width(x.dtype)}")
    return x < m.like(0, x)


def _nan_to_num(
    m: Maker, x: Value, nan: object = None, posinf: object = None, neginf: object = None
) -> Value:
    if not x.is_float:
        return x
    import torch

    most = torch.finfo(getattr(torch, x.dtype)).max
    high, low = most if posinf is None else posinf, -most if neginf is None else neginf
    filled = m.where(m.isnan(x), 0.0 if nan is None else nan, x)
    filled = m.where(m.equal(x, math.inf), high, filled)
    return m.where(m.equal(x, -math.inf), low, filled)


def _square(m: Maker, x: Value) -> Value:
    x = m.cast(x, m.out_dtype)
    return x * x


_REAL = (
    "acos acosh asin asinh atan atanh cos cosh erf erfc exp exp2 expm1 lgamma log log10 log1p log2 "
    "rsqrt sigmoid sin sinh sqrt tan tanh"
).split()
_SAME = (
    "alias alias_copy clone contiguous detach detach_copy lift lift_fresh lift_fresh_copy "
    "view_as_real_copy _conj_physical resolve_conj resolve_neg _shape_as_tensor_guard"
).split()
_BOUNDS = ("default", "Tensor")
_CASTS = (
    "_to_copy.default prims::convert_element_type.default to.dtype to.dtype_layout to.device "
    "type_as.default"
).split()

ROWS: Mapping[str, Row] = {
    **{f"{name}.default": real(name) for name in _REAL},
    **{f"{name}.default": identity for name in _SAME},
    **{f"{name}.default": _whole(name) for name in ("ceil", "floor", "trunc")},
    **{f"{name}.default": _predicate(name) for name in ("isnan", "isinf", "isfinite")},
    "fix.default": _whole("trunc"),
    "round.default": rounded,
    "round.decimals": _round_decimals,
    "sign.default": _sign,
    "sgn.default": _sign,
    "abs.default": _abs,
    "neg.default": lambda m, x: -x,
    "reciprocal.default": _reciprocal,
    "square.default": _square,
    "relu.default": _relu,
    "relu6.default": lambda m, x: _clamp(m, x, 0, 6),
    "clamp.default": _clamp,
    "clamp.Tensor": lambda m, x, min=None, max=None: clamped(m, x, min, max),
    **{f"clamp_min.{o}": lambda m, x, low: clamped(m, x, low, None) for o in _BOUNDS},
    **{f"clamp_max.{o}": lambda m, x, high: clamped(m, x, None, high) for o in _BOUNDS},
    "hardtanh.default": lambda m, x, min_val=-1, max_val=1: _clamp(m, x, min_val, max_val),
    "leaky_relu.default": lambda m, x, slope=0.01: m.apply("nn.leaky_relu", x, alpha=float(slope)),
    "elu.default": _elu,
    "gelu.default": gelu,
    "silu.default": lambda m, x: x * m.sigmoid(x),
    "log_sigmoid.default": _wide(_log_sigmoid),
    "log_sigmoid_forward.default": lambda m, x: (_wide(_log_sigmoid)(m, x), None),
    "logical_not.default": lambda m, x: ~m.cast(x, "bool"),
    "bitwise_not.default": _bitwise_not,
    "nan_to_num.default": _nan_to_num,
    **dict.fromkeys(_CASTS, _to_out),
    "view.dtype": _view_dtype,
    "signbit.default": sign_bit,
}
