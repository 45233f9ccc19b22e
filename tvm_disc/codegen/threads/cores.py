"""Calls of the functions in ``cores.c``, which manage the cores that threads may use.

A program contains the C functions as LLVM IR: ``cores.ll``, which ``tests.codegen.c_code``
writes.
"""

from __future__ import annotations

from pathlib import Path

from tvm.tirx import op as O

from tvm_disc.tir.imports import provide
from tvm_disc.typing import Expr

provide(Path(__file__).with_suffix(".ll").read_text(encoding="utf-8"))


def current_core() -> Expr:
    """Return the number of this thread's current core, an int32."""
    return O.call_extern("int32", "sched_getcpu")


def leave_core(pool: Expr, thread: Expr, core: Expr) -> Expr:
    """Exclude ``core`` from a thread's affinity mask; return 1 if no other core is left."""
    return O.call_extern("int64", "disc.leave_core", pool, thread, core)


def step_aside(pool: Expr, core: Expr) -> Expr:
    """Move this thread if it runs on ``core``; return 1 if it cannot move."""
    return O.call_extern("int64", "disc.step_aside", pool, core)


def send_away(pool: Expr, thread: Expr) -> Expr:
    """Exclude the caller's current core from the affinity mask of a sleeping worker."""
    return O.call_extern("int64", "disc.send_away", pool, thread)


def settle(pool: Expr) -> Expr:
    """Restore the affinity mask of a worker that was moved."""
    return O.call_extern("int64", "disc.settle_worker", pool)


def look_at_cores(pool: Expr) -> Expr:
    """Record the affinity mask of this thread, and its number of cores within the quota."""
    return O.call_extern("int64", "disc.look_at_cores", pool)


def read_quota(pool: Expr) -> Expr:
    """Record the CPU quota of this process."""
    return O.call_extern("int64", "disc.read_quota", pool)
