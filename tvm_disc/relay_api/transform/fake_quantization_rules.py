"""Integer forms of operators between dequantize and quantize: one rule per operator.

A rule receives a :class:`QuantizedSite` and returns the integer expression with its quantization
parameters. It raises :class:`NoRule` for a case that integers cannot compute as accurately.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from tvm_disc.errors import DiscError
from tvm_disc.relay.expr import Attrs, Call, Constant, Expr, Tuple
from tvm_disc.relay.ops.references.qnn import half_away
from tvm_disc.relay.ops.table import OPS
from tvm_disc.relay_api.structural import structural_equal
from tvm_disc.relay_api.transform.rules import attrs_of, op_call, op_name


class NoRule(DiscError):
    """Raised if a region cannot be rewritten; the message is the reason."""


@dataclass(frozen=True, eq=False)
class AffineType:
    """Quantization parameters: the value is ``(integer - zero_point) * scale``."""

    scale: Expr
    zero_point: Expr
    dtype: str
    axis: int = -1

    @property
    def is_scalar(self) -> bool:
        """Whether scale and zero point are constants of one element."""
        parts = (self.scale, self.zero_point)
        return all(isinstance(p, Constant) and p.data.size == 1 for p in parts)

    def same(self, other: AffineType) -> bool:
        """Return whether ``other`` has equal parameters and the same element type."""
        return (
            self.dtype == other.dtype
            and _close(self.scale, other.scale)
            and _close(self.zero_point, other.zero_point)
        )

    def integers(self, value: object, rank: int = 0) -> np.ndarray:
        """Return ``value`` quantized as ``qnn.quantize`` does, shaped for broadcasting against
        ``rank`` dims.

        Raises:
            NoRule: the parameters are not constants.
        """
        if not isinstance(self.scale, Constant) or not isinstance(self.zero_point, Constant):
            raise NoRule("expected scales and zero points that are constants")
        scale, zero = self.scale.data.astype("float32"), self.zero_point.data.astype("int64")
        found = half_away(np.asarray(value, "float32") / scale).astype("float64") + zero
        if found.size > 1 and rank:
            dims = [1] * rank
            dims[self.axis % rank] = -1
            found = found.reshape(dims)
        info = np.iinfo(self.dtype)
        return np.asarray(np.clip(found, info.min, info.max).astype(self.dtype))


Types: TypeAlias = "AffineType | tuple[Types, ...] | None"


@dataclass(frozen=True, eq=False)
class QuantizedSite:
    """One call to rewrite.

    Attributes:
        call: the call over floats.
        args: (integers, parameters) of each operand; (constant, None) for a constant.
        shapes: the shapes of the operands, None if not static.
        shape: the shape of the result, None if not static.
        out: the parameters of the quantize, if only operators that keep the range follow this
            call; otherwise None.
        is_last: whether the quantize reads the result of this call directly.
    """

    call: Call
    args: list[tuple[Expr, Types]]
    shapes: list[tuple[int, ...] | None]
    shape: tuple[int, ...] | None
    out: AffineType | None
    is_last: bool

    @property
    def attrs(self) -> Attrs:
        """The attributes of the call, with defaults."""
        return attrs_of(self.call)

    def affine(self, position: int = 0) -> tuple[Expr, AffineType]:
        """Return (integers, parameters) of an operand; raise NoRule if it is not dequantized."""
        value, found = self.args[position]
        if not isinstance(found, AffineType):
            raise NoRule(f"{op_name(self.call)}: operand {position} is not dequantized")
        return value, found

    def scalar(self, position: int = 0) -> tuple[Expr, AffineType]:
        """Return (integers, parameters) of an operand; raise NoRule if it has several scales."""
        value, found = self.affine(position)
        if not found.is_scalar:
            raise NoRule(f"{op_name(self.call)}: operand {position} has a scale per channel")
        return value, found

    def rank(self, position: int = 0) -> int:
        """Return the rank of an operand."""
        shape = self.shapes[position]
        if shape is None:
            raise NoRule(f"{op_name(self.call)}: the rank of operand {position} is not known")
        return len(shape)

    def result(self, like: AffineType) -> AffineType:
        """Return the parameters of the quantize, ``out``, if its element type is that of ``like``.

        Otherwise returns ``like``.

        Raises:
            NoRule: the range of the result is not known, or it has several scales.
        """
        if self.out is None:
            raise NoRule(
                f"{op_name(self.call)}: the scale and zero point of its result are unknown: "
                "an operator between it and qnn.quantize changes the range of the values"
            )
        if not self.out.is_scalar:
            raise NoRule(f"{op_name(self.call)}: its result has a scale per channel")
        return self.out if self.out.dtype == like.dtype else like


Rule = Callable[[QuantizedSite], tuple[Expr, Types]]


def _close(a: Expr, b: Expr) -> bool:
    if isinstance(a, Constant) and isinstance(b, Constant):
        fits = a.data.shape == b.data.shape or min(a.data.size, b.data.size) == 1
        return fits and bool(np.allclose(a.data, b.data))
    return a is b or structural_equal(a, b)


def requantized(value: Expr, found: AffineType, wanted: AffineType) -> Expr:
    """Return the integers rescaled to the scale and zero point of ``wanted``."""
    if found.same(wanted):
        return value
    return op_call(
        "qnn.requantize",
        value,
        found.scale,
        found.zero_point,
        wanted.scale,
        wanted.zero_point,
        axis=found.axis,
        out_dtype=wanted.dtype,
    )


def _product(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Constant) and isinstance(b, Constant):
        return Constant(np.asarray(a.data * b.data, "float32"))
    return op_call("multiply", a, b)


def _zeros(scale: Expr) -> Expr:
    if isinstance(scale, Constant):
        return Constant(np.zeros(scale.data.shape, "int32"))
    return op_call("cast", op_call("zeros_like", scale), dtype="int32")


def _number(value: object, dtype: str) -> Constant:
    return Constant(np.asarray(value, dtype))


# -- operators that move or select integers ------------------------------------------------------

MOVES = frozenset(
    "expand_dims image.resize2d max min nn.batch_flatten nn.depth_to_space nn.global_max_pool2d "
    "nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.space_to_depth repeat reshape reverse squeeze "
    "strided_slice tile transpose".split()
)
_KEEPS = MOVES | frozenset(
    "broadcast_to clip concatenate maximum mean minimum nn.adaptive_avg_pool1d "
    "nn.adaptive_avg_pool2d nn.avg_pool2d nn.global_avg_pool2d nn.pad nn.relu split take "
    "topk".split()
)
# Operators that do not mix or move channels: their operand may have a scale per channel.
_PER_CHANNEL = frozenset("nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.global_max_pool2d".split())


def keeps_range(name: str) -> bool:
    """Return whether the results of an operator are within the range of its operands."""
    return name in _KEEPS


def _moves(site: QuantizedSite) -> tuple[Expr, Types]:
    value, found = site.affine()
    name = op_name(site.call)
    if not found.is_scalar and name == "transpose":
        rank = site.rank()
        axes = site.attrs["axes"] or tuple(reversed(range(rank)))
        found = replace(found, axis=[a % rank for a in axes].index(found.axis % rank))
    elif not found.is_scalar and name not in _PER_CHANNEL:
        site.scalar()
    return Call(site.call.op, [value, *site.call.args[1:]], site.attrs, (), site.call.span), found


def _take(site: QuantizedSite) -> tuple[Expr, Types]:
    value, found = site.scalar()
    return op_call("take", value, site.args[1][0], **site.attrs), found


def _split(site: QuantizedSite) -> tuple[Expr, Types]:
    value, found = site.scalar()
    parts = site.attrs["indices_or_sections"]
    count = parts if isinstance(parts, int) else len(parts) + 1
    return op_call("split", value, **site.attrs), (found,) * count


def _topk(site: QuantizedSite) -> tuple[Expr, Types]:
    if site.attrs["ret_type"] != "values":
        found = site.attrs["ret_type"]
        raise NoRule(
            f"topk: expected ret_type='values', found {found!r}: indices are not quantized"
        )
    return _moves_scalar(site)


def _moves_scalar(site: QuantizedSite) -> tuple[Expr, Types]:
    value, found = site.scalar()
    return op_call(op_name(site.call), value, **site.attrs), found


def _concatenate(site: QuantizedSite) -> tuple[Expr, Types]:
    values, found = site.args[0]
    if not isinstance(values, Tuple) or not isinstance(found, tuple):
        raise NoRule("concatenate: expected a tuple of dequantized values")
    kinds = [t for t in found if isinstance(t, AffineType)]
    if len(kinds) < len(found):
        raise NoRule("concatenate: an operand is not dequantized")
    out = site.out or kinds[0]
    if all(t.is_scalar and t.dtype == out.dtype for t in (*kinds, out)) and site.out is not None:
        scales = Tuple(tuple(t.scale for t in kinds))
        zeros = Tuple(tuple(t.zero_point for t in kinds))
        made = op_call(
            "qnn.concatenate", values, scales, zeros, out.scale, out.zero_point, **site.attrs
        )
        return made, out
    if site.out is None and not all(t.same(out) for t in kinds):
        raise NoRule(
            "concatenate: the scale and zero point of its result are unknown, because its operands "
            "differ in them and an operator between it and qnn.quantize changes the range of the "
            "values"
        )
    parts = [requantized(v, t, out) for v, t in zip(values.fields, kinds, strict=True)]
    return op_call("concatenate", Tuple(tuple(parts)), **site.attrs), out


def _pad(site: QuantizedSite) -> tuple[Expr, Types]:
    value, found = site.scalar()
    pad, kind = site.args[1]
    if isinstance(kind, AffineType):
        pad = requantized(pad, kind, found)
    elif isinstance(pad, Constant):
        pad = Constant(found.integers(pad.data.item()).reshape(()))
    else:
        raise NoRule("nn.pad: expected a constant or dequantized value to pad with")
    return op_call("nn.pad", value, pad, **site.attrs), found


# -- bounds --------------------------------------------------------------------------------------


def _clip(site: QuantizedSite) -> tuple[Expr, Types]:
    value, found = site.affine()
    low, high = site.attrs["a_min"], site.attrs["a_max"]
    if found.is_scalar:
        bounds = [found.integers(b).item() for b in (low, high)]
        return op_call("clip", value, a_min=float(bounds[0]), a_max=float(bounds[1])), found
    rank = site.rank()
    least, most = (Constant(found.integers(b, rank)) for b in (low, high))
    return op_call("minimum", op_call("maximum", value, least), most), found


def _relu(site: QuantizedSite) -> tuple[Expr, Types]:
    value, found = site.affine()
    rank = 0 if found.is_scalar else site.rank()
    zero = found.integers(0.0, rank)
    return op_call("maximum", value, Constant(zero.reshape(()) if zero.size == 1 else zero)), found


# -- means ---------------------------------------------------------------------------------------


def _mean_over(site: QuantizedSite, attrs: Attrs, count: int) -> tuple[Expr, Types]:
    """Return a mean as an int32 sum whose scale is divided by ``count``.

    Only the final requantization rounds.
    """
    value, found = site.scalar()
    assert isinstance(found.scale, Constant) and isinstance(found.zero_point, Constant)
    if count * (np.iinfo(found.dtype).max + 1) >= 1 << 31 or found.dtype == "int32":
        raise NoRule(f"{op_name(site.call)}: a sum of {count} elements may overflow int32")
    total = op_call("sum", op_call("cast", value, dtype="int32"), **attrs)
    scale = _number(found.scale.data.item() / count, "float32")
    zero = _number(found.zero_point.data.item() * count, "int32")
    out = site.out if site.out is not None and site.out.is_scalar else found
    return requantized(total, AffineType(scale, zero, "int32"), out), out


def _mean(site: QuantizedSite) -> tuple[Expr, Types]:
    shape = site.shapes[0]
    if shape is None:
        raise NoRule("mean: expected an operand of static shape, found dynamic or unknown dims")
    attrs = site.attrs
    axis = attrs["axis"]
    axes = range(len(shape)) if axis is None else [axis] if isinstance(axis, int) else axis
    chosen = {a % len(shape) for a in axes}
    if attrs.get("exclude"):
        chosen = set(range(len(shape))) - chosen
    count = math.prod(shape[a] for a in chosen)
    sums = {"axis": tuple(sorted(chosen)), "keepdims": attrs["keepdims"], "exclude": False}
    return _mean_over(site, sums, count)


def _global_avg_pool(site: QuantizedSite) -> tuple[Expr, Types]:
    shape, layout = site.shapes[0], site.attrs["layout"]
    if shape is None or len(layout) != len(shape):
        raise NoRule("nn.global_avg_pool2d: expected static dims and a layout without blocks")
    axes = tuple(layout.index(letter) for letter in "HW")
    sums = {"axis": axes, "keepdims": True, "exclude": False}
    return _mean_over(site, sums, math.prod(shape[a] for a in axes))


def _avg_pool(site: QuantizedSite) -> tuple[Expr, Types]:
    value, found = site.scalar()
    usable = site.is_last and site.out is not None and site.out.is_scalar
    out = site.out if usable and site.out and site.out.dtype == found.dtype else found
    made = op_call(
        "qnn.avg_pool2d",
        value,
        found.scale,
        found.zero_point,
        out.scale,
        out.zero_point,
        **_known("qnn.avg_pool2d", site.attrs),
    )
    return made, out


def _adaptive_avg_pool(site: QuantizedSite) -> tuple[Expr, Types]:
    """Return a pooling to one element as a mean; if it keeps the shape, return its operand."""
    shape, layout, size = site.shapes[0], site.attrs["layout"], site.attrs["output_size"]
    if shape is None or len(layout) != len(shape):
        raise NoRule(f"{op_name(site.call)}: expected static dims and a layout without blocks")
    axes = tuple(layout.index(letter) for letter in layout if letter not in "NC")
    if site.shape == shape:
        return site.scalar()
    sizes = {size} if isinstance(size, int) else set(size or ())
    if sizes != {1}:
        raise NoRule(
            f"{op_name(site.call)}: expected an output_size of 1 on every axis, or the size of the "
            f"operand; found {size}"
        )
    sums = {"axis": axes, "keepdims": True, "exclude": False}
    return _mean_over(site, sums, math.prod(shape[a] for a in axes))


# -- matmuls and convolutions --------------------------------------------------------------------


def _known(name: str, attrs: Attrs) -> dict[str, object]:
    """Return the ``attrs`` that the quantized operator ``name`` has, without ``out_dtype``."""
    known = OPS[name].attrs
    return {k: v for k, v in attrs.items() if k in known and k != "out_dtype"}


def _contraction(site: QuantizedSite, name: str, axis: int, **attrs: object) -> tuple[Expr, Types]:
    (x, x_kind), (w, w_kind) = site.scalar(0), site.affine(1)
    scale = _product(x_kind.scale, w_kind.scale)
    made = op_call(
        name,
        x,
        w,
        x_kind.zero_point,
        w_kind.zero_point,
        x_kind.scale,
        w_kind.scale,
        **{**attrs, "out_dtype": "int32"},
    )
    return made, AffineType(scale, _zeros(scale), "int32", axis)


def _conv(site: QuantizedSite) -> tuple[Expr, Types]:
    name = f"qnn.{op_name(site.call).removeprefix('nn.')}"
    layout = site.attrs["out_layout"] or site.attrs["data_layout"]
    return _contraction(site, name, layout.index("C"), **_known(name, site.attrs))


def _dense(site: QuantizedSite) -> tuple[Expr, Types]:
    return _contraction(site, "qnn.dense", site.rank() - 1, **_known("qnn.dense", site.attrs))


def _batch_matmul(site: QuantizedSite) -> tuple[Expr, Types]:
    site.scalar(1)
    made, found = _contraction(
        site, "qnn.batch_matmul", -1, **_known("qnn.batch_matmul", site.attrs)
    )
    return made, found


def _bias_add(site: QuantizedSite) -> tuple[Expr, Types]:
    (x, x_kind), (b, b_kind) = site.affine(0), site.args[1]
    if isinstance(b_kind, AffineType):
        if not b_kind.same(x_kind) and not x_kind.is_scalar:
            raise NoRule("nn.bias_add: expected a bias with the scales and zero points of the data")
        b = requantized(b, replace(b_kind, axis=0), x_kind)
    elif isinstance(b, Constant) and x_kind.dtype == "int32":
        params = (x_kind.scale, x_kind.zero_point)
        b = op_call("qnn.quantize", b, *params, axis=0, out_dtype=x_kind.dtype)
    else:
        raise NoRule(
            "nn.bias_add: expected a dequantized bias; a constant bias is supported only for int32 "
            "data, such as the result of a matmul or convolution"
        )
    return op_call("nn.bias_add", x, b, **site.attrs), x_kind


# -- two operands --------------------------------------------------------------------------------

_QNN = {"add": "qnn.add", "subtract": "qnn.subtract", "multiply": "qnn.mul"}


def _constant_affine(value: Constant, like: AffineType) -> tuple[Expr, AffineType]:
    """Return a float constant quantized to the type of ``like``, scaled to the constant's range."""
    low, high = min(0.0, float(value.data.min())), max(0.0, float(value.data.max()))
    info = np.iinfo(like.dtype)
    if info.min < 0:
        scale, zero = max(-low, high) / info.max or 1.0, 0
    else:
        scale = (high - low) / info.max or 1.0
        zero = round(-low / scale)
    kind = AffineType(_number(scale, "float32"), _number(zero, "int32"), like.dtype)
    return Constant(kind.integers(value.data)), kind


