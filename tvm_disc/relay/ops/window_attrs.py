"""Common attributes of convolution, pooling and resizing in one, two and three dims."""

from __future__ import annotations

from .row import REQUIRED

_SPATIAL = ("", "W", "HW", "DHW")


def conv_attrs(spatial: int, *, transposed: bool = False) -> dict[str, object]:
    """Return the attributes of a convolution over ``spatial`` dims, by default channels first.

    ``transposed`` exchanges the channels of the weights and adds ``output_padding``.
    """
    dims = _SPATIAL[spatial]
    attrs: dict[str, object] = {
        "strides": (1,) * spatial,
        # Relay's default has two numbers for 1-d convolutions that are not transposed.
        "padding": (0, 0) if spatial == 1 and not transposed else (0,) * spatial,
        "dilation": (1,) * spatial,
        "groups": 1,
        "channels": None,
        "kernel_size": None,
        "data_layout": f"NC{dims}",
        "kernel_layout": f"IO{dims}" if transposed else f"OI{dims}",
        "out_layout": "",
    }
    if transposed:
        attrs["output_padding"] = (0,) * spatial
    return {**attrs, "out_dtype": ""}


def pool_attrs(spatial: int, *, average: bool) -> dict[str, object]:
    """Return the attributes of pooling over ``spatial`` dims; an average may count the padding."""
    attrs: dict[str, object] = {
        "pool_size": REQUIRED,
        "strides": (1,) * spatial,
        "dilation": (1,) * spatial,
        "padding": (0,) * spatial,
        "layout": f"NC{_SPATIAL[spatial]}",
        "out_layout": "",
        "ceil_mode": False,
    }
    return {**attrs, "count_include_pad": False} if average else attrs


def resize_attrs(spatial: int) -> dict[str, object]:
    """Return the attributes of resizing images with ``spatial`` dims."""
    return {
        "size": None,
        "roi": None,
        "layout": f"NC{_SPATIAL[spatial]}",
        "method": "linear",
        "coordinate_transformation_mode": "half_pixel",
        "rounding_method": "round",
        "cubic_alpha": -0.5,
        "cubic_exclude": 0,
        "extrapolation_value": 0.0,
        "out_dtype": "",
    }
