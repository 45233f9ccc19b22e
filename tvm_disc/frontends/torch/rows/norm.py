"""Converters of normalization operators and softmax."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_disc.frontends.torch.maker import Maker
from tvm_disc.frontends.torch.rows.reduce import moments
from tvm_disc.frontends.torch.values import Dim, Value

Row = Callable[..., Any]


def _soft(name: str) -> Row:
    def row(m: Maker, x: Value, dim: int, *args: object, **kwargs: object) -> Value:
        x = m.cast(x, m.out_dtype)
        if x.rank == 0:
            return m.reshape(_over(m, name, m.reshape(x, [1]), 0), ())
        return _over(m, name, x, dim % x.rank)

    return row


def _over(m: Maker, name: str, x: Value, axis: int) -> Value:
    return Value(m.call(name, x, axis=axis), x.dtype, x.dims)


def _safe_softmax(m: Maker, x: Value, dim: int, dtype: object = None) -> Value:
    """Return a softmax along ``dim`` that is 0 if all its elements are -inf."""
    x = m.cast(x, m.out_dtype)
    found = _over(m, "nn.softmax", x, dim % x.rank)
    seen = m.reduce("any", m.not_equal(x, float("-inf")), [dim], True)
    return m.where(seen, found, 0.0)


def _vector(m: Maker, given: Value | None, size: Dim, value: float, dtype: str) -> Value:
    return m.full(value, [size], dtype) if given is None else m.cast(m.flat(given), dtype)


def layer_norm(
    m: Maker, x: Value, shape: Sequence[Dim], weight: Value | None, bias: Value | None, eps: float
) -> Value:
    """Return layer normalization over the last ``len(shape)`` axes."""
    count, dims = len(shape), x.dims
    line = m.reshape(x, [*dims[: x.rank - count], m.product(dims[x.rank - count :])])
    size = line.dims[-1]
    dtype = x.dtype
    made = m.call(
        "nn.layer_norm",
        line,
        _vector(m, weight, size, 1.0, dtype),
        _vector(m, bias, size, 0.0, dtype),
        axis=line.rank - 1,
        epsilon=float(eps),
        center=bias is not None,
        scale=weight is not None,
    )
    return m.reshape(Value(made, dtype, line.dims), dims)


def _layer_norm(
    m: Maker,
    x: Value,
    shape: Sequence[Dim],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    *args: object,
) -> Value:
    return layer_norm(m, x, shape, weight, bias, eps)


def _statistics(m: Maker, x: Value, axes: Sequence[int], eps: float) -> tuple[Value, Value]:
    """Return the mean and the reciprocal standard deviation; reduced axes have length 1."""
    variance, mean = moments(m, x, axes, 0.0, True)
    return mean, m.rsqrt(variance + eps)


def _native_layer_norm(
    m: Maker, x: Value, shape: Sequence[Dim], weight: Value | None, bias: Value | None, eps: float
) -> tuple[object, ...]:
    made = layer_norm(m, x, shape, weight, bias, eps)
    if not (m.used(1) or m.used(2)):
        return made, None, None
    axes = list(range(x.rank - len(shape), x.rank))
    return made, *_statistics(m, x, axes, eps)


def _group_norm(
    m: Maker,
    x: Value,
    groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    *args: object,
) -> Value:
    channels = x.dims[1]
    made = m.call(
        "nn.group_norm",
        x,
        _vector(m, weight, channels, 1.0, x.dtype),
        _vector(m, bias, channels, 0.0, x.dtype),
        num_groups=groups,
        axis=1,
        epsilon=float(eps),
        center=bias is not None,
        scale=weight is not None,
    )
    return Value(made, x.dtype, x.dims)


def _native_group_norm(
    m: Maker,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    n: Dim,
    c: Dim,
    hw: Dim,
    group: int,
    eps: float,
) -> tuple[object, ...]:
    made = _group_norm(m, x, group, weight, bias, eps)
    if not (m.used(1) or m.used(2)):
        return made, None, None
    split = m.reshape(x, [n, group, m.quotient(c, group) * hw])
    mean, scale = _statistics(m, split, [2], eps)
    return made, m.squeeze(mean, [2]), m.squeeze(scale, [2])


def _instance_norm(
    m: Maker,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Value:
    channels = x.dims[1]
    scale = _vector(m, weight, channels, 1.0, x.dtype)
    shift = _vector(m, bias, channels, 0.0, x.dtype)
    if not use_input_stats:
        assert running_mean is not None and running_var is not None
        return inference_norm(m, x, weight, bias, running_mean, running_var, eps)
    made = m.call(
        "nn.instance_norm", x, scale, shift, axis=1, epsilon=float(eps), center=True, scale=True
    )
    return Value(made, x.dtype, x.dims)


def inference_norm(
    m: Maker,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    variance: Value,
    eps: float,
) -> Value:
    """Return batch normalization by the given mean and variance."""
    channels, dtype = x.dims[1], mean.dtype
    wide = m.cast(x, dtype)
    if x.rank == 1:
        wide = m.expand(wide, 1)
    made = m.call(
        "nn.batch_norm",
        wide,
        _vector(m, weight, channels, 1.0, dtype),
        _vector(m, bias, channels, 0.0, dtype),
        mean,
        variance,
        axis=1,
        epsilon=float(eps),
        center=bias is not None,
        scale=weight is not None,
    )
    return m.cast(m.field(made, 0, dtype, wide.dims), x.dtype)


def _no_training(
    m: Maker,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    variance: Value,
    momentum: float,
    eps: float,
) -> tuple[object, ...]:
    made = inference_norm(m, x, weight, bias, mean, variance, eps)
    return _first_of(m, made)


def _first_of(m: Maker, made: Value) -> tuple[object, ...]:
    """Return the first result, and empty tensors or None for results that only a gradient reads."""
    rest = [m.full(0, (0,), made.dtype) if m.used(k) else None for k in range(1, len(m.out))]
    return (made, *rest)


def _batch_norm(
    m: Maker,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    variance: Value | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Value:
    if not training:
        assert mean is not None and variance is not None
        return inference_norm(m, x, weight, bias, mean, variance, eps)
    return _by_batch(m, x, weight, bias, eps)[0]


def _by_batch(
    m: Maker, x: Value, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    """Return ``x`` normalized by the batch's statistics, the mean, and the reciprocal standard
    deviation.
    """
    axes = [a for a in range(x.rank) if a != 1]
    mean, scale = _statistics(m, x, axes, eps)
    y = (x - mean) * scale
    if weight is not None:
        y = y * m.along(m.cast(weight, x.dtype), 1, x.rank)
    if bias is not None:
        y = y + m.along(m.cast(bias, x.dtype), 1, x.rank)
    return y, m.squeeze(mean, axes), m.squeeze(scale, axes)


def _legit_no_stats(
    m: Maker,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[object, ...]:
    return _by_batch(m, x, weight, bias, eps)


def _functional_batch_norm(
    m: Maker, x: Value, weight: Value | None, bias: Value | None, mean: Value, variance: Value,
    training: bool, momentum: float, eps: float,
) -> tuple[object, ...]:  # fmt: skip
    """Return batch normalization that also returns the running statistics, updated in training."""
    if not training:
        made = inference_norm(m, x, weight, bias, mean, variance, eps)
        return (*_first_of(m, made)[:3], mean, variance)
    y, own_mean, scale = _by_batch(m, x, weight, bias, eps)
    axes = [a for a in range(x.rank) if a != 1]
    spread, _ = moments(m, x, axes, 1.0, False)
    kept = [_moved(m, old, new, momentum) for old, new in ((mean, own_mean), (variance, spread))]
    return (y, own_mean, scale, *kept)


def _moved(m: Maker, old: Value, new: Value, momentum: float) -> Value:
    part = m.cast(new, old.dtype) * momentum
    return old * (1 - momentum) + part


def _rms_norm(
    m: Maker, x: Value, shape: Sequence[Dim], weight: Value | None = None, eps: float | None = None
) -> Value:
    wide = "float32" if x.dtype in ("float16", "bfloat16") else x.dtype
    y = m.cast(x, wide)
    axes = list(range(x.rank - len(shape), x.rank))
    mean = m.reduce("mean", y * y, axes, True)
    import torch

    least = torch.finfo(getattr(torch, x.dtype)).eps if eps is None else eps
    y = y * m.rsqrt(mean + float(least))
    if weight is not None:
        y = y * m.cast(weight, wide)
    return m.cast(y, m.out_dtype)


ROWS: Mapping[str, Row] = {
    "_softmax.default": _soft("nn.softmax"),
    "softmax.int": _soft("nn.softmax"),
    "_log_softmax.default": _soft("nn.log_softmax"),
    "log_softmax.int": _soft("nn.log_softmax"),
    "_safe_softmax.default": _safe_softmax,
    "layer_norm.default": _layer_norm,
    "native_layer_norm.default": _native_layer_norm,
    "group_norm.default": _group_norm,
    "native_group_norm.default": _native_group_norm,
    "instance_norm.default": _instance_norm,
    "batch_norm.default": _batch_norm,
    "_native_batch_norm_legit_no_training.default": _no_training,
    "_native_batch_norm_legit.no_stats": _legit_no_stats,
    "_native_batch_norm_legit_functional.default": _functional_batch_norm,
    "rms_norm.default": _rms_norm,
}
