"""Rows that are concatenations of columns, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay

RNG = np.random.default_rng(0)
ANY = relay.Any()
COLUMNS = [
    *((8, 8), (16, 8, 8), (3, 5, 7), (64, 64), (33, 1, 8, 40), (1, 1), (5000, 3)),
    *((1,) * 20, (32,) * 25, (2,) * 70),
]


def inputs(columns: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    return [relay.var(f"x{k}", shape=(ANY, ANY, c), dtype=dtype) for k, c in enumerate(columns)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
@pytest.mark.parametrize("columns", COLUMNS, ids=str)
def test_joined_columns(columns: tuple[int, ...], dtype: str) -> None:
    xs = inputs(columns, dtype)
    exe = tvm_disc.build(relay.Function(xs, relay.concatenate(xs, axis=2)))
    assert len(exe.kernels) == 1
    for n, m in [(1, 1), (0, 3), (5, 7), (33, 4)]:
        given = [RNG.integers(0, 2 if dtype == "bool" else 100, (n, m, c)) for c in columns]
        arrays = [g.astype(dtype) for g in given]
        np.testing.assert_array_equal(exe(*arrays), np.concatenate(arrays, 2), str((n, m)))


def test_two_that_are_cut_elsewhere_and_work_between() -> None:
    """Parts are those of both; a vector of columns and one per row are read beside them."""
    left, right = (6, 26), (17, 15)
    xs = inputs((*left, *right))
    row = relay.var("row", shape=(ANY, ANY, 1))
    scale = RNG.standard_normal(32).astype("float32")
    first, second = relay.concatenate(xs[:2], axis=2), relay.concatenate(xs[2:], axis=2)
    body = relay.nn.relu(relay.add(relay.multiply(first, relay.const(scale)), second))
    same = [f"x0.{a} == {x}.{a}" for x in ("x1", "x2", "x3", "row") for a in (0, 1)]
    program = relay.Function([*xs, row], relay.subtract(body, row))
    exe = tvm_disc.build(program, constraints=same)
    assert len(exe.kernels) == 1
    for n, m in [(1, 1), (2, 5), (9, 3)]:
        given = [RNG.standard_normal((n, m, c)).astype("float32") for c in (*left, *right, 1)]
        one, two = np.concatenate(given[:2], 2), np.concatenate(given[2:4], 2)
        expected = np.maximum(one * scale + two, 0) - given[4]
        np.testing.assert_allclose(exe(*given), expected, rtol=1e-6, atol=1e-6)


def test_columns_known_at_run_time_only() -> None:
    xs = [relay.var(n, shape=(ANY, ANY)) for n in "xy"]
    exe = tvm_disc.build(relay.Function(xs, relay.concatenate(xs, axis=1)))
    for a, b in [(1, 1), (0, 5), (7, 40)]:
        given = [RNG.standard_normal((3, c)).astype("float32") for c in (a, b)]
        np.testing.assert_array_equal(exe(*given), np.concatenate(given, 1))


def test_vectors() -> None:
    xs = [relay.var("x", shape=(9,)), relay.var("y", shape=(24,))]
    exe = tvm_disc.build(relay.Function(xs, relay.concatenate(xs, axis=0)))
    given = [RNG.standard_normal(c).astype("float32") for c in (9, 24)]
    np.testing.assert_array_equal(exe(*given), np.concatenate(given))


@pytest.mark.parametrize("columns", [(8, 8), (5, 19, 33)], ids=str)
def test_rows_that_are_found_by_what_no_vector_holds(columns: tuple[int, ...]) -> None:
    """Where a row lies is one number for all its columns: a comparison of integers here."""
    x = relay.var("x", shape=(ANY, relay.Any("h"), ANY, columns[0]))
    others = [
        relay.var(f"y{k}", shape=(ANY, relay.Any("p"), ANY, c)) for k, c in enumerate(columns[1:])
    ]
    at = relay.var("at", shape=(relay.Any("p"),), dtype="int64")
    row = relay.cast(relay.less(at, relay.const(2, "int64")), "int64")
    taken = relay.take(x, row, axis=1, mode="clip")
    same = [f"{y.name_hint}.{a} == x.{a}" for y in others for a in (0, 2)]
    program = relay.Function([x, *others, at], relay.concatenate([taken, *others], axis=3))
    exe = tvm_disc.build(program, constraints=same)
    assert len(exe.kernels) == 1
    for n, h, w, p in [(1, 2, 1, 1), (0, 2, 3, 4), (2, 3, 5, 7), (1, 1, 16, 3)]:
        given = [RNG.standard_normal((n, h, w, columns[0])).astype("float32")]
        given += [RNG.standard_normal((n, p, w, c)).astype("float32") for c in columns[1:]]
        where = RNG.integers(0, 4, p)
        rows = np.minimum((where < 2).astype("int64"), h - 1)
        expected = np.concatenate([given[0][:, rows], *given[1:]], 3)
        np.testing.assert_array_equal(exe(*given, where), expected)


def test_only_what_is_one_number_for_a_row_may_be_anything() -> None:
    """An index of the last axis differs from column to column."""
    x = relay.var("x", shape=(ANY, 8))
    at = relay.var("at", shape=(8,), dtype="int64")
    index = relay.cast(relay.less(at, relay.const(2, "int64")), "int64")
    picked = relay.concatenate([relay.take(x, index, axis=1, mode="clip"), x], axis=1)
    exe = tvm_disc.build(relay.Function([x, at], picked))
    for n in (0, 1, 9):
        given, where = RNG.standard_normal((n, 8)).astype("float32"), RNG.integers(0, 4, 8)
        expected = np.concatenate([given[:, (where < 2).astype(int)], given], 1)
        np.testing.assert_array_equal(exe(given, where), expected)
