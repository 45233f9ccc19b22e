"""Rows of conditions on tensor elements, which front ends emit before indexing."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References
from tvm_disc.relay.ops.row import REQUIRED, OpRow, Pattern, Sample

ref = References("checks")

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "assert_inside",
        ("data", "low", "high"),
        {"what": "index", "default": True, "always": False},
        Pattern.OPAQUE,
        False,
        reference=ref.inside,
        samples=(
            Sample(
                (("n", 3, "int64"), ("int64",), ("int64",)),
                ("n", 3),
                ranges={0: (0, 5)},
                values={1: -5, 2: 5},
            ),
        ),
    ),
    OpRow(
        "assert_nonempty",
        ("data",),
        {"axes": REQUIRED, "what": "the operator", "least": 1},
        Pattern.OPAQUE,
        False,
        reference=ref.nonempty,
        samples=(Sample((("n", 3, "float32"),), ("n", 3), {"axes": (1,)}),),
    ),
    OpRow(
        "assert_nonzero",
        ("data", "dividend"),
        {"what": "divisor", "default": True},
        Pattern.OPAQUE,
        False,
        reference=ref.nonzero,
        samples=(Sample((("n", 3, "int64"), ("n", 3, "int64")), ("n", 3), ranges={0: (1, 9)}),),
    ),
)
