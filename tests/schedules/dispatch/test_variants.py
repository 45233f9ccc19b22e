"""Variants, decision trees and what a driver makes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

from tvm_disc.errors import Unsupported
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.conv.channel_window import ChannelVectors
from tvm_disc.schedules.dispatch import tree as trees
from tvm_disc.schedules.dispatch.choose import analytic, fit
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.learn import _with_outside, import_choice
from tvm_disc.schedules.dispatch.sampling import evaluate, sample
from tvm_disc.schedules.dispatch.tree import Leaf, Split
from tvm_disc.schedules.dispatch.tree_fit import Limits, grow, keep, losses
from tvm_disc.schedules.dispatch.variant import Choice, Knobs, Need, Plan, feasible, variants_of
from tvm_disc.schedules.gemm.tile import default_tile
from tvm_disc.schedules.group import Group, Machine
from tvm_disc.schedules.kernel import GAP_BYTES, _part_bytes
from tvm_disc.shape import Solver
from tvm_disc.target.isa import Isa
from tvm_disc.tir.builder import i64


@dataclass(frozen=True)
class Width(Knobs):
    width: int = 1


def group_of(*dims: Any) -> Group:
    source = Node("param", (), dims, "float32")
    result = Node("relax.exp", (source,), dims, "float32")
    return Group("g", "loop", [result], [source], [result])


def machine(threads: int = 1) -> Machine:
    return Machine(Isa(16, 32, True), threads)


def plan(n: Any, width: int = 1, **kwargs: Any) -> Plan:
    return Plan(i64(n), i64(n) * 8, lambda body: None, family="f", knobs=Width(width), **kwargs)


def symbol(solver: Solver, low: int = 1, high: int | None = None) -> Any:
    n = solver.symbol("n")
    solver.assume_range(n, low, high, "test")
    return n


# -- the space ---------------------------------------------------------------------------------


def test_equal_knobs_are_one_variant() -> None:
    solver = Solver()
    n = symbol(solver)
    plans, refused = feasible([plan(n, 1), plan(n, 2), plan(n, 1)], solver)
    assert [p.knobs for p in plans] == [Width(1), Width(2)] and not refused


def test_a_need_is_proved_refuted_or_kept() -> None:
    solver = Solver()
    n = symbol(solver, 1, 100)
    needs = [Need("small", n <= limit) for limit in (0, 50, 100)]
    plans, refused = feasible([plan(n, k, needs=(x,)) for k, x in enumerate(needs)], solver)
    assert [(p.knobs, len(p.needs)) for p in plans] == [(Width(1), 1), (Width(2), 0)]
    said = "f(width=0): it requires that small, which is false for every call"
    assert [str(r) for r in refused] == [said]


def test_every_plan_runs_serially_and_on_all_threads() -> None:
    n = symbol(Solver())
    variants = variants_of([plan(n, 1), plan(n, 2, splits=False)], machine(2))
    assert [str(v) for v in variants] == [
        "f(width=1), serial",
        "f(width=1), 2 threads",
        "f(width=2), serial",
    ]
    assert variants[1].to_json() == {"family": "f", "knobs": {"width": 1}, "parts": 2}
    assert len(variants_of([plan(n)], machine(1))) == 1


# -- points ------------------------------------------------------------------------------------


def test_expressions_over_points() -> None:
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    points = {n: np.array([1.0, 7.0, 64.0]), m: np.array([3.0, 0.0, 5.0])}
    for expr in (
        n * m + 3,
        tirx.floordiv(n + 15, i64(16)),
        tirx.floormod(n, i64(5)),
        tirx.max(n - m, i64(2)),
        tirx.Select(n < m, n, m),
        tirx.truncdiv(n, i64(3)),
    ):
        expected = []
        for a, b in zip(points[n], points[m], strict=True):
            analyzer = tvm.sym.Analyzer()
            analyzer.bind(n, i64(int(a)))
            analyzer.bind(m, i64(int(b)))
            expected.append(int(analyzer.simplify(expr)))
        assert list(evaluate(expr, points)) == expected


def test_points_keep_to_the_facts_and_the_size() -> None:
    solver = Solver()
    n, m = solver.symbol("n"), solver.symbol("m")
    solver.assume_range(n, 4, 64, "test")
    points = sample([n, m], solver, n * m, 1000)
    assert points[n].min() >= 4 and points[n].max() <= 64 and (points[n] * points[m]).max() <= 1000
    assert len(points[n]) > 50
    again = sample([n, m], solver, n * m, 1000)
    assert all(np.array_equal(points[s], again[s]) for s in (n, m))


def test_what_is_no_arithmetic_is_refused() -> None:
    with pytest.raises(Unsupported, match="cannot evaluate"):
        evaluate(tirx.Var("k", "int64"), {})


# -- trees -------------------------------------------------------------------------------------


def test_growing_finds_the_crossing() -> None:
    n = np.arange(1.0, 101.0)
    costs = np.stack([n, 30 + 0 * n], axis=1)
    tree = grow(losses(costs, np.ones(100)), n[:, None], Limits())
    assert tree == Split(0, 30, Leaf(0), Leaf(1)) or tree == Split(0, 31, Leaf(0), Leaf(1))


def test_growing_finds_a_band() -> None:
    """No question alone gains anything: both sides of a band want the same variant."""
    n = np.arange(1.0, 1001.0)
    inside = (n >= 400) & (n < 600)
    costs = np.stack([1.0 + inside, 2.0 - inside], axis=1)
    features = np.stack([n % 7, n], axis=1)
    tree = grow(losses(costs, np.ones(1000)), features, Limits())
    assert isinstance(tree, Split) and trees.depth(tree) == 2
    picked = [trees.decide(tree, lambda f, k=k: features[k, f]) for k in range(1000)]
    assert np.mean(np.array(picked) != inside) == 0


def test_growing_is_limited_and_needs_a_gain() -> None:
    rng = np.random.default_rng(0)
    costs = rng.uniform(1, 2, (300, 5))
    n = np.arange(300.0)[:, None]
    loss = losses(costs, np.ones(300))
    assert trees.depth(grow(loss, n, Limits(depth=3))) <= 3
    assert grow(loss, n, Limits(split_gain=10.0)) == Leaf(int(loss.sum(axis=0).argmin()))
    assert len(keep(loss, np.ones(5, bool), Limits(variants=2))) == 2


def test_a_choice_by_remainder() -> None:
    n = np.arange(1.0, 257.0)
    costs = np.stack([10 + (n % 16 > 0), np.full(256, 10.5)], axis=1)
    tree = grow(losses(costs, np.ones(256)), np.stack([n, n % 16], axis=1), Limits())
    assert tree == Split(1, 1, Leaf(0), Leaf(1))


def test_json_and_text_of_a_tree() -> None:
    tree = Split(0, 48, Leaf(0), Split(1, 4, Leaf(1), Leaf(0)))
    data = trees.to_json(tree, ["n", "m"], ["a", "b"])
    assert trees.from_json(data, ["m", "n"], ["b", "a"]) == Split(
        1, 48, Leaf(1), Split(0, 4, Leaf(0), Leaf(1))
    )
    assert trees.show(tree, ["n", "m"], ["a", "b"]).split("\n")[0] == "if n < 48:"
    values = {0: 50, 1: 3}
    assert trees.decide(tree, lambda f: values[f]) == 1
    assert (trees.leaves(tree), trees.features(tree), trees.depth(tree)) == ([0, 1], [0, 1], 2)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"run": "c"}, "unknown variant 'c'"),
        ({"if": "k", "below": 1}, "unknown quantity 'k'; expected one of n"),
    ],
)
def test_a_tree_for_another_group_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trees.from_json(data, ["n"], ["a"])


# -- choices -----------------------------------------------------------------------------------


def test_little_work_stays_on_one_thread() -> None:
    solver = Solver()
    n = symbol(solver)
    choice = analytic(group_of(n), variants_of([plan(n)], machine(2)), solver, CostModel())
    assert [v.run.parts for v in choice.variants] == [1, 2]
    assert isinstance(choice.tree, Split) and choice.tree.below == Leaf(0)


def test_outside_of_the_measured_region_the_model_chooses() -> None:
    """Its order of the variants may differ from that of the choice by measured times."""
    solver = Solver()
    n = symbol(solver, 1, 4096)
    costs = {1: 300.0, 2: 100.0}

    def cost(width: int) -> Any:
        return lambda points, model: np.full(len(points[n]), costs[width])

    variants = variants_of([plan(n, w, cost=cost(w)) for w in (1, 2)], machine())
    inside = Choice(variants, Split(0, 30, Leaf(0), Leaf(1)), [(n, "n")])
    source = Node("param", (), (n,), "float32")
    result = Node("relax.exp", (source,), (n,), "float32")
    group = Group("g", "loop", [result], [source], [result])
    dims = np.array([[10.0], [50.0]])
    found = _with_outside(group, inside, dims, solver, CostModel())
    assert found.variants == variants
    assert isinstance(found.tree, Split)
    assert found.features[found.tree.feature][1] == "outside(10 <= n <= 50)"
    assert (found.tree.below, found.tree.rest) == (inside.tree, Leaf(1))


def test_proved_facts_leave_no_branch() -> None:
    for low, high, parts in ((1, 100, 1), (10**6, None, 2)):
        solver = Solver()
        n = symbol(solver, low, high)
        choice = analytic(group_of(n), variants_of([plan(n)], machine(2)), solver, CostModel())
        assert choice.tree == Leaf(0) and [v.run.parts for v in choice.variants] == [parts]


def test_a_plan_with_needs_always_has_a_stand_in() -> None:
    solver = Solver()
    n = symbol(solver)
    fast = plan(n, 2, needs=(Need("even", tirx.EQ(n % 2, i64(0))),), cost=lambda p, m: 0 * p[n])
    plans, _ = feasible([plan(n), fast], solver)
    choice = analytic(group_of(n), variants_of(plans, machine()), solver, CostModel())
    assert any(v.safe for v in choice.variants) and any(not v.safe for v in choice.variants)


def test_only_plans_with_needs_are_refused() -> None:
    solver = Solver()
    n = symbol(solver)
    variants = variants_of([plan(n, needs=(Need("even", n > 3),))], machine(2))
    with pytest.raises(Unsupported, match="one variant must serve every shape"):
        analytic(group_of(n), variants, solver, CostModel())
    with pytest.raises(Unsupported, match="one variant must serve every shape"):
        import_choice(group_of(n), variants, solver, {"run": variants[0].to_json()})


def test_one_kernel_keeps_one_layout() -> None:
    solver = Solver()
    n = symbol(solver)
    weight = Node("param", (), (5, 1, 3), "float32")
    packings = [ChannelVectors(lanes, "float32") for lanes in (4, 8)]
    plans = [replace(plan(n, k), packed={weight: packings[k % 2]}) for k in range(4)]
    costs = np.ones((10, 4)) + np.eye(10, 4) * 5
    costs[:, 1] = 0.5
    x = np.arange(10.0)[:, None]
    features = [(n, "n")]
    choice = fit(variants_of(plans, machine()), features, x, costs, np.ones(10), solver, Limits())
    assert {v.plan.packed[weight] for v in choice.variants} == {packings[1]}


def test_a_run_of_a_plan_that_is_kept_anyhow_needs_little_gain() -> None:
    """Two threads but for n = 1, where one saves 0.4 %, which counts as a thousandth on average."""
    solver = Solver()
    n = symbol(solver)
    x = np.arange(1.0, 101.0)[:, None]
    serial, threads = np.where(x == 1, 1, 2), np.where(x == 1, 1.004, 1)
    variants = variants_of([plan(n, 1), plan(n, 2, splits=False)], machine(2))
    assert [v.run.parts for v in variants] == [1, 2, 1]
    small = Limits(gain=0.03, split_gain=0.002, run_gain=0.0005)
    for columns, limits, found in (
        ((serial, threads, serial), small, [1, 2]),
        ((serial, threads, serial), replace(small, run_gain=None), [2]),
        ((serial, threads, serial), replace(small, run_gain=0.0011), [2]),
        ((2 * serial, threads, serial), small, [2]),  # the other plan would be more code
    ):
        costs = np.concatenate(columns, axis=1)
        choice = fit(variants, [(n, "n")], x, costs, np.ones(100), solver, limits)
        assert sorted(v.run.parts for v in choice.variants) == found
        assert len({id(v.plan) for v in choice.variants}) == 1


def test_a_question_that_cannot_be_exact_errs_towards_one_thread() -> None:
    """Two threads are better from 14 on; what can be asked is where a ten begins."""
    solver = Solver()
    n = symbol(solver)
    x = np.arange(1.0, 101.0)[:, None]
    costs = np.concatenate([np.where(x < 14, 1, 1.1), np.where(x < 14, 1.1, 1)], axis=1)
    variants = variants_of([plan(n)], machine(2))
    choice = fit(variants, [(n, "tens")], x // 10, costs, np.ones(100), solver, Limits())
    assert isinstance(choice.tree, Split)
    assert (choice.tree.at, choice.tree.below, choice.tree.rest) == (2, Leaf(0), Leaf(1))
    assert [v.run.parts for v in choice.variants] == [1, 2]


def test_the_same_question_gives_the_same_tree() -> None:
    texts = set()
    for _ in range(2):
        solver = Solver()
        n, m = solver.symbol("n"), solver.symbol("m")
        g = group_of(n, m)
        plans = [plan(n * m, 1), plan(n * m, 2, cost=lambda p, _, n=n, m=m: p[n] * 9 + p[m])]
        texts.add(analytic(g, variants_of(plans, machine(2)), solver, CostModel()).text())
    assert len(texts) == 1 and len(texts.pop().split("\n")) > 4


def test_scratch_of_two_threads_lies_apart() -> None:
    """What one thread fetches ahead behind its own memory is not what another writes."""
    for tasks, parts, others in ((7, 1, 0), (1, 2, 0), (7, 2, 1), (2, 4, 1), (9, 4, 3)):
        made = plan(tasks, scratch_elems=100)
        assert evaluate(_part_bytes(made, parts), {}) == 400 + others * (400 + GAP_BYTES)
    reach = default_tile(Isa(16, 32, True)).prefetch * 64 * 4  # steps of the widest panel
    assert reach <= GAP_BYTES
