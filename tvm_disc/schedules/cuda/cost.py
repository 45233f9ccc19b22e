"""Cost model of GPU plans: DietCode's model (MLSys 2022) of waves of equal blocks.

    time = launch + max(waves x time of one block, steps x pipe time of a step, bytes / bandwidth)

A wave is the set of blocks that the multiprocessors run at the same time. A step of a thread
occupies its multiprocessor's pipes for loads or multiply-adds. The bandwidth is that of the memory,
or less if the blocks are too few to saturate it. The constants are ``target.device.Costs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_disc.schedules.dispatch.choose import moved_bytes
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.sampling import Points, Values, evaluate
from tvm_disc.schedules.group import Group
from tvm_disc.target.device import Device
from tvm_disc.typing import Expr


@dataclass(frozen=True)
class Work:
    """Amount of work of a plan.

    Attributes:
        blocks: number of thread blocks.
        threads: threads per block.
        steps: sequential steps of a thread.
        barriers: barriers per block.
        memory: factor on the memory traffic, in relation to reading all operands once.
        busy: nanoseconds for which a step of one thread occupies the pipes of its multiprocessor.
        waits: number of dependent loads from memory in one thread.
        held: number of blocks per multiprocessor; 0 derives it from the threads per block.
    """

    blocks: Expr
    threads: int
    steps: Expr
    barriers: Expr | int = 0
    memory: Expr | float = 1.0
    busy: float = 0.0
    waits: Expr | float = 0
    held: int = 0


def moved_ns(device: Device, group: Group, points: Points, model: CostModel) -> Values:
    """Return the nanoseconds of a kernel that is limited by moving its operands and results."""
    bytes_ = evaluate(moved_bytes(group), points)
    return np.asarray(device.costs.launch + bytes_ / device.bandwidth_gbs, np.float64)


def waves_ns(device: Device, group: Group, work: Work, points: Points, model: CostModel) -> Values:
    """Return the nanoseconds of a kernel whose blocks all do the same amount of work."""
    costs = device.costs
    held = device.multiprocessors * (work.held or max(1, costs.threads_held // work.threads))
    blocks = np.maximum(evaluate(work.blocks, points), 1)
    waves = np.ceil(blocks / held)
    alone = (
        evaluate(work.steps, points) * costs.step
        + evaluate(work.barriers, points) * costs.barrier
        + evaluate(work.waits, points) * costs.wait
    )
    moved = moved_ns(device, group, points, model) - costs.launch
    reached = np.minimum(blocks, device.multiprocessors) * costs.each_gbs
    few = np.maximum(device.bandwidth_gbs / reached, 1.0)
    memory = moved * few * evaluate(work.memory, points)
    threads = blocks * work.threads
    pipes = threads * evaluate(work.steps, points) * (work.busy / device.multiprocessors)
    slowest = np.maximum(np.maximum(waves * alone, memory), pipes)
    return np.asarray(costs.launch + slowest, np.float64)


def passes_ns(
    device: Device,
    group: Group,
    passes: Sequence[tuple[Work, Expr | int]],
    points: Points,
    model: CostModel,
) -> Values:
    """Return the nanoseconds of several kernels in sequence, each with a number of executions."""
    times = (waves_ns(device, group, w, points, model) * evaluate(r, points) for w, r in passes)
    return np.asarray(sum(times), np.float64)


__all__ = ["Work", "moved_ns", "passes_ns", "waves_ns"]
