"""Passes over convolutions: fold explicit padding and dilation into them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_disc.relay.expr import Attrs, Call, Constant, Expr, Function
from tvm_disc.relay_api.transform.rules import Rule, Site, apply_rules, attrs_of, op_call, op_name


def _layout_of(attrs: dict[str, object]) -> str:
    return str(attrs["data_layout"] if "data_layout" in attrs else attrs["layout"])


def _padded(attrs: dict[str, Any], widths: tuple[tuple[int, int], ...]) -> list[int] | None:
    """Return the padding of a window operator plus ``widths``, the padding of its input.

    Returns None if ``widths`` pads an axis that is not spatial.
    """
    layout = _layout_of(attrs)
    spatial = [i for i, letter in enumerate(layout) if letter in "DHW"]
    if not layout.isalpha() or not layout.isupper() or len(widths) != len(layout):
        return None
    if any(any(w) for i, w in enumerate(widths) if i not in spatial):
        return None
    own, count = list(attrs["padding"]), len(spatial)
    if len(own) in (1, count):
        own = (own * count)[:count] if len(own) == 1 else own
        own = own + own
    more = [int(widths[i][0]) for i in spatial] + [int(widths[i][1]) for i in spatial]
    return [a + b for a, b in zip(own, more, strict=True)] if len(own) == len(more) else None


def _fold_padding(site: Site) -> Expr | None:
    pad = site.args[0]
    if op_name(pad) != "nn.pad" or not isinstance(pad, Call):
        return None
    told, attrs, fill = attrs_of(pad), site.attrs, pad.args[1]
    if told["pad_mode"] != "constant" or not isinstance(fill, Constant):
        return None
    if not _is_neutral(site, attrs, fill.data.reshape(-1)[0]):
        return None
    padding = _padded(attrs, told["pad_width"])
    if padding is None:
        return None
    attrs["padding"] = tuple(padding)
    return Call(site.call.op, (pad.args[0], *site.args[1:]), attrs, (), site.call.span)


def _is_neutral(site: Site, attrs: Attrs, fill: np.number) -> bool:
    """Return whether the operator's own padding can replace an input padding with ``fill``.

    For an average pooling without padding, this sets ``count_include_pad`` in ``attrs``: the folded
    elements counted as part of the input.
    """
    name = op_name(site.call)
    if name == "qnn.conv2d":
        zero = site.args[2]
        return isinstance(zero, Constant) and bool((zero.data == fill).all())
    if name.startswith("nn.max_pool"):
        kind = np.dtype(site.dtype() or "float32")
        least = np.finfo(kind).min if kind.kind == "f" else np.iinfo(kind).min
        return bool(fill == least or np.isneginf(fill))
    if name.startswith("nn.avg_pool"):
        if not attrs["count_include_pad"] and any(attrs["padding"]):
            return False
        attrs["count_include_pad"] = True
    return not fill


_PADDING_RULES: dict[str, Rule] = {
    **{
        f"nn.{kind}{n}d": _fold_padding
        for kind in ("conv", "max_pool", "avg_pool")
        for n in (1, 2, 3)
    },
    "qnn.conv2d": _fold_padding,
}


def fold_explicit_padding(func: Function) -> Function:
    """Fold padding into the convolution or pooling that follows it."""
    return apply_rules(func, _PADDING_RULES)


def _flatten(site: Site) -> Expr | None:
    """Return a dilated convolution in place of a convolution between space_to_batch and
    batch_to_space; None for other expressions.
    """
    conv = site.args[0]
    if op_name(conv) != "nn.conv2d" or not isinstance(conv, Call):
        return None
    group = conv.args[0]
    if op_name(group) != "nn.space_to_batch_nd" or not isinstance(group, Call):
        return None
    told, attrs = attrs_of(group), attrs_of(conv)
    rates, pads, crops = told["block_shape"], told["paddings"], site.attrs["crops"]
    strided = tuple(attrs["strides"]) != (1, 1) or tuple(attrs["dilation"]) != (1, 1)
    if tuple(rates) != tuple(site.attrs["block_shape"]) or strided or any(attrs["padding"]):
        return None
    before = [p[0] - c[0] for p, c in zip(pads, crops, strict=True)]
    after = [p[1] - c[1] for p, c in zip(pads, crops, strict=True)]
    if min(before + after) < 0:
        return None
    attrs["dilation"], attrs["padding"] = tuple(rates), (*before, *after)
    return op_call("nn.conv2d", group.args[0], conv.args[1], **attrs)


def flatten_atrous_conv(func: Function) -> Function:
    """Replace space_to_batch, convolution and batch_to_space by one dilated convolution."""
    return apply_rules(func, {"nn.batch_to_space_nd": _flatten})


__all__ = ["flatten_atrous_conv", "fold_explicit_padding"]
