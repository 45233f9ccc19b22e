"""A multilayer perceptron of three dense layers."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from tvm_disc.relay.builder import var
from tvm_disc.relay.expr import Function
from tvm_disc.relay_api import nn
from tvm_disc.relay_api.testing.init import create_workload
from tvm_disc.relay_api.testing.layers import closed, dense
from tvm_disc.typing import Array

if TYPE_CHECKING:
    from tvm_disc.relay.module import IRModule


def get_net(
    batch_size: Any,
    num_classes: int = 10,
    image_shape: tuple[int, ...] = (1, 28, 28),
    dtype: str = "float32",
) -> Function:
    """Return a function of ``data`` and weights; ``batch_size`` may be ``relay.Any()``."""
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    rows = nn.batch_flatten(data)
    first = nn.relu(dense(rows, "fc1", prod(image_shape), 128, dtype=dtype))
    second = nn.relu(dense(first, "fc2", 128, 64, dtype=dtype))
    return closed(nn.softmax(dense(second, "fc3", 64, num_classes, dtype=dtype)))


def get_workload(
    batch_size: object,
    num_classes: int = 10,
    image_shape: tuple[int, ...] = (1, 28, 28),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, Array]]:
    """Return (module, weights)."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
