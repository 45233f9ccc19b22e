"""Table entries of writes of slices, which front ends emit."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References
from tvm_disc.relay.ops.row import OPAQUE, REQUIRED, OpRow, op

ref = References("transform")

ROWS: tuple[OpRow, ...] = (
    # `selected` is the result: `data` with `update` from the positions `first[items, axes]` on.
    op(
        "write_slice",
        "selected data update first",
        OPAQUE,
        ref.write_slice,
        {"axes": REQUIRED, "wraps": False},
    ),
)
