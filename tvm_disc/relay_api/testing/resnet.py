"""Residual networks of any depth, with normalization before each convolution."""

from __future__ import annotations

from tvm_disc.errors import BadNode, shown
from tvm_disc.relay.expr import Function
from tvm_disc.relay_api.testing.init import create_workload
from tvm_disc.relay_api.testing.layers import (
    ImageExpr,
    Pair,
    batch_norm,
    classified,
    conv,
    image,
    pool,
)

_UNITS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
    269: (3, 30, 48, 8),
}


def _unit(
    x: ImageExpr, name: str, channels: int, stride: Pair, same: bool, narrow: bool
) -> ImageExpr:
    first = batch_norm(x, f"{name}_bn1", 2e-5).then("relu")
    if narrow:
        y = conv(first, f"{name}_conv1_weight", channels // 4, (1, 1), stride)
        y = batch_norm(y, f"{name}_bn2", 2e-5).then("relu")
        y = conv(y, f"{name}_conv2_weight", channels // 4, (3, 3), (1, 1), (1, 1))
        y = batch_norm(y, f"{name}_bn3", 2e-5).then("relu")
        y = conv(y, f"{name}_conv3_weight", channels, (1, 1))
    else:
        y = conv(first, f"{name}_conv1_weight", channels, (3, 3), stride, (1, 1))
        y = batch_norm(y, f"{name}_bn2", 2e-5).then("relu")
        y = conv(y, f"{name}_conv2_weight", channels, (3, 3), (1, 1), (1, 1))
    short = x if same else conv(first, f"{name}_sc_weight", channels, (1, 1), stride)
    return ImageExpr(y.expr + short.expr, channels, y.size, x.dtype)


def get_net(
    batch_size: int,
    num_classes: int,
    num_layers: int = 50,
    image_shape: tuple[int, int, int] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """Return a function of ``data`` and weights; ``batch_size`` may be ``relay.Any()``.

    Raises:
        BadNode: the depth or the layout is not supported.
    """
    small = image_shape[1] <= 32
    if layout != "NCHW":
        raise BadNode(
            f"resnet: expected the layout NCHW, found {shown(layout)}; build chooses its own"
        )
    narrow = num_layers >= (164 if small else 50)
    if small:
        step = 9 if narrow else 6
        units, left = divmod(num_layers - 2, step)
        counts: tuple[int, ...] = (units,) * 3
        channels = [64, 128, 256] if narrow else [16, 32, 64]
        if left:
            raise BadNode(
                f"resnet: expected {step} * n + 2 layers for images of at most 32 rows, found "
                f"{num_layers}"
            )
    elif num_layers in _UNITS:
        counts, channels = _UNITS[num_layers], [64 * 2**k * (4 if narrow else 1) for k in range(4)]
    else:
        known = ", ".join(map(str, _UNITS))
        raise BadNode(f"resnet: expected one of {known} layers, found {num_layers}")
    x = batch_norm(image(batch_size, image_shape, dtype), "bn_data", 2e-5, scale=False)
    if small:
        x = conv(x, "conv0_weight", 16, (3, 3), (1, 1), (1, 1))
    else:
        x = conv(x, "conv0_weight", 64, (7, 7), (2, 2), (3, 3))
        x = batch_norm(x, "bn0", 2e-5).then("relu")
        x = pool(x, "max", (3, 3), (2, 2), (1, 1))
    for stage, count in enumerate(counts):
        for unit in range(count):
            stride = (2, 2) if unit == 0 and stage > 0 else (1, 1)
            name = f"stage{stage + 1}_unit{unit + 1}"
            x = _unit(x, name, channels[stage], stride, unit > 0, narrow)
    return classified(batch_norm(x, "bn1", 2e-5).then("relu"), num_classes, dtype=dtype)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: tuple[int, int, int] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
) -> object:
    """Return (module, weights)."""
    net = get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype)
    return create_workload(net)
