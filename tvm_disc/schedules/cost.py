"""The analytical model: nanoseconds of a variant at sampled points, without measuring.

serial     the template's own estimate, or the work at the speed of plain vector code, and at least
               the bytes moved at the speed of memory
parallel   waking the other threads + the share of the busiest one
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from tvm_disc.schedules.cost_model import CostModel
from tvm_disc.schedules.points import Points, Values, evaluate
from tvm_disc.schedules.variant import Plan, Variant

Expr: TypeAlias = Any


def body_ns(plan: Plan, points: Points, count: int, model: CostModel) -> Values:
    """One serial run of a plan's body at each of ``count`` points."""
    if plan.cost is not None:
        cost = plan.cost(points, model)
    else:
        work, moved = evaluate(plan.work, points), evaluate(plan.moved, points)
        cost = np.maximum(work * model.op_ns, moved * model.byte_ns)
        cost = cost + model.row_ns * evaluate(plan.tasks, points)
    return np.broadcast_to(np.asarray(cost, np.float64) + model.call_ns, (count,))


def run_ns(plan: Plan, parts: int, points: Points, count: int, model: CostModel) -> Values:
    """A plan's body, or one stage of it, on ``parts`` threads."""
    time = body_ns(plan, points, count, model)
    if parts > 1:
        tasks = np.maximum(evaluate(plan.tasks, points), 1)
        share = np.ceil(tasks / parts) / tasks
        time = np.where(tasks > 1, model.wake_ns + time * share / model.parallel, time)
    return np.asarray(time, np.float64)


def variant_ns(variant: Variant, points: Points, count: int, model: CostModel) -> Values:
    """A call of a variant at each point; infinite where it must not run."""
    plan, parts = variant.plan, variant.run.parts
    if plan.stages:
        runs = [run_ns(s.plan, parts, points, count, model) for s in plan.stages]
        time = plan.doubt * np.sum(runs, axis=0)
    else:
        time = run_ns(plan, parts, points, count, model)
    allowed = np.ones(count, bool)
    for need in plan.needs:
        allowed &= np.broadcast_to(need.at(points), (count,)).astype(bool)
    return np.where(allowed, time, np.inf)


def cost_table(variants: list[Variant], points: Points, count: int, model: CostModel) -> Values:
    """Nanoseconds, a row for each point and a column for each variant."""
    return np.stack([variant_ns(v, points, count, model) for v in variants], axis=1)
