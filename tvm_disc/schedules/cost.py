"""The analytical model: nanoseconds of a variant at sampled points, without measuring.

serial     the template's own estimate, or its work at the speed of plain vector code
parallel   waking the other threads + the share of the busiest one
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tvm_disc.schedules.points import Points, Values, evaluate
from tvm_disc.schedules.variant import Plan, Variant

Expr: TypeAlias = Any


@dataclass(frozen=True)
class CostModel:
    """What a machine takes, in nanoseconds.

    ``op_ns``: one plain operation; ``call_ns``: entering a kernel; ``wake_ns``: having the other
    threads begin and waiting for the last.
    """

    op_ns: float = 0.04
    call_ns: float = 10.0
    wake_ns: float = 2600.0


def body_ns(plan: Plan, points: Points, count: int, model: CostModel) -> Values:
    """One serial run of a plan's body at each of ``count`` points."""
    if plan.cost is not None:
        cost = plan.cost(points, model)
    else:
        cost = evaluate(plan.work, points) * model.op_ns
    return np.broadcast_to(np.asarray(cost, np.float64) + model.call_ns, (count,))


def variant_ns(variant: Variant, points: Points, count: int, model: CostModel) -> Values:
    """A call of a variant at each point; infinite where it must not run."""
    plan, parts = variant.plan, variant.run.parts
    time = body_ns(plan, points, count, model)
    if parts > 1:
        tasks = np.maximum(evaluate(plan.tasks, points), 1)
        time = model.wake_ns + time * np.ceil(tasks / parts) / tasks
    allowed = np.ones(count, bool)
    for need in plan.needs:
        allowed &= np.broadcast_to(evaluate(need.cond, points), (count,)).astype(bool)
    return np.where(allowed, time, np.inf)


def cost_table(variants: list[Variant], points: Points, count: int, model: CostModel) -> Values:
    """Nanoseconds, a row for each point and a column for each variant."""
    return np.stack([variant_ns(v, points, count, model) for v in variants], axis=1)
