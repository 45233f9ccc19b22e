"""Scatters and writes of slices in place, into the memory of their first operand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
from tvm import tirx

from tvm_disc.errors import Unsupported
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.kernel import Body, Plan
from tvm_disc.schedules.opaque.scatter import place_of, put
from tvm_disc.tir.builder import const, i64
from tvm_disc.tir.index import product
from tvm_disc.typing import Expr


def plan_update(node: Node) -> Plan:
    """Return the plan of ``scatter_elements`` on ``(buffer, new, indices)`` without a copy.

    Different indices of the outer axes are independent. Along ``axis``, elements are combined in
    order by the attribute ``reduction``; with ``update``, later ones overwrite earlier ones.
    """
    _, new, indices = node.inputs
    axis, dims = int(node.attrs["axis"]), indices.shape
    outer, inner, count = dims[:axis], dims[axis + 1 :], dims[axis]
    extent = node.shape[node.attrs["axes"][axis]]

    def emit(body: Body, head: Sequence[Expr], begin: Expr, size: Expr) -> None:
        low = body.low
        with low.loop("u", count) as u, low.loop("e", size) as e:
            index = [*head, u, *low.space.split(begin + e, inner)]
            target = list(index)
            target[axis], inside = place_of(low, low.at(indices, index), extent)
            _put(body, node, target, low.at(new, index), inside)

    return _plan(node, outer, inner, emit)


def plan_update_nd(node: Node) -> Plan:
    """Return the plan of ``scatter_nd`` on ``(buffer, new, indices)`` without a copy.

    Elements of a row of ``new`` are independent; rows are combined in order, as in
    :func:`plan_update`.

    Raises:
        Unsupported: the last dim of ``indices`` is not known at compile time.
    """
    _, new, indices = node.inputs
    depth, lead = static_dim(indices.shape[-1]), len(indices.shape) - 1
    if depth is None:
        raise Unsupported("scatter_nd: the last dim of the indices must be known at compile time")
    axes = node.attrs["axes"]
    rows, row = new.shape[:lead], new.shape[lead:]
    # Axes after the last one that is permuted are contiguous in the buffer, too.
    moved = max((k + 1 for k, a in enumerate(axes) if k != a), default=0)
    first = max(moved - depth, 0)
    outer, inner = row[:first], row[first:]

    def emit(body: Body, head: Sequence[Expr], begin: Expr, size: Expr) -> None:
        low = body.low
        with low.loop("u", product(rows)) as u:
            at = list(low.space.split(u, rows))
            coordinates: list[Expr] = []
            inside: Expr = const(True, "bool")
            for k in range(depth):
                extent = node.shape[axes[k]]
                place, fits = place_of(low, low.at(indices, [*at, i64(k)]), extent)
                coordinates.append(place)
                inside = tirx.And(inside, fits)
            with body.block.when(inside), low.loop("e", size) as e:
                rest = [*head, *low.space.split(begin + e, inner)]
                _put(body, node, [*coordinates, *rest], low.at(new, [*at, *rest]), None)

    return _plan(node, outer, inner, emit)


def plan_update_slice(node: Node) -> Plan:
    """Return the plan of ``(buffer, new, first)``, which writes the slice ``new`` into ``buffer``
    from position ``first`` on, along the axes ``along``.

    All elements are independent. Elements that would be outside of the buffer are dropped. With
    ``wraps``, positions are instead taken modulo the buffer's dim, and only elements whose index
    in ``new`` is not below this dim are dropped.
    """
    _, new, first = node.inputs
    axes, along, wraps = node.attrs["axes"], node.attrs["along"], node.attrs["wraps"]
    outer, inner = new.shape[:-1], new.shape[-1:]
    shared = static_dim(first.shape[0]) == 1

    def emit(body: Body, head: Sequence[Expr], begin: Expr, size: Expr) -> None:
        low = body.low
        with low.loop("e", size) as e:
            index = [*head, begin + e]
            target, inside = list(index), const(True, "bool")
            for k, axis in enumerate(along):
                extent = i64(node.shape[axes[axis]])
                item = i64(0) if shared else index[0]
                place = index[axis] + cast(low.at(first, [item, i64(k)]), "int64")
                place = low.settle("at", place)
                if wraps:
                    inside = tirx.And(inside, index[axis] < extent)
                    place = tirx.floormod(place, tirx.max(extent, i64(1)))
                else:
                    inside = tirx.And(inside, tirx.And(place >= 0, place < extent))
                target[axis] = place
            _put(body, node, target, low.at(new, index), low.settle("inside", inside))

    return _plan(node, outer, inner, emit)


def _put(body: Body, node: Node, target: Sequence[Expr], value: Expr, inside: Expr | None) -> None:
    """Emit the combination of a value with the element at ``target``, whose axes are permuted."""
    places = dict(zip(node.attrs["axes"], target, strict=True))
    put(body, node, [places[a] for a in range(len(places))], value, inside)


def _plan(
    node: Node,
    outer: Sequence[Expr],
    inner: Sequence[Expr],
    emit: Callable[[Body, Sequence[Expr], Expr, Expr], None],
) -> Plan:
    """Return a plan whose tasks are the outer indices; without outer dims, the inner elements.

    Args:
        emit: called with the indices of the outer dims, the first inner element, and the number of
            inner elements.
    """

    def emit_rows(body: Body) -> None:
        low, size = body.low, body.block.bind("size", product(inner))
        with low.loop("o", body.hi - body.lo, begin=body.lo) as o:
            head = list(low.space.split(o, outer))
            low.resolve(head)
            emit(body, head, i64(0), size)

    def emit_elements(body: Body) -> None:
        emit(body, [], body.lo, body.hi - body.lo)

    _, new, indices = node.inputs  # for slices: their positions
    work, itemsize = product(new.shape), int(tvm.DataType(node.dtype).bits) // 8 or 1
    moved = 2 * itemsize * i64(work) + 8 * i64(product(indices.shape))
    if outer:
        return Plan(i64(product(outer)), 4 * work, emit_rows, moved=moved)
    return Plan(i64(product(inner)), 4 * work, emit_elements, moved=moved)


__all__ = ["plan_update", "plan_update_nd"]
