"""Rows of losses, gradients, and a buffer of the latest elements."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import REQUIRED, OpRow, Pattern, Sample
from .window_attrs import conv_attrs, pool_attrs

ref = References("loss")

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "nn.cross_entropy",
        ("predictions", "targets"),
        {},
        Pattern.OPAQUE,
        False,
        reference=ref.cross_entropy,
        samples=(
            Sample((("n", "m", "float32"), ("n", "m", "float32")), (), {}, ranges={0: (0.1, 1)}),
        ),
    ),
    OpRow(
        "nn.cross_entropy_with_logits",
        ("predictions", "targets"),
        {},
        Pattern.OPAQUE,
        False,
        reference=ref.cross_entropy_with_logits,
        samples=(Sample((("n", "c", "float32"), ("n", "c", "float32")), ()),),
    ),
    OpRow(
        "nn.nll_loss",
        ("predictions", "targets", "weights"),
        {"reduction": "mean", "ignore_index": REQUIRED},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.nll_loss,
        samples=(
            Sample(
                (("n", 5, "float32"), ("n", "int32"), (5, "float32")),
                (),
                {"reduction": "mean", "ignore_index": -100},
                ranges={1: (0, 5), 2: (0.5, 1)},
            ),
            Sample(
                (("n", 5, "h", "float32"), ("n", "h", "int64"), (5, "float32")),
                ("n", "h"),
                {"reduction": "none", "ignore_index": 2},
                ranges={1: (0, 5)},
            ),
            Sample(
                (("n", 5, "h", "float32"), ("n", "h", "int32"), (5, "float32")),
                (),
                {"reduction": "sum", "ignore_index": 2},
                ranges={1: (0, 5)},
            ),
        ),
    ),
    OpRow(
        "nn.max_pool2d_grad",
        ("out_grad", "data"),
        pool_attrs(2, average=False),
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.max_pool2d_grad,
        samples=(
            Sample(
                (("b", "c", 4, 4, "float32"), ("b", "c", 8, 8, "float32")),
                ("b", "c", 8, 8),
                {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1)},
            ),
            Sample(
                (("b", "g", 4, 2, "float32"), ("b", "g+1", 5, 2, "float32")),
                ("b", "g+1", 5, 2),
                {"pool_size": (2, 2), "layout": "NHWC"},
                sizes=((1, 2), (2, 8)),
            ),
        ),
    ),
    OpRow(
        "nn.avg_pool2d_grad",
        ("out_grad", "data"),
        pool_attrs(2, average=True),
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.avg_pool2d_grad,
        samples=(
            Sample(
                (("b", "c", 4, 4, "float32"), ("b", "c", 8, 8, "float32")),
                ("b", "c", 8, 8),
                {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1)},
            ),
            Sample(
                (("b", "c", 4, 4, "float32"), ("b", "c", 8, 8, "float32")),
                ("b", "c", 8, 8),
                {
                    "pool_size": (3, 3),
                    "strides": (2, 2),
                    "padding": (1, 1),
                    "count_include_pad": True,
                },
            ),
        ),
    ),
    OpRow(
        "nn.conv2d_backward_weight",
        ("grad", "data"),
        conv_attrs(2),
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.conv2d_backward_weight,
        samples=(
            Sample(
                (("b", 4, 4, 4, "float32"), ("b", 3, 8, 8, "float32")),
                (4, 3, 3, 3),
                {"strides": (2, 2), "padding": (1, 1), "channels": 4, "kernel_size": (3, 3)},
            ),
            Sample(
                (("b", 6, 6, 4, "float32"), ("b", 8, 8, 3, "float32")),
                (4, 3, 3, 3),
                {
                    "kernel_size": (3, 3),
                    "data_layout": "NHWC",
                    "kernel_layout": "NHWC",
                    "out_layout": "OHWI",
                },
            ),
        ),
    ),
    OpRow(
        "nn.fifo_buffer",
        ("data", "buffer"),
        {"axis": 0},
        Pattern.OPAQUE,
        False,
        reference=ref.fifo_buffer,
        samples=(
            Sample(
                (("b", 2, "c", "float32"), ("b", 7, "c", "float32")), ("b", 7, "c"), {"axis": 1}
            ),
        ),
    ),
)
