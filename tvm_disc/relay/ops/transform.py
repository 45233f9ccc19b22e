"""Rows of operators that reshape, permute, concatenate or convert tensors."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import REQUIRED, OpRow, Pattern, Sample

image = References("image")
elem = References("elementwise")
ref = References("transform")

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "auto_scheduler_layout_transform",
        ("data",),
        {"src_layout": REQUIRED, "dst_layout": REQUIRED},
        Pattern.OPAQUE,
        False,
    ),
    OpRow(
        "broadcast_to",
        ("data",),
        {"shape": REQUIRED, "dtype": ""},
        Pattern.BROADCAST,
        True,
        reference=ref.broadcast_to,
        samples=(
            Sample(((1, 3, "float32"),), (4, 3), {"shape": (4, 3)}),
            Sample(
                (("n", "m", "k", "float32"),),
                (4, 6, 2),
                {"shape": (4, 6, 2)},
                sizes=((1, 6, 2), (4, 1, 2), (4, 6, 1), (4, 6, 2)),
            ),
            Sample(
                (("n", "m", "float32"),),
                (0, 3),
                {"shape": (0, 3)},
                sizes=((0, 3), (1, 3), (0, 1), (1, 1)),
            ),
        ),
    ),
    OpRow(
        "broadcast_to_like",
        ("data", "broadcast_type"),
        {},
        Pattern.BROADCAST,
        True,
        reference=ref.broadcast_to_like,
        samples=(
            Sample(
                (
                    (1, 3, "float32"),
                    ("n", 3, "float32"),
                ),
                ("n", 3),
            ),
        ),
    ),
    OpRow(
        "cast",
        ("data",),
        {"dtype": REQUIRED},
        Pattern.ELEMWISE,
        True,
        reference=elem.cast,
        samples=(Sample((("n", 3, "float32"),), ("n", 3), {"dtype": "int32"}),),
    ),
    OpRow(
        "cast_like",
        ("data", "dtype_like"),
        {},
        Pattern.ELEMWISE,
        True,
        reference=elem.cast_like,
        samples=(
            Sample(
                (
                    ("n", 3, "float32"),
                    (1, "int64"),
                ),
                ("n", 3),
            ),
        ),
    ),
    OpRow(
        "collapse_sum_like",
        ("data", "collapse_type"),
        {},
        Pattern.REDUCE,
        False,
        reference=ref.collapse_sum_like,
        samples=(
            Sample(
                (
                    ("n", 3, "float32"),
                    (1, 3, "float32"),
                ),
                (1, 3),
            ),
        ),
    ),
    OpRow(
        "concatenate",
        ("*data",),
        {"axis": 0},
        Pattern.INJECTIVE,
        True,
        reference=ref.concatenate,
        samples=(
            Sample(((("n", 3, "float32"), ("m", 3, "float32")),), ("n+m", 3)),
            Sample(((("n", "m", "float32"), ("n", "k", "float32")),), ("n", "m+k"), {"axis": -1}),
        ),
    ),
    OpRow(
        "contrib_reverse_reshape",
        ("data",),
        {"newshape": REQUIRED, "allowzero": False},
        Pattern.INJECTIVE,
        False,
        reference=ref.reverse_reshape,
        samples=(Sample((("n", "m", 4, "float32"),), ("n*m", 4), {"newshape": (-1, 0)}),),
    ),
    OpRow(
        "einsum",
        ("*data",),
        {"equation": REQUIRED},
        Pattern.INJECTIVE,
        False,
        reference=ref.einsum,
        samples=(
            Sample(
                ((("n", "k", "float32"), ("k", "m", "float32")),),
                ("n", "m"),
                {"equation": "ij,jk->ik"},
            ),
        ),
    ),
    OpRow(
        "expand_dims",
        ("data",),
        {"axis": REQUIRED, "num_newaxis": 1},
        Pattern.BROADCAST,
        True,
        reference=ref.expand_dims,
        samples=(
            Sample((("n", "m", "float32"),), ("n", 1, 1, "m"), {"axis": 1, "num_newaxis": 2}),
            Sample((("n", "m", "float32"),), ("n", "m", 1), {"axis": -1}),
        ),
    ),
    OpRow(
        "invert_permutation",
        ("data",),
        {},
        Pattern.INJECTIVE,
        True,
        reference=image.invert_permutation,
        samples=(
            Sample(((5, "int32"),), (5,), values={0: (3, 0, 4, 1, 2)}),
            Sample((("n", "int32"),), ("n",)),
        ),
    ),
    OpRow(
        "meshgrid",
        ("*data",),
        {"indexing": "ij"},
        Pattern.INJECTIVE,
        False,
        reference=ref.meshgrid,
        samples=(Sample(((("n", "float32"), ("m", "float32")),), (("n", "m"), ("n", "m"))),),
    ),
    OpRow(
        "meta_schedule_layout_transform", ("data",), {"index_map": REQUIRED}, Pattern.OPAQUE, False
    ),
    OpRow(
        "reshape",
        ("data",),
        {"newshape": REQUIRED, "allowzero": False},
        Pattern.INJECTIVE,
        True,
        reference=ref.reshape,
        samples=(
            Sample((("n", "m", 4, "float32"),), ("n", "m*4"), {"newshape": (0, -1)}),
            Sample((("n", "m", 4, "float32"),), ("n*m", 2, 2), {"newshape": (-3, -4, 2, -1)}),
        ),
    ),
    OpRow(
        "reshape_like",
        ("data", "shape_like"),
        {"lhs_begin": 0, "lhs_end": None, "rhs_begin": 0, "rhs_end": None},
        Pattern.INJECTIVE,
        True,
        reference=ref.reshape_like,
        samples=(
            Sample(
                (
                    ("n", 6, "float32"),
                    ("n", 2, 3, "float32"),
                ),
                ("n", 2, 3),
            ),
        ),
    ),
    OpRow(
        "reverse",
        ("data",),
        {"axis": None},
        Pattern.INJECTIVE,
        False,
        reference=ref.reverse,
        samples=(Sample((("n", 3, "float32"),), ("n", 3), {"axis": 0}),),
    ),
    OpRow(
        "squeeze",
        ("data",),
        {"axis": None},
        Pattern.INJECTIVE,
        True,
        reference=ref.squeeze,
        samples=(Sample((("n", 1, "m", 1, "float32"),), ("n", "m", 1), {"axis": (1,)}),),
    ),
    OpRow(
        "stack",
        ("*data",),
        {"axis": 0},
        Pattern.INJECTIVE,
        True,
        reference=ref.stack,
        samples=(Sample(((("n", 3, "float32"), ("n", 3, "float32")),), ("n", 2, 3), {"axis": 1}),),
    ),
    OpRow(
        "transpose",
        ("data",),
        {"axes": REQUIRED},
        Pattern.INJECTIVE,
        True,
        reference=ref.transpose,
        samples=(
            Sample((("n", 3, "m", "float32"),), ("m", "n", 3), {"axes": (2, 0, 1)}),
            Sample((("n", 3, "float32"),), (3, "n"), {"axes": None}),
        ),
    ),
    OpRow(
        "unravel_index",
        ("indices", "shape"),
        {},
        Pattern.INJECTIVE,
        False,
        reference=ref.unravel_index,
        samples=(
            Sample(
                (
                    ("n", "int64"),
                    (2, "int64"),
                ),
                (2, "n"),
                ranges={0: (0, 12)},
                values={1: (3, 4)},
            ),
        ),
    ),
)
