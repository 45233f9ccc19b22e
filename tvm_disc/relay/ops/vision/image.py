"""Rows of image and detection operators."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References
from tvm_disc.relay.ops.row import OpRow, Pattern, Sample
from tvm_disc.relay.ops.window_attrs import resize_attrs

ref = References("image")

_FLOOR = {"rounding_method": ""}
_CORNERS = {"coordinate_transformation_mode": "align_corners", "rounding_method": ""}
_NEAREST = {
    "method": "nearest_neighbor",
    "coordinate_transformation_mode": "asymmetric",
    "rounding_method": "",
}
_IMAGES = ((1, 5, 9), (2, 4, 4), (3, 1, 7))

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "image.resize1d",
        ("data",),
        resize_attrs(1),
        Pattern.INJECTIVE,
        True,
        reference=ref.resize,
        samples=(
            Sample((("n", 2, "w", "float32"),), ("n", 2, 7), {"size": (7,), **_FLOOR}),
            Sample((("n", 2, "w", "float32"),), ("n", 2, 5), {"size": (5,), **_NEAREST}),
        ),
    ),
    OpRow(
        "image.resize2d",
        ("data",),
        resize_attrs(2),
        Pattern.INJECTIVE,
        True,
        reference=ref.resize,
        samples=(
            Sample(
                (("n", 3, "h", "w", "float32"),),
                ("n", 3, 7, 4),
                {"size": (7, 4), **_FLOOR},
                sizes=_IMAGES,
            ),
            Sample(
                (("n", "h", "w", 3, "float32"),),
                ("n", 7, 4, 3),
                {"size": (7, 4), "layout": "NHWC", **_CORNERS},
                sizes=_IMAGES,
            ),
            Sample(
                (("n", 3, "h", "w", "float32"),),
                ("n", 3, 3, 8),
                {"size": (3, 8), **_NEAREST},
                sizes=_IMAGES,
            ),
        ),
    ),
    OpRow(
        "image.resize3d",
        ("data",),
        resize_attrs(3),
        Pattern.INJECTIVE,
        False,
        reference=ref.resize,
        samples=(
            Sample(
                (("n", 2, "d", "h", "w", "float32"),),
                ("n", 2, 3, 4, 5),
                {"size": (3, 4, 5), **_FLOOR},
                sizes=((1, 2, 5, 9), (2, 3, 4, 4)),
            ),
        ),
    ),
)
