"""The worker thread: runs parts of launches of any program of the process.

Between launches a worker first spins on the signal word, so that the next kernel of a call need not
wake it, and then sleeps. The spin time doubles if a launch arrived during the spin, halves if none
arrived, and drops to the minimum if the worker was preempted.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import GlobalVar, PrimType

from tvm_disc.abi.threads import (
    ASLEEP,
    BODY,
    CLOSURE,
    CORE,
    DONE,
    PARKED,
    SIGNAL,
    SLOT_COUNT,
    SPINNING,
    STARTED,
    THREAD,
    WAITING,
)
from tvm_disc.codegen.threads.atomics import (
    compare_exchange,
    fetch_add,
    futex_wait,
    futex_wake,
    load,
    now_ns,
    pause,
    run_part,
    store,
    thread_number,
)
from tvm_disc.codegen.threads.cores import settle, step_aside
from tvm_disc.codegen.threads.home import WORKER_NAME, pool_of
from tvm_disc.codegen.threads.launch import (
    NONE,
    RETRY,
    claim,
    environment,
    next_part,
    parts_of,
    read_ticket,
)
from tvm_disc.codegen.threads.state import record_address, slot_address, word
from tvm_disc.tir.builder import Block, i64, index_var
from tvm_disc.typing import Buffer, Expr, PrimFunc

LEAST_LOOK_NS, MOST_LOOK_NS = 200_000, 2_000_000
# Iterations between two clock reads.
TURNS = 16
# A larger gap between two clock reads means that the thread was preempted.
AWAY_NS = 300_000


def worker_functions() -> dict[GlobalVar, PrimFunc]:
    """Return the code of a worker."""
    return {GlobalVar(WORKER_NAME): _worker()}


def _worker() -> PrimFunc:
    """Return ``worker(home)``: the body of a worker thread, which never returns."""
    home = index_var("home")
    block = Block()
    pool = block.bind("pool", pool_of(home))
    cells = {n: block.alloc(n, 1, "int64") for n in ("look", "found", "seen", "part", "woke")}
    block.store(cells["look"], 0, i64(MOST_LOOK_NS))
    block.store(cells["woke"], 0, i64(0))
    record = block.bind("record", record_address(pool, fetch_add(word(pool, STARTED), i64(1))))
    block.eval(store(word(record, THREAD), thread_number()))
    with block.loop_while(pool > 0):
        block.store(cells["seen"], 0, load(word(pool, SIGNAL)))
        block.store(cells["found"], 0, i64(0))
        with block.loop("k", SLOT_COUNT) as k:
            slot = block.bind("slot", slot_address(pool, k))
            with block.when(_has_parts(block, slot)):
                _serve(block, pool, slot, cells)
        with block.when(tirx.EQ(cells["found"][i64(0)], i64(0))):
            _idle(block, pool, record, cells)
    block.ret(tirx.IntImm("int32", 0))
    func = tirx.PrimFunc([home], block.stmt(), PrimType("int32"))
    # The address of the function is taken: TVM must not rewrite it as a packed function.
    return func.with_attr("calling_conv", 1).with_attr("global_symbol", WORKER_NAME)


def _has_parts(block: Block, slot: Expr) -> Expr:
    now = read_ticket(block, slot)
    return next_part(now) < parts_of(now)


def _serve(block: Block, pool: Expr, slot: Expr, cells: dict[str, Buffer]) -> None:
    """Claim and run parts of a slot until none is left; never on the caller's core."""
    part = cells["part"]
    core = block.bind("core", tirx.Cast("int32", load(word(slot, CORE))))
    with block.when(tirx.EQ(block.bind("in_the_way", step_aside(pool, core)), i64(0))):
        block.store(part, 0, i64(RETRY))
        with block.loop_while(tirx.NE(part[i64(0)], i64(NONE))):
            # Slot contents are read before a part is claimed, and are valid only if the claim
            # succeeds.
            now = read_ticket(block, slot)
            body = block.bind("body", load(word(slot, BODY)))
            closure = block.bind("closure", load(word(slot, CLOSURE)))
            parts = block.bind("parts", parts_of(now))
            claim(block, slot, now, part)
            with block.when(part[i64(0)] >= 0):
                block.store(cells["found"], 0, i64(1))
                env = block.bind("env", environment(block, parts))
                block.eval(run_part(body, part[i64(0)], env, closure))
                _done(block, slot, parts, cells["woke"])


