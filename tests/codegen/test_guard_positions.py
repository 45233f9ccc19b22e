"""Every guard is checked by the program, or the build is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.codegen.plan.position import Position
from tvm_disc.codegen.plan.program import GuardExit, Region
from tvm_disc.errors import GuardFailed, Unsupported
from tvm_disc.relay_passes.propagation.propagate import settle_guards
from tvm_disc.shape import Solver


def position() -> tuple[Position, Any, Any, Any]:
    """An input dim ``n`` that is bound, and two dims ``a`` and ``b`` that are not."""
    solver = Solver()
    n, a, b = (solver.symbol(s, f"input '{s}' axis 0") for s in "nab")
    here = Position(solver)
    here.defined.add(n)
    return here, n, a, b


def conditions(here: Position) -> list[str]:
    return [str(i.cond) for i in here.region.instructions if isinstance(i, GuardExit)]


def test_a_guard_is_placed_when_its_last_symbol_is_bound() -> None:
    here, n, a, _ = position()
    here.solver.require_le(a, n, "slice")
    here.settle_guards()
    assert conditions(here) == []
    here.defined.add(a)
    here.settle_guards()
    here.settle_guards()
    assert len(conditions(here)) == 1
    here.require_placed()


def test_a_guard_in_a_branch_is_placed_there() -> None:
    here, n, a, _ = position()
    here.solver.require_le(a, n, "slice")
    branch = Region()

    def run() -> None:
        here.defined.add(a)
        here.settle_guards()

    here.within(branch, run)
    assert len(branch.instructions) == 1 and conditions(here) == []
    here.require_placed()


@pytest.mark.parametrize("first", ["a", "b"])
def test_sizes_of_two_branches_cannot_be_compared(first: str) -> None:
    here, _, a, b = position()
    here.solver.require_le(a, b, "slice")
    for symbol in (a, b) if first == "a" else (b, a):
        here.within(Region(), lambda symbol=symbol: here.defined.add(symbol))
    text = r"a condition cannot be checked: input 'a' axis 0 \(a\) must be at most input 'b' axis 0"
    with pytest.raises(Unsupported, match=text):
        here.require_placed()


def test_a_size_that_no_region_binds_cannot_be_checked() -> None:
    here, n, a, _ = position()
    here.solver.require_le(a, n, "slice")
    text = r"must be at most .*; the program computes no value of size input 'a' axis 0 \(a\)"
    with pytest.raises(Unsupported, match=text):
        here.require_placed()


def test_a_discarded_attempt_needs_no_check() -> None:
    here, n, a, b = position()
    undo = here.solver.mark()
    here.solver.require_le(a, n, "a loop body that is imported again")
    here.solver.require_eq(a, b, "a loop body that is imported again")
    undo()
    here.require_placed()


@pytest.mark.parametrize("is_input", [True, False])
def test_a_guard_is_written_in_the_symbols_that_are_bound(is_input: bool) -> None:
    solver = Solver()
    n, s = solver.symbol("n", "input 'x' axis 0"), solver.symbol("s", "value 'y' axis 0")
    solver.require(s <= 8, "a reshape")
    solver.require_divides(2, s, "a split")
    solver.require_eq(s, n, "an add")
    bound = solver.simplify(s)
    gone = n if bound.same_as(s) else s
    settle_guards(solver, {gone: bound} if is_input else {}, [] if is_input else [gone], 0)
    assert all("value 'y' axis 0" in g.message for g in solver.guards)
    assert all([str(v) for v in g.symbols] == [str(bound)] for g in solver.guards[:2])
    assert len(solver.guards) == (2 if is_input else 3)  # types of inputs compare merged dims


def test_an_equality_of_two_values_stays_a_guard() -> None:
    solver = Solver()
    a, b = solver.symbol("a", "value 'x' axis 0"), solver.symbol("b", "value 'y' axis 0")
    solver.require_eq(a, b, "add")
    settle_guards(solver, {}, [a, b], 0)
    (kept,) = solver.guards
    assert {str(v) for v in kept.symbols} == {"a", "b"}


def test_merged_inputs_keep_their_other_conditions() -> None:
    x, y = (relay.var(name, shape=(relay.Any(),)) for name in "xy")
    mod = relay.IRModule.from_expr(relay.Function([x, y], relay.Tuple([relay.exp(x), y])))
    exe = tvm_disc.build(mod, constraints=["y.0 <= 64", "y.0 % 4 == 0", "x.0 == y.0"])
    for size in (4, 8, 64, 32, 0):
        np.testing.assert_array_equal(exe(np.zeros(size, "f4"), np.zeros(size, "f4"))[0], 1)
    for size, text in ((68, "y_0 <= 64"), (6, "y_0 % 4 == 0")):
        with pytest.raises(GuardFailed, match=text):
            exe(np.zeros(size, "f4"), np.zeros(size, "f4"))
