"""Operators with a kernel of their own: scatter_elements and cumsum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import tirx

from tvm_disc.errors import Unsupported, WhyNot
from tvm_disc.relay_passes.graph import Node
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.emit import const, i64
from tvm_disc.schedules.index import product
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.shape import Solver

_COMBINE: Mapping[str, Callable[[Any, Any], Any]] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": tirx.min,
    "max": tirx.max,
}


def plan_scatter(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """One task, since later updates may hit the place of earlier ones."""
    node = group.anchor or group.nodes[-1]
    if node.op == "relax.scatter_elements":
        return Plan(i64(1), i64(0), lambda body: _scatter_elements(body, node))
    if node.op == "relax.cumsum":
        return _cumsum(node)
    return WhyNot("scatter", f"{node.op} has no kernel")


def _scatter_elements(body: Body, node: Node) -> None:
    data, indices, updates = node.inputs
    combine = _COMBINE.get(node.attrs["reduction"])
    if combine is None:
        raise Unsupported(f"scatter_elements: reduction {node.attrs['reduction']!r}")
    low, out = body.low, body.outputs[0]
    axis = node.attrs["axis"] % len(data.shape)
    with low.loop("t", product(data.shape)) as t:
        low.store(out, t, low.at(data, low.space.split(t, data.shape)), node.dtype)
    with low.loop("u", product(indices.shape)) as u:
        index = list(low.space.split(u, indices.shape))
        where = cast(low.at(indices, index), "int64")
        extent = i64(data.shape[axis])
        target = list(index)
        target[axis] = low.settle("row", tirx.Select(where < 0, where + extent, where))
        inside = tirx.And(target[axis] >= 0, target[axis] < extent)
        new = low.settle("new", low.at(updates, index))
        at = low.settle("at", low.space.join(target, data.shape))
        with body.block.when(inside):
            old = low.load(out, at, node.dtype)
            low.store(out, at, combine(old, new), node.dtype)


def _cumsum(node: Node) -> Plan:
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
            body.block.store(total, 0, const(0, node.dtype))
            with low.loop("k", source.shape[axis]) as k:
                index = [*head[:axis], k, *head[axis:]]
                value = low.settle("value", cast(low.at(source, index), node.dtype))
                at = low.settle("at", low.space.join(index, source.shape))
                before = low.settle("before", total[i64(0)])
                body.block.store(total, 0, before + value)
                result = before if node.attrs["exclusive"] else total[i64(0)]
                low.store(body.outputs[0], at, result, node.dtype)

    return Plan(product(outer), product(source.shape), emit)
