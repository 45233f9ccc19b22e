"""Workers that leave the core of their caller."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.ir import GlobalVar

from tests.processor import linux_with_cores
from tvm_disc.codegen.machine_code import compile_tir
from tvm_disc.codegen.packed import Arguments, packed
from tvm_disc.codegen.target import has_threads, resolve_target
from tvm_disc.codegen.threads.cores import STEP_ASIDE, step_aside
from tvm_disc.codegen.threads.glue import share_of, with_glue
from tvm_disc.codegen.threads.state import ACTIVE, CORES, MASK, MASK_WORDS, PAGE_BYTES
from tvm_disc.schedules.emit import Block, call

needs_two = linux_with_cores(2)


@cache
def compiled() -> Any:
    """``step(pool, core)``: 1 if this thread stays in the caller's way; ``share(home, most)``."""

    def step(block: Block, arguments: Arguments) -> Any:
        out = block.alloc("out", 1, "int64")
        core = tirx.Cast("int32", arguments.integer(1))
        address = tirx.reinterpret("int64", out.data)
        block.eval(call(STEP_ASIDE, arguments.integer(0), core, address))
        return out[tirx.IntImm("int64", 0)]

    def share(block: Block, arguments: Arguments) -> Any:
        home, most = (block.bind(n, arguments.integer(k)) for k, n in enumerate(("home", "most")))
        return share_of(block, home, most)

    functions = {
        GlobalVar("step"): with_glue(packed("step", step)),
        GlobalVar("share"): packed("share", share),
        STEP_ASIDE: step_aside(),
    }
    return compile_tir(tvm.IRModule(functions), resolve_target())


def step(callers: set[int], core: int) -> int:
    """``step_aside`` on this thread, of a caller that may use ``callers``."""
    pool = np.zeros(MASK + MASK_WORDS, "int64")
    for number in callers:
        pool[MASK + number // 64] |= np.int64(1) << np.int64(number % 64)
    return int(compiled()["step"](pool.ctypes.data, core))


@pytest.fixture
def cores() -> Iterator[list[int]]:
    """The cores of this thread, which has them again afterwards."""
    before = os.sched_getaffinity(0)
    yield sorted(before)
    os.sched_setaffinity(0, before)


def on_another_thread(own: set[int], callers: set[int], core: int) -> tuple[set[int], int]:
    """Where a thread bound to ``own`` may run after it stepped aside, and if it is in the way."""
    found = []

    def run() -> None:
        os.sched_setaffinity(0, own)
        in_the_way = step(callers, core)
        found.append((set(os.sched_getaffinity(0)), in_the_way))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


@needs_two
def test_all_cores_of_both_but_the_callers(cores: list[int]) -> None:
    every = set(cores)
    for core in cores:
        assert on_another_thread({core}, every, core) == (every - {core}, 0)
        assert on_another_thread(every, every, core) == (every - {core}, 0)
        assert on_another_thread(every, set(), core) == (every - {core}, 0)


@needs_two
def test_on_the_only_core_of_both_a_worker_is_in_the_way(cores: list[int]) -> None:
    first, second = cores[:2]
    assert on_another_thread({first}, {first}, first) == ({first}, 1)
    assert on_another_thread({first, second}, {first}, first) == ({second}, 0)


@needs_two
def test_a_core_that_no_thread_has_changes_nothing(cores: list[int]) -> None:
    for core in (1 << 9, 1 << 10, 1 << 30, -1):
        assert on_another_thread(set(cores), set(cores), core) == (set(cores), 0)


@needs_two
def test_a_core_that_this_thread_may_not_use_changes_nothing(cores: list[int]) -> None:
    """A sandbox may say that all threads are on one core: they are not asked to leave it again."""
    first, second = cores[:2]
    assert on_another_thread({second}, set(cores), first) == ({second}, 0)


@pytest.mark.parametrize(
    ("cores", "active", "most", "share"),
    [
        (4, 0, 4, 4),
        (4, 1, 4, 4),
        (4, 2, 4, 2),
        (4, 3, 4, 1),
        (4, 9, 4, 1),
        (8, 2, 2, 2),
        (2, 2, 100, 1),
    ],
)
def test_active_calls_share_the_cores(cores: int, active: int, most: int, share: int) -> None:
    home = np.zeros(PAGE_BYTES // 8 + 64, "int64")
    home[PAGE_BYTES // 8 + CORES], home[PAGE_BYTES // 8 + ACTIVE] = cores, active
    assert compiled()["share"](home.ctypes.data, most) == share
    assert compiled()["share"](0, most) == most


@pytest.mark.parametrize(
    ("triple", "own"),
    [
        ("x86_64-pc-linux-gnu", True),
        ("aarch64-linux-gnu", True),
        ("x86_64-alpine-linux-musl", True),
        ("armv7l-linux-gnueabihf", False),
        ("aarch64-linux-android", False),
        ("arm64-apple-darwin", False),
        ("x86_64-pc-windows-msvc", False),
    ],
)
def test_only_linux_has_threads_of_ours(triple: str, own: bool) -> None:
    target = resolve_target({"kind": "llvm", "mtriple": triple})
    assert has_threads(target) is own
