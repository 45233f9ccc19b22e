"""Converters of normalization operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Calc, Expr, op
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.table import Row
from tvm_disc.frontends.onnx.tensors import dtype_of
from tvm_disc.relay import expr as ast


def _batch_norm(n: OnnxNode) -> object:
    x = n[0]
    dtype = n.dtype(x)
    stats = [n.cast(n[k], dtype) for k in range(1, 5)]
    epsilon = float(n.attr("epsilon", 1e-5))
    if n.attr("training_mode", 0):
        return _batch_norm_training(n, x, stats, epsilon)
    made = op("nn.batch_norm", x, *stats, axis=1, epsilon=epsilon)
    found: list[Any] = [ast.TupleGetItem(made, 0)]
    return found + [None] * (len(n.outputs) - 1) if len(n.outputs) > 1 else found[0]


def _batch_norm_training(n: OnnxNode, x: Expr, stats: Sequence[Expr], epsilon: float) -> list[Expr]:
    """Return ``x`` normalized by the batch's statistics, and the updated running statistics."""
    rank, keep = n.rank(x), float(n.attr("momentum", 0.9))
    axes = [a for a in range(rank) if a != 1]
    mean = n.reduce("mean", x, axes, True)
    centred = x - mean
    variance = n.reduce("mean", centred * centred, axes, True)
    gamma, beta = (n.along(s, 1, rank) for s in stats[:2])
    y = centred * n.rsqrt(variance + epsilon)
    running = [
        old * keep + n.squeeze(new, axes) * (1 - keep)
        for old, new in zip(stats[2:], (mean, variance), strict=True)
    ]
    return [y * gamma + beta, *running]


def _instance_norm(n: OnnxNode) -> Expr:
    epsilon = float(n.attr("epsilon", 1e-5))
    return op("nn.instance_norm", n[0], n[1], n[2], axis=1, epsilon=epsilon)


def _group_norm_by_group(n: OnnxNode) -> Expr:
    """Convert GroupNormalization of opset 18, which has one scale and shift per group."""
    groups = int(n.required("num_groups"))
    channels = n.size(n[0], 1)
    part = n.dim("floor_divide", channels, groups)
    both = [
        n.reshape(n.broadcast(n.expand(v, 1), [groups, part]), [channels]) for v in (n[1], n[2])
    ]
    return _grouped(n, both[0], both[1])


def _grouped(n: OnnxNode, gamma: Expr, beta: Expr) -> Expr:
    x, dtype = n[0], n.dtype(n[0])
    wide = dtype if int(n.attr("stash_type", 1)) != 1 else "float32"
    groups, epsilon = int(n.required("num_groups")), float(n.attr("epsilon", 1e-5))
    args = [n.cast(v, wide) for v in (x, gamma, beta)]
    made = op("nn.group_norm", *args, num_groups=groups, axis=1, epsilon=epsilon)
    return n.cast(made, dtype)


def _layer_norm(n: OnnxNode) -> Expr | list[Expr]:
    axis = n.axis_of(n[0], -1)
    wide = dtype_of(int(n.attr("stash_type", 1)))
    epsilon = float(n.attr("epsilon", 1e-5))
    if n.wants(1) or n.wants(2):
        return _layer_norm_with_statistics(n, axis, epsilon, wide)
    return layer_norm(n, n[0], n[1], n.get(2), axis, epsilon, wide)


def layer_norm(
    n: Calc, x: Expr, gamma: Expr, beta: Expr | None, axis: int, epsilon: float, wide: str = ""
) -> Expr:
    """Return ``x`` normalized over the axes from ``axis`` on, then scaled and shifted."""
    rank, dtype = n.rank(x), n.dtype(x)
    axis, wide = n.axis(axis, rank), wide or dtype
    own = n.literals(x)[axis:]
    if n.literals(gamma) != own or (beta is not None and n.literals(beta) != own):
        # The operator requires a scale and shift of the normalized shape; ONNX broadcasts them.
        shape = n.sizes(x)[axis:]
        gamma = n.broadcast(gamma, shape)
        beta = None if beta is None else n.broadcast(beta, shape)
    if beta is None:
        beta = n.full(0, n.sizes(x)[axis:], dtype)
    lead, sizes = n.sizes(x)[:axis], n.sizes(x)
    if axis < rank - 1:
        size = n.product(sizes[axis:])
        x = n.reshape(x, [*lead, size])
        gamma, beta = (n.reshape(v, [size]) for v in (gamma, beta))
    args = [n.cast(v, wide) for v in (x, gamma, beta)]
    made = n.cast(op("nn.layer_norm", *args, axis=-1, epsilon=epsilon), dtype)
    return n.reshape(made, sizes) if axis < rank - 1 else made


