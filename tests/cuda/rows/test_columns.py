"""Reductions of axes that are not the last: neighbouring threads read what lies side by side."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.cuda.forced import check_all, made, only_column_sums, only_rows
from tests.cuda.helpers import built, noise
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.schedules.cuda.reduce import ReduceKnobs
from tvm_disc.schedules.cuda.rows.template import ALL, RowKnobs

COLUMNS = [knobs for knobs in ALL if knobs.columns > 1]
SUMS = [ReduceKnobs(8, columns=32), ReduceKnobs(8, columns=32, parts=64)]
SHAPES = ((0, 4), (4, 0), (1, 1), (3, 31), (7, 32), (9, 33), (260, 64), (1030, 5), (70, 132))


@pytest.mark.parametrize("knobs", COLUMNS, ids=str)
def test_stages_along_columns(gpu: ctypes.CDLL, knobs: RowKnobs) -> None:
    """What is reduced is used for each element, and lies where the result will."""
    x, g = rows("n", "m"), rows("m", name="g")
    mean = relay.mean(x, axis=0, keepdims=True)
    square = relay.variance(x, axis=0, keepdims=True)
    away = relay.sqrt(relay.add(square, relay.const(0.1)))
    normal = relay.multiply(relay.divide(relay.subtract(x, mean), away), g)
    with only_rows(knobs):
        program, code = made(function(x, g, relay.Tuple([relay.nn.softmax(x, axis=0), normal])))
    # Several columns at once; or a kernel for each of two stages.
    assert len(code) == 2 and sum("float4" in text for text in code.values()) == (knobs.parts == 1)
    for n, m in SHAPES:
        a, b = noise(n, m) + 3, noise(m)
        e = np.exp(a - a.max(0, keepdims=True, initial=-np.inf))
        deep = a.astype("f8")
        middle = deep - deep.sum(0) / max(n, 1)
        spread = np.sqrt((middle**2).sum(0) / max(n, 1) + 0.1)
        wanted = [e / e.sum(0), middle / spread * b]
        check_all(gpu, program, [a, b], wanted, 5e-5)


@pytest.mark.parametrize("knobs", COLUMNS, ids=str)
def test_several_reductions_and_axes_between(gpu: ctypes.CDLL, knobs: RowKnobs) -> None:
    x = rows("b", "n", "m", 3)
    kinds = [relay.max(x, axis=[1, 2]), relay.sum(relay.exp(x), axis=[1, 2])]
    with only_rows(knobs):
        program, _ = made(function(x, relay.Tuple(kinds)))
    for b, n, m in ((1, 1, 1), (2, 3, 5), (0, 2, 2), (23, 2, 40), (3, 50, 7)):
        a = noise(b, n, m, 3)
        check_all(gpu, program, [a], [a.max((1, 2)), np.exp(a).sum((1, 2))])


def test_values_of_columns_beside_those_of_elements(gpu: ctypes.CDLL) -> None:
    """Of half precision, a column at a time and eight: results of both kinds, and an operand for
    each column."""
    x, g = rows("n", "m", dtype="float16"), rows("m", name="g", dtype="float16")
    most = relay.max(x, axis=0, keepdims=True)
    scaled = relay.multiply(most, relay.const(2.0, "float16"))
    results = [relay.subtract(x, scaled), relay.add(relay.squeeze(most, [0]), g)]
    with only_rows(COLUMNS[0]):
        program, code = made(function(x, g, relay.Tuple(results)))
    assert any("uint4" in text for text in code.values())
    for n, m in ((1, 1), (5, 8), (40, 264), (9, 257), (3, 0)):
        a, b = noise(n, m).astype("float16"), noise(m).astype("float16")
        top = a.max(0)
        check_all(gpu, program, [a, b], [a - top * np.float16(2), top + b], 1e-3)


def test_positions_of_extremes(gpu: ctypes.CDLL) -> None:
    x = rows("n", "m")
    with only_rows(COLUMNS[0]):
        program, _ = made(function(x, relay.argmax(x, axis=0)))
    for n, m in SHAPES[2:]:
        a = np.round(noise(n, m))  # many are equal: the first of them counts
        check_all(gpu, program, [a], [a.argmax(0)])
    a = noise(50, 40)
    a[17, 3] = np.nan
    check_all(gpu, program, [a], [a.argmax(0)])


@pytest.mark.parametrize("knobs", SUMS, ids=str)
def test_a_sum_by_itself_has_lanes(gpu: ctypes.CDLL, knobs: ReduceKnobs) -> None:
    x = rows("n", "m")
    with only_column_sums(knobs):
        program, code = made(function(x, relay.sqrt(relay.mean(relay.exp(x), axis=0))))
    wide = [text for text in code.values() if "float4" in text]
    assert len(wide) == 1 and len(code) == (2 if knobs.parts == 1 else 4)
    for n, m in SHAPES[1:]:
        a = noise(n, m)
        check_all(gpu, program, [a], [np.sqrt(np.exp(a).mean(0))])


def _choice(*dims: Any, axis: int = 0, results: int = 1) -> str:
    x = rows(*dims)
    sums = [relay.sum(x, axis=axis), relay.max(x, axis=axis)][:results]
    lines = built(function(x, relay.Tuple(sums) if results > 1 else sums[0])).explain().splitlines()
    return "".join(lines[next(k for k, s in enumerate(lines) if "variant:" in s) :][:12])


def test_where_neighbours_lie_decides() -> None:
    """Many known columns are shared by warps across them; rows in memory are walked along."""
    for results in (1, 2):
        assert "columns=32" in _choice("n", 512, results=results)
    assert "columns=32" not in _choice("n", 512, axis=1)
    # One column is a row.
    assert "columns=32" not in _choice("n", 1)
