"""Rows of reductions."""

from __future__ import annotations

import numpy as np

from tvm_disc.relay.ops.references import References

from .row import OpRow, Pattern, Sample

ref = References("elementwise")

_REDUCE = (
    Sample((("n", "m", 3, "float32"),), ("n", 3), {"axis": (1,)}),
    Sample((("n", "m", 3, "float32"),), ("n", 1, 1), {"axis": (1, -1), "keepdims": True}),
    Sample((("n", "m", 3, "float32"),), ("m",), {"axis": (1,), "exclude": True}),
    Sample((("n", "m", "float32"),), ()),
)
_BOOL = (Sample((("n", "m", "bool"),), ("n",), {"axis": (1,)}), Sample((("n", "m", "bool"),), ()))

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "all",
        ("data",),
        {"axis": None, "keepdims": False, "exclude": False},
        Pattern.REDUCE,
        True,
        reference=ref.reduction.of(np.all),
        samples=_BOOL,
    ),
    OpRow(
        "any",
        ("data",),
        {"axis": None, "keepdims": False, "exclude": False},
        Pattern.REDUCE,
        False,
        reference=ref.reduction.of(np.any),
        samples=_BOOL,
    ),
    OpRow(
        "argmax",
        ("data",),
        {"axis": None, "keepdims": False, "exclude": False, "select_last_index": False},
        Pattern.REDUCE,
        True,
        reference=ref.arg_reduction.of(np.argmax),
        samples=_REDUCE,
    ),
    OpRow(
        "argmin",
        ("data",),
        {"axis": None, "keepdims": False, "exclude": False, "select_last_index": False},
        Pattern.REDUCE,
        True,
        reference=ref.arg_reduction.of(np.argmin),
        samples=_REDUCE,
    ),
    OpRow(
        "max",
        ("data",),
        {"axis": None, "keepdims": False, "exclude": False},
        Pattern.REDUCE,
        True,
        reference=ref.reduction.of(np.max),
        samples=_REDUCE,
    ),
    OpRow(
        "mean",
        ("data",),
        {"axis": None, "keepdims": False, "exclude": False},
        Pattern.REDUCE,
        True,
        reference=ref.reduction.of(np.mean),
        samples=_REDUCE,
    ),
    OpRow(
        "min",
        ("data",),
        {"axis": None, "keepdims": False, "exclude": False},
        Pattern.REDUCE,
        True,
        reference=ref.reduction.of(np.min),
        samples=_REDUCE,
    ),
    OpRow(
        "prod",
        ("data",),
        {"axis": None, "keepdims": False, "exclude": False},
        Pattern.REDUCE,
        True,
        reference=ref.reduction.of(np.prod),
        samples=_REDUCE,
    ),
    OpRow(
        "sum",
        ("data",),
        {"axis": None, "keepdims": False, "exclude": False},
        Pattern.REDUCE,
        True,
        reference=ref.reduction.of(np.sum),
        samples=_REDUCE,
    ),
    OpRow(
        "variance",
        ("data", "mean"),
        {"axis": None, "keepdims": False, "exclude": False, "unbiased": False},
        Pattern.REDUCE,
        True,
        reference=ref.variance,
        samples=(
            Sample(
                (("n", "m", "float32"), ("n", 1, "float32")),
                ("n", 1),
                {"axis": (1,), "keepdims": True},
            ),
        ),
    ),
)
