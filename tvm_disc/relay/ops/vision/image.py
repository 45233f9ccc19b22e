"""Rows of image and detection operators."""

from __future__ import annotations

from tvm_disc.relay.ops.row import OpRow, Pattern
from tvm_disc.relay.ops.window_attrs import resize_attrs

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "image.resize1d",
        ("data",),
        resize_attrs(1),
        Pattern.INJECTIVE,
        True,
    ),
    OpRow(
        "image.resize2d",
        ("data",),
        resize_attrs(2),
        Pattern.INJECTIVE,
        True,
    ),
    OpRow(
        "image.resize3d",
        ("data",),
        resize_attrs(3),
        Pattern.INJECTIVE,
        False,
    ),
)
