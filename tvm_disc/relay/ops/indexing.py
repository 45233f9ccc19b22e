"""Rows of operators that create, select, slice, scatter or scan elements."""

from __future__ import annotations

import numpy as np

from tvm_disc.relay.ops.references import References

from .row import REQUIRED, OpRow, Pattern, Sample

elem = References("elementwise")
ref = References("transform")

# Sizes for results of operators without operands.
MADE = ((2, 3), (1,), (0, 4), (5, 1, 7), ())

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "adv_index",
        ("*inputs",),
        {},
        Pattern.INJECTIVE,
        True,
        reference=ref.adv_index,
        samples=(Sample((((5, "m", "float32"), ("n", "int64")),), ("n", "m"), ranges={0: (0, 5)}),),
    ),
    OpRow(
        "arange",
        ("start", "end", "step"),
        {"start": None, "stop": None, "step": None, "dtype": REQUIRED},
        Pattern.OPAQUE,
        True,
        reference=elem.arange,
        samples=(
            Sample(
                (
                    ("int64",),
                    ("int64",),
                    ("int64",),
                ),
                ("n",),
                {"dtype": "int64"},
                values={0: 0, 1: "n", 2: 1},
            ),
        ),
    ),
    OpRow(
        "argwhere",
        ("condition",),
        {},
        Pattern.OPAQUE,
        True,
        reference=ref.argwhere,
        samples=(Sample((("n", "m", "bool"),), ("?", 2)),),
    ),
    OpRow(
        "cumprod",
        ("data",),
        {"axis": None, "dtype": "", "exclusive": False},
        Pattern.OPAQUE,
        True,
        reference=elem.scan.of(np.cumprod, 1),
        samples=(Sample((("n", "m", "float32"),), ("n", "m"), {"axis": 1}),),
    ),
    OpRow(
        "cumsum",
        ("data",),
        {"axis": None, "dtype": "", "exclusive": False},
        Pattern.OPAQUE,
        True,
        reference=elem.scan.of(np.cumsum, 0),
        samples=(
            Sample((("n", "m", "float32"),), ("n", "m"), {"axis": 1}),
            Sample((("n", "m", "float32"),), ("n*m",)),
            Sample((("n", "m", "float32"),), ("n", "m"), {"axis": 0, "exclusive": True}),
        ),
    ),
    OpRow(
        "full",
        ("fill_value",),
        {"shape": REQUIRED, "dtype": ""},
        Pattern.ELEMWISE,
        True,
        reference=elem.full,
        samples=tuple(Sample((("float32",),), s, {"shape": s}) for s in MADE),
    ),
    OpRow(
        "full_like",
        ("data", "fill_value"),
        {},
        Pattern.ELEMWISE,
        True,
        reference=elem.full_like,
        samples=(
            Sample(
                (
                    ("n", 3, "float32"),
                    ("float32",),
                ),
                ("n", 3),
            ),
        ),
    ),
    OpRow(
        "gather",
        ("data", "indices"),
        {"axis": None},
        Pattern.INJECTIVE,
        True,
        reference=ref.gather,
        samples=(
            Sample(
                (
                    ("n", 5, "float32"),
                    ("n", "m", "int64"),
                ),
                ("n", "m"),
                {"axis": 1},
                ranges={1: (0, 5)},
            ),
        ),
    ),
    OpRow(
        "gather_nd",
        ("data", "indices"),
        {"batch_dims": 0, "index_rank": None},
        Pattern.INJECTIVE,
        True,
        reference=ref.gather_nd,
        samples=(
            Sample(
                (
                    (4, 5, "m", "float32"),
                    (2, "n", "int64"),
                ),
                ("n", "m"),
                {"index_rank": 2},
                ranges={1: (0, 4)},
            ),
            Sample(
                (
                    ("n", 4, "m", "float32"),
                    (1, "n", "k", "int64"),
                ),
                ("n", "k", "m"),
                {"batch_dims": 1, "index_rank": 1},
                ranges={1: (0, 4)},
            ),
        ),
    ),
    OpRow(
        "one_hot",
        ("indices", "on_value", "off_value"),
        {"depth": 1, "axis": -1, "dtype": ""},
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.one_hot,
        samples=(
            Sample(
                (
                    ("n", "m", "int64"),
                    ("float32",),
                    ("float32",),
                ),
                ("n", "m", 6),
                {"depth": 6, "dtype": "float32"},
                ranges={0: (0, 6)},
            ),
            Sample(
                (
                    ("n", "int64"),
                    ("float32",),
                    ("float32",),
                ),
                (6, "n"),
                {"depth": 6, "axis": 0, "dtype": "float32"},
                ranges={0: (0, 6)},
            ),
        ),
    ),
    OpRow(
        "ones",
        (),
        {"shape": REQUIRED, "dtype": ""},
        Pattern.ELEMWISE,
        True,
        reference=elem.creation.of(1),
        samples=tuple(Sample((), s, {"shape": s, "dtype": "float32"}) for s in MADE),
    ),
    OpRow(
        "repeat",
        ("data",),
        {"repeats": REQUIRED, "axis": None},
        Pattern.BROADCAST,
        True,
        reference=ref.repeat,
        samples=(
            Sample((("n", "m", "float32"),), ("n", "m*2"), {"repeats": 2, "axis": 1}),
            Sample((("n", "m", "float32"),), ("n*m*3",), {"repeats": 3}),
        ),
    ),
    OpRow(
        "scatter_elements",
        ("data", "indices", "updates"),
        {"axis": 0, "reduction": "update"},
        Pattern.OPAQUE,
        True,
        reference=ref.scatter_elements,
        samples=(
            Sample(
                (
                    ("n", 5, "float32"),
                    ("n", 2, "int64"),
                    ("n", 2, "float32"),
                ),
                ("n", 5),
                {"axis": 1},
                ranges={1: (0, 5)},
            ),
            Sample(
                (
                    (5, "m", "float32"),
                    (2, "m", "int64"),
                    (2, "m", "float32"),
                ),
                (5, "m"),
                {"reduction": "add"},
                ranges={1: (0, 5)},
            ),
        ),
    ),
    OpRow(
        "scatter_nd",
        ("data", "indices", "updates"),
        {"mode": "update"},
        Pattern.OPAQUE,
        True,
        reference=ref.scatter_nd,
        samples=(
            Sample(
                (
                    (4, 5, "m", "float32"),
                    (2, "n", "int64"),
                    ("n", "m", "float32"),
                ),
                (4, 5, "m"),
                {"mode": "add"},
                ranges={1: (0, 4)},
            ),
        ),
    ),
    OpRow(
        "sequence_mask",
        ("data", "valid_length"),
        {"mask_value": 0.0, "axis": 0},
        Pattern.INJECTIVE,
        False,
        reference=ref.sequence_mask,
        samples=(
            Sample(
                (
                    ("m", "n", 2, "float32"),
                    ("n", "int64"),
                ),
                ("m", "n", 2),
                ranges={1: (0, 5)},
            ),
        ),
    ),
    OpRow(
        "slice_like",
        ("data", "shape_like"),
        {"axes": REQUIRED},
        Pattern.INJECTIVE,
        False,
        reference=ref.slice_like,
        samples=(
            Sample(
                (
                    ("n", 8, "float32"),
                    ("n", 5, "float32"),
                ),
                ("n", 5),
                {"axes": (1,)},
            ),
        ),
    ),
    OpRow(
        "split",
        ("data",),
        {"indices_or_sections": REQUIRED, "axis": 0},
        Pattern.INJECTIVE,
        True,
        reference=ref.split,
        samples=(
            Sample(
                (("n", 6, "float32"),),
                (("n", 2), ("n", 2), ("n", 2)),
                {"indices_or_sections": 3, "axis": 1},
            ),
            Sample(
                (("n", 6, "float32"),),
                (("n", 1), ("n", 3), ("n", 2)),
                {"indices_or_sections": (1, 4), "axis": 1},
            ),
        ),
    ),
    OpRow(
        "strided_slice",
        ("data",),
        {
            "begin": REQUIRED,
            "end": REQUIRED,
            "strides": REQUIRED,
            "axes": REQUIRED,
            "slice_mode": "end",
        },
        Pattern.INJECTIVE,
        True,
        reference=ref.strided_slice,
        samples=(
            Sample(
                (("n", 8, "float32"),),
                ("n", 3),
                {"begin": (0, 1), "end": (100, 7), "strides": (1, 2), "axes": None},
            ),
            Sample(
                (("n", 8, "float32"),),
                ("n", 4),
                {"begin": (-1,), "end": (-9,), "strides": (-2,), "axes": (1,)},
            ),
            Sample(
                (("n", 8, "float32"),),
                ("n", 3),
                {
                    "begin": (0, 2),
                    "end": (-1, 3),
                    "strides": (1, 1),
                    "axes": None,
                    "slice_mode": "size",
                },
            ),
            Sample(
                (("n", 3, "float32"),),
                ("n", 2),
                {
                    "begin": (-3,),
                    "end": (2,),
                    "strides": (1,),
                    "axes": (1,),
                    "slice_mode": "size",
                },
            ),
        ),
    ),
    OpRow(
        "take",
        ("data", "indices"),
        {"axis": None, "batch_dims": 0, "mode": "clip"},
        Pattern.INJECTIVE,
        True,
        reference=ref.take,
        samples=(
            Sample(
                (
                    (5, "m", "float32"),
                    ("n", "int64"),
                ),
                ("n", "m"),
                {"axis": 0},
                ranges={1: (0, 5)},
            ),
            Sample(
                (
                    (5, 3, "float32"),
                    ("n", "int64"),
                ),
                ("n",),
                {"mode": "wrap"},
                ranges={1: (-20, 20)},
            ),
            Sample(
                (
                    (5, "m", "float32"),
                    ("n", 2, "int64"),
                ),
                ("n", 2, "m"),
                {"axis": 0, "mode": "fast"},
                ranges={1: (0, 5)},
            ),
            Sample(
                (
                    ("n", 5, "float32"),
                    ("n", "k", "int64"),
                ),
                ("n", "k"),
                {"axis": 1, "batch_dims": 1},
                ranges={1: (0, 5)},
            ),
        ),
    ),
    OpRow(
        "tile",
        ("data",),
        {"reps": REQUIRED},
        Pattern.BROADCAST,
        True,
        reference=ref.tile,
        samples=(Sample((("n", 3, "float32"),), (2, "n", 6), {"reps": (2, 1, 2)}),),
    ),
    OpRow(
        "trilu",
        ("data", "k"),
        {"upper": True},
        Pattern.ELEMWISE,
        False,
        reference=ref.trilu,
        samples=(
            Sample(
                (
                    ("n", 4, "float32"),
                    ("int64",),
                ),
                ("n", 4),
                {"upper": False},
                values={1: 0},
            ),
        ),
    ),
    OpRow(
        "unique",
        ("data",),
        {"sorted": True, "return_counts": False},
        Pattern.OPAQUE,
        True,
        reference=ref.unique,
        samples=(Sample((("n", "int64"),), (("?",), ("?",), ("n",), (1,)), ranges={0: (0, 5)}),),
    ),
    OpRow(
        "where",
        ("condition", "x", "y"),
        {},
        Pattern.BROADCAST,
        True,
        reference=elem.where,
        samples=(
            Sample(
                (
                    ("n", 3, "bool"),
                    ("n", 3, "float32"),
                    (1, 3, "float32"),
                ),
                ("n", 3),
            ),
        ),
    ),
    OpRow(
        "zeros",
        (),
        {"shape": REQUIRED, "dtype": ""},
        Pattern.ELEMWISE,
        True,
        reference=elem.creation.of(0),
        samples=tuple(Sample((), s, {"shape": s, "dtype": "float32"}) for s in MADE),
    ),
)
