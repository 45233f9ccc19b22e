"""Every part of a launch runs once, and no launch waits for a thread that has not begun."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.ir import GlobalVar

import tvm_disc
from tests.processor import linux_with_cores
from tvm_disc import relay
from tvm_disc.abi.threads import MOST_PARTS, SLOT_COUNT
from tvm_disc.codegen.host.packed import Arguments, packed
from tvm_disc.codegen.machine_code import compile_tir
from tvm_disc.codegen.target import resolve_target
from tvm_disc.codegen.threads.atomics import fetch_add, load
from tvm_disc.codegen.threads.glue import install_launch
from tvm_disc.codegen.threads.module import home_of_process
from tvm_disc.runtime.workers import statistics
from tvm_disc.tir.builder import Block, i64

Expr = Any
needs_two = linux_with_cores(2)


def program(body: Callable[[Block, Expr, Expr], None]) -> Any:
    """``run(words, parts)``: ``body(block, address of words, part)`` for every part."""

    def emit(block: Block, args: Arguments) -> None:
        words = block.bind("words", tirx.reinterpret("int64", args.data(0, "int64")))
        parts = block.bind("parts", args.integer(1))
        install_launch(block, block.bind("home", args.integer(2)))
        with block.loop("part", parts, kind="parallel") as part:
            body(block, words, part)

    run = GlobalVar("run")
    module = compile_tir(tvm.IRModule({run: packed("run", emit)}), resolve_target())
    home = home_of_process()
    return lambda words, parts: module["run"](words, parts, home)


@pytest.fixture(scope="module")
def count() -> Any:
    """Adds one to the word of each part."""
    return program(lambda block, words, part: block.eval(fetch_add(words + part * 8, i64(1))))


def wait_for_word(block: Block, words: Expr, part: Expr) -> None:
    """The first word counts the parts that began; all but the first then wait for the second."""
    block.eval(fetch_add(words, i64(1)))
    with block.when(part > 0), block.loop_while(tirx.EQ(load(words + 8), i64(0))):
        block.eval(tirx.op.call_extern("int32", "usleep", tirx.IntImm("int32", 200)))


@pytest.mark.parametrize("parts", [0, 1, 2, 3, 16, 17, 1000, MOST_PARTS, MOST_PARTS + 1])
def test_every_part_runs_once(count: Any, parts: int) -> None:
    words = tvm.runtime.tensor(np.zeros(max(parts, 1), "int64"))
    for number in range(1, 20):
        count(words, parts)
        assert (words.numpy()[:parts] == number).all()


def test_every_part_runs_once_whoever_else_launches(count: Any) -> None:
    """More callers than there are slots, each with memory of its own, which it then frees."""
    failed = []

    def call(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(300):
            parts = int(rng.integers(2, 40))
            words = tvm.runtime.tensor(np.zeros(parts, "int64"))
            count(words, parts)
            if not (words.numpy() == 1).all():
                failed.append((seed, parts))

    callers = [threading.Thread(target=call, args=(k,)) for k in range(2 * SLOT_COUNT)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failed
    assert statistics()["active"] == 0


@needs_two
def test_a_launch_does_not_wait_for_workers_that_are_at_another(count: Any) -> None:
    """Every worker, and one caller, stay in parts of one launch until another launch is done."""
    count(tvm.runtime.tensor(np.zeros(8, "int64")), 8)  # there is a worker
    words = tvm.runtime.tensor(np.zeros(2, "int64"))
    parts = statistics()["workers"] + 2
    waiting = program(wait_for_word)
    caller = threading.Thread(target=waiting, args=(words, parts))
    caller.start()
    others = tvm.runtime.tensor(np.zeros(64, "int64"))
    for _ in range(50):
        count(others, 64)
    assert (others.numpy() == 50).all()
    words.copyfrom(np.array([0, 1], "int64"))
    caller.join(timeout=60)
    assert not caller.is_alive()


@needs_two
def test_programs_share_their_workers() -> None:
    def compiled(number: float) -> Any:
        x = relay.var("x", shape=(relay.Any(), 256), dtype="float32")
        y = relay.exp(relay.add(x, relay.const(np.float32(number))))
        return tvm_disc.build(relay.Function([x], y), options=tvm_disc.Options(threads=2))

    a = np.linspace(-4, 4, 4096 * 256, dtype="float32").reshape(4096, 256)
    before = None
    for number in range(3):
        exe = compiled(number)
        launches = statistics()["launches"]
        np.testing.assert_allclose(exe(a), np.exp(a + np.float32(number)), rtol=1e-6)
        assert statistics()["launches"] == launches + 1
        assert before in (None, statistics()["workers"])
        before = statistics()["workers"]
    assert before <= statistics()["cores"] - 1


@needs_two
def test_a_program_of_one_thread_launches_nothing() -> None:
    x = relay.var("x", shape=(relay.Any(), 256), dtype="float32")
    exe = tvm_disc.build(relay.Function([x], relay.exp(x)), options=tvm_disc.Options(threads=2))
    a = np.ones((4096, 256), "float32")
    exe(a)
    exe.threads = 1
    launches = statistics()["launches"]
    exe(a)
    assert statistics()["launches"] == launches
    exe.threads = 2
    exe(a)
    assert statistics()["launches"] == launches + 1


@pytest.mark.parametrize(
    ("triple", "own"),
    [("aarch64-linux-gnu", True), ("arm64-apple-darwin", False), ("x86_64-pc-windows-msvc", False)],
)
def test_other_systems_use_the_threads_of_the_runtime(triple: str, own: bool) -> None:
    x = relay.var("x", shape=(relay.Any(), 256), dtype="float32")
    target = {"kind": "llvm", "mtriple": triple}
    options = tvm_disc.Options(threads=2, load=False)
    exe = tvm_disc.build(relay.Function([x], relay.exp(x)), target=target, options=options)
    assert ("%ours" in exe.source("ll")) is own
