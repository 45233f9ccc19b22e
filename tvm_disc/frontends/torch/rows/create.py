"""Converters of operators that create tensors from sizes and numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calls import is_float
from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.values import Value


def _filled(value: Value | float) -> Row:
    def row(m: Maker, *args: object, **kwargs: object) -> Value:
        return m.full(value, m.out_dims, m.out_dtype)

    return row


def _full(m: Maker, *args: Any, **kwargs: object) -> Value:
    """Return a tensor filled with the last argument; the others describe the result's type."""
    return m.full(args[-1], m.out_dims, m.out_dtype)


def _arange(m: Maker, *bounds: object, **kwargs: object) -> Value:
    start, end, step = {1: (0, *bounds, 1), 2: (*bounds, 1)}.get(len(bounds), bounds)[:3]
    return stepped(m, start, end, step)


def stepped(m: Maker, start: Any, end: object, step: Any) -> Value:
    """Return the vector ``start``, ``start + step``, ..., with the length of the node's result."""
    dtype, (size,) = m.out_dtype, m.out_dims
    known = all(isinstance(v, int | float) for v in (start, step)) and isinstance(size, int)
    if known and size <= 1 << 16:
        return m.literal(start + np.arange(size) * step, dtype)
    whole = not is_float(dtype) and all(not isinstance(v, float) for v in (start, end, step))
    if whole and isinstance(step, int):
        ends = [m.tensor(v, "int64") for v in (start, end, step)]
        made = m.call("arange", *ends, start=None, stop=None, step=None, dtype="int64")
        return m.cast(Value(made, "int64", (size,)), dtype)
    if whole:
        scaled = m.arange(size) * m.tensor(step, "int64")
        return m.cast(scaled + m.tensor(start, "int64"), dtype)
    places = m.arange(size, "float64")
    scaled = places * m.tensor(step, "float64")
    return m.cast(scaled + m.tensor(start, "float64"), dtype)


def _linspace(m: Maker, start: object, end: object, steps: int, **kwargs: object) -> Value:
    """Return evenly spaced numbers; each half is computed from its end, so both ends are exact."""
    dtype, (size,) = m.out_dtype, m.out_dims
    first, last = m.tensor(start, "float64"), m.tensor(end, "float64")
    gaps = m.maximum(m.tensor(size - 1, "float64"), 1.0)
    step = (last - first) / gaps
    places = m.arange(size)
    back = m.tensor(size - 1, "int64") - places
    up = m.cast(places, "float64") * step + first
    down = last - m.cast(back, "float64") * step
    near = places * 2 < m.tensor(size, "int64")
    return m.cast(m.where(near, up, down), dtype)


def _eye(m: Maker, *args: object, **kwargs: object) -> Value:
    rows, columns = m.out_dims
    same = m.equal(m.expand(m.arange(rows), 1), m.expand(m.arange(columns), 0))
    return m.cast(same, m.out_dtype)


def _triangle(find: Callable[..., Any]) -> Row:
    """Return the converter of tril_indices or triu_indices: rows and columns of a triangle.

    The size of the triangle must be known at compile time.
    """

    def row(m: Maker, rows: object, columns: object, offset: int = 0, **kwargs: object) -> Value:
        if not isinstance(rows, int) or not isinstance(columns, int):
            raise Unsupported(
                f"expected row and col as integers known at compile time, found {rows}, {columns}"
            )
        return m.literal(np.stack(find(rows, offset, columns)), m.out_dtype)

    return row


def _random(m: Maker, *args: object, **kwargs: object) -> Value:
    raise Unsupported(
        "random numbers are not supported; compute them outside and pass them as an input, or call "
        "eval() on the module if only training needs them"
    )


def _native_dropout(m: Maker, x: Value, p: float, train: bool | None) -> tuple[Value, object]:
    if train or train is None:
        _random(m)
    return x, m.full(True, x.dims, "bool") if m.used(1) else None


def _dropout(m: Maker, x: Value, p: float = 0.5, train: bool = True) -> Value:
    return _random(m) if train and p > 0 else x


_ZEROS = (
    "zeros.default zeros_like.default new_zeros.default empty.memory_format empty_strided.default "
    "empty_permuted.default empty_like.default new_empty.default new_empty_strided.default"
).split()
_ONES = "ones.default ones_like.default new_ones.default".split()
_FULL = "full.default full_like.default new_full.default fill.Scalar fill.Tensor".split()
_DROPOUTS = "dropout feature_dropout alpha_dropout feature_alpha_dropout".split()
_RANDOM = (
    "rand.default randn.default randint.default randint.low randperm.default rand_like.default "
    "randn_like.default randint_like.default bernoulli.default bernoulli.p multinomial.default "
    "normal.Tensor_float normal.float_Tensor normal.Tensor_Tensor normal_functional.default "
    "uniform.default exponential.default poisson.default"
).split()

ROWS: Mapping[str, Row] = {
    **dict.fromkeys(_ZEROS, _filled(0)),
    **dict.fromkeys(_ONES, _filled(1)),
    **dict.fromkeys(_FULL, _full),
    "scalar_tensor.default": lambda m, value, **_: m.tensor(value, m.out_dtype),
    **{f"arange.{o}": _arange for o in ("default", "start", "start_step")},
    "linspace.default": _linspace,
    "eye.default": _eye,
    "eye.m": _eye,
    "tril_indices.default": _triangle(np.tril_indices),
    "triu_indices.default": _triangle(np.triu_indices),
    **dict.fromkeys(_RANDOM, _random),
    "native_dropout.default": _native_dropout,
    **{f"{name}.default": _dropout for name in _DROPOUTS},
}
