"""Rewrite explicit broadcasts, which some front ends emit before every operator.

Element-wise operators broadcast their operands, so that a ``broadcast_to`` before one is redundant
if the other operands give the result its shape. DISC has the same pass on dynamic HLO (Zhu et al.,
DISC, EuroMLSys 2021).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
from tvm.relax import op as R

from tvm_disc.graph.axes import permutation, reduced_axes
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, is_one
from tvm_disc.relay.importer.context import i64, reshape_call
from tvm_disc.relay_passes.rewrite import (
    Sequence_,
    operand_expr,
    reduce_call,
    same_dims,
    with_operands,
)
from tvm_disc.typing import Expr

BROADCAST = "relax.broadcast_to"
COSTLY = 4  # cost of a division, in units of an addition


def _joined(shapes: Sequence[Sequence[Expr]]) -> list[Expr] | None:
    """Return the shape to which shapes are broadcast.

    Returns None if two dims of one axis are neither 1 nor structurally equal.
    """
    rank = max((len(s) for s in shapes), default=0)
    found: list[Expr] = []
    for axis in range(rank):
        dims = [s[axis - rank + len(s)] for s in shapes if axis - rank + len(s) >= 0]
        wide = [d for d in dims if not is_one(d)]
        if any(not same_dims([d], wide[:1]) for d in wide[1:]):
            return None
        found.append(wide[0] if wide else dims[0])
    return found


def _gives(shapes: Sequence[Sequence[Expr]], result: Sequence[Expr]) -> bool:
    """Return whether shapes are known to be broadcast to ``result``."""
    joined = _joined(shapes)
    return joined is not None and same_dims(joined, result)


def _call(node: Node, inputs: Sequence[Node]) -> Expr:
    return with_operands(node, [operand_expr(x) for x in inputs])


def operator_of_broadcast(out: Sequence_, node: Node) -> Node | None:
    """op(broadcast_to(x), y) -> op(x, y), if the result keeps its shape."""
    if node.cls is not OpClass.ELEMWISE or len(node.inputs) < 2:
        return None
    inputs = list(node.inputs)
    changed = False
    for k, x in enumerate(inputs):
        if x.op != BROADCAST:
            continue
        trial = [*inputs[:k], x.inputs[0], *inputs[k + 1 :]]
        if _gives([y.shape for y in trial], node.shape):
            inputs, changed = trial, True
    return out.emit(_call(node, inputs), node.shape, node.dtype, node) if changed else None


def operator_before_broadcast(out: Sequence_, node: Node) -> Node | None:
    """op(broadcast_to(x), broadcast_to(y), c) -> broadcast_to(op(x, y, c)), which computes less.

    needs: an operator that costs at least as much as a division. A cheaper operator is recomputed
    in its readers, so the rewrite would gain nothing.
    """
    if node.cls is not OpClass.ELEMWISE or node.row is None or node.row.cost < COSTLY:
        return None
    wide = [x for x in node.inputs if x.op == BROADCAST]
    if not wide or any(x.op != BROADCAST and not x.is_scalar_const for x in node.inputs):
        return None
    inputs = [x.inputs[0] if x.op == BROADCAST else x for x in node.inputs]
    shape = _joined([x.shape for x in inputs])
    if shape is None or same_dims(shape, node.shape):
        return None
    made = out.emit(_call(node, inputs), shape, node.dtype, node)
    call = R.broadcast_to(operand_expr(made), tvm.relax.ShapeExpr(list(node.shape)))
    return out.emit(call, node.shape, node.dtype, node)


def broadcast_of_broadcast(out: Sequence_, node: Node) -> Node | None:
    """broadcast_to(broadcast_to(x)) -> broadcast_to(x)."""
    if node.op != BROADCAST or node.inputs[0].op != BROADCAST:
        return None
    source = node.inputs[0].inputs[0]
    call = R.broadcast_to(operand_expr(source), tvm.relax.ShapeExpr(list(node.shape)))
    return out.emit(call, node.shape, node.dtype, node)


def neutral_operand(out: Sequence_, node: Node) -> Node | None:
    """max(x, -inf), min(x, inf), x * 1, x / 1, integer x + 0 and x - 0 -> x."""
    if node.op not in _NEUTRAL or len(node.inputs) != 2:
        return None
    for k, c in enumerate(node.inputs):
        x = node.inputs[1 - k]
        if not c.is_scalar_const or x.is_scalar_const or (k == 0 and node.op in _ORDERED):
            continue
        value = np.asarray(c.value, np.float64)
        if node.op in _SUMS and "int" not in node.dtype:
            continue
        same = node.dtype == x.dtype and same_dims(node.shape, x.shape)
        if same and bool((value == _NEUTRAL[node.op]).all()):
            return x
    return None


def _inserted(view: Node) -> list[int] | None:
    """Return the axes of 1 that a view adds to its source; None for another view."""
    source, left = list(view.inputs[0].shape), list(view.shape)
    added, k = [], 0
    for axis, d in enumerate(left):
        if k < len(source) and same_dims([d], [source[k]]):
            k += 1
        elif is_one(d):
            added.append(axis)
        else:
            return None
    return added if k == len(source) and added else None


def reduction_of_view(out: Sequence_, node: Node) -> Node | None:
    """reduce(reshape(x)) -> reshape(reduce(x)), if the reshape only adds axes of 1."""
    if node.cls is not OpClass.REDUCE or len(node.inputs) != 1:
        return None
    view = node.inputs[0]
    if view.cls is not OpClass.VIEW or view.inputs[0].op == "const":
        return None
    added, axes = _inserted(view), node.attrs["axis"]
    if added is None or axes is None:
        return None
    rank = len(view.shape)
    given = [int(a) % rank for a in (axes if hasattr(axes, "__len__") else [axes])]
    if any(a in added for a in given):
        return None
    moved = [a - sum(k < a for k in added) for a in given]
    keep = bool(node.attrs["keepdims"])
    source = view.inputs[0]
    call = reduce_call(node, operand_expr(source), moved, keep)
    one = i64(1)
    shape = [one if a in moved else d for a, d in enumerate(source.shape) if keep or a not in moved]
    made = out.emit(call, shape, node.dtype, node)
    return out.emit(reshape_call(operand_expr(made), node.shape), node.shape, node.dtype, node)


def reduction_of_broadcast(out: Sequence_, node: Node) -> Node | None:
    """reduce(op(broadcast_to(x))) -> broadcast_to(reduce(op(x))), for unary operators.

    needs: the broadcast keeps the axes that are reduced.
    """
    if node.cls is not OpClass.REDUCE or len(node.inputs) != 1:
        return None
    chain, wide = [], node.inputs[0]
    while wide.cls is OpClass.ELEMWISE and len(wide.inputs) == 1:
        chain.append(wide)
        wide = wide.inputs[0]
    if wide.op != BROADCAST or node.attrs["axis"] is None:
        return None
    x, rank = wide.inputs[0], len(wide.shape)
    axes, more = reduced_axes(node), rank - len(x.shape)
    kept = [a >= more and same_dims([x.shape[a - more]], [wide.shape[a]]) for a in axes]
    if not all(kept) or same_dims(x.shape, wide.shape):
        return None
    for op in reversed(chain):
        x = out.emit(_call(op, [x]), x.shape, op.dtype, op)
    moved = [a - more for a in axes]
    call = reduce_call(node, operand_expr(x), moved, True)
    shape = [i64(1) if a in moved else d for a, d in enumerate(x.shape)]
    x = out.emit(call, shape, node.dtype, node)
    if not node.attrs["keepdims"]:
        shape = [d for a, d in enumerate(x.shape) if a not in moved]
        x = out.emit(reshape_call(operand_expr(x), shape), shape, node.dtype, node)
    call = R.broadcast_to(operand_expr(x), tvm.relax.ShapeExpr(list(node.shape)))
    return out.emit(call, node.shape, node.dtype, node)


def permutation_of_view(out: Sequence_, node: Node) -> Node | None:
    """permute(reshape(x)) -> reshape(permute(x)), if the reshape only adds axes of 1."""
    if node.op != "relax.permute_dims" or node.inputs[0].cls is not OpClass.VIEW:
        return None
    view = node.inputs[0]
    added = _inserted(view)
    if added is None or view.inputs[0].op == "const":
        return None
    kept = [a for a in permutation(node) if a not in added]
    order = [a - sum(k < a for k in added) for a in kept]
    source = view.inputs[0]
    shape = [source.shape[a] for a in order]
    made = out.emit(R.permute_dims(operand_expr(source), order), shape, node.dtype, node)
    return out.emit(reshape_call(operand_expr(made), node.shape), node.shape, node.dtype, node)


def operator_of_views(out: Sequence_, node: Node) -> Node | None:
    """op(reshape(x), reshape(y), c) -> reshape(op(x, y, c)): drop the axes of size 1 of the result.

    needs: the shape of x or y already is the shape of its reshape without these axes.
    """
    if node.cls is not OpClass.ELEMWISE or node.op == "const":
        return None
    wide = [x for x in node.inputs if not x.is_scalar_const]
    ones = [a for a, d in enumerate(node.shape) if is_one(d)]
    if not wide or not ones or any(x.cls is not OpClass.VIEW or x.is_output for x in wide):
        return None
    rank = len(node.shape)
    if any(len(x.shape) != rank for x in wide):
        return None
    shapes = [[d for a, d in enumerate(x.shape) if a not in ones] for x in wide]
    result = [d for a, d in enumerate(node.shape) if a not in ones]
    if not any(same_dims(shape, x.inputs[0].shape) for x, shape in zip(wide, shapes, strict=True)):
        return None
    if not _gives(shapes, result) or any(
        x.is_scalar_const and len(x.shape) > len(result) for x in node.inputs
    ):
        return None
    made = {}
    for x, shape in zip(wide, shapes, strict=True):
        source = x.inputs[0]
        if not same_dims(shape, source.shape):
            call = reshape_call(operand_expr(source), shape)
            source = out.emit(call, shape, source.dtype, x)
        made[x] = source
    call = _call(node, [made.get(x, x) for x in node.inputs])
    moved = out.emit(call, result, node.dtype, node)
    return out.emit(reshape_call(operand_expr(moved), node.shape), node.shape, node.dtype, node)


_SUMS = ("relax.add", "relax.subtract")
_ORDERED = ("relax.subtract", "relax.divide")
_NEUTRAL = {
    "relax.maximum": -np.inf,
    "relax.minimum": np.inf,
    "relax.multiply": 1.0,
    "relax.divide": 1.0,
    "relax.add": 0.0,
    "relax.subtract": 0.0,
}

__all__ = [
    "broadcast_of_broadcast",
    "neutral_operand",
    "operator_before_broadcast",
    "operator_of_broadcast",
    "operator_of_views",
    "permutation_of_view",
    "reduction_of_broadcast",
    "reduction_of_view",
]
