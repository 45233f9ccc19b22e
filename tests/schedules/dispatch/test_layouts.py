"""Layouts of weights that one kernel may keep, and the array that holds two of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.conv.channel_window import ChannelVectors
from tvm_disc.schedules.dispatch.choose import fit
from tvm_disc.schedules.dispatch.tree_fit import Limits
from tvm_disc.schedules.dispatch.variant import (
    SERIAL,
    Knobs,
    Plan,
    Run,
    Variant,
    joined,
    layout_sets,
)
from tvm_disc.schedules.packing import pack_constant
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64

WEIGHT = Node("param", (), (5, 1, 3), "float32")
OTHER = Node("param", (), (5, 1, 3), "float32")


@dataclass(frozen=True)
class Lanes(Knobs):
    lanes: int


def plan(family: str, lanes: int, dtype: str = "float32", node: Node = WEIGHT, **more: Any) -> Plan:
    packing = ChannelVectors(lanes, dtype)
    return Plan(
        i64(1), i64(1), lambda body: None, family=family, knobs=Lanes(lanes),
        packed={node: packing}, packed_dtypes={node: dtype}, **more,
    )  # fmt: skip


A4, A8 = plan("a", 4), plan("a", 8)
B2, B16 = plan("b", 2), plan("b", 16, joins=True)


def lanes(layouts: list[Any]) -> list[list[int]]:
    """The lanes of the packings of each set; those of these plans differ."""
    return [sorted(p.lanes for layout in s for _, p, _ in layout) for s in layouts]


def test_a_pair_needs_one_plan_that_joins() -> None:
    found = layout_sets([A4, A8, B2, B16])
    assert lanes(found) == [[4], [8], [2], [16], [4, 16], [8, 16]]


@pytest.mark.parametrize(
    ("copy_bytes", "expected"),
    [(95, [[4], [8], [2]]), (96, [[4], [8], [2], [2, 4], [2, 8]])],
)
def test_a_small_layout_joins_others(copy_bytes: int, expected: list[list[int]]) -> None:
    small = [plan("a", k, joins_if_small=True) for k in (4, 8)]
    assert [p.packed_bytes for p in small] == [96, 96]  # 8 x 3 elements of 4 bytes
    assert lanes(layout_sets([*small, B2], copy_bytes)) == expected


def test_three_layouts_need_that_each_two_join() -> None:
    small = plan("c", 8, joins_if_small=True)
    assert [2, 8, 16] in lanes(layout_sets([B2, plan("w", 16, joins=True), small], 1 << 20))
    assert [2, 8, 16] not in lanes(layout_sets([B2, plan("w", 16, joins=True), small]))


def test_layouts_follow_from_packings() -> None:
    """Neither a family nor a name makes a layout: who packs otherwise, or not at all, is apart."""
    assert A4.layout == plan("b", 4).layout
    plain = Plan(i64(1), i64(1), lambda body: None, family="a")
    assert len({p.layout for p in (A4, A8, plain, plan("a", 4, "int32"))}) == 4
    assert lanes(layout_sets([A4, plan("b", 4), plain])) == [[4], []]


@pytest.mark.parametrize(
    "other",
    [
        plan("b", 8, joins=True),
        plan("c", 8, "int32", joins=True),
        plan("c", 8, node=OTHER, joins=True),
        Plan(i64(1), i64(1), lambda body: None, family="c", joins=True),
    ],
    ids=["one family", "two types", "two parameters", "nothing is packed"],
)
def test_what_never_joins(other: Plan) -> None:
    assert len(layout_sets([B16, other])) == 2


def test_both_layouts_follow_each_other() -> None:
    own, filtered = (Variant(p, SERIAL) for p in (A4, B16))
    threaded = Variant(B16, Run(2))
    found = joined([filtered, own, threaded])
    assert [v.run for v in found] == [SERIAL, SERIAL, Run(2)]
    assert [v.plan.skipped[WEIGHT] for v in found] == [0, 1 * 3 * 16, 0]
    weights = np.arange(15, dtype="float32").reshape(5, 1, 3)
    both = pack_constant(found[0].plan.packed[WEIGHT], weights)
    for variant, alone in zip(found, (B16, A4, B16), strict=True):
        part = pack_constant(alone.packed[WEIGHT], weights).reshape(-1)
        begin = variant.plan.skipped[WEIGHT]
        np.testing.assert_array_equal(both[begin : begin + len(part)], part)
        assert variant.plan.packed[WEIGHT] == found[0].plan.packed[WEIGHT]
    # runs of one plan still share it
    assert found[0].plan is found[2].plan and found[0].plan is not B16


def test_one_layout_is_left_as_it_is() -> None:
    variants = [Variant(A4, SERIAL), Variant(A4, Run(2))]
    assert joined(variants) == variants


def choice(costs: list[list[float]], *plans: Plan) -> list[str]:
    """The families that a kernel keeps, for costs at ten sizes."""
    n = np.arange(10.0)[:, None]
    variants = [Variant(p, SERIAL) for p in plans]
    solver = Solver()
    features = [(solver.symbol("n"), "n")]
    found = fit(variants, features, n, np.array(costs), np.ones(10), solver, Limits(gain=0.02))
    return sorted(v.plan.family for v in found.variants)


def test_order_breaks_ties_only() -> None:
    assert choice([[1.0, 1.0]] * 10, A4, B16) == ["a"]
    assert choice([[1.0, 1.0]] * 10, B16, A4) == ["b"]
    assert choice([[1.0, 0.99]] * 10, A4, B16) == ["b"]


def test_a_second_layout_must_be_worth_its_memory() -> None:
    """A mean gain of 1 % is less than the 2 % that are asked of it."""
    much, little = ([[1.0, 2.0]] * 9 + [[1.0 + extra, 1.0]] for extra in (1.0, 0.1))
    assert choice(much, A4, B16) == ["a", "b"]
    assert choice(little, A4, B16) == ["a"]
    assert choice(much, A4, B2) == ["a"]  # neither of them joins
