"""Table entries of image and detection operators."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References
from tvm_disc.relay.ops.row import INJECTIVE, OpRow, op
from tvm_disc.relay.ops.window_attrs import resize_attrs

ref = References("image")

ROWS: tuple[OpRow, ...] = (
    op("image.resize1d", "data", INJECTIVE, ref.resize, resize_attrs(1)),
    op("image.resize2d", "data", INJECTIVE, ref.resize, resize_attrs(2)),
    op("image.resize3d", "data", INJECTIVE, ref.resize, resize_attrs(3)),
)
