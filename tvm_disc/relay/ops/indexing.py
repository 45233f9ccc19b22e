"""Table entries of operators that create, select, slice, scatter or scan elements."""

from __future__ import annotations

import numpy as np

from tvm_disc.relay.ops.references import References

from .row import BROADCAST, ELEMWISE, INJECTIVE, OPAQUE, OUT_ELEMWISE, REQUIRED, OpRow, op

elem = References("elementwise")
ref = References("transform")

# Attributes of ``strided_slice`` and its variants.
SLICE = {
    "begin": REQUIRED,
    "end": REQUIRED,
    "strides": REQUIRED,
    "axes": REQUIRED,
    "slice_mode": "end",
}

ROWS: tuple[OpRow, ...] = (
    op("adv_index", "*inputs", INJECTIVE, ref.adv_index),
    op(
        "arange",
        "start end step",
        OPAQUE,
        elem.arange,
        {"start": None, "stop": None, "step": None, "dtype": REQUIRED},
    ),
    op("argwhere", "condition", OPAQUE, ref.argwhere),
    op(
        "cumprod",
        "data",
        OPAQUE,
        elem.scan.of(np.cumprod, 1),
        {"axis": None, "dtype": "", "exclusive": False},
    ),
    op(
        "cumsum",
        "data",
        OPAQUE,
        elem.scan.of(np.cumsum, 0),
        {"axis": None, "dtype": "", "exclusive": False},
    ),
    op("full", "fill_value", ELEMWISE, elem.full, {"shape": REQUIRED, "dtype": ""}),
    op("full_like", "data fill_value", ELEMWISE, elem.full_like),
    op("gather", "data indices", INJECTIVE, ref.gather, {"axis": None}),
    op(
        "gather_nd", "data indices", INJECTIVE, ref.gather_nd, {"batch_dims": 0, "index_rank": None}
    ),
    op(
        "one_hot",
        "indices on_value off_value",
        OUT_ELEMWISE,
        ref.one_hot,
        {"depth": 1, "axis": -1, "dtype": ""},
    ),
    op("ones", "", ELEMWISE, elem.creation.of(1), {"shape": REQUIRED, "dtype": ""}),
    op("repeat", "data", BROADCAST, ref.repeat, {"repeats": REQUIRED, "axis": None}),
    op(
        "scatter_elements",
        "data indices updates",
        OPAQUE,
        ref.scatter_elements,
        {"axis": 0, "reduction": "update"},
    ),
    op("scatter_nd", "data indices updates", OPAQUE, ref.scatter_nd, {"mode": "update"}),
    op(
        "sequence_mask",
        "data valid_length",
        INJECTIVE,
        ref.sequence_mask,
        {"mask_value": 0.0, "axis": 0},
    ),
    op("slice_like", "data shape_like", INJECTIVE, ref.slice_like, {"axes": REQUIRED}),
    op("split", "data", INJECTIVE, ref.split, {"indices_or_sections": REQUIRED, "axis": 0}),
    op(
        "strided_slice",
        "data",
        INJECTIVE,
        ref.strided_slice,
        SLICE,
    ),
    op(
        "take", "data indices", INJECTIVE, ref.take, {"axis": None, "batch_dims": 0, "mode": "clip"}
    ),
    op("tile", "data", BROADCAST, ref.tile, {"reps": REQUIRED}),
    op("trilu", "data k", ELEMWISE, ref.trilu, {"upper": True}),
    op("unique", "data", OPAQUE, ref.unique, {"sorted": True, "return_counts": False}),
    op("where", "condition x y", BROADCAST, elem.where),
    op("zeros", "", ELEMWISE, elem.creation.of(0), {"shape": REQUIRED, "dtype": ""}),
)
