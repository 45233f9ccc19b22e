"""Table entries of operators that reshape, permute, concatenate or convert tensors."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import BROADCAST, ELEMWISE, INJECTIVE, OPAQUE, REDUCE, REQUIRED, OpRow, op

image = References("image")
elem = References("elementwise")
ref = References("transform")

ROWS: tuple[OpRow, ...] = (
    op(
        "auto_scheduler_layout_transform",
        "data",
        OPAQUE,
        attrs={"src_layout": REQUIRED, "dst_layout": REQUIRED},
    ),
    op("broadcast_to", "data", BROADCAST, ref.broadcast_to, {"shape": REQUIRED, "dtype": ""}),
    op("broadcast_to_like", "data broadcast_type", BROADCAST, ref.broadcast_to_like),
    op("cast", "data", ELEMWISE, elem.cast, {"dtype": REQUIRED}),
    op("cast_like", "data dtype_like", ELEMWISE, elem.cast_like),
    op("collapse_sum_like", "data collapse_type", REDUCE, ref.collapse_sum_like),
    op("concatenate", "*data", INJECTIVE, ref.concatenate, {"axis": 0}),
    op(
        "contrib_reverse_reshape",
        "data",
        INJECTIVE,
        ref.reverse_reshape,
        {"newshape": REQUIRED, "allowzero": False},
    ),
    op("einsum", "*data", INJECTIVE, ref.einsum, {"equation": REQUIRED}),
    op("expand_dims", "data", BROADCAST, ref.expand_dims, {"axis": REQUIRED, "num_newaxis": 1}),
    op("invert_permutation", "data", INJECTIVE, image.invert_permutation),
    op("meshgrid", "*data", INJECTIVE, ref.meshgrid, {"indexing": "ij"}),
    op("meta_schedule_layout_transform", "data", OPAQUE, attrs={"index_map": REQUIRED}),
    op("reshape", "data", INJECTIVE, ref.reshape, {"newshape": REQUIRED, "allowzero": False}),
    op(
        "reshape_like",
        "data shape_like",
        INJECTIVE,
        ref.reshape_like,
        {"lhs_begin": 0, "lhs_end": None, "rhs_begin": 0, "rhs_end": None},
    ),
    op("reverse", "data", INJECTIVE, ref.reverse, {"axis": None}),
    op("squeeze", "data", INJECTIVE, ref.squeeze, {"axis": None}),
    op("stack", "*data", INJECTIVE, ref.stack, {"axis": 0}),
    op("transpose", "data", INJECTIVE, ref.transpose, {"axes": REQUIRED}),
    op("unravel_index", "indices shape", INJECTIVE, ref.unravel_index),
)
