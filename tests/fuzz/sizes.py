"""Steps of a random module that compute a size: below zero for some shapes of the inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.fuzz.values import Value
from tvm_disc import relay

if TYPE_CHECKING:
    from tests.fuzz.maker import Maker


def step(m: Maker) -> Value | None:
    """Add a result whose size is arithmetic on the dims of a value; None if none has dims."""
    ranked = [v for v in m.pool if v.dims]
    if not ranked:
        return None
    value = m.latest(ranked)[0]
    return m.add(_taker(m, value, _size(m, value)), int(m.flip(0.3)))


def _size(m: Maker, value: Value) -> Any:
    """A vector of one size, not negative for the dims of most worlds."""
    axis = m.random.randrange(len(value.dims))
    dims = relay.op.shape_of(value.expr, dtype="int64")
    size = relay.strided_slice(dims, [axis], [axis + 1], [1])
    known = [d for d in value.dims[axis] if d >= 0] or [1]
    kind = m.random.randrange(5)
    few = m.random.choice((min(known), min(known), max(known), 1, 3))
    if kind == 0:
        return relay.op.subtract(size, _const(few))
    if kind == 1:
        return relay.op.subtract(_const(few), size)
    if kind == 2:
        twice = relay.op.multiply(size, _const(2))
        return relay.op.subtract(twice, _const(m.random.choice((1, few, 2 * few))))
    if kind == 3:
        half = relay.op.floor_divide(size, _const(2))
        return relay.op.subtract(half, _const(m.random.choice((0, 1, few // 2))))
    least = relay.op.minimum if m.flip() else relay.op.maximum
    return relay.op.subtract(least(size, _const(few)), _const(m.random.choice((0, 1, few))))


def _taker(m: Maker, value: Value, size: Any) -> Any:
    """An operator that takes a size."""
    flat = relay.reshape(relay.op.cast(value.expr, "float32"), (-1,))
    kind = m.random.randrange(7)
    if kind == 0:
        return relay.zeros(size, "float32")
    if kind == 1:
        return relay.op.sum(relay.ones(relay.concatenate([size, size], axis=0), "float32"))
    if kind == 2:
        return relay.broadcast_to(relay.const(np.ones(1, "float32")), size)
    if kind == 3:
        return relay.tile(relay.const(np.arange(3, dtype="float32")), size)
    if kind == 4:
        return relay.strided_slice(flat, _const(0), size, _const(1))
    if kind == 5:
        return relay.strided_slice(flat, size, _const(1 << 30), _const(1))
    both = [size, _const(0)] if m.flip() else [_const(0), size]
    widths = relay.reshape(relay.concatenate(both, axis=0), (1, 2))
    return relay.nn.pad(flat, widths, relay.const(np.float32(2)))


def _const(number: int) -> Any:
    return relay.const(np.array([number], "int64"))


__all__ = ["step"]