def _layer_norm_with_statistics(n: OnnxNode, axis: int, epsilon: float, wide: str) -> list[Expr]:
    x, dtype = n.cast(n[0], wide), n.dtype(n[0])
    axes = list(range(axis, n.rank(x)))
    mean = n.reduce("mean", x, axes, True)
    centred = x - mean
    variance = n.reduce("mean", centred * centred, axes, True)
    inverse = n.rsqrt(variance + epsilon)
    y = n.cast(centred * inverse, dtype) * n[1]
    return [n.plus(y, 2), mean, inverse]


def _rms_norm(n: OnnxNode) -> list[Expr] | Expr:
    axis = n.axis_of(n[0], -1)
    wide = dtype_of(int(n.attr("stash_type", 1)))
    y, inverse = rms_norm(n, n[0], n[1], axis, float(n.attr("epsilon", 1e-5)), wide)
    return [y, inverse] if len(n.outputs) > 1 else y


def rms_norm(
    n: Calc, x: Expr, gamma: Expr, axis: int, epsilon: float, wide: str = ""
) -> tuple[Expr, Expr]:
    """Return ``x`` divided by its root mean square and scaled, and the reciprocal root mean
    square.
    """
    dtype = n.dtype(x)
    big = n.cast(x, wide or dtype)
    axes = list(range(n.axis(axis, n.rank(x)), n.rank(x)))
    square = n.reduce("mean", big * big, axes, True)
    inverse = n.rsqrt(square + epsilon)
    return n.cast(big * inverse, dtype) * gamma, inverse


def _lp_norm(n: OnnxNode) -> Expr:
    x, p = n[0], int(n.attr("p", 2))
    axis = n.axis_of(x, -1)
    if p not in (1, 2):
        raise Unsupported(f"p: expected 1 or 2, found {p}")
    total = n.reduce("sum", n.abs(x) if p == 1 else x * x, [axis], True)
    norm = total if p == 1 else n.sqrt(total)
    return n.where(n.equal(norm, 0), n.like(0, x), x / norm)


def _mean_variance(n: OnnxNode) -> Expr:
    x = n[0]
    axes = [n.axis(int(a), n.rank(x)) for a in n.attr("axes", [0, 2, 3])]
    centred = x - n.reduce("mean", x, axes, True)
    variance = n.reduce("mean", centred * centred, axes, True)
    return centred / (n.sqrt(variance) + 1e-9)


def _lrn(n: OnnxNode) -> Expr:
    """Convert LRN over channels; a window of even size has one more channel after than before."""
    x, size = n[0], int(n.required("size"))
    alpha, beta = float(n.attr("alpha", 1e-4)), float(n.attr("beta", 0.75))
    bias = float(n.attr("bias", 1.0))
    if size % 2:
        return op("nn.lrn", x, size=size, axis=1, alpha=alpha, beta=beta, bias=bias)
    before, rank = (size - 1) // 2, n.rank(x)
    widths = [(before, size - 1 - before) if a == 1 else (0, 0) for a in range(rank)]
    square, channels = n.pad(x * x, widths, 0), n.size(x, 1)
    total = n.slice(square, 1, 0, channels)
    for k in range(1, size):
        total = total + n.slice(square, 1, k, n.dim("add", channels, k))
    return x / (total * (alpha / size) + bias) ** n.like(beta, x)


ROWS: tuple[Row, ...] = (
    Row("BatchNormalization", _batch_norm),
    Row("InstanceNormalization", _instance_norm),
    Row("GroupNormalization", _group_norm_by_group, since=18),
    Row("GroupNormalization", lambda n: _grouped(n, n[1], n[2]), since=21),
    Row("LayerNormalization", _layer_norm),
    Row("RMSNormalization SimplifiedLayerNormalization", _rms_norm),
    Row("LpNormalization", _lp_norm),
    Row("MeanVarianceNormalization", _mean_variance),
    Row("LRN", _lrn),
)

__all__ = ["ROWS", "layer_norm", "rms_norm"]
