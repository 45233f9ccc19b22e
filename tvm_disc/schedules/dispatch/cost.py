"""The analytical model: predicted nanoseconds of a variant at sampled points.

serial     the template's own estimate; otherwise the work at the speed of plain vector code, and at
               least the bytes moved at memory speed, with a surcharge beyond the cache
parallel   waking the other threads + the time of the largest share; each thread has its own cache
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.sampling import Points, Values, evaluate
from tvm_disc.schedules.dispatch.variant import Plan, Run, Variant
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr

THREADS = (1, 2, 4, 8, 16, 32, 64)  # thread counts for which programs contain predicted times


def part_sizes(tasks: int, parts: int) -> list[int]:
    """Return the number of tasks in each part of a launch, as the driver of a kernel cuts them.

    The parts are equal ranges, except that the last ones may be shorter or empty.
    """
    chunk = -(-tasks // parts)
    return [max(0, min(chunk, tasks - k * chunk)) for k in range(parts)]


def makespan(costs: Sequence[float], threads: int) -> float:
    """Return the time at which the last of several jobs ends under list scheduling.

    Each job starts, in order, on the thread that becomes free first. Workers claim the parts of a
    launch in this way.
    """
    free = [0.0] * threads
    for cost in costs:
        heapq.heappush(free, heapq.heappop(free) + cost)
    return max(free)


def body_ns(plan: Plan, share: Values | float, points: Points, model: CostModel) -> Values:
    """Return the nanoseconds of a share (0 to 1) of the tasks, for plans without ``cost``."""

    def of(count: Expr | int) -> Values:
        return np.asarray(evaluate(i64(count), points) * share)

    moved = of(plan.moved)
    memory = moved * model.byte_ns + np.maximum(moved - model.near_bytes, 0) * model.far_byte_ns
    work = of(plan.work) * model.op_ns
    for name, units in plan.units.items():
        work = work + of(units) * float(getattr(model, name))
    fixed = of(plan.steps) * model.row_ns + of(plan.loops) * model.pass_ns
    time = np.maximum(work, memory) + fixed + of(plan.strided) * model.strided_ns
    return np.asarray(time, np.float64)


def operations(plan: Plan, model: CostModel) -> Expr:
    """Return the work of a plan and its other units, in plain operations of equal cost."""
    total: Expr = i64(plan.work)
    for name, units in plan.units.items():
        total = total + units * max(1, round(getattr(model, name) / model.op_ns))
    return total


def run_ns(plan: Plan, parts: int, points: Points, count: int, model: CostModel) -> Values:
    """Return the nanoseconds of a plan, or of one stage, on ``parts`` threads at each point."""
    own = None if plan.cost is None else plan.cost(points, model)
    time = body_ns(plan, 1.0, points, model) if own is None else own
    if parts > 1:
        tasks = np.maximum(evaluate(plan.tasks, points), 1)
        share = np.ceil(tasks / parts) / tasks
        if own is None:
            busiest = body_ns(plan, share, points, model) / model.parallel
        else:
            busiest = own * share / model.parallel_fma
        if plan.contention is not None:
            busiest = busiest + plan.contention(points, model)
        time = np.where(tasks > 1, model.wake_ns + busiest, time)
    return np.broadcast_to(np.asarray(time + model.call_ns, np.float64), (count,))


def variant_ns(variant: Variant, points: Points, count: int, model: CostModel) -> Values:
    """Return the nanoseconds of a call of a variant at each point; inf if its needs are not met."""
    plan, parts = variant.plan, variant.run.parts
    if plan.stages:
        stages = [
            np.min([_allowed_ns(p, parts, points, count, model) for p in s.plans], axis=0)
            for s in plan.stages
        ]
        return _where_met(plan, model.factor(plan.doubt) * np.sum(stages, axis=0), points, count)
    return _allowed_ns(plan, parts, points, count, model)


def scaling(plan: Plan, points: Points, model: CostModel) -> tuple[list[float], list[int]]:
    """Return a plan's nanoseconds at one point for each of :data:`THREADS`, and its task counts.

    A plan in stages has one task count per stage. A plan that is slower on several threads counts
    as serial, because the tree of a kernel selects the serial run.
    """
    ns = [float(variant_ns(Variant(plan, Run(n)), points, 1, model)[0]) for n in THREADS]
    parts = [s.plan for s in plan.stages] or [plan]
    tasks = [int(np.max(evaluate(i64(p.tasks), points))) for p in parts]
    split = plan.splits and max(tasks) > 1
    return [min(ns[0], t) if split else ns[0] for t in ns], tasks


def _allowed_ns(plan: Plan, parts: int, points: Points, count: int, model: CostModel) -> Values:
    return _where_met(plan, run_ns(plan, parts, points, count, model), points, count)


def _where_met(plan: Plan, time: Values, points: Points, count: int) -> Values:
    """Return the time at points where the plan's needs are met, inf elsewhere."""
    allowed = np.ones(count, bool)
    for need in plan.needs:
        allowed &= np.broadcast_to(need.at(points), (count,)).astype(bool)
    return np.where(allowed, time, np.inf)


def cost_table(variants: list[Variant], points: Points, count: int, model: CostModel) -> Values:
    """Return predicted nanoseconds: a row for each point, a column for each variant."""
    return np.stack([variant_ns(v, points, count, model) for v in variants], axis=1)
