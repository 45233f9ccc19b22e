"""Rows in groups: every number of rows, values per row that a vector of rows cannot hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_disc.compile import build
from tvm_disc.graph.nodes import Node
from tvm_disc.options import Options
from tvm_disc.runtime.executable import Executable
from tvm_disc.schedules.group import Group
from tvm_disc.schedules.rows.accumulate import fold_rows
from tvm_disc.schedules.rows.loops import RowWork
from tvm_disc.schedules.rows.short import short_widths
from tvm_disc.schedules.rows.stages import RowShape, Schedule
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import Block, index_var

# Groups that are full, have one row, end in part of one; rows too long for a group of several.
COUNTS = (1, 2, 7, 8, 9, 17)
LENGTHS = (8, 33, 300, 700, 5000)
SHORT = (8, 15, 16, 17, 20, 32, 33, 50, 64, 65)  # about the ends of the bodies for short rows


def program(params: str, body: str, *facts: str) -> Executable:
    text = f'#[version = "0.0.5"]\ndef @main({params}) {{\n  {body}\n}}\n'
    run = build(text, constraints=list(facts), options=Options(threads=1))
    assert len(run.kernels) == 1
    return run


def test_a_row_does_not_reach_its_neighbours() -> None:
    run = program("%x: Tensor[(?, ?), float32]", "nn.softmax(%x)")
    rng = np.random.default_rng(0)
    for count in COUNTS:
        for length in {*LENGTHS, *SHORT}:
            x = rng.standard_normal((count, length), dtype=np.float32)
            clean = run(x)
            np.testing.assert_allclose(clean.sum(1), 1, rtol=1e-5)
            for row in {0, count // 2, count - 1}:
                spoilt = x.copy()
                spoilt[row, length - 1] = np.nan
                expected = clean.copy()
                expected[row] = np.nan
                np.testing.assert_array_equal(run(spoilt), expected)


@pytest.mark.parametrize("columns", ["?", "20", "100", "300"])
def test_kept_values_of_uneven_rows(columns: str) -> None:
    """Lengths next to the longest row that is kept on the stack, and known lengths."""
    run = program(f"%x: Tensor[(?, {columns}), float32]", "nn.softmax(%x)")
    rng = np.random.default_rng(3)
    for length in (255, 256, 257) if columns == "?" else (int(columns),):
        for count in (1, 9):
            x = rng.standard_normal((count, length), dtype=np.float32)
            exp = np.exp(x - x.max(1, keepdims=True))
            np.testing.assert_allclose(run(x), exp / exp.sum(1, keepdims=True), 1e-5)


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64"])
def test_reductions_of_any_width(dtype: str) -> None:
    body = "%0 = sum(%x, axis=[1]); (%0, max(%x, axis=[1]), argmax(%x, axis=[1]))"
    run = program(f"%x: Tensor[(?, ?), {dtype}]", body.replace("; ", ";\n  "))
    rng = np.random.default_rng(1)
    for count in COUNTS:
        for length in LENGTHS[:3]:
            x = rng.integers(-99, 99, (count, length)).astype(dtype)
            total, largest, where = run(x)
            np.testing.assert_array_equal(total, x.sum(1))
            np.testing.assert_array_equal(largest, x.max(1))
            np.testing.assert_array_equal(where, x.argmax(1))


def test_a_value_per_row_that_needs_its_place() -> None:
    """Rows of two dims, one of them broadcast: a vector of rows would need a division."""
    params = "%x: Tensor[(?, ?, ?), float32], %s: Tensor[(?, 1), float32]"
    body = "add(sum(%x, axis=[2]), %s)"
    run = program(params, body, "s.0 == x.0")
    rng = np.random.default_rng(2)
    for shape in [(1, 1, 9), (2, 5, 40), (3, 7, 300), (5, 1, 16), (2, 0, 8)]:
        x = rng.standard_normal(shape, dtype=np.float32)
        s = rng.standard_normal((shape[0], 1), dtype=np.float32)
        np.testing.assert_allclose(run(x, s), x.sum(2) + s, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [16, 20, 48, 64, 65])
def test_a_length_that_is_known(length: int) -> None:
    body = "%0 = max(%x, axis=[1], keepdims=True); (subtract(%x, %0), sum(%x, axis=[1]))"
    run = program(f"%x: Tensor[(?, {length}), float32]", body.replace("; ", ";\n  "))
    rng = np.random.default_rng(4)
    for count in (0, *COUNTS):
        x = rng.integers(-99, 99, (count, length)).astype(np.float32)
        below, total = run(x)
        np.testing.assert_array_equal(below, x - x.max(1, keepdims=True, initial=-np.inf))
        np.testing.assert_array_equal(total, x.sum(1))


@pytest.mark.parametrize(
    ("facts", "widths"),
    [
        ([], [16, 32, 64]),
        (["x.1 <= 20"], [16, 32]),
        (["x.1 >= 17"], [32, 64]),
        (["x.1 >= 65"], []),
    ],
)
def test_bodies_for_short_rows(facts: list[str], widths: list[int]) -> None:
    solver, rows, cols = Solver(), index_var("rows"), index_var("cols")
    solver.declare(rows)
    solver.declare(cols)
    for fact in facts:
        _, sign, bound = fact.split()
        solver.assume(cols <= int(bound) if sign == "<=" else cols >= int(bound), "a test")
    assert short_widths(_work(rows, cols, "float32"), solver) == widths
    assert short_widths(_work(rows, cols, "float64"), solver) == []


def _work(rows: Any, cols: Any, dtype: str) -> RowWork:
    """The sum of every row, for registers of 16 lanes."""
    x = Node("param", (), (rows, cols), dtype)
    total = Node("relax.sum", (x,), (rows,), dtype)
    group = Group("sum", "row", [total], [x], [total])
    sched = Schedule({total: 1}, {total: True}, [], 2)
    return RowWork(group, RowShape((rows,), (cols,)), sched, 16, [], "float32")


def test_truth_of_a_row() -> None:
    body = "%0 = sum(%x, axis=[1], keepdims=True); where(greater(%0, 0f), %x, negative(%x))"
    run = program("%x: Tensor[(?, ?), float32]", body.replace("; ", ";\n  "))
    rng = np.random.default_rng(3)
    for count in COUNTS:
        x = rng.standard_normal((count, 50), dtype=np.float32)
        expected = np.where(x.sum(1, keepdims=True) > 0, x, -x)
        np.testing.assert_array_equal(run(x), expected)


@pytest.mark.parametrize(("rows", "lanes"), [(4, 4), (8, 8), (8, 16), (2, 16)])
def test_the_tree_takes_two_shuffles_for_a_pair(rows: int, lanes: int) -> None:
    block = Block()
    cells = block.alloc("cells", rows * lanes, "float32")
    taken: list[Any] = []
    fold_rows(block, cells, rows, lambda a, b: taken.append(a) or a + b)
    # Pairs of registers until there is one, then its own halves.
    assert len(taken) == rows - 1 + (lanes // rows).bit_length() - 1
