"""The templates of ``disc`` operators, by name; each has one plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm_disc.errors import WhyNot
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.kernel import Group, Machine, Plan
from tvm_disc.schedules.opaque.append import plan_append, plan_blank
from tvm_disc.schedules.opaque.compact import plan_compact
from tvm_disc.schedules.opaque.coordinates import plan_coordinates
from tvm_disc.schedules.opaque.csr import plan_csr_dense
from tvm_disc.schedules.opaque.nms import plan_suppress
from tvm_disc.schedules.opaque.pool_grad import plan_pool_grad
from tvm_disc.schedules.opaque.ragged import plan_items, plan_lengths, plan_offsets, plan_segments
from tvm_disc.schedules.opaque.regions import plan_correlation, plan_roi
from tvm_disc.schedules.opaque.round_rows import plan_round_rows
from tvm_disc.schedules.opaque.rpn import plan_proposals
from tvm_disc.schedules.opaque.sampling import plan_sample
from tvm_disc.schedules.opaque.threefry import plan_threefry
from tvm_disc.schedules.opaque.update import plan_update, plan_update_nd, plan_update_slice
from tvm_disc.shape import Solver

PLANS: Mapping[str, Callable[[Node], Plan]] = {
    "disc.append": plan_append,
    "disc.blank": plan_blank,
    "disc.compact": plan_compact,
    "disc.coordinates": plan_coordinates,
    "disc.csr_dense": plan_csr_dense,
    "disc.items": plan_items,
    "disc.lengths": plan_lengths,
    "disc.offsets": plan_offsets,
    "disc.pool_grad": plan_pool_grad,
    "disc.correlation": plan_correlation,
    "disc.proposals": plan_proposals,
    "disc.roi": plan_roi,
    "disc.round_rows": plan_round_rows,
    "disc.sample": plan_sample,
    "disc.segments": plan_segments,
    "disc.suppress": plan_suppress,
    "disc.threefry": plan_threefry,
    "disc.update": plan_update,
    "disc.update_nd": plan_update_nd,
    "disc.update_slice": plan_update_slice,
}


def plan_special(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """Return the plan of a ``disc`` operator, which Relax does not have."""
    node = group.anchor or group.nodes[-1]
    plan = PLANS.get(node.op)
    return WhyNot("special", f"it has no kernel for {node.op}") if plan is None else plan(node)
