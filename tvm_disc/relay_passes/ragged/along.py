"""Reversals and prefix sums, whose results keep the ragged axis, and reductions of masks over the
keys.

A reversal reads the rows of an item in reverse order.

Prefix sums and reductions of masks are computed on values that are padded to the largest length,
since these values are small. A prefix does not depend on later elements. For a reduction, elements
after the end of an item are replaced by the neutral element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from tvm import relax
from tvm.relax import op as R

from tvm_disc.graph.axes import reduced_axes
from tvm_disc.graph.nodes import Node
from tvm_disc.relay_passes.ragged.forms import MERGED, Dense, Form, Packed, Padded, RaggedDim
from tvm_disc.relay_passes.ragged.items import ends, lengths
from tvm_disc.relay_passes.ragged.values import Values
from tvm_disc.relay_passes.rewrite import operand_expr, with_operands
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr

_ONE = relax.const(np.asarray(1, "int64"), "int64")
_SCORES = "it combines elements of scores or of a mask, which only an attention may do"
_NEUTRAL: Mapping[str, Callable[[str], object]] = {
    "relax.sum": lambda dtype: 0,
    "relax.max": lambda dtype: False if dtype == "bool" else _limits(dtype)[0],
    "relax.min": lambda dtype: True if dtype == "bool" else _limits(dtype)[1],
}


def _limits(dtype: str) -> tuple[object, object]:
    if "float" in dtype:
        return -np.inf, np.inf
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def reduced_mask(values: Values, node: Node, form: Padded) -> Form | str:
    """Return the form of a reduction over the keys of a mask, outside of an attention, or a
    reason.
    """
    x, solver = node.inputs[0], values.dims.solver
    axes = reduced_axes(node)
    dim = next((d for d in values.dims.dims if solver.known_eq(x.shape[axes[0]], d.size)), None)
    neutral = _NEUTRAL.get(node.op)
    if form.result or len(axes) != 1 or dim is None or neutral is None:
        return _SCORES
    rank, items = len(x.shape), [k for k, d in enumerate(x.shape) if solver.known_eq(d, dim.items)]
    if len(items) != 1:
        return _SCORES
    sizes = _along(values, lengths(values, dim), dim.items, items[0], rank)
    places = values.out.emit(R.arange(0, dim.size, 1, "int64"), [dim.size], "int64")
    inside = R.less(_along(values, places, dim.size, axes[0], rank), sizes)
    shape = [i64(1)] * rank
    shape[items[0]], shape[axes[0]] = dim.items, dim.size
    test = operand_expr(values.out.emit(inside, shape, "bool"))
    empty = relax.const(np.asarray(neutral(x.dtype), x.dtype), x.dtype)
    filled = values.out.emit(R.where(test, operand_expr(form.node), empty), x.shape, x.dtype)
    return _packed(values, node, with_operands(node, [operand_expr(filled)]))


def prefix(values: Values, node: Node, form: Form) -> Form | str:
    """Return the form of a cumulative sum or product along the ragged axis or another axis."""
    axis = node.attrs["axis"]
    if not isinstance(form, Packed) or axis is None:
        return "it combines elements of different items"
    place = int(axis) % len(node.shape)
    if place == form.at[0] or form.at[1] == MERGED:
        return "it combines elements of different items"
    padded = values.padded(form, node.inputs[0])
    return _packed(values, node, with_operands(node, [operand_expr(padded)]))


def reversal(values: Values, node: Node, form: Form) -> Form | str:
    """Return the form of a flip of one axis."""
    axis = int(node.attrs["axis"]) % len(node.shape)
    if not isinstance(form, Packed) or axis == form.at[0]:
        return "it combines elements of different items"
    stored = values.dims.stored(node.shape, form.dim, form.at)
    rows = operand_expr(form.node)
    if axis != form.at[1]:
        call = R.flip(rows, form.axis(axis))
    else:
        call = R.take(rows, operand_expr(_opposite(values, form.dim)), 0, "clip")
    return Packed(values.emit(call, stored, node), form.dim, form.at)


def _opposite(values: Values, dim: RaggedDim) -> Node:
    """Return for each row the index of its mirrored row in the same item, int64 ``[t]``."""
    if "opposite" not in dim.made:
        last = values.out.emit(R.subtract(ends(values, dim), _ONE), [dim.items], "int64")
        items = operand_expr(values.items(dim))
        of_row = values.out.emit(R.take(operand_expr(last), items, 0, "clip"), [dim.rows], "int64")
        call = R.subtract(operand_expr(of_row), operand_expr(values.positions(dim)))
        dim.made["opposite"] = values.out.emit(call, [dim.rows], "int64")
    return dim.made["opposite"]


def _along(values: Values, x: Node, size: Expr, axis: int, rank: int) -> Expr:
    shape = [i64(1)] * rank
    shape[axis] = size
    return operand_expr(values.shaped(x, shape))


def _packed(values: Values, node: Node, call: Expr) -> Form | str:
    """Emit a call of the model; pack its result if the result has a ragged axis."""
    made, place = values.emit(call, node.shape, node), values.dims.place(node.shape)
    if place is None:
        return _SCORES if values.dims.sizes_in(node.shape) else Dense(made)
    found = values.whole(Dense(made), node, *place)
    return _SCORES if found is None else Packed(found, *place)


__all__ = ["prefix", "reduced_mask", "reversal"]