def _pair(site: QuantizedSite) -> tuple[tuple[Expr, AffineType], tuple[Expr, AffineType]]:
    """Return both operands as integers; one may be a constant."""
    kinds = [k for _, k in site.args if isinstance(k, AffineType)]
    if not kinds:
        raise NoRule(f"{op_name(site.call)}: no operand is dequantized")
    found = []
    for value, kind in site.args:
        if isinstance(kind, AffineType):
            found.append((value, kind))
        elif not isinstance(value, Constant):
            raise NoRule(f"{op_name(site.call)}: expected a constant or a dequantized operand")
        elif kinds[0].dtype == "int32" and op_name(site.call) != "multiply":
            params = (kinds[0].scale, kinds[0].zero_point)
            made = op_call("qnn.quantize", value, *params, axis=kinds[0].axis, out_dtype="int32")
            found.append((made, kinds[0]))
        else:
            found.append(_constant_affine(value, kinds[0]))
    return found[0], found[1]


def _binary(site: QuantizedSite) -> tuple[Expr, Types]:
    name = op_name(site.call)
    (a, a_kind), (b, b_kind) = _pair(site)
    if "int32" in (a_kind.dtype, b_kind.dtype):
        return _wide_binary(site, (a, a_kind), (b, b_kind))
    if a_kind.dtype != b_kind.dtype:
        raise NoRule(
            f"{name}: expected operands of one type, found {a_kind.dtype} and {b_kind.dtype}"
        )
    out = site.result(a_kind)
    if out is a_kind and out.dtype != getattr(site.out, "dtype", ""):
        raise NoRule(f"{name}: expected a result of the operands' type, {a_kind.dtype}")
    params = [p for k in (a_kind, b_kind, out) for p in (k.scale, k.zero_point)]
    axes = {"lhs_axis": a_kind.axis, "rhs_axis": b_kind.axis}
    return op_call(_QNN[name], a, b, *params, **axes), out


