"""Variants as functions of their own: they run, and compute what the program computes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

from tvm_disc.codegen.target import resolve_target
from tvm_disc.errors import WrongProcessor
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.dispatch.signature import describe_group, group_key, template_hash
from tvm_disc.schedules.dispatch.variant import Need
from tvm_disc.schedules.group import Group, Machine
from tvm_disc.schedules.select import variant_space
from tvm_disc.shape import Solver
from tvm_disc.support.processor import architecture
from tvm_disc.target.isa import isa_of
from tvm_disc.tir.builder import i64
from tvm_disc.tuning.entry import build_bench
from tvm_disc.tuning.measure import (
    Effort,
    Session,
    compare,
    local_session,
    still_open,
)

QUICK = Effort(rounds=1, round_ns=1e3, most_rounds=1, wait_s=0.0)


def exp_group(name: str = "n") -> Group:
    n, m = tirx.Var(name, "int64"), tirx.Var("m", "int64")
    source = Node("param", (), (n, m), "float32")
    result = Node("relax.exp", (source,), (n, m), "float32")
    return Group("g", "loop", [result], [source], [result])


@pytest.fixture(scope="module")
def session() -> Session:
    target = resolve_target(None)
    machine, group = Machine(isa_of(target), 2), exp_group()
    variants = variant_space(group, Solver(), machine).variants
    return local_session(build_bench([(group, variants)], Solver(), machine, target)[0])


@pytest.mark.parametrize("dims", [(1, 1), (7, 13), (64, 100), (2, 5000), (0, 4)])
def test_every_variant_computes_the_same(session: Session, dims: tuple[int, int]) -> None:
    x = np.random.default_rng(0).uniform(-1, 1, dims).astype("float32")
    for name in session.bench.names:
        out = tvm.runtime.tensor(np.zeros(dims, "float32"))
        scratch = tvm.runtime.tensor(np.zeros(64, "uint8"))
        session.module[name](tvm.runtime.tensor(x), out, scratch, *dims)
        np.testing.assert_allclose(out.numpy(), np.exp(x), rtol=1e-6)


def test_every_variant_is_timed(session: Session) -> None:
    times = session.time((3, 50), QUICK).ns
    assert len(times) == len(session.bench.variants) > 1
    assert all(0 < t < math.inf for t in times)


def test_a_variant_that_must_not_run_is_not(session: Session) -> None:
    n = session.bench.group.symbols()[0]
    plan = session.bench.variants[-1].plan
    before, plan.needs = plan.needs, (Need("large", n > i64(100)),)
    try:
        times = session.time((3, 50), QUICK).ns
    finally:
        plan.needs = before
    assert set(times) == {math.inf}


def test_code_for_another_processor_is_not_timed(session: Session) -> None:
    other = "x86_64" if architecture() == "aarch64" else "aarch64"
    target = resolve_target({"kind": "llvm", "mtriple": f"{other}-linux-gnu"})
    with pytest.raises(WrongProcessor, match=f"the program is for {other}, this machine is"):
        local_session(replace(session.bench, target=target))


def test_the_key_of_a_group_forgets_names() -> None:
    assert group_key(exp_group("a")) == group_key(exp_group("b"))
    assert "relax.exp" in describe_group(exp_group()) and len(template_hash()) == 12


def test_groups_that_differ_have_other_keys() -> None:
    def key(**change: Any) -> str:
        group = exp_group()
        for name, value in change.items():
            setattr(group.nodes[0], name, value)
        return group_key(group)

    keys = {key(), key(op="relax.tanh"), key(dtype="float64"), key(attrs={"axis": 1})}
    assert len(keys) == 4


def test_one_slow_time_does_not_give_a_variant_up(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: dict[int, int] = {}

    def once(k: int, args: Any, dims: Any, number: int) -> float:
        calls[k] = calls.get(k, 0) + 1
        if k == 1 and calls[k] == 1:
            return 1e9  # another process had the core
        return {0: 110.0, 1: 100.0}.get(k, 9000.0)

    monkeypatch.setattr(session, "_once", once)
    effort = Effort(rounds=4, round_ns=1.0, most_rounds=4, pause_s=0.0, wait_s=0.0)
    times = session.time((600, 1000), effort).ns
    assert times[:2] == pytest.approx([110.0, 100.0])
    assert calls[1] > calls[0] >= 5


def test_a_variant_that_is_beaten_leaves_its_rounds_to_the_others(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = {0: 0, 1: 0}

    def once(k: int, args: Any, dims: Any, number: int) -> float:
        calls[k] += 1
        neighbour = 2.0 if calls[0] > 12 else 1.0  # came when the second was gone
        return neighbour * (100.0 if k == 0 else 150.0) * (1 + 0.001 * (calls[k] % 3))

    monkeypatch.setattr(session, "_once", once)
    effort = Effort(rounds=20, round_ns=1.0, most_rounds=20, pause_s=0.0, wait_s=0.0)
    times = session.time((600, 1000), effort).ns
    assert calls[1] < 8 < 20 < calls[0]
    assert times[1] / times[0] == pytest.approx(1.5, rel=0.01)


@pytest.mark.parametrize(
    ("second", "noise", "stays"),
    [(1.10, 0.001, True), (1.30, 0.001, False), (1.30, 0.3, True), (3.0, 0.05, False)],
)
def test_only_what_is_surely_slower_is_beaten(second: float, noise: float, stays: bool) -> None:
    wave = 1 + noise * np.array([0, 1, -0.9, 0.5, -0.4, 0.8])
    samples = {4: wave.tolist(), 7: (second * wave[::-1]).tolist()}
    beaten: list[tuple[int, int, float]] = []
    assert still_open(samples, [4, 7], beaten, Effort()) == ([4, 7] if stays else [4])
    assert [b[:2] for b in beaten] == ([] if stays else [(7, 4)])
    early = {k: found[:2] for k, found in samples.items()}
    assert still_open(early, [4, 7], [], Effort()) == [4, 7]


def test_what_slows_a_round_down_says_nothing_of_the_variants() -> None:
    rng = np.random.default_rng(0)
    level = rng.uniform(1, 3, 20)  # a neighbour comes and goes
    rounds = np.outer([100.0, 102.0, 140.0], level) * rng.uniform(0.99, 1.01, (3, 20))
    rounds[0, 3] *= 5  # and takes the core once
    times, errors = compare(rounds.tolist(), 0.25)
    assert times[1] / times[0] == pytest.approx(1.02, abs=0.006)
    assert times[2] / times[0] == pytest.approx(1.40, abs=0.01)
    assert times[0] == pytest.approx(100 * np.quantile(level, 0.25), rel=0.05)
    assert max(errors) < 0.01
    (alone,), _ = compare([rounds[2].tolist()], 0.25)
    assert alone == pytest.approx(np.quantile(rounds[2], 0.25), rel=0.01)
