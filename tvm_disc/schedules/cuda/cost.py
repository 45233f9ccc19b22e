"""Cost model of GPU plans: DietCode's model (MLSys 2022) of waves of equal blocks.

    time = launch + max(waves x time of one block, steps x pipe time of a step, bytes / bandwidth)

A wave is the number of blocks that all multiprocessors hold at once. A step of a thread occupies
its multiprocessor's pipes for loads or multiply-adds. The bandwidth is that of the memory, or less
if fewer blocks run than are needed to saturate it. The constants of a multiprocessor are from the
vendor's data sheet; none was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tvm_disc.schedules.dispatch.choose import moved_bytes
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.sampling import Points, Values, evaluate
from tvm_disc.schedules.group import Group
from tvm_disc.target.device import Device

Expr: TypeAlias = Any

# Estimates: launching a kernel, a dependent step of a thread (a load and an operation), a barrier,
# and resident threads per multiprocessor.
LAUNCH_NS, STEP_NS, BARRIER_NS, THREADS_HELD = 3000.0, 4.0, 30.0, 2048
# maximum read bandwidth of a multiprocessor in GB/s: 64 bytes per cycle
EACH_GBS = 90.0
# ns per lane of a multiprocessor: 32 loads and 64 multiply-adds per cycle at 1.4 GHz
LOAD_NS, MULTIPLY_NS = 1 / 45, 1 / 90


@dataclass(frozen=True)
class Work:
    """Amount of work of a plan.

    Attributes:
        blocks: number of thread blocks.
        threads: threads per block.
        steps: sequential steps of a thread.
        barriers: barriers per block.
        memory: how many times the required data are read.
        busy: nanoseconds that a step of one thread occupies its multiprocessor's pipes.
    """

    blocks: Expr
    threads: int
    steps: Expr
    barriers: Expr | int = 0
    memory: Expr | float = 1.0
    busy: float = 0.0


def moved_ns(device: Device, group: Group, points: Points, model: CostModel) -> Values:
    """Return the time of a kernel that mostly moves its operands and results."""
    bytes_ = evaluate(moved_bytes(group), points)
    return np.asarray(LAUNCH_NS + bytes_ / device.bandwidth_gbs, np.float64)


def waves_ns(device: Device, group: Group, work: Work, points: Points, model: CostModel) -> Values:
    """Return the time of a kernel of equal blocks."""
    held = device.multiprocessors * max(1, THREADS_HELD // work.threads)
    blocks = np.maximum(evaluate(work.blocks, points), 1)
    waves = np.ceil(blocks / held)
    alone = evaluate(work.steps, points) * STEP_NS + evaluate(work.barriers, points) * BARRIER_NS
    moved = moved_ns(device, group, points, model) - LAUNCH_NS
    reached = np.minimum(blocks, device.multiprocessors) * EACH_GBS
    few = np.maximum(device.bandwidth_gbs / reached, 1.0)
    memory = moved * few * evaluate(work.memory, points)
    threads = blocks * work.threads
    pipes = threads * evaluate(work.steps, points) * (work.busy / device.multiprocessors)
    slowest = np.maximum(np.maximum(waves * alone, memory), pipes)
    return np.asarray(LAUNCH_NS + slowest, np.float64)


def passes_ns(
    device: Device,
    group: Group,
    passes: Sequence[tuple[Work, Expr | int]],
    points: Points,
    model: CostModel,
) -> Values:
    """Return the time of several kernels in sequence, each with its number of repetitions."""
    times = (waves_ns(device, group, w, points, model) * evaluate(r, points) for w, r in passes)
    return np.asarray(sum(times), np.float64)


__all__ = ["Work", "moved_ns", "passes_ns", "waves_ns"]
