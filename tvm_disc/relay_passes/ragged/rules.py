"""Rules of operators on packed values: one function per class of operators.

A rule returns the form of the result, or the reason why the operator cannot be ragged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import tvm
from tvm import relax
from tvm.relax import op as R

from tvm_disc.graph.axes import concat_axis, permutation, reduced_axes
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.relay.importer.context import reshape_call
from tvm_disc.relay_passes.ragged.along import prefix, reduced_mask, reversal
from tvm_disc.relay_passes.ragged.forms import MERGED, Dense, Form, Packed, Padded, RaggedDim
from tvm_disc.relay_passes.ragged.items import PART, picked_items, reduced_items
from tvm_disc.relay_passes.ragged.joins import joined
from tvm_disc.relay_passes.ragged.values import Values
from tvm_disc.relay_passes.ragged.windows import convolution, pooling
from tvm_disc.relay_passes.rewrite import operand_expr, reduce_call, with_operands
from tvm_disc.typing import Expr

Forms: TypeAlias = Sequence[Form]
Rule: TypeAlias = Callable[[Values, Node, Forms], "Form | str"]

_ITEMS = "it combines elements of different items"
_ROWS = "it combines elements along the ragged axis"


def ragged_form(values: Values, node: Node, forms: Forms) -> Form | str:
    """Return the form of an operator's result, or the reason why it cannot be ragged."""
    if node.cls is OpClass.ELEMWISE:
        return _elementwise(values, node, forms)
    if node.cls is OpClass.VIEW:
        return _view(values, node, forms)
    if node.cls is OpClass.REDUCE:
        return _reduce(values, node, forms)
    rule = RULES.get(node.op)
    if rule is None:
        return "it is not supported on items of different lengths"
    return rule(values, node, forms)


def _packed(forms: Forms) -> Packed | None:
    return next((f for f in forms if isinstance(f, Packed)), None)


def _elementwise(values: Values, node: Node, forms: Forms) -> Form | str:
    place = _place_of(values, node, forms)
    if isinstance(place, str):
        return place
    if place is None:
        operands = [values.padded(f, x) for f, x in zip(forms, node.inputs, strict=True)]
        call = with_operands(node, [operand_expr(x) for x in operands])
        made = values.emit(call, node.shape, node)
        return Padded(made, any(isinstance(f, Padded) and f.result for f in forms))
    dim, at = place
    operands = []
    for form, x in zip(forms, node.inputs, strict=True):
        found = values.operand(form, x, node.shape, dim, at)
        if found is None:
            return f"the lengths of its operand {x.name} are not those of '{dim.name}'"
        operands.append(found)
    call = with_operands(node, [operand_expr(x) for x in operands])
    stored = values.dims.stored(node.shape, dim, at)
    return Packed(values.emit(call, stored, node), dim, at)


def _place_of(
    values: Values, node: Node, forms: Forms
) -> tuple[RaggedDim, tuple[int, int]] | str | None:
    """Return (dim, ``at``) of the result of an element-wise operator, or why it has none.

    Returns None if the result is padded.
    """
    if any(isinstance(f, Padded) for f in forms):
        return None
    found = []
    for form, x in zip(forms, node.inputs, strict=True):
        if isinstance(form, Packed):
            more = len(node.shape) - len(x.shape)
            merged = form.at[1] == MERGED
            found.append((form.dim, form.at if merged else (form.at[0] + more, form.at[1] + more)))
    (dim, at), *others = found
    if any(d is not dim for d, _ in others) and len(values.dims.axes_of(node.shape)) < 2:
        names = " and ".join(f"'{n}'" for n in dict.fromkeys(d.name for d, _ in found))
        return f"{names} may have different lengths; declare that they are equal in constraints"
    if any(a != at for _, a in others) or len(values.dims.axes_of(node.shape)) != 1:
        return None
    return dim, at


