"""``Options(templates=...)``: a user's kernel templates, asked before ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import tirx

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.errors import BadOption, WhyNot
from tvm_disc.schedules.dispatch.variant import Need
from tvm_disc.schedules.kernel import Plan
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import product


def one_by_one(group: Any, solver: Any, machine: Any) -> Plan | WhyNot:
    """Element after element."""
    shape = tuple(group.outputs[0].shape)
    if len(shape) != 2:
        return WhyNot("one by one", "only matrices")

    def emit(body: Any) -> None:
        with body.low.loop("k", body.hi - body.lo, begin=body.lo) as k:
            index = body.low.space.split(k, shape)
            for node, buffer in zip(group.outputs, body.outputs, strict=True):
                body.low.store(buffer, k, body.low.at(node, index), node.dtype)

    return Plan(tasks=product(shape), work=product(shape), emit=emit)


def build(expr: Any, *inputs: Any, template: Any, kind: str = "loop") -> Any:
    options = tvm_disc.Options(templates=[(kind, template)])
    return tvm_disc.build(function(*inputs, expr), options=options)


def test_it_is_asked_first_and_serves_every_shape(rng: np.random.Generator) -> None:
    x = rows("n", "m")
    exe = build(relay.exp(x), x, template=one_by_one)
    assert "template: one_by_one" in exe.explain()
    for shape in ((1, 1), (7, 3), (16, 64), (129, 33), (0, 4)):
        value = rng.standard_normal(shape).astype("float32")
        np.testing.assert_allclose(exe(value), np.exp(value), rtol=1e-6)


def test_what_it_refuses_goes_to_ours(rng: np.random.Generator) -> None:
    x = rows("n")
    exe = build(relay.exp(x), x, template=one_by_one)
    assert (
        "template: loop" in exe.explain() and "one by one not used: only matrices" in exe.explain()
    )
    value = rng.standard_normal(33).astype("float32")
    np.testing.assert_allclose(exe(value), np.exp(value), rtol=1e-6)


def test_it_is_one_of_its_kind_alone(rng: np.random.Generator) -> None:
    x = rows("n", 8)
    exe = build(relay.nn.softmax(x), x, template=one_by_one)
    assert "template: row" in exe.explain()


def test_equal_templates_are_equal_options() -> None:
    pair = ("loop", one_by_one)
    assert tvm_disc.Options(templates=[pair]) == tvm_disc.Options(templates=(pair,))
    assert len({tvm_disc.Options(templates=[pair]).cache_key()}) == 1


@pytest.mark.parametrize("wrong", [one_by_one, [one_by_one], [("loop",)], [("loop", "name")], 3])
def test_what_is_no_pair_is_refused(wrong: Any) -> None:
    with pytest.raises(BadOption, match=r"templates: expected pairs such as \('loop', template\)"):
        tvm_disc.Options(templates=wrong)


def test_an_unknown_kind_is_refused() -> None:
    x = rows("n", 8)
    with pytest.raises(BadOption, match=r"expected one of loop, row, dot, .*found 'softmax'"):
        build(relay.exp(x), x, template=one_by_one, kind="softmax")


@pytest.mark.parametrize("answer", [None, [], 3, [None]])
def test_an_answer_that_is_none_is_refused(answer: Any) -> None:
    x = rows("n", 8)

    def forgets(group: Any, solver: Any, machine: Any) -> Any:
        return answer

    message = "template forgets: expected a Plan, a list of Plan, or WhyNot for loop_exp_0"
    with pytest.raises(BadOption, match=message):
        build(relay.exp(x), x, template=forgets)


def test_a_plan_that_needs_something_does_not_stand_first() -> None:
    x = rows("n", 8)

    def demands(group: Any, solver: Any, machine: Any) -> Any:
        plan = one_by_one(group, solver, machine)
        assert isinstance(plan, Plan)
        n = group.outputs[0].shape[0]
        plan.needs = (Need("n % 4 == 0", tirx.EQ(n % 4, i64(0))),)
        return plan

    message = "template demands: the first plan must serve every shape; .*requires n % 4 == 0"
    with pytest.raises(BadOption, match=message):
        build(relay.exp(x), x, template=demands)
