"""The analytical model: nanoseconds of a variant at sampled points, without measuring.

serial     the template's own estimate, or the work at the speed of plain vector code, and at least
               the bytes moved at the speed of memory, more for those that leave the cache
parallel   waking the other threads + the share of the busiest one, which has a cache of its own
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.sampling import Points, Values, evaluate
from tvm_disc.schedules.dispatch.variant import Plan, Variant

Expr: TypeAlias = Any


def body_ns(plan: Plan, share: Values | float, points: Points, model: CostModel) -> Values:
    """A share of the tasks of a plan without an estimate of its own, by one thread."""
    work, moved = evaluate(plan.work, points) * share, evaluate(plan.moved, points) * share
    memory = moved * model.byte_ns + np.maximum(moved - model.near_bytes, 0) * model.far_byte_ns
    rows = evaluate(plan.steps, points) * share
    return np.asarray(np.maximum(work * model.op_ns, memory) + model.row_ns * rows, np.float64)


def run_ns(plan: Plan, parts: int, points: Points, count: int, model: CostModel) -> Values:
    """A plan's body, or one stage of it, on ``parts`` threads."""
    own = None if plan.cost is None else plan.cost(points, model)
    time = body_ns(plan, 1.0, points, model) if own is None else own
    if parts > 1:
        tasks = np.maximum(evaluate(plan.tasks, points), 1)
        share = np.ceil(tasks / parts) / tasks
        if own is None:
            busiest = body_ns(plan, share, points, model) / model.parallel
        else:
            busiest = own * share / model.parallel_fma
        time = np.where(tasks > 1, model.wake_ns + busiest, time)
    return np.broadcast_to(np.asarray(time + model.call_ns, np.float64), (count,))


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