def _view(values: Values, node: Node, forms: Forms) -> Form | str:
    [form] = forms
    place = values.dims.place(node.shape)
    if isinstance(form, Packed):
        source = node.inputs[0].shape
        if place and values.dims.same_place(source, form.at, node.shape, place[1]):
            stored = values.dims.stored(node.shape, *place)
            made = values.emit(reshape_call(operand_expr(form.node), stored), stored, node)
            return Packed(made, *place)
    padded = values.padded(form, node.inputs[0])
    made = values.emit(reshape_call(operand_expr(padded), list(node.shape)), node.shape, node)
    return values.settled(Padded(made, isinstance(form, Padded) and form.result))


def _permute(values: Values, node: Node, forms: Forms) -> Form | str:
    [form] = forms
    axes = permutation(node)
    if isinstance(form, Packed):
        if form.at[1] == MERGED:
            if axes[0] != 0:
                return _ITEMS
            order: list[int] = list(axes)
            at = form.at
        else:
            at = (axes.index(form.at[0]), axes.index(form.at[1]))
            order = [0, *(form.axis(a) for a in axes if a not in form.at)]
        stored = values.dims.stored(node.shape, form.dim, at)
        if order == list(range(len(order))):
            return Packed(form.node, form.dim, at)
        made = values.emit(R.permute_dims(operand_expr(form.node), order), stored, node)
        return Packed(made, form.dim, at)
    padded = values.padded(form, node.inputs[0])
    made = values.emit(R.permute_dims(operand_expr(padded), list(axes)), node.shape, node)
    return values.settled(Padded(made, isinstance(form, Padded) and form.result))


def _broadcast_to(values: Values, node: Node, forms: Forms) -> Form | str:
    [form] = forms
    place = values.dims.place(node.shape)
    shape: Sequence[Expr] = node.shape
    if isinstance(form, Packed) and place is not None and place[0] is form.dim:
        source = values.operand(form, node.inputs[0], node.shape, *place)
        if source is not None:
            stored = values.dims.stored(node.shape, *place)
            return Packed(_broadcast(values, node, source, stored), *place)
    source = values.padded(form, node.inputs[0])
    return Padded(_broadcast(values, node, source, shape))


def _broadcast(values: Values, node: Node, source: Node, shape: Sequence[Expr]) -> Node:
    call = R.broadcast_to(operand_expr(source), relax.ShapeExpr(list(shape)))
    return values.emit(call, shape, node)


def _reduce(values: Values, node: Node, forms: Forms) -> Form | str:
    [form] = forms
    if isinstance(form, Padded):
        return reduced_mask(values, node, form)
    assert isinstance(form, Packed)
    axes = reduced_axes(node)
    if form.at[0] in axes:
        return _ITEMS
    if form.at[1] in axes:
        return reduced_items(values, node, form)
    at = form.at
    if not node.attrs["keepdims"]:
        first, second = (a - sum(x < a for x in axes) for a in at)
        at = (first, second if at[1] != MERGED else MERGED)
    stored = values.dims.stored(node.shape, form.dim, at)
    inner = [form.axis(a) for a in axes]
    call = reduce_call(node, operand_expr(form.node), inner, bool(node.attrs["keepdims"]))
    return Packed(values.emit(call, stored, node), form.dim, at)


def _matmul(values: Values, node: Node, forms: Forms) -> Form | str:
    rows, weights = forms
    b = node.inputs[1]
    if not isinstance(rows, Packed) or not isinstance(weights, Dense) or len(b.shape) != 2:
        return values.attention_reason(node)
    rank = len(node.inputs[0].shape)
    if rank - 1 in rows.at:
        return _ROWS
    if values.dims.sizes_in(b.shape):
        return _ROWS
    stored = values.dims.stored(node.shape, rows.dim, rows.at)
    call = with_operands(node, [operand_expr(rows.node), operand_expr(weights.node)])
    return Packed(values.emit(call, stored, node), rows.dim, rows.at)


