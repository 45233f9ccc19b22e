"""Kernels of our own operators, by name: each is one plan, whatever it is fused with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm_disc.errors import WhyNot
from tvm_disc.relay_passes.graph import Node
from tvm_disc.schedules.compact import plan_compact
from tvm_disc.schedules.coordinates import plan_coordinates
from tvm_disc.schedules.csr import plan_csr_dense
from tvm_disc.schedules.kernel import Group, Machine, Plan
from tvm_disc.schedules.suppress import plan_suppress
from tvm_disc.shape import Solver

PLANS: Mapping[str, Callable[[Node], Plan]] = {
    "disc.compact": plan_compact,
    "disc.coordinates": plan_coordinates,
    "disc.csr_dense": plan_csr_dense,
    "disc.suppress": plan_suppress,
}


def plan_special(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """The kernel of an operator that Relax does not have."""
    node = group.anchor or group.nodes[-1]
    plan = PLANS.get(node.op)
    return WhyNot("special", f"{node.op} is not one of our own") if plan is None else plan(node)
