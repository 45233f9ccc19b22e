"""What the builder leaves out: branches and loops that are known not to run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import tirx
from tvm.tirx import stmt as S

from tvm_disc.tir.bounds import KnownBounds
from tvm_disc.tir.builder import Block, i64

N = tirx.Var("n", "int64")
MORE = i64(3) < N
YES, NO = (tirx.IntImm("bool", value) for value in (1, 0))


def _block(write: Callable[[Block], None]) -> str:
    block = Block()
    write(block)
    return str(block.stmt())


def _marked(block: Block, number: int) -> None:
    block.eval(tirx.IntImm("int32", number))


def _either(condition: object) -> Callable[[Block], None]:
    def write(block: Block) -> None:
        with block.when(condition):
            _marked(block, 11)
            _marked(block, 12)
        with block.otherwise():
            _marked(block, 21)

    return write


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        (YES, True),
        (NO, False),
        (tirx.Not(NO), True),
        (tirx.And(NO, MORE), False),
        (tirx.And(MORE, NO), False),
        (tirx.Or(MORE, YES), True),
        (tirx.Or(tirx.And(MORE, NO), tirx.Not(YES)), False),
    ],
    ids=str,
)
def test_of_what_is_known_one_side_stays(condition: object, value: bool) -> None:
    assert bool(KnownBounds().settled(condition).value) is value
    text = _block(_either(condition))
    assert "if" not in text
    assert ("11" in text, "12" in text, "21" in text) == (value, value, not value)


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        (MORE, MORE),
        (tirx.And(YES, MORE), MORE),
        (tirx.Or(MORE, NO), MORE),
        (tirx.Not(MORE), tirx.Not(MORE)),
        (tirx.And(MORE, tirx.Or(NO, MORE)), tirx.And(MORE, MORE)),
    ],
    ids=str,
)
def test_what_is_not_known_keeps_both_sides(condition: object, left: object) -> None:
    assert str(KnownBounds().settled(condition)) == str(left)
    text = _block(_either(condition))
    assert all(mark in text for mark in ("if", "11", "12", "21"))


@pytest.mark.parametrize("extent", [-1, 0])
def test_a_loop_without_iterations_is_left_out(extent: int) -> None:
    def write(block: Block) -> None:
        with block.loop("k", extent):
            _marked(block, 11)
        _marked(block, 21)

    assert "11" not in (text := _block(write))
    assert "21" in text


@pytest.mark.parametrize("extent", [i64(2), N])
def test_a_loop_that_may_iterate_stays(extent: object) -> None:
    block = Block()
    with block.loop("k", extent):
        _marked(block, 11)
    assert isinstance(block.stmt(), S.For)


def test_a_branch_without_another_side_leaves_nothing() -> None:
    def write(block: Block) -> None:
        with block.loop("k", N), block.when(NO):
            _marked(block, 11)

    assert "11" not in _block(write)