def _take(values: Values, node: Node, forms: Forms) -> Form | str:
    data, picks = forms
    axis = node.attrs["axis"]
    if not isinstance(data, Dense) or not isinstance(picks, Packed):
        return "it gathers from a ragged value, or by indices that only an attention may read"
    shape = node.inputs[0].shape
    if axis is None or int(axis) % len(shape) != 0:
        return "its indices are ragged, and it gathers along an axis other than 0"
    if values.dims.sizes_in(shape[:1]):
        return "it gathers from a value that is padded to the largest length"
    stored = values.dims.stored(node.shape, picks.dim, picks.at)
    call = with_operands(node, [operand_expr(data.node), operand_expr(picks.node)])
    return Packed(values.emit(call, stored, node), picks.dim, picks.at)


def _slice(values: Values, node: Node, forms: Forms) -> Form | str:
    [form] = forms
    if isinstance(form, Padded):
        return "it slices a value that only an attention may read"
    assert isinstance(form, Packed)
    rank = len(node.inputs[0].shape)
    axes = [int(a) % rank for a in node.prims[0]]
    if form.at[0] in axes:
        return _ITEMS
    begin, end, *strides = ([*part] for part in node.prims[1:])
    if form.at[1] in axes:
        whole = len(axes) == 1 and all(static_dim(x) == 1 for x in strides[:1] for x in x)
        return picked_items(values, node, form, begin[0]) if whole else PART
    inner = [form.axis(a) for a in axes]
    call = R.strided_slice(
        operand_expr(form.node),
        inner,
        begin,
        end,
        strides[0] if strides else [1] * len(inner),
        assume_inbound=bool(node.attrs.get("assume_inbound")),
    )
    stored = values.dims.stored(node.shape, form.dim, form.at)
    return Packed(values.emit(call, stored, node), form.dim, form.at)


def _concat(values: Values, node: Node, forms: Forms) -> Form | str:
    first = _packed(forms)
    if first is None or any(isinstance(f, Padded) for f in forms):
        return "it concatenates values that only an attention may read"
    axis = concat_axis(node)
    if axis in first.at:
        return joined(values, node, forms) if axis == first.at[1] else _ITEMS
    parts = []
    for form, x in zip(forms, node.inputs, strict=True):
        found = values.whole(form, x, first.dim, first.at)
        if found is None:
            return f"its operand {x.name} does not have the lengths of '{first.dim.name}'"
        parts.append(operand_expr(found))
    call = R.concat(parts, first.axis(axis))
    stored = values.dims.stored(node.shape, first.dim, first.at)
    return Packed(values.emit(call, stored, node), first.dim, first.at)


def filled(values: Values, node: Node) -> Form | None:
    """Return the packed form of a constant of ragged shape, or None."""
    place = values.dims.place(node.shape)
    if place is None:
        return None
    stored = values.dims.stored(node.shape, *place)
    args = [relax.ShapeExpr(list(stored)), *node.expr.args[1:]]
    call = tvm.ir.Call(node.expr.op, args, node.expr.attrs, node.expr.ty_args)
    return Packed(values.emit(call, stored, node), *place)


RULES: Mapping[str, Rule] = {
    "relax.broadcast_to": _broadcast_to,
    "relax.concat": _concat,
    "relax.cumprod": lambda values, node, forms: prefix(values, node, *forms),
    "relax.cumsum": lambda values, node, forms: prefix(values, node, *forms),
    "relax.flip": lambda values, node, forms: reversal(values, node, *forms),
    "relax.matmul": _matmul,
    "relax.nn.avg_pool1d": pooling,
    "relax.nn.conv1d": convolution,
    "relax.nn.max_pool1d": pooling,
    "relax.permute_dims": _permute,
    "relax.strided_slice": _slice,
    "relax.take": _take,
}

__all__ = ["filled", "ragged_form"]
