"""Outer products, and tasks that are rows of tiles: against float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.gemm_harness import Gemm, aligned, cpu
from tests.processor import run_on
from tests.schedules.gemm.products import HERE, check, general, small_tile, tile_for
from tvm_disc.schedules.gemm.algorithm import BY_ROWS
from tvm_disc.schedules.gemm.outer import MOST_STEPS

FORMS = ("rows", "rows")


def _outer(gemm: Gemm) -> int:
    return sum("gemm_outer" in f.name_hint for f in gemm.functions)


@pytest.mark.parametrize(("mcpu", "dtype"), [("cascadelake", "float32"), ("x86-64-v3", "float64")])
def test_a_few_steps_of_k(mcpu: str, dtype: str) -> None:
    target = cpu(mcpu)
    tile = tile_for(target, dtype, m_r=2, m_blocks=3, n_panels=2)
    gemm = Gemm(("a", "b", "c"), general({}, *FORMS, dtype, direct=True), target, tile, dtype)
    assert _outer(gemm) == MOST_STEPS
    run_on(target)
    wide = 2 * tile.n_r
    for k in range(MOST_STEPS + 2):
        for n in (0, 1, tile.lanes - 1, tile.lanes, wide + 1, 2 * wide + 7):
            for m in (0, 1, 2, 7, 13):
                check(gemm, (2, m, n, k), FORMS, offset=n % 3)
    check(gemm, (2, 33, 3 * wide + 5, 3), FORMS, split=True)


@pytest.mark.parametrize(
    ("static", "b_form", "direct", "count"),
    [
        ({"k": 2}, "rows", True, 1),
        ({"k": MOST_STEPS + 1}, "rows", True, 0),
        ({}, "cols", True, 0),
        ({}, "packed", True, 0),
        ({}, "rows", False, 0),
    ],
    ids=["one", "deep", "transposed", "packed", "epilogue"],
)
def test_only_what_may_be_needed_is_made(
    static: dict[str, int], b_form: str, direct: bool, count: int
) -> None:
    describe = general(static, "rows", b_form, direct=direct)
    gemm = Gemm(("a", "b", "c"), describe, HERE, small_tile())
    assert _outer(gemm) == count
    k = static.get("k", 2)
    for m, n in ((1, 1), (9, 37), (40, 70)):
        check(gemm, (2, m, n, k), ("rows", b_form))


def _tasks(gemm: Gemm, m: int, n: int, k: int, by_rows: bool) -> int:
    number = next(iter(gemm.needs)) + BY_ROWS * by_rows
    return gemm.query("tasks", {"batch": 1, "m": m, "n": n, "k": k}, number)


@pytest.mark.parametrize("b_form", ["rows", "cols", "packed"])
def test_rows_that_end_inside_a_line_are_not_cut(b_form: str) -> None:
    tile = small_tile()
    n = 301 if b_form == "packed" else 101
    static = {"batch": 1, **({"n": n} if b_form == "packed" else {})}
    gemm = Gemm(("a", "b", "c"), general(static, "rows", b_form, direct=True), HERE, tile)
    blocks = 16 * tile.m_r
    assert _tasks(gemm, blocks, n, 6, by_rows=True) == 16
    columns = 3 if b_form == "packed" else 2  # groups of them, at five groups of rows
    less = blocks - tile.m_r
    assert _tasks(gemm, less, n, 6, by_rows=False) == columns * -(-15 // tile.m_blocks)
    for m in (blocks, blocks + 1, blocks + 27, 3 * blocks - 2):
        for k in (0, 1, 6, 33):
            check(gemm, (1, m, n, k), ("rows", b_form))
    check(gemm, (1, blocks + 9, n, 5), ("rows", b_form), split=True)


def test_tasks_of_any_length() -> None:
    """A range of rows of tiles is cut in groups that differ from those of the whole."""
    tile = small_tile(kc=16)
    gemm = Gemm(("a", "b", "c"), general({"batch": 1}, "cols", "rows"), HERE, tile)
    rng = np.random.default_rng(3)
    m, n, k = 71, 101, 37
    a, b = (rng.standard_normal(s).astype("float32") for s in ((m, k), (k, n)))
    sizes = {"batch": 1, "m": m, "n": n, "k": k}
    arrays = {"a": aligned(m * k, "float32"), "b": aligned(k * n, "float32")}
    arrays["a"][:], arrays["b"][:] = a.T.ravel(), b.ravel()
    tasks = gemm.query("tasks", sizes, BY_ROWS)
    assert tasks == -(-m // tile.m_r)
    for length in (1, 2, 3, 4, 5, 7, 11, tasks):
        arrays["c"] = aligned(m * n, "float32")
        for first in range(0, tasks, length):
            gemm.runner(arrays, first, first + length, BY_ROWS, **sizes)(1)
        expected = a.astype("float64") @ b.astype("float64")
        np.testing.assert_allclose(arrays["c"].reshape(m, n), expected, rtol=1e-4, atol=1e-4)


def test_known_columns_of_whole_lines() -> None:
    tile = small_tile()
    static = {"batch": 1, "n": 4 * tile.n_r}
    gemm = Gemm(("a", "b", "c"), general(static, *FORMS, direct=True), HERE, tile)
    assert all(number < BY_ROWS for number in gemm.needs)
    check(gemm, (1, 67, static["n"], 6), FORMS, split=True)
