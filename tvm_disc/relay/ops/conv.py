"""Rows of convolution operators."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import OpRow, Pattern, Sample
from .window_attrs import conv_attrs

image = References("image")
ref = References("nn")

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "nn.conv1d",
        ("data", "weight"),
        conv_attrs(1),
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.conv.of(1),
        samples=(
            Sample(
                (
                    ("n", 4, "w", "float32"),
                    (6, 2, 3, "float32"),
                ),
                ("n", 6, "(w+1)//2"),
                {"strides": (2,), "padding": (1, 1), "groups": 2},
                sizes=((1, 3), (2, 8), (3, 9)),
            ),
        ),
    ),
    OpRow(
        "nn.conv1d_transpose",
        ("data", "weight"),
        conv_attrs(1, transposed=True),
        Pattern.OUT_ELEMWISE,
        True,
        reference=image.conv_transpose.of(1),
        samples=(
            Sample(
                (("n", 4, "w", "float32"), (4, 3, 3, "float32")),
                ("n", 3, "w*2"),
                {"strides": (2,), "padding": (1, 1), "output_padding": (1,)},
                sizes=((1, 3), (2, 8), (3, 5)),
            ),
        ),
    ),
    OpRow(
        "nn.conv2d",
        ("data", "weight"),
        conv_attrs(2),
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.conv.of(2),
        samples=(
            Sample(
                (
                    ("n", 3, "h", "w", "float32"),
                    (4, 3, 3, 3, "float32"),
                ),
                ("n", 4, "h", "w"),
                {"padding": (1, 0, 1, 2)},
                sizes=((1, 3, 4), (2, 8, 5)),
            ),
            Sample(
                (("n", 3, 2, 2, "float32"), (4, 3, 1, 1, "float32")),
                ("n", 4, 2, 2),
                {},
                sizes=((1,), (5,)),
            ),
            Sample(
                (
                    ("n", 4, "h", "w", "float32"),
                    (4, 1, 3, 3, "float32"),
                ),
                ("n", 4, "(h-5)//2+1", "(w-5)//2+1"),
                {"strides": (2, 2), "dilation": (2, 2), "groups": 4},
                sizes=((1, 5, 6), (2, 8, 9)),
            ),
            Sample(
                (
                    ("n", "h", "w", 3, "float32"),
                    (1, 1, 3, 4, "float32"),
                ),
                ("n", "h", "w", 4),
                {"data_layout": "NHWC", "kernel_layout": "HWIO"},
                sizes=((1, 5, 6), (2, 8, 9)),
            ),
        ),
    ),
    OpRow(
        "nn.conv2d_transpose",
        ("data", "weight"),
        conv_attrs(2, transposed=True),
        Pattern.OUT_ELEMWISE,
        True,
        reference=image.conv_transpose.of(2),
        samples=(
            Sample(
                (("n", 4, "h", "w", "float32"), (4, 3, 3, 3, "float32")),
                ("n", 3, "h*2", "w*2"),
                {"strides": (2, 2), "padding": (1, 1, 1, 1), "output_padding": (1, 1)},
                sizes=((1, 3, 4), (2, 5, 3)),
            ),
            Sample(
                (("n", 4, "h", "w", "float32"), (4, 2, 2, 3, "float32")),
                ("n", 4, "h+1", "w+4"),
                {"dilation": (1, 2), "groups": 2},
                sizes=((1, 3, 4), (2, 5, 3)),
            ),
        ),
    ),
    OpRow(
        "nn.conv3d",
        ("data", "weight"),
        conv_attrs(3),
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.conv.of(3),
        samples=(
            Sample(
                (
                    ("n", 2, "d", "h", "w", "float32"),
                    (3, 2, 3, 3, 3, "float32"),
                ),
                ("n", 3, "d", "h", "w"),
                {"padding": (1, 1, 1)},
                sizes=((1, 2, 3, 4), (2, 3, 5, 4)),
            ),
        ),
    ),
    OpRow(
        "nn.conv3d_transpose",
        ("data", "weight"),
        conv_attrs(3, transposed=True),
        Pattern.OUT_ELEMWISE,
        False,
        reference=image.conv_transpose.of(3),
        samples=(
            Sample(
                (("n", 2, "d", "h", "w", "float32"), (2, 3, 2, 2, 2, "float32")),
                ("n", 3, "d*2", "h*2", "w*2"),
                {"strides": (2, 2, 2)},
                sizes=((1, 2, 3, 4), (2, 1, 3, 2)),
            ),
        ),
    ),
)
