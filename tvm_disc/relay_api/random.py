"""``relay.random.*``: counter-based random numbers and their initial key."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_disc.relay.builder import call, const
from tvm_disc.relay.expr import Call, Constant, ExprLike
from tvm_disc.relay_api import op


def __getattr__(name: str) -> Any:
    return op.member("random", name)


def threefry_key(seed: int) -> Constant:
    """Return the initial key of a seed."""
    return Constant(np.array([seed, 0, 0, 0, 0, 0, 0, 0, 1 << 63, 0], "uint64"))


def uniform(
    key: ExprLike, shape: object, dtype: str = "float32", low: object = 0.0, high: object = 1.0
) -> Call:
    """Return (next key, uniform random numbers from ``low`` to ``high``)."""
    args = (key, _number(low, dtype), _number(high, dtype))
    return call("random.uniform", args, out_shape=shape, out_dtype=dtype)


def normal(
    key: ExprLike, shape: object, dtype: str = "float32", mean: object = 0.0, scale: object = 1.0
) -> Call:
    """Return (next key, normally distributed random numbers)."""
    args = (key, _number(mean, dtype), _number(scale, dtype))
    return call("random.normal", args, out_shape=shape, out_dtype=dtype)


def _number(value: Any, dtype: str) -> ExprLike:
    return value if op.is_expr(value) else const(value, dtype)


__all__ = ["normal", "threefry_key", "uniform"]
