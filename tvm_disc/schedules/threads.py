"""Loops over threads, whose workers leave the caller's core.

A worker that sleeps may be woken on the core of the caller that wakes it, however many cores are
free, and stays there until the scheduler looks again, a tick or more later: until then the two take
turns. TVM would bind every worker to a core, but not the caller, which then may run on a worker's
core, and callers' workers to the same cores. Here a worker that finds itself on the caller's core
asks for all the others. It keeps them, so that after the next pause it wakes elsewhere; the caller
is left alone, and where the two come together again the worker moves again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from tvm import tirx
from tvm.ir import GlobalVar
from tvm.tirx import op as O

from tvm_disc.schedules.emit import Block, call, i64, index_var, prim_func, scalar_var

Expr: TypeAlias = Any

STEP_ASIDE = GlobalVar("tvm_disc_step_aside")
# Sets of cores as the C library has them (cpu_set_t): a bit for each, in 64-bit words.
SET_WORDS = 16
SET_BYTES = 8 * SET_WORDS


@contextmanager
def on_threads(block: Block, parts: Expr, apart: bool) -> Iterator[Expr]:
    """``for part in range(parts)``, a thread for each; ``apart``: they leave the caller's core."""
    if not apart:
        with block.loop("part", parts, kind="parallel") as part:
            yield part
        return
    caller, core = block.bind("caller", _self()), block.bind("core", _core())
    with block.loop("part", parts, kind="parallel") as part:
        with block.when(tirx.EQ(core, _core())), block.when(tirx.NE(caller, _self())):
            block.eval(call(STEP_ASIDE, caller, core))
        yield part


def step_aside() -> Any:
    """``(caller, core)``: this thread may use the cores that it or ``caller`` may, but ``core``.

    Where that leaves none, this thread may not use ``core`` already (some sandboxes tell every
    thread the same number), or the system does not say or has more cores than a set, nothing
    changes.
    """
    caller, core = index_var("caller"), scalar_var("core", "int32")
    block = Block()
    mine, theirs = (block.alloc(name, SET_WORDS, "int64") for name in ("mine", "theirs"))
    own = block.bind("word", tirx.Cast("int64", tirx.truncdiv(core, 64)))
    shift = tirx.Cast("int64", tirx.truncmod(core, 64))
    bit = block.bind("bit", tirx.shift_left(i64(1), shift))
    with (
        block.when(tirx.all(core >= 0, core < 64 * SET_WORDS)),
        block.when(tirx.EQ(_affinity("get", _self(), mine), 0)),
        block.when(tirx.NE(tirx.bitwise_and(mine[own], bit), i64(0))),
        block.when(tirx.EQ(_affinity("get", caller, theirs), 0)),
    ):
        some = block.alloc("some", 1, "int64")
        block.store(some, 0, i64(0))
        with block.loop("word", SET_WORDS) as word:
            left = tirx.Select(tirx.EQ(word, own), tirx.bitwise_not(bit), i64(-1))
            kept = tirx.bitwise_and(tirx.bitwise_or(mine[word], theirs[word]), left)
            block.store(mine, word, kept)
            block.store(some, 0, tirx.bitwise_or(some[i64(0)], mine[word]))
        with block.when(tirx.NE(some[i64(0)], i64(0))):
            block.eval(_affinity("set", _self(), mine))
    return prim_func([caller, core], block.stmt())


def _self() -> Expr:
    return O.call_extern("int64", "pthread_self")


def _core() -> Expr:
    return O.call_extern("int32", "sched_getcpu")


def _affinity(verb: str, thread: Expr, cores: Any) -> Expr:
    name = f"pthread_{verb}affinity_np"
    return O.call_extern("int32", name, thread, i64(SET_BYTES), cores.data)
