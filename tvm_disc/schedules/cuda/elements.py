"""Element-wise, broadcast and injective work: a thread computes one element of every output."""

from __future__ import annotations

from functools import partial

from tvm_disc.schedules.cuda.cost import moved_ns
from tvm_disc.schedules.dispatch.variant import Grid
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.shape import Solver
from tvm_disc.tir.index import product

THREADS = 256


def plan_elements(group: Group, solver: Solver, machine: Machine) -> Plan:
    """A thread for each element of the domain, neighbours next to each other."""
    domain = tuple(group.outputs[0].shape)
    cost = sum(n.row.cost for n in group.nodes if n.row is not None)
    assert machine.device is not None

    def emit(body: Body) -> None:
        low = body.low
        with low.scope():
            index, values = low.space.split(body.lo, domain), []
            for node in group.outputs:
                same = solver.known_same_shape(node.shape, domain)
                at = index if same else low.space.split(body.lo, node.shape)
                values.append(low.at(node, at))
            for node, buffer, value in zip(group.outputs, body.outputs, values, strict=True):
                low.store(buffer, body.lo, value, node.dtype)

    return Plan(
        tasks=product(domain),
        work=product(domain) * cost,
        emit=emit,
        grid=Grid(THREADS),
        cost=partial(moved_ns, machine.device, group),
        notes={"threads": f"one for each element, {THREADS} a block"},
    )
