"""Concatenation along the ragged axis: item by item, the rows of all operands in order.

    before   y[b, s + 1, 64] = concat(token[b, 1, 64], x[b, s, 64])
    after    y[t + b, 64]    = take(concat(token[b, 64], x[t, 64]), rows)

``rows`` has for every row of the result its row in the concatenation of all operands. The result
has a derived dim (``derived.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import relax
from tvm.relax import op as R

from tvm_disc.graph.axes import concat_axis
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.relay_passes.ragged.forms import MERGED, Form, Packed, Padded, RaggedDim
from tvm_disc.relay_passes.ragged.items import lengths, starts
from tvm_disc.relay_passes.ragged.values import Values
from tvm_disc.relay_passes.rewrite import operand_expr
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr


@dataclass(frozen=True)
class _Part:
    """An operand of the concatenation.

    Attributes:
        table: the rows ``[n, rest...]``; the rows of an item are contiguous.
        first: the first row of every item, int64 ``[b]``.
        size: the number of rows of every item, int64 ``[b]``, or one integer for all items.
    """

    table: Node
    first: Expr
    size: Expr | int


def joined(values: Values, node: Node, forms: Sequence[Form]) -> Form | str:
    """Return the form of a concatenation along the ragged axis, or why it cannot be ragged."""
    place = values.dims.place(node.shape)
    if place is None or place[1][1] != concat_axis(node):
        return (
            "it joins values along the ragged axis, and the length of the result is not "
            "computed from that of one input"
        )
    dim, at = place
    parts = []
    for form, x in zip(forms, node.inputs, strict=True):
        part = _part(values, form, x, dim, at)
        if part is None:
            return f"its operand {x.name} has neither the lengths of '{dim.name}' nor a known size"
        parts.append(part)
    rest = [d for k, d in enumerate(node.shape) if k not in at]
    total = sum((p.table.shape[0] for p in parts[1:]), start=parts[0].table.shape[0])
    tables = R.concat([operand_expr(p.table) for p in parts], 0)
    table = values.emit(tables, [total, *rest], node)
    picks = operand_expr(_rows(values, dim, parts))
    made = R.take(operand_expr(table), picks, 0, "clip")
    return Packed(values.emit(made, [dim.rows, *rest], node), dim, at)


def _part(values: Values, form: Form, x: Node, dim: RaggedDim, at: tuple[int, int]) -> _Part | None:
    """Return an operand as rows; None if it is padded, if its axes or items are others than those
    of the result, or if the number of rows of an item is not known.
    """
    if isinstance(form, Packed):
        if form.at != at or (form.dim.root or form.dim) is not (dim.root or dim):
            return None
        return _Part(form.node, starts(values, form.dim), operand_expr(lengths(values, form.dim)))
    size = static_dim(x.shape[at[1]])
    if isinstance(form, Padded) or at[1] == MERGED or size is None:
        return None
    if not values.dims.solver.known_eq(x.shape[at[0]], dim.items):
        return None
    order = [*at, *(k for k in range(len(x.shape)) if k not in at)]
    moved = values.permuted(form.node, order)
    table = values.shaped(moved, [dim.items * size, *moved.shape[2:]])
    begin = R.arange(0, dim.items * size, size, "int64")
    first = values.out.emit(begin, [dim.items], "int64")
    return _Part(table, operand_expr(first), size)


def _rows(values: Values, dim: RaggedDim, parts: Sequence[_Part]) -> Node:
    """Return for every row of the result its row in the concatenated tables, int64 ``[t]``."""
    item, place = operand_expr(values.items(dim)), operand_expr(values.positions(dim))

    def emit(call: Expr, size: Expr, dtype: str = "int64") -> Expr:
        return operand_expr(values.out.emit(call, [size], dtype))

    def of_rows(of_items: Expr) -> Expr:
        return emit(R.take(of_items, item, 0), dim.rows)

    found, ends = [], []
    end: Expr | int = 0  # length of the parts so far: per item, or one number for all items
    above: Expr = i64(0)  # number of rows in the preceding tables
    for part in parts:
        base = emit(R.shape_to_tensor(relax.ShapeExpr([above])), i64(1))
        first = emit(R.add(part.first, base), dim.items)
        found.append(
            emit(R.add(place, of_rows(emit(R.subtract(first, _tensor(end)), dim.items))), dim.rows)
        )
        known = isinstance(end, int) and isinstance(part.size, int)
        end = end + part.size if known else emit(R.add(_tensor(part.size), _tensor(end)), dim.items)
        ends.append(end)
        above = above + part.table.shape[0]
    picked = found.pop()
    for row, limit in zip(reversed(found), reversed(ends[:-1]), strict=True):
        upto = _tensor(limit) if isinstance(limit, int) else of_rows(limit)
        inside = emit(R.less(place, upto), dim.rows, "bool")
        picked = emit(R.where(inside, row, picked), dim.rows)
    return values.out.lookup[picked]


def _tensor(value: Expr | int) -> Expr:
    return relax.const(value, "int64") if isinstance(value, int) else value


__all__ = ["joined"]
