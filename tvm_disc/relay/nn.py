"""``relay.nn.*``: from the table, and written out where Relay's Python function differs."""

from __future__ import annotations

from typing import Any

from . import op
from .builder import call, const
from .expr import Call, ExprLike, TupleGetItem, TupleWrapper


def __getattr__(name: str) -> Any:
    return op.member("nn", name)


def batch_norm(
    data: ExprLike,
    gamma: ExprLike,
    beta: ExprLike,
    moving_mean: ExprLike,
    moving_var: ExprLike,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> TupleWrapper:
    """(normalised data, mean, variance)."""
    args = (data, gamma, beta, moving_mean, moving_var)
    out = call("nn.batch_norm", args, axis=axis, epsilon=epsilon, center=center, scale=scale)
    return TupleWrapper(out, 3)


def dropout(data: ExprLike, rate: float = 0.5) -> TupleGetItem:
    """The data with dropout (the identity at inference)."""
    return dropout_raw(data, rate)[0]


def dropout_raw(data: ExprLike, rate: float = 0.5) -> TupleWrapper:
    """(data with dropout, mask)."""
    return TupleWrapper(call("nn.dropout", (data,), rate=rate), 2)


def pad(data: ExprLike, pad_width: Any, pad_value: Any = 0, pad_mode: str = "constant") -> Call:
    """``nn.pad``, or ``dyn.nn.pad`` when the widths are computed."""
    pad_width = op.known(pad_width)
    value = pad_value if op.is_expr(pad_value) else const(pad_value)
    if op.is_expr(pad_width):
        return call("dyn.nn.pad", (data, pad_width, value), pad_mode=pad_mode)
    return call("nn.pad", (data, value), pad_width=pad_width, pad_mode=pad_mode)


def upsampling(
    data: ExprLike,
    scale_h: Any = 1,
    scale_w: Any = 1,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> Call:
    """``nn.upsampling``, or its ``dyn`` form when a factor is computed."""
    h, w = op.known(scale_h), op.known(scale_w)
    attrs = {"layout": layout, "method": method, "align_corners": align_corners}
    if op.is_expr(h) or op.is_expr(w):
        factors = [v if op.is_expr(v) else const(v, "float64") for v in (h, w)]
        return call("dyn.nn.upsampling", (data, *factors), **attrs)
    return call("nn.upsampling", (data,), scale_h=h, scale_w=w, **attrs)


def upsampling3d(
    data: ExprLike,
    scale_d: Any = 1,
    scale_h: Any = 1,
    scale_w: Any = 1,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
) -> Call:
    """``nn.upsampling3d``, or its ``dyn`` form when a factor is computed."""
    scales = [op.known(s) for s in (scale_d, scale_h, scale_w)]
    mode = coordinate_transformation_mode
    attrs: dict[str, Any] = {
        "layout": layout,
        "method": method,
        "coordinate_transformation_mode": mode,
    }
    if any(map(op.is_expr, scales)):
        factors = [v if op.is_expr(v) else const(v, "float64") for v in scales]
        return call("dyn.nn.upsampling3d", (data, *factors), **attrs)
    d, h, w = scales
    return call("nn.upsampling3d", (data,), scale_d=d, scale_h=h, scale_w=w, **attrs)