def _wide_binary(
    site: QuantizedSite, left: tuple[Expr, AffineType], right: tuple[Expr, AffineType]
) -> tuple[Expr, Types]:
    """Return a sum or difference of int32 operands, such as results of matmuls."""
    name = op_name(site.call)
    if name == "multiply":
        raise NoRule("multiply: a product of int32 operands does not fit int32")
    wide = left[1] if left[1].dtype == "int32" else right[1]
    if not left[1].same(right[1]) and not wide.is_scalar:
        raise NoRule(
            f"{name}: if the int32 operand has per-channel scales, both operands must have the "
            "same scale and zero point"
        )
    parts = [requantized(value, kind, wide) for value, kind in (left, right)]
    if wide.integers(0.0).any():
        raise NoRule(f"{name}: expected int32 operands without a zero point, found one")
    return op_call(name, *parts), wide


def _extreme(site: QuantizedSite) -> tuple[Expr, Types]:
    (a, a_kind), (b, b_kind) = _pair(site)
    out = a_kind if a_kind.same(b_kind) else site.out
    if out is None:
        raise NoRule(
            f"{op_name(site.call)}: the scale and zero point of its result are unknown: "
            "its operands differ in them and an operator between it and qnn.quantize changes the "
            "range of the values"
        )
    return op_call(
        op_name(site.call), requantized(a, a_kind, out), requantized(b, b_kind, out)
    ), out


