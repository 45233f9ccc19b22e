"""Rows of sorting and searching operators."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import REQUIRED, OpRow, Pattern, Sample

ref = References("transform")

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "argsort",
        ("data",),
        {"axis": -1, "is_ascend": True, "dtype": ""},
        Pattern.OPAQUE,
        True,
        reference=ref.argsort,
        samples=(Sample((("n", "m", "float32"),), ("n", "m")),),
    ),
    OpRow(
        "searchsorted",
        ("sorted_sequence", "values"),
        {"right": False, "dtype": "int32"},
        Pattern.OPAQUE,
        True,
        reference=ref.searchsorted,
        samples=(
            Sample(
                (
                    (5, "float32"),
                    ("n", "float32"),
                ),
                ("n",),
            ),
        ),
    ),
    OpRow(
        "sort",
        ("data",),
        {"axis": -1, "is_ascend": True, "dtype": ""},
        Pattern.OPAQUE,
        True,
        reference=ref.sort,
        samples=(Sample((("n", "m", "float32"),), ("n", "m"), {"is_ascend": False}),),
    ),
    OpRow(
        "topk",
        ("data",),
        {"k": REQUIRED, "axis": -1, "ret_type": "both", "is_ascend": False, "dtype": ""},
        Pattern.OPAQUE,
        True,
        reference=ref.topk,
        samples=(
            Sample((("n", 5, "float32"),), (("n", 3), ("n", 3)), {"k": 3}),
            Sample(
                (("n", 5, "float32"),), ("n", 5), {"k": 0, "ret_type": "values", "is_ascend": True}
            ),
        ),
    ),
)
