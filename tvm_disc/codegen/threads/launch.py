"""A parallel loop from its caller's side.

The caller offers the parts to workers, runs the first part, and claims further parts until none is
left. Then it waits for the parts that workers have claimed.

Offering parts to a spinning worker costs almost nothing. Waking a worker costs the caller
microseconds. If a worker is preempted while it runs a part, the caller waits for up to a time
slice. Both costs are limited by backoff. The pause between wakes doubles with each wake, and is
reset to its minimum if workers have saved more time since the previous wake than that wake took.
After a wait for a preempted worker, launches use only the calling thread for the time of the wait,
times a factor. Let ``saved`` be the time that workers have saved since the previous such wait. The
factor doubles if ``saved`` is less than the wait, and is halved ``saved // wait`` times otherwise
(exponential backoff, as for collisions on a shared medium: Metcalfe and Boggs, 1976). A rare
disturbance therefore costs about the time that it lasts, and a core that is always busy costs a
small fraction of the run time.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import GlobalVar, PrimType

from tvm_disc.abi.threads import (
    ALONE_UNTIL,
    ASLEEP,
    BODY,
    BUSY,
    CLOSURE,
    CORE,
    CORES,
    DONE,
    FACTOR,
    GAIN,
    HELD_UP,
    HELPED,
    LAUNCHES,
    MADE,
    MAKING,
    MOST_PARTS,
    NEXT_WAKE,
    PARKED,
    READY,
    RECORD_COUNT,
    SAVED,
    SIGNAL,
    SLOT_COUNT,
    SPINNING,
    STARTED,
    THREAD,
    TICKET,
    WAITING,
    WAKE_COST,
    WAKE_PAUSE,
    WOKEN,
    WORKERS,
)
from tvm_disc.codegen.host.abi import void_pointer
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
)
from tvm_disc.codegen.threads.cores import (
    current_core,
    look_at_cores,
    read_quota,
    send_away,
)
from tvm_disc.codegen.threads.home import LAUNCH_NAME, own_home, pool_of, spawn
from tvm_disc.codegen.threads.state import record_address, slot_address, ticket, word
from tvm_disc.tir.builder import Block, call, i64, index_var, prim_func
from tvm_disc.typing import Buffer, Expr, PrimFunc

LAUNCH = GlobalVar(LAUNCH_NAME)
OPEN, FINISH, PREPARE = (
    GlobalVar(f"tvm_disc_{name}") for name in ("open_launch", "finish_launch", "prepare_pool")
)
# Number of launches after which the affinity mask is read again; a power of two.
LOOK_AGAIN = 256
# After its own parts, the caller spins for this multiple of their time, plus a constant in
# nanoseconds. Then the caller assumes that a worker was preempted, and sleeps.
HELD_UP_TIMES, HELD_UP_NS = 1, 50_000
# Iterations between two clock reads.
TURNS = 16
LEAST_PAUSE_NS, MOST_PAUSE_NS = 100_000, 20_000_000
# Limits of the backoff: the longest time without workers, and log2 of the largest factor.
MOST_ALONE_NS, MOST_DOUBLINGS = 320_000_000, 6
RETRY, NONE = -2, -1


def launch_functions() -> dict[GlobalVar, PrimFunc]:
    """Return the functions of this module."""
    return {LAUNCH: _launch(), OPEN: _open(), FINISH: _finish(), PREPARE: _prepare()}


def read_ticket(block: Block, slot: Expr) -> Expr:
    """Return the current ticket of a slot."""
    return block.bind("ticket", load(word(slot, TICKET)))


def parts_of(ticket: Expr) -> Expr:
    """Return the number of parts of the launch with this ticket."""
    return tirx.bitwise_and(ticket, i64(0xFFFF))


def next_part(ticket: Expr) -> Expr:
    """Return the part that is claimed next, or the number of parts if all are claimed."""
    return tirx.bitwise_and(tirx.shift_right(ticket, i64(16)), i64(0xFFFF))


def claim(block: Block, slot: Expr, now: Expr, part: Buffer) -> None:
    """Claim the next part of a ticket. ``part`` receives the part, NONE if no part is left, or
    RETRY if the ticket has changed.

    On success, the slot's contents, as read with the ticket, stay valid until the part is done.
    """
    following = block.bind("next", next_part(now))
    block.store(part, 0, i64(NONE))
    with block.when(following < parts_of(now)):
        taken = compare_exchange(word(slot, TICKET), now, now + (1 << 16))
        with block.when(tirx.NE(block.bind("taken", taken), i64(0))):
            block.store(part, 0, following)
        with block.otherwise():
            block.store(part, 0, i64(RETRY))


def environment(block: Block, parts: Expr) -> Expr:
    """Return the address of the structure from which generated code reads the number of parts."""
    env = block.alloc("env", 2, "int64")
    block.store(env, 0, i64(0))
    block.store(env, 1, parts)
    return tirx.reinterpret("int64", env.data)


def _launch() -> PrimFunc:
    """Return the function that replaces the runtime's launch, ``(body, closure, tasks) ->
    status``.
    """
    pointers = [tirx.Var(n, void_pointer()) for n in ("body_at", "closure_at")]
    tasks = tirx.Var("tasks", "int32")
    block = Block()
    body, closure = (
        block.bind(n, tirx.reinterpret("int64", p))
        for n, p in zip(("body", "closure"), pointers, strict=True)
    )
    # The first word of the closure is the loop extent, used here as the number of parts. Any number
    # is correct: each part computes its share of the loop, and a single part runs all of it.
    parts = block.bind("parts", load(closure))
    slot = block.alloc("slot", 1, "int64")
    block.store(slot, 0, i64(0))
    with block.when(tirx.And(parts > 1, parts <= MOST_PARTS)):
        block.eval(call(OPEN, body, closure, parts, tirx.reinterpret("int64", slot.data)))
    opened = block.bind("opened", slot[i64(0)])
    with block.when(tirx.EQ(opened, i64(0))):
        alone = block.bind("alone", environment(block, i64(1)))
        block.eval(run_part(body, i64(0), alone, closure))
    with block.when(tirx.NE(opened, i64(0))):
        env = block.bind("env", environment(block, parts))
        start = block.bind("start", now_ns())
        block.eval(run_part(body, i64(0), env, closure))
        mine, part = block.alloc("mine", 1, "int64"), block.alloc("part", 1, "int64")
        block.store(mine, 0, i64(1))
        block.store(part, 0, i64(RETRY))
        with block.loop_while(tirx.NE(part[i64(0)], i64(NONE))):
            claim(block, opened, read_ticket(block, opened), part)
            with block.when(part[i64(0)] >= 0):
                block.eval(run_part(body, part[i64(0)], env, closure))
                block.store(mine, 0, mine[i64(0)] + 1)
        block.eval(call(FINISH, opened, parts, mine[i64(0)], start))
    # Kernels cannot fail.
    block.ret(tirx.IntImm("int32", 0))
    func = tirx.PrimFunc([*pointers, tasks], block.stmt(), PrimType("int32"))
    # TVM must not rewrite it as a packed function: generated code calls it in place of the
    # runtime's.
    func = func.with_attr("calling_conv", 1)
    return func.with_attr("global_symbol", LAUNCH.name_hint)


def _open() -> PrimFunc:
    """Return ``open(body, closure, parts, out)``, which offers parts to workers.

    ``out`` receives the address of the slot, or stays 0 if the caller should run all parts.
    """
    body, closure, parts, out = (index_var(n) for n in ("body", "closure", "parts", "out"))
    block = Block()
    home = own_home(block)
    pool = block.bind("pool", pool_of(home))
    with block.when(tirx.NE(load(word(pool, READY)), i64(MADE))):
        block.eval(call(PREPARE, pool))
    count = block.bind("count", fetch_add(word(pool, LAUNCHES), i64(1)))
    with block.when(tirx.EQ(tirx.bitwise_and(count, i64(LOOK_AGAIN - 1)), i64(LOOK_AGAIN - 1))):
        block.eval(look_at_cores(pool))
    cores = load(word(pool, CORES))
    most = tirx.min(block.bind("cores", cores), i64(RECORD_COUNT + 1))
    helpers = block.bind("helpers", tirx.min(parts, most) - 1)
    alone = block.alloc("alone", 1, "int64")
    block.store(alone, 0, load(word(pool, ALONE_UNTIL)))
    with block.when(alone[i64(0)] > 0), block.when(now_ns() >= alone[i64(0)]):
        block.store(alone, 0, i64(0))
        block.eval(store(word(pool, ALONE_UNTIL), i64(0)))
    with block.when(tirx.And(alone[i64(0)] <= 0, helpers > 0)):
        _hire(block, home, pool, helpers)
        slot = _free_slot(block, pool)
        with block.when(tirx.NE(slot[i64(0)], i64(0))):
            at = block.bind("at", slot[i64(0)])
            _offer(block, at, (body, closure, parts))
            _call_for(block, pool, helpers)
            block.eval(store(out, at))
    return prim_func([body, closure, parts, out], block.stmt())


def _hire(block: Block, home: Expr, pool: Expr, helpers: Expr) -> None:
    """Start missing workers, at most one fewer than there are cores."""
    with block.when(load(word(pool, WORKERS)) < helpers), block.loop("k", helpers):
        workers = block.bind("workers", load(word(pool, WORKERS)))
        with block.when(workers < helpers):
            mine = compare_exchange(word(pool, WORKERS), workers, workers + 1)
            with block.when(tirx.NE(block.bind("mine", mine), i64(0))):
                more = block.bind("more", spawn(home))
                with block.when(tirx.EQ(more, i64(0))):
                    block.eval(fetch_add(word(pool, WORKERS), i64(-1)))


def _free_slot(block: Block, pool: Expr) -> Buffer:
    """Return a cell with the address of a slot reserved for this launch, or 0 if all are in use."""
    slot = block.alloc("slot", 1, "int64")
    block.store(slot, 0, i64(0))
    with (
        block.loop("k", SLOT_COUNT) as k,
        block.when(tirx.EQ(slot[i64(0)], i64(0))),
    ):
        at = block.bind("at", slot_address(pool, k))
        with block.when(tirx.EQ(load(word(at, BUSY)), i64(0))):
            taken = block.bind("taken", compare_exchange(word(at, BUSY), i64(0), i64(1)))
            with block.when(tirx.NE(taken, i64(0))):
                block.store(slot, 0, at)
    return slot


def _offer(block: Block, slot: Expr, work: tuple[Expr, Expr, Expr]) -> None:
    """Fill a slot; storing the ticket makes its parts claimable."""
    body, closure, parts = work
    core = tirx.Cast("int64", current_core())
    words = ((BODY, body), (CLOSURE, closure), (CORE, core), (DONE, i64(0)), (WAITING, i64(0)))
    for number, value in words:
        block.eval(store(word(slot, number), value))
    # The generation wraps around at 32 bits.
    generation = tirx.shift_right(load(word(slot, TICKET)), i64(32)) + 1
    block.eval(store(word(slot, TICKET), ticket(generation, parts)))


def _call_for(block: Block, pool: Expr, helpers: Expr) -> None:
    """Signal the launch to spinning workers. If too few workers spin and the pause since the last
    wake is over, wake sleeping workers.
    """
    block.eval(fetch_add(word(pool, SIGNAL), i64(1)))
    missing = block.bind("missing", helpers - load(word(pool, SPINNING)))
    with block.when(missing > 0), block.when(load(word(pool, PARKED)) > 0):
        now = block.bind("now", now_ns())
        with block.when(now >= load(word(pool, NEXT_WAKE))):
            worth = load(word(pool, GAIN)) > load(word(pool, WAKE_COST))
            longer = tirx.min(load(word(pool, WAKE_PAUSE)) * 2, i64(MOST_PAUSE_NS))
            longer = tirx.max(longer, i64(LEAST_PAUSE_NS))
            pause_ns = block.bind("pause", tirx.Select(worth, i64(LEAST_PAUSE_NS), longer))
            block.eval(store(word(pool, WAKE_PAUSE), pause_ns))
            block.eval(store(word(pool, NEXT_WAKE), now + pause_ns))
            block.eval(store(word(pool, GAIN), i64(0)))
            block.eval(fetch_add(word(pool, WOKEN), i64(1)))
            _wake(block, pool, missing)
            block.eval(store(word(pool, WAKE_COST), now_ns() - now))


def _wake(block: Block, pool: Expr, missing: Expr) -> None:
    """Wake up to ``missing`` sleeping workers, on other cores than this one."""
    left = block.alloc("left", 1, "int64")
    block.store(left, 0, missing)
    count = block.bind("count", load(word(pool, STARTED)))
    with block.loop("k", count) as k, block.when(left[i64(0)] > 0):
        record = block.bind("record", record_address(pool, k))
        with block.when(tirx.NE(load(word(record, ASLEEP)), i64(0))):
            mine = compare_exchange(word(record, ASLEEP), i64(1), i64(0))
            with block.when(tirx.NE(block.bind("mine", mine), i64(0))):
                block.eval(send_away(pool, load(word(record, THREAD))))
                block.eval(futex_wake(word(record, ASLEEP), i64(1)))
                block.store(left, 0, left[i64(0)] - 1)


def _finish() -> PrimFunc:
    """Return ``finish(slot, parts, mine, start)``, which waits for the workers' parts and updates
    the backoff. The caller ran ``mine`` parts from the time ``start`` on.
    """
    slot, parts, mine, start = (index_var(n) for n in ("slot", "parts", "mine", "start"))
    block = Block()
    pool = block.bind("pool", pool_of(own_home(block)))
    before = block.bind("before", fetch_add(word(slot, DONE), mine))
    held_up = block.alloc("held_up", 1, "int64")
    block.store(held_up, 0, i64(0))
    with block.when(mine < parts):
        since = block.bind("since", now_ns())
        own = block.bind("own", since - start)
        with block.when(before + mine < parts):
            limit = block.bind("limit", since + own * HELD_UP_TIMES + HELD_UP_NS)
            _wait(block, slot, parts, limit, held_up)
        # A variable is needed here: TVM's analyzer assumes that two reads of the clock are equal.
        waited = block.number("waited", now_ns() - since)
        with block.when(tirx.NE(held_up[i64(0)], i64(0))):
            stay_alone(block, pool, waited)
        with block.otherwise():
            # Gain: the time that the workers' parts would have taken in this thread, minus the
            # wait.
            helped(block, pool, tirx.truncdiv(own * (parts - mine), mine) - waited)
    block.eval(store(word(slot, BUSY), i64(0)))
    return prim_func([slot, parts, mine, start], block.stmt())


def _wait(block: Block, slot: Expr, parts: Expr, limit: Expr, held_up: Buffer) -> None:
    """Wait until all parts are done: spin until ``limit``, then sleep and set ``held_up`` to 1."""
    with block.loop_while(load(word(slot, DONE)) < parts):
        with block.loop("turn", TURNS):
            block.eval(pause())
        with block.when(tirx.Or(tirx.NE(held_up[i64(0)], i64(0)), now_ns() > limit)):
            block.store(held_up, 0, i64(1))
            # Either the worker that ends the last part sees this word and wakes this thread, or
            # this thread sees that all parts are done.
            block.eval(fetch_add(word(slot, WAITING), i64(1)))
            done = block.bind("done", load(word(slot, DONE)))
            with block.when(done < parts):
                block.eval(futex_wait(word(slot, DONE), done))


def stay_alone(block: Block, pool: Expr, lost: Expr) -> None:
    """Emit the backoff after a wait of ``lost`` nanoseconds for a preempted worker: launches use
    only the calling thread for a multiple of this time.
    """
    block.eval(fetch_add(word(pool, HELD_UP), i64(1)))
    worth = tirx.truncdiv(tirx.max(load(word(pool, SAVED)), i64(0)), lost)
    worth = block.bind("worth", tirx.min(worth, i64(MOST_DOUBLINGS)))
    factor = block.bind("factor", tirx.max(load(word(pool, FACTOR)), i64(1)))
    less, more = tirx.shift_right(factor, worth), tirx.min(factor * 2, i64(1 << MOST_DOUBLINGS))
    factor = block.bind("following", tirx.max(tirx.Select(worth > 0, less, more), i64(1)))
    block.eval(store(word(pool, FACTOR), factor))
    block.eval(store(word(pool, SAVED), i64(0)))
    alone = tirx.min(lost * factor, i64(MOST_ALONE_NS))
    block.eval(store(word(pool, ALONE_UNTIL), now_ns() + alone))


def helped(block: Block, pool: Expr, gain: Expr) -> None:
    """Record a launch in which workers saved the time ``gain``, in nanoseconds."""
    block.eval(fetch_add(word(pool, HELPED), i64(1)))
    block.eval(fetch_add(word(pool, GAIN), gain))
    block.eval(fetch_add(word(pool, SAVED), gain))


def _prepare() -> PrimFunc:
    """Return ``prepare(pool)``, which initializes the pool at the first launch of a process.

    Meanwhile, concurrent launches run without workers.
    """
    pool = index_var("pool")
    block = Block()
    first = block.bind("first", compare_exchange(word(pool, READY), i64(0), i64(MAKING)))
    with block.when(tirx.NE(first, i64(0))):
        block.eval(read_quota(pool))
        block.eval(look_at_cores(pool))
        block.eval(store(word(pool, READY), i64(MADE)))
    return prim_func([pool], block.stmt())
