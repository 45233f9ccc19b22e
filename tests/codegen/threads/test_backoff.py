"""How long a caller runs alone after a worker was held up, for a pool in plain memory."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.ir import GlobalVar, StringImm

from tvm_disc.abi.threads import ALONE_UNTIL, FACTOR, HELD_UP, HELPED, SAVED, SLOTS
from tvm_disc.codegen.host.packed import Arguments, packed
from tvm_disc.codegen.machine_code import compile_tir
from tvm_disc.codegen.target import resolve_target, triple_of
from tvm_disc.codegen.threads.atomics import system_library
from tvm_disc.codegen.threads.launch import MOST_ALONE_NS, MOST_DOUBLINGS, helped, stay_alone
from tvm_disc.tir.builder import Block

MS = 1_000_000


class Pool:
    """The words of a pool without threads."""

    def __init__(self) -> None:
        self.memory = tvm.runtime.tensor(np.zeros(SLOTS, "int64"))
        held, more = packed("held", _held), packed("help", _help)
        library = system_library(triple_of({}))
        text = tirx.AttrStmt(StringImm("disc"), "pragma_import_llvm", library, held.body)
        functions = {GlobalVar("held"): held.with_body(text), GlobalVar("help"): more}
        self.code = compile_tir(tvm.IRModule(functions), resolve_target())

    def held_up(self, lost: int) -> float:
        """Return the factor of the time alone."""
        before = time.monotonic_ns()
        self.code["held"](self.memory, lost)
        after = time.monotonic_ns()
        until = self[ALONE_UNTIL]
        factor = self[FACTOR]
        alone = min(lost * factor, MOST_ALONE_NS)
        assert before + alone <= until <= after + alone
        return factor

    def helped(self, saved: int) -> None:
        self.code["help"](self.memory, saved)

    def __getitem__(self, word: int) -> int:
        return int(self.memory.numpy()[word])


def _held(block: Block, args: Arguments) -> None:
    pool = block.bind("pool", tirx.reinterpret("int64", args.data(0, "int64")))
    stay_alone(block, pool, block.bind("lost", args.integer(1)))


def _help(block: Block, args: Arguments) -> None:
    pool = block.bind("pool", tirx.reinterpret("int64", args.data(0, "int64")))
    helped(block, pool, block.bind("saved", args.integer(1)))


@pytest.fixture
def pool() -> Any:
    return Pool()


def test_a_rare_disturbance_costs_as_long_as_it_lasts(pool: Pool) -> None:
    for _ in range(5):
        for _ in range(20):
            pool.helped(MS)
        assert pool.held_up(4 * MS) == 1


def test_the_time_alone_doubles_while_help_saves_less_than_it_loses(pool: Pool) -> None:
    found = []
    for _ in range(MOST_DOUBLINGS + 3):
        pool.helped(MS)
        found.append(pool.held_up(3 * MS))
    doubled = [2 << k for k in range(MOST_DOUBLINGS)]
    assert found == [*doubled, *[1 << MOST_DOUBLINGS] * 3]


def test_the_factor_is_halved_for_each_time_that_the_loss_was_saved(pool: Pool) -> None:
    for _ in range(MOST_DOUBLINGS):
        pool.held_up(3 * MS)
    pool.helped(10 * MS)  # three losses
    assert pool.held_up(3 * MS) == 1 << (MOST_DOUBLINGS - 3)
    assert pool[SAVED] == 0
    pool.helped(1000 * MS)
    assert pool.held_up(3 * MS) == 1


def test_time_lost_in_waiting_is_no_gain(pool: Pool) -> None:
    pool.helped(-50 * MS)
    assert pool.held_up(MS) == 2
    pool.helped(-50 * MS)
    pool.helped(52 * MS)
    assert pool.held_up(MS) == 1
    assert (pool[HELPED], pool[HELD_UP]) == (3, 2)


@pytest.mark.parametrize("lost", [MS, 100 * MS, 10_000 * MS])
def test_the_time_alone_is_bounded(pool: Pool, lost: int) -> None:
    for _ in range(10):
        pool.held_up(lost)
    assert pool[ALONE_UNTIL] - time.monotonic_ns() <= MOST_ALONE_NS
