"""Deep Q-network, which chooses the actions of a game."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm_disc.relay.expr import Function
from tvm_disc.relay_api import nn
from tvm_disc.relay_api.testing.init import create_workload
from tvm_disc.relay_api.testing.layers import closed, conv, dense, flat, image
from tvm_disc.typing import Array

if TYPE_CHECKING:
    from tvm_disc.relay.module import IRModule


def get_net(
    batch_size: Any,
    num_actions: int = 18,
    image_shape: tuple[int, int, int] = (4, 84, 84),
    dtype: str = "float32",
) -> Function:
    """Return a function of ``data`` and weights."""
    x = image(batch_size, image_shape, dtype)
    for number, (channels, kernel, stride) in enumerate(((32, 8, 4), (64, 4, 2), (64, 3, 1)), 1):
        name = f"conv{number}"
        window = (kernel, kernel), (stride, stride)
        x = conv(x, f"{name}_weight", channels, *window, bias=f"{name}_bias").then("relu")
    rows, length = flat(x)
    hidden = nn.relu(dense(rows, "dense1", length, 512, dtype=dtype))
    return closed(dense(hidden, "dense2", 512, num_actions, dtype=dtype))


def get_workload(
    batch_size: object,
    num_actions: int = 18,
    image_shape: tuple[int, int, int] = (4, 84, 84),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, Array]]:
    """Return (module, weights)."""
    return create_workload(get_net(batch_size, num_actions, image_shape, dtype))
