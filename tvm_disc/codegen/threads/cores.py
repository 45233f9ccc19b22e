"""The cores that a thread may use, and moving a worker off its caller's core.

Linux may wake a sleeping worker on its caller's core although other cores are idle: an idle virtual
core looks as if the hypervisor had descheduled it. Caller and worker then alternate on one core
until the next scheduler tick or longer. Permanent pinning does not help, because the caller
migrates. Here the caller excludes its own core from the worker's affinity mask just before it wakes
the worker; the worker restores the full mask once it runs. A worker that finds itself on its
caller's core does the same for itself.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import GlobalVar, StringImm
from tvm.tirx import op as O

from tvm_disc.abi.threads import (
    BLIND,
    CORES,
    MASK,
    MASK_WORDS,
    QUOTA,
)
from tvm_disc.codegen.threads.atomics import load, store
from tvm_disc.codegen.threads.state import word
from tvm_disc.tir.builder import Block, call, i64, index_var, prim_func, scalar_var
from tvm_disc.typing import Buffer, Expr

LOOK, LEAVE, SETTLE, STEP_ASIDE, READ_QUOTA = (
    GlobalVar(f"tvm_disc_{name}")
    for name in ("look_at_cores", "leave_core", "settle", "step_aside", "read_quota")
)
MASK_BYTES = 8 * MASK_WORDS
# CPU quota of a container: quota and period in microseconds, for cgroups version 2 and version 1.
QUOTA_FILE = "/sys/fs/cgroup/cpu.max"
OLD_QUOTA_FILES = ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us")
TEXT_BYTES = 64


def cores_functions() -> dict[Expr, object]:
    """Return the private functions of this module."""
    return {
        LOOK: _look(),
        LEAVE: leave_core(),
        SETTLE: _settle(),
        STEP_ASIDE: step_aside(),
        READ_QUOTA: _read_quota(),
    }


def current_core() -> Expr:
    """Return the number of this thread's current core, an int32."""
    return O.call_extern("int32", "sched_getcpu")


def _affinity(verb: str, thread: Expr, cores: Expr) -> Expr:
    """Get or set the affinity mask of a thread, 0 for this one; negative if refused."""
    size = tirx.IntImm("uint64", MASK_BYTES)
    return O.call_extern("int32", f"sched_{verb}affinity", thread, size, cores.data)


def _look() -> object:
    """Return ``look_at_cores(pool)``: record the caller's affinity mask and its number of cores."""
    pool = index_var("pool")
    block = Block()
    mine = block.alloc("mine", MASK_WORDS, "int64")
    count = block.alloc("count", 1, "int64")
    block.store(count, 0, i64(0))
    with block.loop("k", MASK_WORDS) as k:
        block.store(mine, k, i64(0))
    own = tirx.IntImm("int32", 0)
    with block.when(_affinity("get", own, mine) >= 0), block.loop("k", MASK_WORDS) as k:
        block.eval(store(pool + k * 8 + 8 * MASK, mine[k]))
        block.store(count, 0, count[i64(0)] + tirx.popcount(mine[k]))
    quota = block.bind("quota", load(word(pool, QUOTA)))
    with block.when(tirx.And(quota > 0, quota < count[i64(0)])):
        block.store(count, 0, quota)
    block.eval(store(word(pool, CORES), tirx.max(count[i64(0)], i64(1))))
    return prim_func([pool], block.stmt())


def leave_core() -> object:
    """Return ``leave_core(pool, thread, core, out)``: exclude ``core`` from a thread's affinity
    mask.

    ``thread`` 0 means this thread. ``out`` becomes 1 if no other core is left.
    """
    pool, out = index_var("pool"), index_var("out")
    thread, core = (scalar_var(n, "int32") for n in ("thread", "core"))
    block = Block()
    others = block.alloc("others", MASK_WORDS, "int64")
    block.eval(store(out, i64(0)))
    own = block.bind("own", tirx.Cast("int64", tirx.truncdiv(core, 64)))
    shift = tirx.Cast("int64", tirx.truncmod(core, 64))
    bit = block.bind("bit", tirx.shift_left(i64(1), shift))
    with (
        block.when(tirx.all(core >= 0, core < 64 * MASK_WORDS)),
        block.when(tirx.NE(tirx.bitwise_and(load(pool + own * 8 + 8 * MASK), bit), i64(0))),
    ):
        some = block.alloc("some", 1, "int64")
        block.store(some, 0, i64(0))
        with block.loop("k", MASK_WORDS) as k:
            left = tirx.Select(tirx.EQ(k, own), tirx.bitwise_not(bit), i64(-1))
            block.store(others, k, tirx.bitwise_and(load(pool + k * 8 + 8 * MASK), left))
            block.store(some, 0, tirx.bitwise_or(some[i64(0)], others[k]))
        with block.when(tirx.EQ(some[i64(0)], i64(0))):
            block.eval(store(out, i64(1)))
        with block.otherwise():
            block.eval(_affinity("set", thread, others))
    return prim_func([pool, thread, core, out], block.stmt())


