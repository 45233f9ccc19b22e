"""SqueezeNet: a fire module squeezes channels and expands them by two parallel convolutions."""

from __future__ import annotations

from dataclasses import replace

from tvm_disc.errors import BadNode, shown
from tvm_disc.relay.expr import Function, Tuple
from tvm_disc.relay_api import nn
from tvm_disc.relay_api.op import function as op
from tvm_disc.relay_api.testing.init import create_workload
from tvm_disc.relay_api.testing.layers import ImageExpr, closed, conv, dropped, image, pool

_WIDTHS = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
# Indices of the fire modules that follow a pooling, by version.
_POOLS = {"1.0": (0, 3, 7), "1.1": (0, 2, 4)}


def _fire(x: ImageExpr, number: int, narrow: int, wide: int) -> ImageExpr:
    def part(y: ImageExpr, side: str, channels: int, kernel: int) -> ImageExpr:
        name = f"fire{number}_{side}_conv"
        around = (kernel // 2, kernel // 2)
        window = (kernel, kernel), (1, 1), around
        return conv(y, f"{name}_weight", channels, *window, bias=f"{name}_bias").then("relu")

    few = part(x, "input", narrow, 1)
    sides = part(few, "left", wide, 1), part(few, "right", wide, 3)
    joined = op("concatenate")(Tuple(tuple(s.expr for s in sides)), axis=1)
    return replace(sides[0], expr=joined, channels=2 * wide)


def get_net(
    batch_size: int,
    image_shape: tuple[int, int, int],
    num_classes: int,
    version: str,
    dtype: str,
) -> Function:
    """Return a function of ``data`` and weights.

    Raises:
        BadNode: there is no such version.
    """
    if version not in _POOLS:
        raise BadNode(f"squeezenet: expected version 1.0 or 1.1, found {shown(version)}")
    channels, kernel = (96, (7, 7)) if version == "1.0" else (64, (3, 3))
    padding = (3, 3) if version == "1.0" else (1, 1)
    x = conv(
        image(batch_size, image_shape, dtype),
        "conv1_weight",
        channels,
        kernel,
        (2, 2),
        padding,
        bias="conv1_bias",
    ).then("relu")
    for number, (narrow, wide) in enumerate(_WIDTHS):
        x = pool(x, "max", (3, 3), (2, 2)) if number in _POOLS[version] else x
        x = _fire(x, number + 1, narrow, wide)
    x = replace(x, expr=dropped(x.expr))
    x = conv(x, "conv_final_weight", num_classes, (1, 1), bias="conv_final_bias").then("relu")
    return closed(nn.softmax(nn.batch_flatten(nn.global_avg_pool2d(x.expr))))


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    version: str = "1.0",
    image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32",
) -> object:
    """Return (module, weights)."""
    return create_workload(get_net(batch_size, image_shape, num_classes, version, dtype))
