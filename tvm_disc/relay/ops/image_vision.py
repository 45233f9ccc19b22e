"""Rows of image and detection operators."""

from __future__ import annotations

from .row import OpRow, Pattern

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "image.resize1d",
        ("data",),
        {
            "size": None,
            "roi": None,
            "layout": "NCW",
            "method": "linear",
            "coordinate_transformation_mode": "half_pixel",
            "rounding_method": "round",
            "cubic_alpha": -0.5,
            "cubic_exclude": 0,
            "extrapolation_value": 0.0,
            "out_dtype": "",
        },
        Pattern.INJECTIVE,
        True,
    ),
    OpRow(
        "image.resize2d",
        ("data",),
        {
            "size": None,
            "roi": None,
            "layout": "NCHW",
            "method": "linear",
            "coordinate_transformation_mode": "half_pixel",
            "rounding_method": "round",
            "cubic_alpha": -0.5,
            "cubic_exclude": 0,
            "extrapolation_value": 0.0,
            "out_dtype": "",
        },
        Pattern.INJECTIVE,
        True,
    ),
    OpRow(
        "image.resize3d",
        ("data",),
        {
            "size": None,
            "roi": None,
            "layout": "NCDHW",
            "method": "linear",
            "coordinate_transformation_mode": "half_pixel",
            "rounding_method": "round",
            "cubic_alpha": -0.5,
            "cubic_exclude": 0,
            "extrapolation_value": 0.0,
            "out_dtype": "",
        },
        Pattern.INJECTIVE,
        False,
    ),
)