def _settle() -> Any:
    """Return ``settle(pool)``: restore the callers' affinity mask for this thread."""
    pool = index_var("pool")
    block = Block()
    cores = block.alloc("cores", MASK_WORDS, "int64")
    with block.loop("k", MASK_WORDS) as k:
        block.store(cores, k, load(pool + k * 8 + 8 * MASK))
    block.eval(_affinity("set", tirx.IntImm("int32", 0), cores))
    return prim_func([pool], block.stmt())


def step_aside() -> object:
    """Return ``step_aside(pool, core, out)``: move this thread if it runs on ``core``.

    ``out`` becomes 1 if it cannot move. If the core number does not change (some sandboxes report
    the same number to all threads), cores are never checked again.
    """
    pool, core, out = index_var("pool"), scalar_var("core", "int32"), index_var("out")
    block = Block()
    block.eval(store(out, i64(0)))
    with (
        block.when(tirx.EQ(core, block.bind("here", current_core()))),
        block.when(tirx.EQ(load(word(pool, BLIND)), i64(0))),
    ):
        block.eval(call(LEAVE, pool, tirx.IntImm("int32", 0), core, out))
        with block.when(tirx.EQ(load(out), i64(0))):
            with block.when(tirx.EQ(core, block.bind("there", current_core()))):
                block.eval(store(word(pool, BLIND), i64(1)))
            block.eval(call(SETTLE, pool))
    return prim_func([pool, core, out], block.stmt())


def _read_quota() -> object:
    """Return ``read_quota(pool)``: record the number of cores that the CPU quota allows, 0 for
    no limit.
    """
    pool = index_var("pool")
    block = Block()
    numbers = block.alloc("numbers", 2, "int64")
    for k in range(2):
        block.store(numbers, k, i64(0))
    _numbers(block, QUOTA_FILE, numbers, 0, 2)
    with block.when(tirx.EQ(numbers[i64(1)], i64(0))):
        for k, name in enumerate(OLD_QUOTA_FILES):
            _numbers(block, name, numbers, k, 1)
    quota, period = (block.bind(n, numbers[i64(k)]) for k, n in enumerate(("quota", "period")))
    with block.when(tirx.And(quota > 0, period > 0)):
        block.eval(store(word(pool, QUOTA), tirx.truncdiv(quota + (period - 1), period)))
    return prim_func([pool], block.stmt())


def _numbers(block: Block, path: str, numbers: Buffer, first: int, count: int) -> None:
    """Read integers from a file; a word that is not a number, such as ``max``, is read as 0."""
    text, end = block.alloc("text", TEXT_BYTES, "int8"), block.alloc("end", 1, "int64")
    with block.loop("k", TEXT_BYTES) as i:
        block.store(text, i, tirx.IntImm("int8", 0))
    zero = tirx.IntImm("int32", 0)
    file = block.bind("file", O.call_extern("int32", "open", StringImm(path), zero, zero))
    with block.when(file >= 0):
        block.eval(O.call_extern("int64", "read", file, text.data, i64(TEXT_BYTES - 1)))
        block.eval(O.call_extern("int32", "close", file))
        at: Expr = tirx.reinterpret("int64", text.data)
        for k in range(first, first + count):
            ten = tirx.IntImm("int32", 10)
            block.store(numbers, k, O.call_extern("int64", "strtoll", at, end.data, ten))
            at = end[i64(0)]


def send_away(block: Block, pool: Expr, thread: Expr) -> None:
    """Exclude the current core from a sleeping worker's affinity mask."""
    out = block.alloc("out", 1, "int64")
    with block.when(tirx.EQ(load(word(pool, BLIND)), i64(0))):
        address = tirx.reinterpret("int64", out.data)
        block.eval(call(LEAVE, pool, tirx.Cast("int32", thread), current_core(), address))


def settle(block: Block, pool: Expr) -> None:
    """Restore the affinity mask of a worker that was moved."""
    with block.when(tirx.EQ(load(word(pool, BLIND)), i64(0))):
        block.eval(call(SETTLE, pool))


def look_at_cores(block: Block, pool: Expr) -> None:
    """Record the affinity mask of this thread."""
    block.eval(call(LOOK, pool))


def read_quota(block: Block, pool: Expr) -> None:
    """Record the CPU quota of this process."""
    block.eval(call(READ_QUOTA, pool))
