"""Table entries of operators on sparse tensors."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import INJECTIVE, OPAQUE, OUT_ELEMWISE, REQUIRED, OpRow, op

ref = References("sparse")

ROWS: tuple[OpRow, ...] = (
    op(
        "sparse_to_dense",
        "sparse_indices sparse_values default_value",
        OPAQUE,
        ref.sparse_to_dense,
        {"output_shape": REQUIRED},
    ),
    op(
        "dyn.sparse_to_dense",
        "sparse_indices sparse_values default_value output_shape",
        OPAQUE,
        ref.dyn_sparse_to_dense,
    ),
    op("sparse_reshape", "sparse_indices prev_shape new_shape", INJECTIVE, ref.sparse_reshape),
    op(
        "sparse_fill_empty_rows",
        "sparse_indices sparse_values dense_shape default_value",
        OPAQUE,
        ref.sparse_fill_empty_rows,
    ),
    op(
        "nn.sparse_dense",
        "dense_data sparse_data sparse_indices sparse_indptr",
        OUT_ELEMWISE,
        ref.sparse_dense,
        {"sparse_lhs": False},
    ),
    op(
        "nn.sparse_add",
        "dense_data sparse_data sparse_indices sparse_indptr",
        OPAQUE,
        ref.sparse_add,
    ),
    op(
        "nn.sparse_transpose",
        "sparse_data sparse_indices sparse_indptr",
        OUT_ELEMWISE,
        ref.sparse_transpose,
    ),
)
