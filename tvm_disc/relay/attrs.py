"""Call attributes as plain Python values: complete, check and decode them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.runtime import Device
from tvm.target import Target

from ..errors import shown
from .attr_classes import CLASS_OF
from .expr import Attrs, AttrValue, Expr
from .ops.row import REQUIRED, OpRow

# Attribute fields that are plain numbers, by type. Legacy JSON writes a number and a reference to
# node N in the same way, so the reader must know the plain number fields of each class.
_PLAIN: dict[type, frozenset[str]] = {
    float: frozenset(
        [
            "a_max",
            "a_min",
            "alpha",
            "beta",
            "bias",
            "cubic_alpha",
            "dilation_value",
            "eps",
            "epsilon",
            "extrapolation_value",
            "iou_threshold",
            "mask_value",
            "pad_value",
            "rate",
            "scale_d",
            "scale_h",
            "scale_w",
            "score_threshold",
            "spatial_scale",
            "threshold",
        ]
    ),
    bool: frozenset(
        [
            "align_corners",
            "allowzero",
            "ceil_mode",
            "center",
            "clip",
            "constrain_body",
            "constrain_result",
            "count_include_pad",
            "exclude",
            "force_suppress",
            "invalid_to_bottom",
            "iou_loss",
            "is_ascend",
            "is_lshift_required",
            "is_multiply",
            "is_rshift_required",
            "keep_background",
            "keepdims",
            "normalized",
            "onesided",
            "return_counts",
            "return_indices",
            "right",
            "scale",
            "select_last_index",
            "sorted",
            "sparse_lhs",
            "sub_diag_right_align",
            "super_diag_right_align",
            "transpose_a",
            "transpose_b",
            "unbiased",
            "unipolar",
            "upper",
        ]
    ),
    int: frozenset(
        [
            "activation_bits",
            "axis",
            "bit_axis",
            "bits",
            "block_size",
            "convolution_algorithm",
            "coord_start",
            "cubic_exclude",
            "data_bits",
            "deformable_groups",
            "depth",
            "feature_stride",
            "groups",
            "hop_length",
            "id_index",
            "ignore_index",
            "k1",
            "k2",
            "kernel_size",
            "lhs_axis",
            "lhs_begin",
            "max_detections",
            "max_detections_per_class",
            "max_displacement",
            "multiplier",
            "n_fft",
            "num_classes",
            "num_groups",
            "num_newaxis",
            "pack_axis",
            "rhs_axis",
            "rhs_begin",
            "rpn_min_size",
            "rpn_post_nms_top_n",
            "rpn_pre_nms_top_n",
            "sample_ratio",
            "score_index",
            "shift",
            "size",
            "stride1",
            "stride2",
            "tile_K",
            "tile_N",
            "tile_size",
            "top_k",
            "weight_bits",
            "win_length",
        ]
    ),
}
_KIND = {name: kind for kind, names in _PLAIN.items() for name in names}
_REF_AXIS = frozenset(
    [
        "ScatterElements",
        "Gather",
        "Take",
        "Stack",
        "Repeat",
        "Reverse",
        "Squeeze",
        "Scanop",
        "Reduce",
        "ArgReduce",
        "Variance",
        "L2Normalize",
    ]
)
_PLAIN_ONLY_IN = {
    "kernel_size": "Correlation",
    "size": "LRN",
    "score_threshold": "RegularNonMaximumSuppression",
}


@dataclass(frozen=True)
class Opaque:
    """A saved object that this compiler ignores (target, device or source map); read as None."""

    type_key: str


@dataclass(frozen=True)
class LegacyAttrs:
    """A ``relay.attrs.X`` node of legacy JSON."""

    type_key: str
    values: Mapping[str, Any]


# Attributes that repeat an argument of the call, with the argument's position. Calls of this
# package always store None in them.
ARGUMENT_ATTRS: Mapping[str, Mapping[str, int]] = {
    "arange": {"start": 0, "stop": 1, "step": 2},
}


class AttrError(ValueError):
    """Raised if attributes do not match their operator; callers add the position in the source."""


def plain_kind(type_key: str, name: str) -> type | None:
    """Return the number type of a field of ``relay.attrs.X``; None for a reference or a string."""
    owner = type_key.rsplit(".", 1)[-1].removesuffix("Attrs")
    if name == "axis" and owner in _REF_AXIS:
        return None
    if name in _PLAIN_ONLY_IN and _PLAIN_ONLY_IN[name] != owner:
        return None
    return _KIND.get(name)


def complete_attrs(row: OpRow, given: Mapping[str, AttrValue]) -> Attrs:
    """Return every attribute of the operator: the checked ``given`` ones, defaults for the others.

    Raises:
        AttrError: the operator has no attribute of that name, or one without a default is missing.
    """
    unknown = [name for name in given if name not in row.attrs]
    if unknown:
        raise AttrError(f"{row.name} has no attribute {unknown[0]!r}; {_listing(row)}")
    out: Attrs = {}
    repeated = ARGUMENT_ATTRS.get(row.name, {})
    for name, default in row.attrs.items():
        if name in repeated:
            out[name] = None
        elif name in given:
            out[name] = _coerce(row.name, name, default, given[name])
        elif default is REQUIRED:
            raise AttrError(f"{row.name} needs attribute {name!r}; {_listing(row)}")
        else:
            out[name] = default
    return out


def _listing(row: OpRow) -> str:
    names = ", ".join(
        name if default is REQUIRED else f"{name}={default!r}"
        for name, default in row.attrs.items()
    )
    return f"its attributes are: {names}" if names else "it has none"


def _coerce(op: str, name: str, default: object, value: AttrValue) -> AttrValue:
    value = plain_value(value)
    if value != default and _whole(op, name) and not isinstance(value, int):
        raise AttrError(f"{op}: attribute {name!r} must be an integer, found {shown(value)}")
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(default, bool) and number:
        return bool(value)
    if number and name in _PLAIN[float] and name != "score_threshold":
        return float(value)
    return value


def _whole(op: str, name: str) -> bool:
    """Return whether TVM's attribute class stores this attribute as a required integer."""
    return op in CLASS_OF and plain_kind(CLASS_OF[op], name) is int


def plain_value(value: object) -> AttrValue:
    """Return ``value`` as int, float, bool, str, None or a tuple of those; None for an expression.

    Raises:
        AttrError: ``value`` has the wrong type.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (Expr, Opaque)):
        return None  # the name is also an argument of the call, which has the value
    if isinstance(value, (Device, Target)):
        return None  # a program runs on the target that it is compiled for
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item()
    if isinstance(value, (np.dtype, type)):
        return np.dtype(value).name
    if isinstance(value, (tuple, list, np.ndarray)):
        return tuple(plain_value(item) for item in value)
    if isinstance(value, Mapping):
        return tuple((str(k), plain_value(v)) for k, v in value.items())
    raise AttrError(
        "an attribute: expected a number, a string, a dtype, or a sequence or mapping of these, "
        f"found {type(value).__name__} {shown(value)}"
    )
