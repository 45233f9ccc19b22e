"""Rows of any length: element by element, by lanes, in registers, and by several blocks."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.cuda.forced import check_all, made, only_rows, ptx
from tests.cuda.helpers import noise
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.schedules.cuda.rows.template import ALL, RowKnobs

ALONG = [knobs for knobs in ALL if knobs.columns == 1]
SHAPES = (
    (0, 4),
    (1, 1),
    (3, 31),
    (2, 32),
    (2, 36),
    (2, 512),
    (2, 516),
    (1, 4096),
    (1, 4100),
    (1, 4099),
)


def softmax(a: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    e = np.exp(a - a.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("knobs", ALONG, ids=str)
def test_softmax_and_layer_norm(gpu: ctypes.CDLL, knobs: RowKnobs) -> None:
    x, g, h = rows("n", "m"), rows("m", name="g"), rows("m", name="h")
    results = [relay.nn.softmax(x), relay.nn.layer_norm(x, g, h)]
    with only_rows(knobs):
        program, code = made(function(x, g, h, relay.Tuple(results)))
    wide = [text for text in code.values() if "float4" in text]
    # With lanes, and with the row in registers; or a kernel for each of two stages with lanes.
    assert len(wide) == (0 if knobs.together == 1 else 2)
    assert len(code) == (1 if knobs.together == 1 else 4 if knobs.parts > 1 else 3)
    for n, m in SHAPES:
        a, b, c = noise(n, m) + 3, noise(m), noise(m) + 1
        normal = (a - a.mean(-1, keepdims=True, dtype="f8")) / np.sqrt(
            a.var(-1, keepdims=True, dtype="f8") + 1e-5
        )
        check_all(gpu, program, [a, b, c], [softmax(a), normal * b + c], 5e-5)


def test_a_row_is_read_once(gpu: ctypes.CDLL) -> None:
    x = rows("n", "m")
    with only_rows(ALL[2]):
        _, code = made(function(x, relay.nn.softmax(x)))
    held = code["k2"]
    assert held.count("(p0 +") == 1 and held.count("(o0 +") == 1
    assembled = ptx(code)
    if assembled is not None:
        assert assembled["k2"].count("ld.global.v4") == 4  # all of a thread's accesses
        assert ".local" not in assembled["k2"]


def test_barriers_of_a_block(gpu: ctypes.CDLL) -> None:
    """Three for each value that is folded, whatever the size of the block, and one for the row."""
    x = rows("n", "m")
    with only_rows(ALL[2]):
        _, code = made(function(x, relay.nn.softmax(x)))
    single, _, held = (code[k].count("__syncthreads()") for k in ("k0", "k1", "k2"))
    assert single == 4  # the largest and the sum in one pass
    assert held == 7


@pytest.mark.parametrize("knobs", ALONG[::3], ids=str)
def test_numbers_that_are_none(gpu: ctypes.CDLL, knobs: RowKnobs) -> None:
    """Rows that begin with, or are nothing but, minus infinity; and NaN and infinity in one."""
    x = rows("n", "m")
    with only_rows(knobs):
        program, _ = made(function(x, relay.nn.softmax(x)))
    for m in (36, 1000):
        a = noise(5, m)
        a[0, : m // 2] = -np.inf
        a[1] = -np.inf
        a[2, 7], a[3, 7] = np.nan, np.inf
        with np.errstate(invalid="ignore"):
            wanted = softmax(a)
        assert np.isfinite(wanted[[0, 4]]).all() and np.isnan(wanted[1:4]).any(1).all()
        check_all(gpu, program, [a], [wanted])


def test_a_mean_far_from_zero(gpu: ctypes.CDLL) -> None:
    """Sums of squares would lose all digits of the variance."""
    x = rows("n", "m")
    with only_rows(ALL[3]):
        program, _ = made(function(x, relay.variance(x, axis=1)))
    for m in (7, 4100):
        a = noise(2, m) + 4096
        check_all(gpu, program, [a], [a.var(1, dtype="f8")], 1e-3)


def test_extremes_are_found_one_by_one(gpu: ctypes.CDLL) -> None:
    x = rows("n", "m")
    _, code = made(function(x, relay.argmax(x, axis=1)))
    assert not any("float4" in text for text in code.values())
