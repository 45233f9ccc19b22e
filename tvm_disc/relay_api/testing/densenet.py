"""DenseNet: every layer of a block reads the outputs of all layers before it."""

from __future__ import annotations

from dataclasses import replace

from tvm_disc.errors import BadNode, shown
from tvm_disc.relay.expr import Function, Tuple
from tvm_disc.relay_api.op import function as op
from tvm_disc.relay_api.testing.init import create_workload
from tvm_disc.relay_api.testing.layers import ImageExpr, batch_norm, classified, conv, image, pool

# Number of layers -> (initial channels, channels added per layer, layers per block).
_SIZES = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}
_NARROW = 4  # bottleneck channels of a layer, as a multiple of the channels that it adds


def _layer(x: ImageExpr, name: str, growth: int) -> ImageExpr:
    y = batch_norm(x, f"{name}_batch1").then("relu")
    y = conv(y, f"{name}_conv1_weight", _NARROW * growth, (1, 1))
    y = batch_norm(y, f"{name}_batch2").then("relu")
    y = conv(y, f"{name}_conv2_weight", growth, (3, 3), (1, 1), (1, 1))
    joined = op("concatenate")(Tuple((x.expr, y.expr)), axis=1)
    return replace(x, expr=joined, channels=x.channels + growth)


def get_net(
    densenet_size: int,
    classes: int,
    batch_size: int,
    image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32",
) -> Function:
    """Return a function of ``data`` and weights.

    Raises:
        BadNode: there is no DenseNet with this number of layers.
    """
    if densenet_size not in _SIZES:
        known = ", ".join(map(str, _SIZES))
        raise BadNode(f"densenet: expected one of {known} layers, found {shown(densenet_size)}")
    first, growth, blocks = _SIZES[densenet_size]
    x = image(batch_size, image_shape, dtype)
    x = conv(x, "conv1_weight", first, (7, 7), (2, 2), (3, 3))
    x = pool(batch_norm(x, "batch1").then("relu"), "max", (3, 3), (2, 2), (1, 1))
    for number, layers in enumerate(blocks, 1):
        for k in range(layers):
            x = _layer(x, f"block{number}_layer{k + 1}", growth)
        x = batch_norm(x, f"transition{number}_batch").then("relu")
        if number < len(blocks):
            x = conv(x, f"transition{number}_conv_weight", x.channels // 2, (1, 1))
            x = pool(x, "avg", (2, 2), (2, 2))
    return classified(x, classes, dtype=dtype)


def get_workload(
    densenet_size: int = 121,
    classes: int = 1000,
    batch_size: int = 4,
    image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32",
) -> object:
    """Return (module, weights)."""
    return create_workload(get_net(densenet_size, classes, batch_size, image_shape, dtype))
