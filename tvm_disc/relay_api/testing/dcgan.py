"""DCGAN's generator: transposed convolutions turn a random vector into an image."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tvm_disc.errors import BadNode, shown
from tvm_disc.relay.builder import var
from tvm_disc.relay.expr import Function
from tvm_disc.relay_api import nn
from tvm_disc.relay_api.op import function as op
from tvm_disc.relay_api.testing.init import create_workload
from tvm_disc.relay_api.testing.layers import ImageExpr, batch_norm, closed, weight
from tvm_disc.typing import Array

if TYPE_CHECKING:
    from tvm_disc.relay.module import IRModule


_FIRST = 4  # height and width of the smallest image


def _doubled(x: ImageExpr, name: str, channels: int) -> ImageExpr:
    """Return a transposed convolution that doubles height and width."""
    w = weight(name, (x.channels, channels, 4, 4), x.dtype)
    window = {"channels": channels, "kernel_size": (4, 4), "strides": (2, 2), "padding": (1, 1)}
    size = (2 * x.size[0], 2 * x.size[1])
    return ImageExpr(nn.conv2d_transpose(x.expr, w, **window), channels, size, x.dtype)


def get_net(
    batch_size: int,
    random_len: int = 100,
    oshape: tuple[int, int, int] = (3, 64, 64),
    ngf: int = 128,
    code: object = None,
    dtype: str = "float32",
) -> Function:
    """Return a function of ``data`` (``random_len`` numbers per image) and weights.

    Raises:
        BadNode: the image size is not 64 x 64.
    """
    if tuple(oshape[1:]) != (64, 64):
        raise BadNode(f"dcgan: expected images of 64 x 64, found {shown(oshape)}")
    data = var("data", shape=(batch_size, random_len), dtype=dtype)
    units = _FIRST * _FIRST * ngf * 8
    rows = nn.dense(data, weight("dense_weight", (units, random_len), dtype), units=units)
    image = op("reshape")(nn.relu(rows), newshape=(-1, ngf * 8, _FIRST, _FIRST))
    x = ImageExpr(image, ngf * 8, (_FIRST, _FIRST), dtype)
    for number, channels in ((2, ngf * 4), (3, ngf * 2), (4, ngf)):
        made = _doubled(x, f"g{number}_deconv_weight", channels)
        x = batch_norm(made, f"g{number}_batch_norm", scale=False).then("relu")
    last = _doubled(x, "g5_deconv_weight", oshape[0])
    return closed(replace(last, expr=op("tanh")(last.expr)).expr)


def get_workload(
    batch_size: int,
    oshape: tuple[int, int, int] = (3, 64, 64),
    ngf: int = 128,
    random_len: int = 100,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, Array]]:
    """Return (module, weights).

    Raises:
        BadNode: the layout is not NCHW; ``relay.transform.ConvertLayout`` converts.
    """
    if layout != "NCHW":
        raise BadNode(
            f"dcgan: expected the layout NCHW, found {shown(layout)}; "
            "use relay.transform.ConvertLayout"
        )
    return create_workload(get_net(batch_size, random_len, oshape, ngf, dtype=dtype))
