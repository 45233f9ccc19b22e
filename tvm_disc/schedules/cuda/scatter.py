"""Scatters: a first kernel copies the data, a second one applies the updates.

Along the axis of ``scatter_elements``, several updates may have one target; the last one is kept. A
thread applies the updates of one line along the axis in order, since updates of different lines
have different targets. In ``scatter_nd``, updates of slices may have one target, so a thread
applies the updates of one element of all slices. No atomic operations are used: results do not
depend on the scheduling of threads.
"""

from __future__ import annotations

from functools import partial

from tvm import tirx

from tvm_disc.errors import Unsupported, WhyNot
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.cuda.cost import Work, passes_ns
from tvm_disc.schedules.dispatch.variant import Grid, Pass
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.opaque.scatter import place_of, put
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import const, i64
from tvm_disc.tir.index import product
from tvm_disc.typing import Expr

THREADS = 64  # threads per block of the updates


def plan_updates(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """Return a plan with a kernel that copies the data and one that applies the updates."""
    node = group.anchor or group.nodes[-1]
    if node.op not in ("relax.scatter_elements", "relax.scatter_nd"):
        return WhyNot("scatter", f"it requires a scatter: found {node.op}")
    assert machine.device is not None
    data, indices, updates = node.inputs
    if node.op == "relax.scatter_elements":
        axis = int(node.attrs["axis"]) % len(data.shape)
        lines = product([d for a, d in enumerate(indices.shape) if a != axis])
        emit, steps = partial(_line, node, axis), i64(indices.shape[axis])
    else:
        lead = len(indices.shape) - 1
        lines, steps = product(updates.shape[lead:]), i64(product(indices.shape[:lead]))
        emit = partial(_slices, node)
    copy = Work(tirx.floordiv(product(data.shape) + 255, i64(256)), 256, i64(1))
    own = Work(tirx.floordiv(lines + (THREADS - 1), i64(THREADS)), THREADS, steps * 4)
    return Plan(
        tasks=i64(1),
        work=product(data.shape) + product(updates.shape) * 8,
        emit=emit,
        cost=partial(passes_ns, machine.device, group, ((copy, 1), (own, 1))),
        passes=(
            Pass(product(data.shape), partial(_copied, node)),
            Pass(lines, emit, Grid(THREADS)),
        ),
        notes={"updates": "a thread for each line, in order"},
    )


def _copied(node: Node, body: Body) -> None:
    data, low = node.inputs[0], body.low
    with low.scope():
        value = low.at(data, low.space.split(body.lo, data.shape))
        low.store(body.outputs[0], body.lo, value, node.dtype)


def _line(node: Node, axis: int, body: Body) -> None:
    data, indices, updates = node.inputs
    low = body.low
    head = list(low.space.split(body.lo, [d for a, d in enumerate(indices.shape) if a != axis]))
    low.resolve(head)
    with low.loop("u", indices.shape[axis]) as u:
        index = [*head[:axis], u, *head[axis:]]
        target = list(index)
        target[axis], inside = place_of(low, low.at(indices, index), data.shape[axis])
        put(body, node, target, low.at(updates, index), inside)


def _slices(node: Node, body: Body) -> None:
    """Emit the updates, in order, of one element of each slice."""
    data, indices, updates = node.inputs
    low, lead = body.low, len(indices.shape) - 1
    depth = static_dim(indices.shape[-1])
    if depth is None:
        raise Unsupported("scatter_nd: the last dim of the indices must be known at compile time")
    inner = list(low.space.split(body.lo, updates.shape[lead:]))
    low.resolve(inner)
    with low.loop("u", product(indices.shape[:lead])) as u:
        outer = list(low.space.split(u, indices.shape[:lead]))
        target: list[Expr] = []
        inside: Expr = const(True, "bool")
        for k in range(depth):
            at, fits = place_of(low, low.at(indices, [*outer, i64(k)]), data.shape[k])
            target.append(at)
            inside = tirx.And(inside, fits)
        put(body, node, [*target, *inner], low.at(updates, [*outer, *inner]), inside)


__all__ = ["plan_updates"]
