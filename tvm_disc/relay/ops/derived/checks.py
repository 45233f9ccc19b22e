"""Table entries of conditions on tensor elements, which front ends emit before indexing."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References
from tvm_disc.relay.ops.row import OPAQUE, REQUIRED, OpRow, op

ref = References("checks")

ROWS: tuple[OpRow, ...] = (
    op(
        "assert_inside",
        "data low high",
        OPAQUE,
        ref.inside,
        {"what": "index", "default": True, "always": False},
    ),
    op(
        "assert_nonempty",
        "data",
        OPAQUE,
        ref.nonempty,
        {"axes": REQUIRED, "what": "the operator", "least": 1, "unless": None},
    ),
    op(
        "assert_nonzero", "data dividend", OPAQUE, ref.nonzero, {"what": "divisor", "default": True}
    ),
)
