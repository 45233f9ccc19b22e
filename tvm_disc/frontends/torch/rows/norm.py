"""Converters of normalization operators and softmax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.rows.reduce import moments
from tvm_disc.frontends.torch.values import Dim, Value, wide_dtype


def _soft(name: str) -> Row:
    def row(m: Maker, x: Value, dim: int, *args: object, **kwargs: object) -> Value:
        x = m.cast(x, m.out_dtype)
        if x.rank == 0:
            return m.reshape(m.call_like(name, m.line(x), axis=0), ())
        return m.call_like(name, x, axis=dim % x.rank)

    return row


def _safe_softmax(m: Maker, x: Value, dim: int, dtype: object = None) -> Value:
    """Return a softmax along ``dim`` that is 0 if all its elements are -inf."""
    x = m.cast(x, m.out_dtype)
    found = m.call_like("nn.softmax", x, axis=dim % x.rank)
    seen = m.reduce("any", m.not_equal(x, float("-inf")), [dim], True)
    return m.where(seen, found, 0.0)


def _affine(
    m: Maker, weight: Value | None, bias: Value | None, size: Dim, dtype: str
) -> tuple[list[Value], dict[str, object]]:
    """Return the scale and shift of a normalization as vectors, and the attributes that tell
    whether the call applies them.
    """
    vectors = [
        m.full(value, [size], dtype) if given is None else m.cast(m.flat(given), dtype)
        for given, value in ((weight, 1.0), (bias, 0.0))
    ]
    return vectors, {"center": bias is not None, "scale": weight is not None}


def layer_norm(
    m: Maker,
    x: Value,
    shape: Sequence[Dim],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    *args: object,
) -> Value:
    """Return layer normalization over the last ``len(shape)`` axes."""
    first = x.rank - len(shape)
    line = m.reshape(x, [*x.dims[:first], m.product(x.dims[first:])])
    vectors, attrs = _affine(m, weight, bias, line.dims[-1], x.dtype)
    made = m.call_like("nn.layer_norm", line, *vectors, axis=first, epsilon=float(eps), **attrs)
    return m.reshape(made, x.dims)


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
    vectors, attrs = _affine(m, weight, bias, x.dims[1], x.dtype)
    attrs |= {"num_groups": groups, "axis": 1, "epsilon": float(eps)}
    return m.call_like("nn.group_norm", x, *vectors, **attrs)


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
    if not use_input_stats:
        assert running_mean is not None and running_var is not None
        return inference_norm(m, x, weight, bias, running_mean, running_var, eps)
    vectors, _ = _affine(m, weight, bias, x.dims[1], x.dtype)
    attrs = {"axis": 1, "epsilon": float(eps), "center": True, "scale": True}
    return m.call_like("nn.instance_norm", x, *vectors, **attrs)


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
    dtype = mean.dtype
    wide = m.cast(x, dtype)
    vectors, attrs = _affine(m, weight, bias, x.dims[1], dtype)
    attrs |= {"axis": 1, "epsilon": float(eps)}
    made = m.call("nn.batch_norm", wide, *vectors, mean, variance, **attrs)
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
    kept = [
        old * (1 - momentum) + m.cast(new, old.dtype) * momentum
        for old, new in ((mean, own_mean), (variance, spread))
    ]
    return (y, own_mean, scale, *kept)


def _rms_norm(
    m: Maker, x: Value, shape: Sequence[Dim], weight: Value | None = None, eps: float | None = None
) -> Value:
    wide = wide_dtype(x.dtype)
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
    "layer_norm.default": layer_norm,
    "native_layer_norm.default": _native_layer_norm,
    "group_norm.default": _group_norm,
    "native_group_norm.default": _native_group_norm,
    "instance_norm.default": _instance_norm,
    "batch_norm.default": _batch_norm,
    "_native_batch_norm_legit_no_training.default": _no_training,
    "_native_batch_norm_legit.no_stats": lambda m, x, w, b, *how: _by_batch(m, x, w, b, how[-1]),
    "_native_batch_norm_legit_functional.default": _functional_batch_norm,
    "rms_norm.default": _rms_norm,
}
