"""Models whose layers read all before them: built in time that grows with their number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay

N = relay.Any()
CHAIN = 20


def weights(*shape: int) -> Any:
    """A constant."""
    rng = np.random.default_rng(0)
    return relay.const((rng.standard_normal(shape) * 0.1).astype("float32"))


def densenet(blocks: tuple[int, ...], growth: int = 8) -> relay.Function:
    """Blocks whose layers append to what they read, with a smaller image after each."""
    x, channels = relay.var("x", shape=(N, 3, N, N)), 2 * growth

    def active(value: Any, count: int) -> Any:
        return relay.nn.relu(relay.add(relay.multiply(value, weights(count, 1, 1)), weights(1)))

    y = relay.nn.conv2d(x, weights(channels, 3, 3, 3), padding=(1, 1))
    for layers in blocks:
        for _ in range(layers):
            z = relay.nn.conv2d(active(y, channels), weights(growth, channels, 1, 1))
            y, channels = relay.concatenate([y, z], axis=1), channels + growth
        y = relay.nn.conv2d(active(y, channels), weights(channels // 2, channels, 1, 1))
        y, channels = relay.nn.avg_pool2d(y, pool_size=(2, 2), strides=(2, 2)), channels // 2
    return relay.Function([x], relay.nn.global_avg_pool2d(active(y, channels)))


def test_a_network_of_growing_joins() -> None:
    executable = tvm_disc.build(densenet((2, 3, 3)))
    formula = executable._manifest["workspace_bytes"]
    assert len(formula) < 20_000
    for size in (32, 48):
        assert executable.workspace_bytes({"x": (1, 3, size, size)}) > 0
        assert np.isfinite(executable(np.ones((1, 3, size, size), "float32"))).all()


STEPS = {
    "products": lambda z, q: relay.add(relay.multiply(z, q), relay.multiply(z, z)),
    "extrema": lambda z, q: relay.add(relay.maximum(z, q), relay.minimum(z, q)),
    "choices": lambda z, q: relay.where(relay.less(z, q), relay.add(z, z), relay.subtract(z, q)),
}


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("name", STEPS)
def test_a_chain_in_which_every_value_is_used_twice(name: str, dtype: str) -> None:
    """One kernel; written out it would have 2^20 parts."""
    p, q = (relay.var(n, shape=(N, N), dtype=dtype) for n in "pq")
    value: Any = p
    for _ in range(CHAIN):
        value = STEPS[name](value, q)
    executable = tvm_disc.build(relay.Function([p, q], value))
    assert len(executable.launches) == 1
    numbers = np.zeros((3, 4), dtype)
    np.testing.assert_array_equal(executable(numbers, numbers), numbers)
