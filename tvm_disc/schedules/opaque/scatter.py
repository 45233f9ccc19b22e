"""Kernels of scatters, and of cumulative sums and products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_disc.errors import Unsupported, WhyNot
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.scalars import BINARY
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import const, i64
from tvm_disc.tir.index import product
from tvm_disc.typing import Expr

if TYPE_CHECKING:
    from tvm_disc.schedules.lowering import Lowering


_COMBINE: Mapping[str, Callable[[Any, Any], Any]] = {
    "update": lambda old, new: new,
    "add": BINARY["add"],
    "mul": BINARY["multiply"],
    "min": BINARY["minimum"],
    "max": BINARY["maximum"],
}


def plan_scatter(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """Return the plan of a scatter or scan.

    A scatter is one task, since updates of one element must be applied in order.
    """
    node = group.anchor or group.nodes[-1]
    if node.op == "relax.scatter_elements":
        return Plan(i64(1), i64(0), lambda body: _scatter_elements(body, node))
    if node.op == "relax.scatter_nd":
        return Plan(i64(1), i64(0), lambda body: _scatter_nd(body, node))
    if node.op in SCANS:
        return _scan(node)
    return WhyNot("scatter", f"it requires a scatter or a scan: found {node.op}")


def _scatter_elements(body: Body, node: Node) -> None:
    data, indices, updates = node.inputs
    axis = node.attrs["axis"] % len(data.shape)
    low = body.low
    _copy_data(body, node)
    with low.loop("u", product(indices.shape)) as u:
        index = list(low.space.split(u, indices.shape))
        target = list(index)
        target[axis], inside = place_of(low, low.at(indices, index), data.shape[axis])
        put(body, node, target, low.at(updates, index), inside)


def _scatter_nd(body: Body, node: Node) -> None:
    """Emit ``data[indices[u]] = updates[u]``; the last dim of ``indices`` holds the coordinates."""
    data, indices, updates = node.inputs
    depth = static_dim(indices.shape[-1])
    if depth is None:
        raise Unsupported("scatter_nd: the last dim of the indices must be known at compile time")
    low = body.low
    _copy_data(body, node)
    lead = len(indices.shape) - 1
    with low.loop("u", product(updates.shape)) as u:
        index = list(low.space.split(u, updates.shape))
        target, inside = [], const(True, "bool")
        for k in range(depth):
            at, fits = place_of(low, low.at(indices, [*index[:lead], i64(k)]), data.shape[k])
            target.append(at)
            inside = tirx.And(inside, fits)
        put(body, node, [*target, *index[lead:]], low.at(updates, index), inside)


def _copy_data(body: Body, node: Node) -> None:
    data, low = node.inputs[0], body.low
    with low.loop("t", product(data.shape)) as t:
        low.store(body.outputs[0], t, low.at(data, low.space.split(t, data.shape)), node.dtype)


def place_of(low: Lowering, where: Expr, extent: Expr) -> tuple[Expr, Expr]:
    """Return a position, counted from the end if negative, and whether it is in bounds."""
    where = low.settle("at", cast(where, "int64"))
    row = low.settle("row", tirx.Select(where < 0, where + i64(extent), where))
    return row, tirx.And(row >= 0, row < i64(extent))


def put(body: Body, node: Node, target: list[Expr], value: Expr, inside: Expr | None) -> None:
    """Emit the combination of a result element with a new value if ``inside`` holds, or is None."""
    combine = _COMBINE.get(node.attrs["reduction"])
    if combine is None:
        raise Unsupported(f"{node.op}: reduction {node.attrs['reduction']!r} is not supported")
    low, out = body.low, body.outputs[0]
    new = low.settle("new", value)
    at = low.settle("place", low.space.join(target, node.shape))
    with nullcontext() if inside is None else body.block.when(inside):
        low.store(out, at, combine(low.load(out, at, node.dtype), new), node.dtype)


SCANS: Mapping[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "relax.cumsum": (0, lambda a, b: a + b),
    "relax.cumprod": (1, lambda a, b: a * b),
}


def _scan(node: Node) -> Plan:
    identity, combine = SCANS[node.op]
    source = node.inputs[0]
    axis = node.attrs["axis"]
    rank = len(source.shape)
    axis = 0 if axis is None else axis % rank
    outer = [d for a, d in enumerate(source.shape) if a != axis]

    def emit(body: Body) -> None:
        low = body.low
        with low.loop("r", body.hi - body.lo, begin=body.lo) as r:
            head = list(low.space.split(r, outer))
            total = body.block.alloc("total", 1, node.dtype)
            body.block.store(total, 0, const(identity, node.dtype))
            with low.loop("k", source.shape[axis]) as k:
                index = [*head[:axis], k, *head[axis:]]
                value = low.settle("value", cast(low.at(source, index), node.dtype))
                at = low.settle("at", low.space.join(index, source.shape))
                before = low.settle("before", total[i64(0)])
                body.block.store(total, 0, combine(before, value))
                result = before if node.attrs["exclusive"] else total[i64(0)]
                low.store(body.outputs[0], at, result, node.dtype)

    return Plan(product(outer), product(source.shape), emit)
