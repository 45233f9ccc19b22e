"""VGG: stages of 3 x 3 convolutions, then three dense layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm_disc.errors import BadNode
from tvm_disc.relay.expr import Function
from tvm_disc.relay_api import nn
from tvm_disc.relay_api.testing.init import create_workload
from tvm_disc.relay_api.testing.layers import (
    batch_norm,
    closed,
    conv,
    dense,
    dropped,
    flat,
    image,
    pool,
)
from tvm_disc.typing import Array

if TYPE_CHECKING:
    from tvm_disc.relay.module import IRModule


_LAYERS = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}


def get_net(
    batch_size: Any,
    image_shape: tuple[int, int, int],
    num_classes: int,
    dtype: str,
    num_layers: int = 11,
    batch_norms: bool = False,
) -> Function:
    """Return a function of ``data`` and weights.

    Raises:
        BadNode: the depth is not supported.
    """
    if num_layers not in _LAYERS:
        known = ", ".join(map(str, _LAYERS))
        raise BadNode(f"vgg: expected one of {known} layers, found {num_layers}")
    x = image(batch_size, image_shape, dtype)
    for stage, count in enumerate(_LAYERS[num_layers], 1):
        for layer in range(1, count + 1):
            name = f"conv{stage}_{layer}"
            channels = min(512, 64 << (stage - 1))
            x = conv(x, f"{name}_weight", channels, padding=(1, 1), bias=f"{name}_bias")
            x = batch_norm(x, f"bn{stage}_{layer}") if batch_norms else x
            x = x.then("relu")
        x = pool(x, "max", (2, 2), (2, 2))
    rows, length = flat(x)
    for name in ("fc6", "fc7"):
        rows = dropped(nn.relu(dense(rows, name, length, 4096, dtype=dtype)))
        length = 4096
    return closed(nn.softmax(dense(rows, "fc8", 4096, num_classes, dtype=dtype)))


def get_workload(
    batch_size: object,
    num_classes: int = 1000,
    image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32",
    num_layers: int = 11,
    batch_norm: bool = False,
) -> tuple[IRModule, dict[str, Array]]:
    """Return (module, weights)."""
    net = get_net(batch_size, image_shape, num_classes, dtype, num_layers, batch_norm)
    return create_workload(net)
