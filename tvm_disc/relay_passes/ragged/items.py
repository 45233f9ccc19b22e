"""Values with one entry per item: reductions over the ragged axis, and elements at fixed positions.

    before   x[b, s, 64];  y[b, 64] = mean(x, axis=1);  z[b, 64] = x[:, 0]
    after    x[t, 64];     y[b, 64] = segments(x, offsets);  z[b, 64] = take(x, offsets[:b])

The results are dense values of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from tvm import relax, tirx
from tvm.relax import op as R

from tvm_disc.graph.axes import reduced_axes
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.relay.kernel_ops import kernel_call
from tvm_disc.relay_passes.ragged.forms import Dense, Packed, RaggedDim
from tvm_disc.relay_passes.ragged.values import Values
from tvm_disc.relay_passes.rewrite import operand_expr, reduce_call
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr

PART = "it slices the ragged axis; expected a slice of this axis alone, of known size, by step 1"
_OPERATORS: Mapping[type, Callable[[Expr, Expr], Expr]] = {
    tirx.Add: R.add,
    tirx.Sub: R.subtract,
    tirx.Mul: R.multiply,
    tirx.Min: R.minimum,
    tirx.Max: R.maximum,
    tirx.FloorDiv: R.floor_divide,
    tirx.FloorMod: R.floor_mod,
}


def reduced_items(values: Values, node: Node, form: Packed) -> Dense | str:
    """Return the form of a reduction over the ragged axis, and optionally over axes of a row."""
    axes = reduced_axes(node)
    inner = [form.axis(a) for a in axes if a != form.at[1]]
    stored = form.node
    if inner:
        shape = [i64(1) if k in inner else d for k, d in enumerate(stored.shape)]
        call = reduce_call(node, operand_expr(stored), inner, True)
        stored = values.emit(call, shape, node)
    dims = [form.dim.items, *stored.shape[1:]]
    operands = [operand_expr(stored), operand_expr(form.dim.offsets)]
    # This operand makes the kernel run after the checks of the offsets.
    operands.append(relax.ShapeExpr([form.dim.size]))
    call = kernel_call("disc.segments", operands, dims, node.dtype, reduce=node.op)
    rest = [d for a, d in enumerate(node.inputs[0].shape) if a not in form.at]
    moved = [i64(1) if a in inner else d for a, d in enumerate(rest, 1)]
    return _of_model(values, node, form, values.emit(call, dims, node), [i64(1), *moved])


def reduced_everywhere(values: Values, node: Node, form: Packed) -> Dense:
    """Return the form of a reduction over all rows of the batch."""
    axes = range(len(form.node.shape))
    made = values.emit(reduce_call(node, operand_expr(form.node), axes, False), [], node)
    return Dense(values.shaped(made, list(node.shape)))


def picked_items(values: Values, node: Node, form: Packed, begin: Expr) -> Dense | str:
    """Return the form of a slice of the ragged axis, or why it is refused.

    The size of the slice must be literal; ``begin`` may depend on s.
    """
    dim, count = form.dim, static_dim(node.shape[form.at[1]])
    first = None if count is None else of_items(values, dim, begin)
    if count is None or first is None:
        return PART
    row = _emit(values, R.add(starts(values, dim), first), [dim.items])
    column = operand_expr(values.shaped(row, [dim.items, i64(1)]))
    shape = [dim.items, i64(count)]
    rows = _emit(values, R.add(column, relax.const(np.arange(count), "int64")), shape)
    stored = [*shape, *form.node.shape[1:]]
    made = values.emit(R.take(operand_expr(form.node), operand_expr(rows), 0, "clip"), stored, node)
    return _of_model(values, node, form, made, stored[1:])


def of_items(values: Values, dim: RaggedDim, expr: Expr) -> Expr | None:
    """Emit ``expr`` for every item: int64 ``[b]``, or ``[1]`` for a literal.

    ``expr`` is an expression of the length of ``dim``, or of its root if it has one. Returns None
    for other expressions.
    """
    dim = dim.root or dim
    if isinstance(expr, tirx.IntImm):
        return relax.const(np.asarray([int(expr.value)]), "int64")
    if expr.same_as(dim.size):
        return operand_expr(lengths(values, dim))
    build = _OPERATORS.get(type(expr))
    if build is None:
        return None
    a, b = (of_items(values, dim, x) for x in (expr.a, expr.b))
    return None if a is None or b is None else operand_expr(_emit(values, build(a, b), [dim.items]))


def lengths(values: Values, dim: RaggedDim) -> Node:
    """Return the length of every item, int64 ``[b]``."""
    if "lengths" not in dim.made:
        call = R.subtract(ends(values, dim), starts(values, dim))
        dim.made["lengths"] = _emit(values, call, [dim.items])
    return dim.made["lengths"]


def starts(values: Values, dim: RaggedDim) -> Expr:
    """Return the first row of every item, int64 ``[b]``."""
    return _ends(values, dim, 0)


def ends(values: Values, dim: RaggedDim) -> Expr:
    """Return the row after the last row of every item, int64 ``[b]``."""
    return _ends(values, dim, 1)


def _ends(values: Values, dim: RaggedDim, k: int) -> Expr:
    """Return the first row of every item (k = 0), or of the next item (k = 1)."""
    part = R.strided_slice(operand_expr(dim.offsets), [0], [k], [dim.items + k], [1])
    return operand_expr(_emit(values, part, [dim.items]))


def _emit(values: Values, call: Expr, shape: Sequence[Expr]) -> Node:
    return values.out.emit(call, list(shape), "int64")


def _of_model(values: Values, node: Node, form: Packed, made: Node, rest: Sequence[Expr]) -> Dense:
    """Return a value with one entry per item in the shape of ``node``."""
    stored = values.shaped(made, [form.dim.items, *rest])
    order = [*form.at, *(a for a in range(len(node.inputs[0].shape)) if a not in form.at)]
    back = [order.index(a) for a in range(len(order))]
    return Dense(values.shaped(values.permuted(stored, back), list(node.shape)))


__all__ = [
    "PART",
    "ends",
    "lengths",
    "of_items",
    "picked_items",
    "reduced_everywhere",
    "reduced_items",
    "starts",
]