# -- functions of one operand --------------------------------------------------------------------


def _lookup(site: QuantizedSite) -> tuple[Expr, Types]:
    value, found = site.scalar()
    out = site.result(found)
    if found.dtype == "int32" or out.dtype != getattr(site.out, "dtype", ""):
        raise NoRule(f"{op_name(site.call)}: expected int8 or uint8 for operand and result")
    params = (found.scale, found.zero_point, out.scale, out.zero_point)
    return op_call(
        f"qnn.{op_name(site.call).removeprefix('nn.')}", value, *params, **site.attrs
    ), out


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(MOVES, _moves),
    **dict.fromkeys(("sqrt", "rsqrt", "exp", "erf", "sigmoid", "tanh", "abs", "log"), _lookup),
    **dict.fromkeys(_QNN, _binary),
    "broadcast_to": _moves_scalar,
    "clip": _clip,
    "concatenate": _concatenate,
    "maximum": _extreme,
    "mean": _mean,
    "minimum": _extreme,
    "nn.adaptive_avg_pool1d": _adaptive_avg_pool,
    "nn.adaptive_avg_pool2d": _adaptive_avg_pool,
    "nn.avg_pool2d": _avg_pool,
    "nn.batch_matmul": _batch_matmul,
    "nn.bias_add": _bias_add,
    "nn.conv2d": _conv,
    "nn.conv2d_transpose": _conv,
    "nn.dense": _dense,
    "nn.global_avg_pool2d": _global_avg_pool,
    "nn.leaky_relu": _lookup,
    "nn.pad": _pad,
    "nn.relu": _relu,
    "split": _split,
    "take": _take,
    "topk": _topk,
}
OPTIONAL: Mapping[str, Rule] = {"nn.softmax": _lookup}

# Operators that ``use_qat`` rewrites without a surrounding quantized region: the
# quantization parameters of the result follow from the parameters of the operands.
SINGLE = frozenset(
    "broadcast_to clip expand_dims max maximum min minimum nn.avg_pool2d nn.batch_flatten "
    "nn.batch_matmul nn.bias_add nn.conv2d nn.conv2d_transpose nn.dense nn.depth_to_space "
    "nn.global_avg_pool2d nn.max_pool2d nn.pad nn.relu reshape split squeeze strided_slice "
    "transpose".split()
)

__all__ = [
    "OPTIONAL",
    "RULES",
    "SINGLE",
    "AffineType",
    "NoRule",
    "QuantizedSite",
    "Rule",
    "Types",
    "keeps_range",
    "requantized",
]
