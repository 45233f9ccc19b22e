"""Rows of operators on layouts, blocks, windows and slices."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import REQUIRED, OpRow, Pattern, Sample

elem = References("elementwise")
ref = References("layout")

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "layout_transform",
        ("data",),
        {"src_layout": REQUIRED, "dst_layout": REQUIRED},
        Pattern.INJECTIVE,
        True,
        reference=ref.layout_transform,
        samples=(
            Sample(
                (("b", 8, "h", 3, "float32"),),
                ("b", "h", 3, 8),
                {"src_layout": "NCHW", "dst_layout": "NHWC"},
            ),
            Sample(
                (("b", 8, "h", 3, "float32"),),
                ("b", 2, "h", 3, 4),
                {"src_layout": "NCHW", "dst_layout": "NCHW4c"},
            ),
            Sample(
                (("b", 2, "h", 3, 4, "float32"),),
                ("b", 3, "h", 8),
                {"src_layout": "NCHW4c", "dst_layout": "NWHC"},
            ),
            Sample(
                (("a", 8, 6, "float32"),),
                (3, "a", 4, 2, 2),
                {"src_layout": "XYZ", "dst_layout": "ZXY2z2y"},
            ),
        ),
    ),
    OpRow(
        "nn.space_to_batch_nd",
        ("data",),
        {"block_shape": (1, 1), "paddings": REQUIRED, "pad_value": 0.0},
        Pattern.INJECTIVE,
        False,
        reference=ref.space_to_batch_nd,
        samples=(
            Sample(
                (("b", 4, 5, "c", "float32"),),
                ("b*6", 2, 2, "c"),
                {"block_shape": (2, 3), "paddings": ((0, 0), (1, 0)), "pad_value": 0.5},
            ),
        ),
    ),
    OpRow(
        "nn.batch_to_space_nd",
        ("data",),
        {"block_shape": (1, 1), "crops": REQUIRED},
        Pattern.INJECTIVE,
        False,
        reference=ref.batch_to_space_nd,
        samples=(
            Sample(
                ((6, "h", 3, "c", "float32"),),
                (1, "h*2-0", 7, "c"),
                {"block_shape": (2, 3), "crops": ((0, 0), (1, 1))},
            ),
        ),
    ),
    OpRow(
        "sliding_window",
        ("data",),
        {"axis": REQUIRED, "window_shape": REQUIRED, "strides": REQUIRED},
        Pattern.OPAQUE,
        False,
        reference=ref.sliding_window,
        samples=(
            Sample(
                (("b", 8, 7, "float32"),),
                ("b", 3, 3, 4, 3),
                {"axis": 1, "window_shape": (4, 3), "strides": (2, 2)},
            ),
            Sample(
                (("b", "n", "float32"),),
                ("b", "n-2", 3),
                {"axis": 1, "window_shape": (3,), "strides": (1,)},
                sizes=((2, 5), (3, 17), (1, 3)),
            ),
        ),
    ),
    OpRow(
        "strided_set",
        ("data", "v", "begin", "end", "strides"),
        {},
        Pattern.INJECTIVE,
        False,
        reference=ref.strided_set,
        samples=(
            Sample(
                (
                    ("n", 8, "float32"),
                    ("n", 3, "float32"),
                    (2, "int32"),
                    (2, "int32"),
                    (2, "int32"),
                ),
                ("n", 8),
                {},
                values={2: (0, 1), 3: (1000, 7), 4: (1, 2)},
            ),
            Sample(
                (
                    ("n", 8, "float32"),
                    ("n", 4, "float32"),
                    (2, "int32"),
                    (2, "int32"),
                    (2, "int32"),
                ),
                ("n", 8),
                {},
                values={2: (0, -1), 3: (1000, 0), 4: (1, -2)},
            ),
        ),
    ),
    OpRow(
        "reverse_sequence",
        ("data", "seq_lengths"),
        {"seq_axis": 1, "batch_axis": 0},
        Pattern.INJECTIVE,
        False,
        reference=ref.reverse_sequence,
        samples=(
            Sample(
                (("b", "n", 2, "float32"), ("b", "int32")), ("b", "n", 2), {}, ranges={1: (0, 6)}
            ),
            Sample(
                (("n", 3, "b", "float32"), ("b", "int64")),
                ("n", 3, "b"),
                {"seq_axis": 0, "batch_axis": 2},
                ranges={1: (1, 9)},
            ),
        ),
    ),
    OpRow(
        "matrix_set_diag",
        ("input", "diagonal"),
        {"k1": 0, "k2": 0, "super_diag_right_align": True, "sub_diag_right_align": False},
        Pattern.INJECTIVE,
        False,
        reference=ref.matrix_set_diag,
        samples=(
            Sample((("b", 4, 5, "float32"), ("b", 4, "float32")), ("b", 4, 5)),
            Sample(
                (("b", 4, 5, "float32"), ("b", 3, 4, "float32")), ("b", 4, 5), {"k1": -1, "k2": 1}
            ),
            Sample(
                (("b", 4, 5, "float32"), ("b", 4, 4, "float32")),
                ("b", 4, 5),
                {"k1": -2, "k2": 1, "super_diag_right_align": False, "sub_diag_right_align": True},
            ),
        ),
    ),
    OpRow(
        "collapse_sum_to",
        ("data", "shape"),
        {},
        Pattern.REDUCE,
        False,
        reference=ref.collapse_sum_to,
        samples=(Sample(((3, "n", 5, "float32"), (2, "int64")), (1, 5), {}, values={1: (1, 5)}),),
    ),
    OpRow(
        "reinterpret",
        ("data",),
        {"dtype": REQUIRED},
        Pattern.ELEMWISE,
        False,
        reference=elem.reinterpret,
        samples=(
            Sample((("n", 3, "float32"),), ("n", 3), {"dtype": "int32"}),
            Sample((("n", "int64"),), ("n",), {"dtype": "uint64"}),
        ),
    ),
    OpRow(
        "hardswish",
        ("data",),
        {},
        Pattern.ELEMWISE,
        False,
        reference=ref.hardswish,
        samples=(Sample((("n", 3, "float32"),), ("n", 3)),),
    ),
    OpRow(
        "scatter",
        ("data", "indices", "updates"),
        {"axis": 0},
        Pattern.OPAQUE,
        False,
        reference=ref.scatter,
        samples=(
            Sample(
                (("n", 5, "float32"), ("n", 2, "int64"), ("n", 2, "float32")),
                ("n", 5),
                {"axis": 1},
                ranges={1: (0, 5)},
            ),
        ),
    ),
)
