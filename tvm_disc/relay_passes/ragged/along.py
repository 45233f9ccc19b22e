"""Operators along the ragged axis whose result has it, too: convolutions, prefix sums, and
reductions of masks over the keys.

A convolution of packed rows reads the rows beside each row, and zeros outside of the item:

    y[t, out] = concat(row - 1, row, row + 1)[t, 3 * in] @ weight[3 * in, out]

Prefix sums and reductions of masks are computed for the largest length, since these values are
small: prefixes do not depend on what follows, and elements behind the end of an item are replaced
by the neutral element of a reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from tvm import relax
from tvm.relax import op as R

from tvm_disc.graph.axes import reduced_axes
from tvm_disc.graph.nodes import Node, const_node, static_dim
from tvm_disc.relay_passes.ragged.forms import MERGED, Dense, Form, Packed, Padded
from tvm_disc.relay_passes.ragged.items import lengths
from tvm_disc.relay_passes.ragged.values import Values
from tvm_disc.relay_passes.rewrite import operand_expr, with_operands
from tvm_disc.support.literals import as_literal
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr

_SCORES = "only an attention may combine the elements of its scores"
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
    """Return a reduction over the keys of a value that is no part of an attention."""
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
    """Return a sum or product of prefixes."""
    axis = node.attrs["axis"]
    if not isinstance(form, Packed) or axis is None:
        return "it combines elements of different items"
    place = int(axis) % len(node.shape)
    if place == form.at[0] or form.at[1] == MERGED:
        return "it combines elements of different items"
    padded = values.padded(form, node.inputs[0])
    return _packed(values, node, with_operands(node, [operand_expr(padded)]))


def convolution(values: Values, node: Node, forms: Sequence[Form]) -> Form | str:
    """Return a convolution along the ragged axis that keeps the length."""
    form, weight = forms
    size, strides = static_dim(node.inputs[1].shape[2]), node.attrs["strides"]
    before, after = (int(p) for p in node.attrs["padding"])
    apart = int(node.attrs["dilation"][0])
    plain = (node.attrs["data_layout"], node.attrs["kernel_layout"]) == ("NCW", "OIW")
    if not isinstance(form, Packed) or form.at != (0, 2) or not isinstance(weight, Dense):
        return "only its data may be ragged, along the axis of the window"
    if not plain or size is None or int(node.attrs["groups"]) != 1:
        return "it has groups, a layout other than NCW and OIW, or a window of unknown size"
    if int(strides[0]) != 1 or before + after != (size - 1) * apart:
        return "it changes the length"
    dim, rest = form.dim, list(form.node.shape[1:])
    parts = [_shifted(values, form, k * apart - before) for k in range(size)]
    columns = i64(size) * rest[0]
    rows = values.emit(
        R.concat([operand_expr(p) for p in parts], 1), [dim.rows, columns], form.node
    )
    outs = node.shape[1]
    kernel = node.inputs[1]
    if kernel.value is not None:
        turned = np.ascontiguousarray(kernel.value.transpose(2, 1, 0)).reshape(
            -1, len(kernel.value)
        )
        matrix = const_node(as_literal(turned, kernel.dtype))
    else:
        matrix = values.shaped(values.permuted(weight.node, [2, 1, 0]), [columns, outs])
    call = R.matmul(operand_expr(rows), operand_expr(matrix))
    return Packed(values.emit(call, [dim.rows, outs], node), dim, form.at)


def _shifted(values: Values, form: Packed, by: int) -> Node:
    """Return row ``i + by`` of the same item for every row i, and zeros outside of the item."""
    if by == 0:
        return form.node
    dim, rows = form.dim, [form.dim.rows]
    shift = relax.const(by, "int64")

    def emit(call: Expr, dtype: str = "int64") -> Expr:
        return operand_expr(values.out.emit(call, rows, dtype))

    key = f"shift {by}"
    if key not in dim.made:
        own = emit(R.take(operand_expr(lengths(values, dim)), operand_expr(values.items(dim)), 0))
        place = emit(R.add(operand_expr(values.positions(dim)), shift))
        low = emit(R.greater_equal(place, relax.const(0, "int64")), "bool")
        high = emit(R.less(place, own), "bool")
        inside = values.out.emit(R.logical_and(low, high), rows, "bool")
        dim.made[key] = values.shaped(inside, [dim.rows, i64(1)])
        dim.made[f"row {by}"] = values.out.emit(
            R.add(emit(R.arange(0, dim.rows, 1, "int64")), shift), rows, "int64"
        )
    picks, inside = dim.made[f"row {by}"], dim.made[key]
    moved = R.take(operand_expr(form.node), operand_expr(picks), 0, "clip")
    shape = list(form.node.shape)
    found = values.emit(moved, shape, form.node)
    zero = relax.const(np.zeros((), form.node.dtype), form.node.dtype)
    return values.emit(R.where(operand_expr(inside), operand_expr(found), zero), shape, form.node)


def _along(values: Values, x: Node, size: Expr, axis: int, rank: int) -> Expr:
    shape = [i64(1)] * rank
    shape[axis] = size
    return operand_expr(values.shaped(x, shape))


def _packed(values: Values, node: Node, call: Expr) -> Form | str:
    """Return the value of the model, packed if it has rows of items."""
    made, place = values.emit(call, node.shape, node), values.dims.place(node.shape)
    if place is None:
        return _SCORES if values.dims.sizes_in(node.shape) else Dense(made)
    found = values.whole(Dense(made), node, *place)
    return _SCORES if found is None else Packed(found, *place)


__all__ = ["convolution", "prefix", "reduced_mask"]
