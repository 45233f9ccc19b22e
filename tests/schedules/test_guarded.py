"""Elements that are evaluated under a condition, where nothing can be bound before."""

from __future__ import annotations

from tvm import tirx

from tvm_disc.schedules.elements import _once
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.schedules.scalars import BINARY
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import Block, contains_let, reads
from tvm_disc.tir.index import IndexSpace


def _lowering() -> Lowering:
    solver = Solver()
    return Lowering(Block(), IndexSpace(lambda a, b: bool(solver.known_eq(a, b))), solver)


def test_only_what_is_read_several_times_has_a_name() -> None:
    low, x, y = _lowering(), tirx.Var("x", "float32"), tirx.Var("y", "float32")
    with low.guarded():
        once = _once(low, lambda a, b: a - b, [x * 3.0, y + 1.0])
        twice = _once(low, lambda a, b: a * a - b, [x * 3.0, y + 1.0])
    assert not contains_let(once)
    assert contains_let(twice)
    assert (reads(twice, x), reads(twice, y)) == (1, 1)


def test_integers_have_no_names() -> None:
    low, x = _lowering(), tirx.Var("x", "int64")
    with low.guarded():
        assert not contains_let(_once(low, lambda a: a * a, [x * 3]))


def test_a_known_condition_leaves_one_value() -> None:
    x, y = tirx.Var("x", "int64"), tirx.Var("y", "int64")
    assert BINARY["where"](tirx.IntImm("bool", 1), x, y).same_as(x)
    assert BINARY["where"](tirx.IntImm("bool", 0), x, y).same_as(y)
