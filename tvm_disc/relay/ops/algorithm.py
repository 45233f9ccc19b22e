"""Table entries of sorting and searching operators."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import OPAQUE, REQUIRED, OpRow, op

ref = References("transform")

ROWS: tuple[OpRow, ...] = (
    op("argsort", "data", OPAQUE, ref.argsort, {"axis": -1, "is_ascend": True, "dtype": ""}),
    op(
        "searchsorted",
        "sorted_sequence values",
        OPAQUE,
        ref.searchsorted,
        {"right": False, "dtype": "int32"},
    ),
    op("sort", "data", OPAQUE, ref.sort, {"axis": -1, "is_ascend": True, "dtype": ""}),
    op(
        "topk",
        "data",
        OPAQUE,
        ref.topk,
        {"k": REQUIRED, "axis": -1, "ret_type": "both", "is_ascend": False, "dtype": ""},
    ),
)
