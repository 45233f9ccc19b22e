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
