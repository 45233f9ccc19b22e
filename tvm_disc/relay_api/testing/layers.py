"""Layers with weights of known types, from which the networks are built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tvm_disc.errors import BadNode, shown
from tvm_disc.relay.builder import call, const, var
from tvm_disc.relay.expr import AttrValue, Call, Expr, Function, TupleGetItem, Var
from tvm_disc.relay.types import Dim
from tvm_disc.relay.visit import free_vars
from tvm_disc.relay_api import nn

Pair = tuple[int, int]


@dataclass(frozen=True)
class ImageExpr:
    """An ``NCHW`` expression with the dims that the next layer reads."""

    expr: Expr
    channels: int
    size: Pair
    dtype: str = "float32"

    def then(self, name: str) -> ImageExpr:
        """Apply an operator that keeps the shape, such as ``relu``."""
        return replace(self, expr=getattr(nn, name)(self.expr))


def weight(name: str, shape: Sequence[Dim], dtype: str = "float32") -> Var:
    """Return a variable whose value :func:`tvm_disc.relay.testing.create_workload` sets."""
    return var(name, shape=shape, dtype=dtype)


def image(batch: Dim, shape: Sequence[int], dtype: str = "float32") -> ImageExpr:
    """Return the input ``data``."""
    channels, height, width = shape
    data = var("data", shape=(batch, channels, height, width), dtype=dtype)
    return ImageExpr(data, channels, (height, width), dtype)


def _window(size: Pair, kernel: Pair, stride: Pair, padding: Pair) -> Pair:
    pairs = zip(size, kernel, stride, padding, strict=True)
    height, width = ((n + 2 * p - k) // s + 1 for n, k, s, p in pairs)
    return height, width


def conv(
    x: ImageExpr,
    name: str,
    channels: int,
    kernel: Pair = (3, 3),
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    groups: int = 1,
    bias: str = "",
) -> ImageExpr:
    """Return a convolution; ``bias`` is the name of an optional bias."""
    w = weight(name, (channels, x.channels // groups, *kernel), x.dtype)
    attrs = {"strides": stride, "padding": padding, "groups": groups}
    found = nn.conv2d(x.expr, w, channels=channels, kernel_size=kernel, **attrs)
    if bias:
        found = nn.bias_add(found, weight(bias, (channels,), x.dtype))
    return ImageExpr(found, channels, _window(x.size, kernel, stride, padding), x.dtype)


def batch_norm(x: ImageExpr, name: str, epsilon: float = 1e-5, scale: bool = True) -> ImageExpr:
    """Return a batch normalization with known means and variances."""
    parts = ("gamma", "beta", "moving_mean", "moving_var")
    values = [weight(f"{name}_{part}", (x.channels,), x.dtype) for part in parts]
    found = call("nn.batch_norm", (x.expr, *values), epsilon=epsilon, scale=scale)
    return replace(x, expr=TupleGetItem(found, 0))


def batch_norm_infer(
    data: Expr,
    gamma: Expr | None = None,
    beta: Expr | None = None,
    moving_mean: Expr | None = None,
    moving_var: Expr | None = None,
    **kwargs: object,
) -> Expr:
    """Return the normalized data; weights that are not given become variables."""
    prefix = str(kwargs.pop("name", ""))
    given = {"gamma": gamma, "beta": beta, "moving_mean": moving_mean, "moving_var": moving_var}
    found = [Var(f"{prefix}_{n}" if prefix else n) if w is None else w for n, w in given.items()]
    return TupleGetItem(call("nn.batch_norm", (data, *found), **kwargs), 0)


def pool(
    x: ImageExpr, kind: str, kernel: Pair, stride: Pair, padding: Pair = (0, 0), **attrs: object
) -> ImageExpr:
    """Return a ``max`` or ``avg`` pooling."""
    pooled = getattr(nn, f"{kind}_pool2d")
    found = pooled(x.expr, pool_size=kernel, strides=stride, padding=padding, **attrs)
    return replace(x, expr=found, size=_window(x.size, kernel, stride, padding))


def dense(
    x: Expr, name: str, inputs: int, units: int, bias: bool = True, dtype: str = "float32"
) -> Expr:
    """Return a matmul with ``<name>_weight``, plus ``<name>_bias`` if ``bias``."""
    found = call("nn.dense", (x, weight(f"{name}_weight", (units, inputs), dtype)), units=units)
    return call("nn.bias_add", (found, weight(f"{name}_bias", (units,), dtype))) if bias else found


def flat(x: ImageExpr) -> tuple[Expr, int]:
    """Return the image flattened to rows, and the length of a row."""
    return nn.batch_flatten(x.expr), x.channels * x.size[0] * x.size[1]


def classified(x: ImageExpr, classes: int, name: str = "fc1", dtype: str = "float32") -> Function:
    """Return a function of ``data`` and weights: global average pooling, dense layer, softmax."""
    rows = nn.batch_flatten(nn.global_avg_pool2d(x.expr))
    return closed(nn.softmax(dense(rows, name, x.channels, classes, dtype=dtype)))


def closed(body: Expr) -> Function:
    """Return a function of all free variables, ``data`` first."""
    return Function(free_vars(body), body)


def dropped(x: Expr, rate: float = 0.5) -> Expr:
    """Return a dropout, which is the identity at inference."""
    return TupleGetItem(call("nn.dropout", (x,), rate=rate), 0)


def constant_of(shape: Sequence[int], value: float = 0.0, dtype: str = "float32") -> Expr:
    """Return a tensor filled with one value."""
    return call("full", (const(value, dtype),), shape=tuple(shape), dtype=dtype)


def _named(operator: str) -> Callable[..., Call]:
    """Return the function of a layer: a call of ``operator`` with a variable as default weight."""

    def layer(data: Expr, weight: Expr | None = None, *, name: str, **attrs: AttrValue) -> Call:
        weights = var(f"{name}_weight") if weight is None else weight
        made: Call = getattr(nn, operator)(data, weights, **attrs)
        return made

    layer.__doc__ = f"Return ``nn.{operator}``; its weight is the variable ``NAME_weight``."
    layer.__name__ = operator
    return layer


conv1d, conv2d, conv3d = _named("conv1d"), _named("conv2d"), _named("conv3d")
conv2d_transpose = _named("conv2d_transpose")


def dense_add_bias(
    data: Expr,
    weight: Expr | None = None,
    bias: Expr | None = None,
    units: int | None = None,
    *,
    name: str,
    **attrs: AttrValue,
) -> Call:
    """Return ``nn.dense`` with a bias; both are variables by default."""
    weights = var(f"{name}_weight") if weight is None else weight
    addend = var(f"{name}_bias") if bias is None else bias
    return call("nn.bias_add", (nn.dense(data, weights, units, **attrs), addend), axis=-1)


def conv_kernel_layout(data_layout: str, is_depthwise: bool = False) -> str:
    """Return the layout of convolution weights for a layout of images.

    Raises:
        BadNode: the layout is neither ``NCHW`` nor ``NHWC``.
    """
    layouts = {"NCHW": "OIHW", "NHWC": "HWOI" if is_depthwise else "HWIO"}
    if data_layout not in layouts:
        raise BadNode(f"data_layout: expected NCHW or NHWC, found {shown(data_layout)}")
    return layouts[data_layout]


__all__ = [
    "ImageExpr",
    "batch_norm",
    "batch_norm_infer",
    "classified",
    "closed",
    "constant_of",
    "conv",
    "conv1d",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv_kernel_layout",
    "dense",
    "dense_add_bias",
    "dropped",
    "flat",
    "image",
    "pool",
    "weight",
]
