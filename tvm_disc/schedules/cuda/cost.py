"""How long a plan takes on a device: DietCode's model (MLSys 2022) of waves of equal blocks.

    time = launch + max(waves x time of a block alone, steps x pipes of a step, bytes / bandwidth)

A wave is as many blocks as all multiprocessors hold at once; a step of a thread takes the pipes of
its multiprocessor for loads or multiply-adds. The bandwidth is the memory's, or less where there
are fewer blocks than multiprocessors that reach it. The constants of a multiprocessor come from
the vendor's figures for the card; none was measured.
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

# Guesses: entering a kernel, a dependent step of a thread (a load from memory and an operation),
# and threads that a multiprocessor holds.
LAUNCH_NS, STEP_NS, BARRIER_NS, THREADS_HELD = 3000.0, 4.0, 30.0, 2048
# What a multiprocessor reads at most, in GB/s: 64 bytes a cycle.
EACH_GBS = 90.0
# Of a multiprocessor, in lanes: 32 loads a cycle, and 64 multiply-adds, at 1.4 GHz.
LOAD_NS, MULTIPLY_NS = 1 / 45, 1 / 90


@dataclass(frozen=True)
class Work:
    """What a plan does.

    Attributes:
        blocks: of threads.
        threads: of a block.
        steps: that a thread does one after the other.
        barriers: at which it waits.
        memory: how many times what is wanted is read.
        busy: nanoseconds that a step of one thread takes its multiprocessor's pipes.
    """

    blocks: Expr
    threads: int
    steps: Expr
    barriers: Expr | int = 0
    memory: Expr | float = 1.0
    busy: float = 0.0


def moved_ns(device: Device, group: Group, points: Points, model: CostModel) -> Values:
    """A kernel that does little more than to move its operands and results."""
    bytes_ = evaluate(moved_bytes(group), points)
    return np.asarray(LAUNCH_NS + bytes_ / device.bandwidth_gbs, np.float64)


def waves_ns(device: Device, group: Group, work: Work, points: Points, model: CostModel) -> Values:
    """A kernel of blocks that all do the same."""
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
    """Several kernels one after the other, each as often as it has rounds."""
    times = (waves_ns(device, group, w, points, model) * evaluate(r, points) for w, r in passes)
    return np.asarray(sum(times), np.float64)


__all__ = ["Work", "moved_ns", "passes_ns", "waves_ns"]
