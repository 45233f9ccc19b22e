"""Table entries of operators on layouts, blocks, windows and slices."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import ELEMWISE, INJECTIVE, OPAQUE, REDUCE, REQUIRED, OpRow, op

elem = References("elementwise")
ref = References("layout")

ROWS: tuple[OpRow, ...] = (
    op(
        "layout_transform",
        "data",
        INJECTIVE,
        ref.layout_transform,
        {"src_layout": REQUIRED, "dst_layout": REQUIRED},
    ),
    op(
        "nn.space_to_batch_nd",
        "data",
        INJECTIVE,
        ref.space_to_batch_nd,
        {"block_shape": (1, 1), "paddings": REQUIRED, "pad_value": 0.0},
    ),
    op(
        "nn.batch_to_space_nd",
        "data",
        INJECTIVE,
        ref.batch_to_space_nd,
        {"block_shape": (1, 1), "crops": REQUIRED},
    ),
    op(
        "sliding_window",
        "data",
        OPAQUE,
        ref.sliding_window,
        {"axis": REQUIRED, "window_shape": REQUIRED, "strides": REQUIRED},
    ),
    op("strided_set", "data v begin end strides", INJECTIVE, ref.strided_set),
    op(
        "reverse_sequence",
        "data seq_lengths",
        INJECTIVE,
        ref.reverse_sequence,
        {"seq_axis": 1, "batch_axis": 0},
    ),
    op(
        "matrix_set_diag",
        "input diagonal",
        INJECTIVE,
        ref.matrix_set_diag,
        {"k1": 0, "k2": 0, "super_diag_right_align": True, "sub_diag_right_align": False},
    ),
    op("collapse_sum_to", "data shape", REDUCE, ref.collapse_sum_to),
    op("reinterpret", "data", ELEMWISE, elem.reinterpret, {"dtype": REQUIRED}),
    op("hardswish", "data", ELEMWISE, ref.hardswish),
    op("scatter", "data indices updates", OPAQUE, ref.scatter, {"axis": 0}),
)
