"""Rows of operators on sparse tensors."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import REQUIRED, OpRow, Pattern, Sample

ref = References("sparse")

_DENSE = ((1, 3, 3), (5, 7, 4), (17, 9, 64))
_ROWS = ((1, 2, 2), (5, 9, 4), (16, 33, 12))

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "sparse_to_dense",
        ("sparse_indices", "sparse_values", "default_value"),
        {"output_shape": REQUIRED},
        Pattern.OPAQUE,
        False,
        reference=ref.sparse_to_dense,
        samples=(
            Sample(
                (("n", 2, "int32"), ("n", "float32"), ("float32",)),
                (4, 5),
                {"output_shape": (4, 5)},
                ranges={0: (0, 4)},
            ),
            Sample(
                (("n", "int64"), ("float32",), ("float32",)),
                (6,),
                {"output_shape": (6,)},
                ranges={0: (0, 6)},
            ),
            Sample(
                (("int32",), ("float32",), ("float32",)),
                (6,),
                {"output_shape": (6,)},
                ranges={0: (0, 6)},
            ),
        ),
    ),
    OpRow(
        "dyn.sparse_to_dense",
        ("sparse_indices", "sparse_values", "default_value", "output_shape"),
        {},
        Pattern.OPAQUE,
        True,
        reference=ref.dyn_sparse_to_dense,
        samples=(
            Sample(
                (("n", 2, "int64"), ("n", "float32"), ("float32",), (2, "int64")),
                ("a", "b"),
                {},
                sizes=_DENSE,
                ranges={0: (0, 3)},
                values={3: ("a", "b")},
            ),
        ),
    ),
    OpRow(
        "sparse_reshape",
        ("sparse_indices", "prev_shape", "new_shape"),
        {},
        Pattern.INJECTIVE,
        True,
        reference=ref.sparse_reshape,
        samples=(
            Sample(
                (("n", 3, "int64"), (3, "int64"), (2, "int64")),
                (("n", 2), (2,)),
                {},
                ranges={0: (0, 3), 1: (3, 4)},
                values={2: (9, -1)},
            ),
            Sample(
                (("n", 2, "int32"), (2, "int32"), (3, "int32")),
                (("n", 3), (3,)),
                {},
                ranges={0: (0, 4)},
                values={1: (4, 6), 2: (3, -1, 2)},
            ),
        ),
    ),
    OpRow(
        "sparse_fill_empty_rows",
        ("sparse_indices", "sparse_values", "dense_shape", "default_value"),
        {},
        Pattern.OPAQUE,
        True,
        reference=ref.sparse_fill_empty_rows,
        samples=(
            Sample(
                (("n", 2, "int64"), ("n", "int64"), (2, "int64"), (1, "int64")),
                (("?", 2), ("?",), ("m",)),
                {},
                sizes=((1, 4), (3, 7), (7, 20)),
                ranges={0: (0, 4)},
                values={2: ("m", 5)},
            ),
        ),
    ),
    OpRow(
        "nn.sparse_dense",
        ("dense_data", "sparse_data", "sparse_indices", "sparse_indptr"),
        {"sparse_lhs": False},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.sparse_dense,
        samples=(
            Sample(
                (("m", 6, "float32"), ("e", "float32"), ("e", "int32"), ("r", "int32")),
                ("m", "r-1"),
                {},
                sizes=_ROWS,
                ranges={2: (0, 6)},
            ),
            Sample(
                (("m", 6, "float32"), ("e", 2, 3, "float32"), ("e", "int32"), ("r", "int32")),
                ("(r-1)*2", "m"),
                {"sparse_lhs": True},
                sizes=_ROWS,
                ranges={2: (0, 2)},
            ),
        ),
    ),
    OpRow(
        "nn.sparse_add",
        ("dense_data", "sparse_data", "sparse_indices", "sparse_indptr"),
        {},
        Pattern.OPAQUE,
        False,
        reference=ref.sparse_add,
        samples=(
            Sample(
                (("m", 6, "float32"), ("e", "float32"), ("e", "int32"), ("m+1", "int32")),
                ("m", 6),
                {},
                sizes=((3, 2), (1, 7), (9, 13)),
                ranges={2: (0, 6)},
            ),
        ),
    ),
    OpRow(
        "nn.sparse_transpose",
        ("sparse_data", "sparse_indices", "sparse_indptr"),
        {},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.sparse_transpose,
        samples=(
            Sample(
                (("e", "float32"), ("e", "int32"), ("r", "int32")),
                (("e",), ("e",), ("r",)),
                {},
                sizes=((2, 2), (9, 5), (31, 8)),
                ranges={1: (0, 1), 2: (0, 1)},
            ),
        ),
    ),
)
