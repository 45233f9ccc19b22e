"""MobileNet: depthwise separable convolutions."""

from __future__ import annotations

from tvm_disc.errors import BadNode, shown
from tvm_disc.relay.expr import Function
from tvm_disc.relay_api.testing.init import create_workload
from tvm_disc.relay_api.testing.layers import ImageExpr, batch_norm, classified, conv, image

# (input channels, output channels, whether the stride is 2)
_BLOCKS = (
    (32, 64, False),
    (64, 128, True),
    (128, 128, False),
    (128, 256, True),
    (256, 256, False),
    (256, 512, True),
    *(((512, 512, False),) * 5),
    (512, 1024, True),
    (1024, 1024, False),
)


def _separable(x: ImageExpr, name: str, channels: int, stride: int) -> ImageExpr:
    x = conv(x, f"{name}_weight", x.channels, (3, 3), (stride, stride), (1, 1), x.channels)
    x = batch_norm(x, f"{name}_bn1").then("relu")
    x = conv(x, f"{name}_conv2_weight", channels, (1, 1))
    return batch_norm(x, f"{name}_bn2").then("relu")


def mobile_net(
    num_classes: int = 1000,
    data_shape: tuple[int, int, int, int] = (1, 3, 224, 224),
    dtype: str = "float32",
    alpha: float = 1.0,
    is_shallow: bool = False,
    layout: str = "NCHW",
) -> Function:
    """Return a function of ``data`` and weights; the batch may be ``relay.Any()``.

    Args:
        alpha: factor of all channel counts.
        is_shallow: leave out the five blocks in the middle.
    """
    if layout != "NCHW":
        raise BadNode(f"mobilenet: expected the layout NCHW, found {shown(layout)}")
    batch, *shape = data_shape
    x = conv(
        image(batch, shape, dtype),
        "conv_block_1_conv_weight",
        int(32 * alpha),
        stride=(2, 2),
        padding=(1, 1),
    )
    x = batch_norm(x, "conv_block_1_bn").then("relu")
    for number, (_, channels, halves) in enumerate(_BLOCKS, 1):
        if not (is_shallow and 7 <= number <= 11):
            stride = 2 if halves else 1
            x = _separable(x, f"separable_conv_block_{number}", int(channels * alpha), stride)
    return classified(x, num_classes, "fc", dtype)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> object:
    """Return (module, weights)."""
    return create_workload(
        mobile_net(num_classes, (batch_size, *image_shape), dtype, layout=layout)
    )