def _done(block: Block, slot: Expr, parts: Expr, woke: Buffer) -> None:
    """Count one finished part; the last one wakes a sleeping caller and sets ``woke`` to 1."""
    before = block.bind("before", fetch_add(word(slot, DONE), i64(1)))
    with (
        block.when(tirx.EQ(before + 1, parts)),
        block.when(tirx.NE(load(word(slot, WAITING)), i64(0))),
    ):
        block.eval(futex_wake(word(slot, DONE), i64(1)))
        block.store(woke, 0, i64(1))


def _idle(block: Block, pool: Expr, record: Expr, cells: dict[str, Buffer]) -> None:
    """Wait for the next launch: spin on the signal, then sleep."""
    look, seen = cells["look"], block.bind("seen", cells["seen"][i64(0)])
    waiting, last = block.alloc("waiting", 1, "int64"), block.alloc("last", 1, "int64")
    start = block.bind("start", now_ns())
    # A caller that this worker woke may have to run on this core, so do not spin.
    block.store(waiting, 0, i64(1) + cells["woke"][i64(0)])
    block.store(cells["woke"], 0, i64(0))
    block.store(last, 0, start)
    block.eval(fetch_add(word(pool, SPINNING), i64(1)))
    with block.loop_while(tirx.EQ(waiting[i64(0)], i64(1))):
        with block.loop("turn", TURNS):
            block.eval(pause())
        now = block.bind("now", now_ns())
        with block.when(now - start > look[i64(0)]):
            block.store(look, 0, tirx.max(tirx.truncdiv(look[i64(0)], 2), i64(LEAST_LOOK_NS)))
            block.store(waiting, 0, i64(2))
        with block.when(now - last[i64(0)] > AWAY_NS):
            block.store(look, 0, i64(LEAST_LOOK_NS))
            block.store(waiting, 0, i64(2))
        block.store(last, 0, now)
        with block.when(tirx.NE(load(word(pool, SIGNAL)), seen)):
            with block.when(tirx.EQ(waiting[i64(0)], i64(1))):
                block.store(look, 0, tirx.min(look[i64(0)] * 2, i64(MOST_LOOK_NS)))
            block.store(waiting, 0, i64(0))
    block.eval(fetch_add(word(pool, SPINNING), i64(-1)))
    with block.when(tirx.EQ(waiting[i64(0)], i64(2))):
        _sleep(block, pool, record, seen)


def _sleep(block: Block, pool: Expr, record: Expr, seen: Expr) -> None:
    """Sleep until a caller wakes this worker; return at once if a launch has arrived meanwhile."""
    asleep = word(record, ASLEEP)
    block.eval(store(asleep, i64(1)))
    block.eval(fetch_add(word(pool, PARKED), i64(1)))
    awake = block.alloc("awake", 1, "int64")
    block.store(awake, 0, i64(0))
    with block.when(tirx.NE(load(word(pool, SIGNAL)), seen)):
        block.store(awake, 0, compare_exchange(asleep, i64(1), i64(0)))
    with block.when(tirx.EQ(awake[i64(0)], i64(0))):
        with block.loop_while(tirx.NE(load(asleep), i64(0))):
            block.eval(futex_wait(asleep, i64(1)))
        block.eval(settle(pool))
    block.eval(fetch_add(word(pool, PARKED), i64(-1)))
