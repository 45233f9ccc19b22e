"""Workers that leave the core of their caller."""

from __future__ import annotations

import ctypes
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
from tvm_disc.abi.threads import ACTIVE, BLIND, CORES, MASK, PAGE_BYTES, SLOTS
from tvm_disc.codegen.host.packed import Arguments, packed
from tvm_disc.codegen.machine_code import compile_tir
from tvm_disc.codegen.target import has_threads, resolve_target
from tvm_disc.codegen.threads.cores import leave_core, step_aside
from tvm_disc.codegen.threads.glue import SHARE, share_function
from tvm_disc.tir.builder import Block, call

needs_two = linux_with_cores(2)


@cache
def compiled() -> Any:
    """``leave(pool, thread, core)``: 1 if there is no other core; ``step(pool, core)``: 1 if this
    thread stays in the caller's way; ``share(home, most)``."""

    def leave(block: Block, arguments: Arguments) -> Any:
        thread, core = (tirx.Cast("int32", arguments.integer(k)) for k in (1, 2))
        return block.bind("none", leave_core(arguments.integer(0), thread, core))

    def step(block: Block, arguments: Arguments) -> Any:
        core = tirx.Cast("int32", arguments.integer(1))
        return block.bind("stays", step_aside(arguments.integer(0), core))

    def share(block: Block, arguments: Arguments) -> Any:
        home, most = (block.bind(n, arguments.integer(k)) for k, n in enumerate(("home", "most")))
        out = block.alloc("out", 1, "int64")
        block.eval(call(SHARE, home, most, tirx.reinterpret("int64", out.data)))
        return out[tirx.IntImm("int64", 0)]

    functions = {
        SHARE: share_function(),
        GlobalVar("leave"): packed("leave", leave),
        GlobalVar("step"): packed("step", step),
        GlobalVar("share"): packed("share", share),
    }
    return compile_tir(tvm.IRModule(functions), resolve_target())


def pool_for(callers: set[int]) -> Any:
    """A pool whose last caller may use these cores."""
    pool = np.zeros(SLOTS, "int64")
    for number in callers:
        pool[MASK + number // 64] |= np.int64(1) << np.int64(number % 64)
    return pool


@pytest.fixture
def cores() -> Iterator[list[int]]:
    """The cores of this thread, which has them again afterwards."""
    before = os.sched_getaffinity(0)
    yield sorted(before)
    os.sched_setaffinity(0, before)


def leave(own: set[int], callers: set[int], core: int) -> tuple[set[int], int]:
    """Where a thread bound to ``own`` may run after it left a core, and if there is no other."""
    found, begun, done = [], threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (begun.set(), done.wait()))
    thread.start()
    begun.wait()
    try:
        os.sched_setaffinity(thread.native_id, own)
        none = int(compiled()["leave"](pool_for(callers).ctypes.data, thread.native_id, core))
        found = set(os.sched_getaffinity(thread.native_id))
    finally:
        done.set()
        thread.join()
    return found, none


@needs_two
def test_all_cores_of_the_callers_but_one(cores: list[int]) -> None:
    every = set(cores)
    for core in cores:
        assert leave({core}, every, core) == (every - {core}, 0)
        assert leave(every, every, core) == (every - {core}, 0)


@needs_two
def test_the_only_core_of_the_callers_cannot_be_left(cores: list[int]) -> None:
    first, second = cores[:2]
    assert leave({first}, {first}, first) == ({first}, 1)
    assert leave({first, second}, {first}, first) == ({first, second}, 1)


@needs_two
def test_a_core_that_no_caller_has_changes_nothing(cores: list[int]) -> None:
    for core in (1 << 9, 1 << 10, 1 << 30, -1):
        assert leave(set(cores), set(cores), core) == (set(cores), 0)
    first, second = cores[:2]
    assert leave({first}, {second}, first) == ({first}, 0)


def step(pool: Any, own: set[int], core: int | None) -> tuple[set[int], int, int]:
    """Where this thread may run after it stepped aside, if it is in the way, and its core then;
    without a core the one that it is on."""
    os.sched_setaffinity(0, own)
    here = libc().sched_getcpu() if core is None else core
    in_the_way = int(compiled()["step"](pool.ctypes.data, here))
    there = libc().sched_getcpu()
    return set(os.sched_getaffinity(0)), in_the_way, int(there != here)


@cache
def libc() -> Any:
    """The C library."""
    return ctypes.CDLL(None)


@needs_two
def test_a_worker_on_its_callers_core_goes_elsewhere_and_may_use_all(cores: list[int]) -> None:
    pool = pool_for(set(cores))
    for core in cores:
        assert step(pool, {core}, core) == (set(cores), 0, 1)
    assert not pool[BLIND]


@needs_two
def test_a_worker_elsewhere_stays(cores: list[int]) -> None:
    first, second = cores[:2]
    assert step(pool_for(set(cores)), {second}, first) == ({second}, 0, 1)


@needs_two
def test_a_worker_on_the_only_core_is_in_the_way(cores: list[int]) -> None:
    first = cores[0]
    assert step(pool_for({first}), {first}, first) == ({first}, 1, 0)


@needs_two
def test_where_cores_are_not_told_apart_nobody_steps_aside(cores: list[int]) -> None:
    pool, first = pool_for(set(cores)), cores[0]
    pool[BLIND] = 1
    assert step(pool, {first}, first) == ({first}, 0, 0)


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
