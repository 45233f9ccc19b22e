"""Workers that leave the core of their caller."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import tvm
from tvm.ir import GlobalVar

import tvm_disc
from tvm_disc import relay
from tvm_disc.codegen.build import compile_tir
from tvm_disc.codegen.packed import Arguments, packed
from tvm_disc.codegen.target import binds_threads, resolve_target
from tvm_disc.schedules.emit import Block, call
from tvm_disc.schedules.threads import STEP_ASIDE, step_aside

HOST = resolve_target()
needs_two = pytest.mark.skipif(
    not binds_threads(HOST) or len(os.sched_getaffinity(0)) < 2, reason="needs Linux and two cores"
)


def step(caller: int, core: int) -> None:
    """``step_aside`` on this thread."""

    def emit(block: Block, arguments: Arguments) -> None:
        core = tvm.tirx.Cast("int32", arguments.integer(1))
        block.eval(call(STEP_ASIDE, arguments.integer(0), core))

    functions = {GlobalVar("step"): packed("step", emit), STEP_ASIDE: step_aside()}
    compile_tir(tvm.IRModule(functions), HOST)["step"](caller, core)


@pytest.fixture
def cores() -> Iterator[list[int]]:
    """The cores of this thread, which has them again afterwards."""
    before = os.sched_getaffinity(0)
    yield sorted(before)
    os.sched_setaffinity(0, before)


def on_another_thread(own: set[int], core: int) -> set[int]:
    """Where a thread bound to ``own`` may run after it has stepped aside from this one's core."""
    caller, found = threading.get_ident(), []

    def run() -> None:
        os.sched_setaffinity(0, own)
        step(caller, core)
        found.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return set(found[0])


@needs_two
def test_all_cores_of_both_but_the_callers(cores: list[int]) -> None:
    for core in cores:
        assert on_another_thread({core}, core) == set(cores) - {core}
        assert on_another_thread(set(cores), core) == set(cores) - {core}


@needs_two
def test_one_core_for_both_is_shared(cores: list[int]) -> None:
    first, second = cores[:2]
    os.sched_setaffinity(0, {first})
    assert on_another_thread({first}, first) == {first}
    assert on_another_thread({first, second}, first) == {second}
    assert os.sched_getaffinity(0) == {first}


@needs_two
def test_a_core_that_no_thread_has_changes_nothing(cores: list[int]) -> None:
    for core in (1 << 9, 1 << 10, 1 << 30, -1):
        assert on_another_thread(set(cores), core) == set(cores)


@needs_two
def test_a_core_that_this_thread_may_not_use_changes_nothing(cores: list[int]) -> None:
    """A sandbox may say that all threads are on one core: they are not asked to leave it again."""
    first, *others = cores
    assert on_another_thread({others[0]}, first) == {others[0]}


@needs_two
def test_workers_of_a_program_move_the_caller_does_not(cores: list[int]) -> None:
    x = relay.var("x", shape=(relay.Any(), 256), dtype="float32")
    y = relay.exp(x)
    exe = tvm_disc.build(relay.Function([x], y), options=tvm_disc.Options(threads=2))
    a = np.linspace(-4, 4, 4096 * 256, dtype="float32").reshape(4096, 256)
    before = set(os.listdir("/proc/self/task"))
    moved, found = False, []

    def run() -> None:  # a new thread has workers of its own
        nonlocal moved
        mine = threading.get_native_id()
        exe(a)
        workers = [int(t) for t in os.listdir("/proc/self/task") if t not in before]
        workers.remove(mine)
        core = cores[0]
        for _ in range(200):
            for worker in workers:
                os.sched_setaffinity(worker, {core})
            os.sched_setaffinity(0, {core})
            os.sched_setaffinity(0, cores)  # it stays where it is
            found.append(exe(a))
            assert os.sched_getaffinity(0) == set(cores)
            if moved := any(os.sched_getaffinity(w) == set(cores) - {core} for w in workers):
                break

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert moved
    np.testing.assert_allclose(found[-1], np.exp(a), rtol=1e-6)


@pytest.mark.parametrize(
    ("triple", "binds"),
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
def test_only_linux_is_asked_for_cores(triple: str, binds: bool) -> None:
    target = resolve_target({"kind": "llvm", "mtriple": triple})
    assert binds_threads(target) is binds
