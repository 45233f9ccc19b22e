"""``DynamicToStatic``: replace shape operands of operators by attributes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvm_disc.relay.expr import Call, Constant, Expr, Function
from tvm_disc.relay.ops.table import OPS
from tvm_disc.relay_api.dataflow_pattern.known_types import KnownTypes
from tvm_disc.relay_api.expr_functor import rewrite_post_order
from tvm_disc.relay_api.transform.fold_constant import fold_constant
from tvm_disc.relay_api.transform.rules import attrs_of, op_call, op_name

Static = Callable[..., Expr]


def _ints(value: object) -> tuple[int, ...]:
    return tuple(int(v) for v in np.asarray(value).reshape(-1))


def _named(name: str, *attributes: str, scalar: bool = False, **more: object) -> tuple[int, Static]:
    """Return the rule that replaces a dynamic operator by the static operator ``name``, whose
    ``attributes`` are the last operands of the dynamic one.
    """

    def make(args: tuple[Expr, ...], values: list[object], attrs: dict[str, object]) -> Expr:
        given = {a: _ints(v) for a, v in zip(attributes, values, strict=True)}
        if scalar:
            given = {a: v[0] for a, v in given.items()}  # type: ignore[misc]
        return op_call(name, *args, **{**more, **_kept(name, attrs), **given})

    return len(attributes), make


def _kept(name: str, attrs: dict[str, object]) -> dict[str, object]:
    return {k: v for k, v in attrs.items() if k in OPS[name].attrs and v is not None}


def _expand_dims(args: tuple[Expr, ...], values: list[object], attrs: dict[str, object]) -> Expr:
    (axis,) = _ints(values[0])
    return op_call("expand_dims", *args, axis=axis, num_newaxis=attrs["num_newaxis"])


def _upsampling(count: int, name: str) -> tuple[int, Static]:
    fields = ("scale_d", "scale_h", "scale_w")[-count:]

    def make(args: tuple[Expr, ...], values: list[object], attrs: dict[str, object]) -> Expr:
        scales = {f: float(np.asarray(v).item()) for f, v in zip(fields, values, strict=True)}
        return op_call(name, *args, **{**_kept(name, attrs), **scales})

    return count, make


def _resize(args: tuple[Expr, ...], values: list[object], attrs: dict[str, object]) -> Expr:
    roi = tuple(float(v) for v in np.asarray(values[1]).reshape(-1))
    told = {**_kept("image.resize2d", attrs), "size": _ints(values[0]), "roi": roi}
    return op_call("image.resize2d", *args, **told)


def _pad(args: tuple[Expr, ...], values: list[object], attrs: dict[str, object]) -> Expr:
    widths = tuple(_ints(row) for row in np.asarray(values[0]))
    fill = Constant(np.asarray(values[1]))
    return op_call("nn.pad", *args, fill, pad_width=widths, pad_mode=attrs["pad_mode"])


def _full(args: tuple[Expr, ...], values: list[object], attrs: dict[str, object]) -> Expr:
    return op_call("full", *args, shape=_ints(values[0]), dtype=attrs["dtype"])


# Dynamic operator -> (number of trailing operands read, function that builds the static call).
STATIC: dict[str, tuple[int, Static]] = {
    "dyn.reshape": _named("reshape", "newshape"),
    "dyn.squeeze": _named("squeeze", "axis"),
    "dyn.expand_dims": (1, _expand_dims),
    "dyn.tile": _named("tile", "reps"),
    "dyn.topk": _named("topk", "k", scalar=True),
    "dyn.broadcast_to": _named("broadcast_to", "shape"),
    "dyn.zeros": _named("zeros", "shape"),
    "dyn.ones": _named("ones", "shape"),
    "dyn.one_hot": _named("one_hot", "depth", scalar=True),
    "dyn.full": (1, _full),
    "dyn.strided_slice": _named("strided_slice", "begin", "end", "strides", axes=None),
    "dyn.sparse_to_dense": _named("sparse_to_dense", "output_shape"),
    "dyn.nn.upsampling": _upsampling(2, "nn.upsampling"),
    "dyn.nn.upsampling3d": _upsampling(3, "nn.upsampling3d"),
    "dyn.nn.pad": (2, _pad),
    "dyn.image.resize2d": (2, _resize),
}


def dynamic_to_static(func: Function) -> Function:
    """Replace operators of ``STATIC`` whose trailing operands are known, until nothing changes."""
    while True:
        folded = fold_constant(func)
        made = _once(folded)
        if made is folded:
            assert isinstance(made, Function)
            return made
        func = made


def _once(func: Expr) -> Function:
    types = KnownTypes(func)

    def leave(before: Expr, made: Expr) -> Expr:
        if not isinstance(before, Call) or not isinstance(made, Call):
            return made
        row = STATIC.get(op_name(made))
        if row is None:
            return made
        count, make = row
        values = [types.value(a) for a in before.args[-count:]]
        if any(v is None for v in values):
            return made
        return make(made.args[:-count], values, attrs_of(made))

    result = rewrite_post_order(func, leave)
    assert isinstance(result, Function)
    return result


__all__ = ["dynamic_to_static"]
