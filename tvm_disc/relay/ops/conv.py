"""Rows of convolution operators."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import OUT_ELEMWISE, OpRow, op
from .window_attrs import conv_attrs

image = References("image")
ref = References("nn")

ROWS: tuple[OpRow, ...] = (
    op("nn.conv1d", "data weight", OUT_ELEMWISE, ref.conv.of(1), conv_attrs(1)),
    op(
        "nn.conv1d_transpose",
        "data weight",
        OUT_ELEMWISE,
        image.conv_transpose.of(1),
        conv_attrs(1, transposed=True),
    ),
    op("nn.conv2d", "data weight", OUT_ELEMWISE, ref.conv.of(2), conv_attrs(2)),
    op(
        "nn.conv2d_transpose",
        "data weight",
        OUT_ELEMWISE,
        image.conv_transpose.of(2),
        conv_attrs(2, transposed=True),
    ),
    op("nn.conv3d", "data weight", OUT_ELEMWISE, ref.conv.of(3), conv_attrs(3)),
    op(
        "nn.conv3d_transpose",
        "data weight",
        OUT_ELEMWISE,
        image.conv_transpose.of(3),
        conv_attrs(3, transposed=True),
    ),
)
