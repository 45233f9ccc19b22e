"""Kernels over lines for a GPU: sorting, positions of extremes, running sums, scatters."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.cuda.helpers import built, check, noise
from tests.models import function, rows
from tvm_disc import relay

LENGTHS = ((0, 3), (1, 1), (3, 2), (2, 31), (40, 64), (2, 257), (1, 1024))


def ties(n: int, m: int) -> np.ndarray:
    """Few different numbers, so that the order of equal ones shows."""
    return np.random.default_rng(n * m).integers(-4, 5, (n, m)).astype("float32")


@pytest.mark.parametrize("ascending", [True, False])
def test_sorted_positions(gpu: ctypes.CDLL, ascending: bool) -> None:
    x = rows("n", "m")
    program = built(function(x, relay.argsort(x, is_ascend=ascending, dtype="int64")))
    text = str(program.explain())
    assert "by=block" in text and "by=blocks" in text
    for n, m in (*LENGTHS, (2, 1025), (1, 5000)):
        a = ties(n, m)
        wanted = np.argsort(a if ascending else -a, -1, kind="stable")
        check(gpu, program, [a], wanted)


def test_numbers_that_are_none_come_last(gpu: ctypes.CDLL) -> None:
    x = rows("n", "m")
    program = built(function(x, relay.argsort(x, dtype="int32")))
    a = ties(3, 700)
    a[:, ::5] = np.nan
    check(gpu, program, [a], np.argsort(a, -1, kind="stable"))


def test_the_largest_of_an_inner_axis(gpu: ctypes.CDLL) -> None:
    x = rows("n", "m", 3)
    program = built(function(x, relay.topk(x, k=4, axis=1, ret_type="values")))
    for n, m in ((2, 4), (1, 300)):
        a = noise(n, m, 3)
        check(gpu, program, [a], -np.sort(-a, 1)[:, :4])


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_of_extremes(gpu: ctypes.CDLL, name: str) -> None:
    x = rows("n", "m")
    program = built(function(x, getattr(relay, name)(x, axis=1)))
    find: Any = getattr(np, name)
    for n, m in LENGTHS[1:]:
        a = ties(n, m)
        check(gpu, program, [a], find(a, 1))
        a[:, m // 2 :: 3] = np.nan
        check(gpu, program, [a], find(a, 1))


@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums(gpu: ctypes.CDLL, exclusive: bool) -> None:
    x = rows("n", "m")
    program = built(function(x, relay.cumsum(x, axis=1, exclusive=exclusive)))
    text = str(program.explain())
    assert "by=block" in text and "by=blocks" in text
    for n, m in (*LENGTHS, (300, 3), (1, 4097), (2, 20000)):
        a = ties(n, m)
        wanted = np.cumsum(a, 1) - (a if exclusive else 0)
        check(gpu, program, [a], wanted)


def test_updates_of_one_place_go_in_order(gpu: ctypes.CDLL) -> None:
    x, at, new = rows("n", "m"), rows("k", "m", name="at", dtype="int64"), rows("k", "m", name="u")
    last = built(function(x, at, new, relay.scatter_elements(x, at, new, 0, "update")))
    sums = built(function(x, at, new, relay.scatter_elements(x, at, new, 0, "add")))
    for n, m, k in ((1, 1, 1), (5, 7, 20), (3, 70, 4), (4, 2, 0)):
        a, u = noise(n, m), ties(k, m)
        where = np.random.default_rng(n).integers(0, n, (k, m))
        wanted, total = a.copy(), a.copy()
        for i in range(k):
            for j in range(m):
                wanted[where[i, j], j] = u[i, j]
                total[where[i, j], j] += u[i, j]
        check(gpu, last, [a, where, u], wanted)
        check(gpu, sums, [a, where, u], total)


def test_slices_at_coordinates(gpu: ctypes.CDLL) -> None:
    x, at, new = rows("n", "m"), rows(1, "k", name="at", dtype="int64"), rows("k", "m", name="u")
    program = built(function(x, at, new, relay.scatter_nd(x, at, new, "add")))
    for n, m, k in ((1, 1, 3), (5, 70, 9)):
        a, u = noise(n, m), ties(k, m)
        where = np.random.default_rng(n).integers(0, n, (1, k))
        wanted = a.copy()
        np.add.at(wanted, where[0], u)
        check(gpu, program, [a, where, u], wanted)


def test_positions_of_what_is_not_zero(gpu: ctypes.CDLL) -> None:
    x = rows("n", "m")
    program = built(function(x, relay.argwhere(x)))
    for n, m in ((0, 3), (1, 1), (3, 300), (2, 9000)):
        a = np.maximum(ties(n, m), 0)
        check(gpu, program, [a], np.argwhere(a))
