"""Layouts of constant operands, beside their definition element by element."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from tvm_disc.schedules.gemm.layouts import (
    PanelsOfB,
    QuadsOfB,
    RowsOfA,
    WordsOfB,
    packed_row_elems,
    panel_count,
    panel_starts,
)
from tvm_disc.schedules.packing import pack_constant

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("k", [0, 1, 3, 31, 32, 33, 65])
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 8, 11, 19])
@pytest.mark.parametrize(("n_r", "lanes"), [(4, 4), (6, 2), (4, 1)])
def test_panels(k: int, n: int, n_r: int, lanes: int) -> None:
    b = RNG.standard_normal((k, n)).astype("float32")
    found = pack_constant(PanelsOfB(n_r, lanes), b)
    starts = panel_starts(n, n_r, lanes)
    assert found.shape == (panel_count(n, n_r, lanes), k, n_r)
    for panel, row, column in np.ndindex(*found.shape):
        at = starts[panel] + column
        assert found[panel, row, column] == (b[row, at] if at < starts[panel + 1] else 0)


def test_panels_divide_columns_evenly() -> None:
    assert panel_starts(256, 48, 16) == [0, 32, 80, 128, 160, 208, 256]
    assert panel_starts(512, 48, 16)[6] == 256
    for lanes, per, n in itertools.product((1, 2, 4), (1, 2, 3), range(80)):
        starts = panel_starts(n, per * lanes, lanes)
        least = -(-n // (per * lanes))
        widths = [b - a for a, b in itertools.pairwise(starts)]
        assert starts[0] == 0 and starts[-1] == n and len(widths) in (least, least + 1)
        assert len(widths) == least or (least > 1 and least % 2 == 1 and min(widths) > lanes)
        assert all(0 < w <= per * lanes for w in widths)
        for first, end in itertools.combinations(range(len(starts)), 2):
            share = n * (end - first) / len(widths)
            assert abs(starts[end] - starts[first] - share) < 2 * lanes


def test_panels_of_a_weight_that_lies_transposed() -> None:
    b = RNG.standard_normal((11, 37)).astype("float32").T
    np.testing.assert_array_equal(
        pack_constant(PanelsOfB(8, 4), b), pack_constant(PanelsOfB(8, 4), np.ascontiguousarray(b))
    )


def test_bfloat16_is_kept_as_its_bits() -> None:
    b = RNG.standard_normal((3, 5)).astype(ml_dtypes.bfloat16)
    found = pack_constant(PanelsOfB(2, 2), b)
    assert found.dtype == "uint16"
    np.testing.assert_array_equal(found[:, :, 0].T, b.view("uint16")[:, ::2])


@pytest.mark.parametrize(("per", "origin"), [(4, 128), (4, 0), (2, 0), (2, -7)])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (4, 8), (5, 9), (7, 16), (0, 3)])
def test_quads(k: int, n: int, per: int, origin: int) -> None:
    b = RNG.integers(-128, 128, (k, n)).astype("int8")
    found = pack_constant(QuadsOfB(8, 8, per, origin), b)
    assert found.shape == (-(-n // 8), 1 + -(-k // per), 8) and found.dtype == "int32"
    for column in range(n):
        panel, at = divmod(column, 8)
        column_of = b[:, column].astype(int)
        assert found[panel, 0, at] == -origin * column_of.sum()
        numbers = found[panel, 1:, at].copy().view("int8" if per == 4 else "int16")
        np.testing.assert_array_equal(numbers[:k], b[:, column])
        assert not numbers[k:].any()


@pytest.mark.parametrize("n", [16, 28, 36, 40, 53])
@pytest.mark.parametrize("k", [8, 21])
@pytest.mark.parametrize("transposed", [True, False])
def test_numbers_have_the_columns_of_panels(n: int, k: int, transposed: bool) -> None:
    b = RNG.integers(-128, 128, (n, k)).astype("int8").T
    b = b if transposed else np.ascontiguousarray(b)
    for per, number in ((4, "int8"), (2, "int16")):
        found = pack_constant(QuadsOfB(12, 4, per, 3), b)
        numbers = found[:, 1:].copy().view(number).reshape(len(found), -1, 12, per)
        panels = pack_constant(PanelsOfB(12, 4), b)
        np.testing.assert_array_equal(
            numbers.swapaxes(2, 3).reshape(len(found), -1, 12)[:, :k], panels
        )
        np.testing.assert_array_equal(found[:, 0], -3 * panels.astype("int32").sum(1))
    even = k // 4 * 4
    found = pack_constant(WordsOfB(12, 4, 8), b[:even])
    numbers = found.view("int8").reshape(len(found), -1, 12, 4)
    np.testing.assert_array_equal(
        numbers.swapaxes(2, 3).reshape(len(found), -1, 12),
        pack_constant(PanelsOfB(12, 4, even=False), b[:even]),
    )


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("unsigned", [True, False])
@pytest.mark.parametrize(("k", "n"), [(8, 1), (16, 8), (40, 19), (0, 3)])
def test_words(k: int, n: int, bits: int, unsigned: bool) -> None:
    half = 1 << (bits - 1)
    b = RNG.integers(-half, half, (k, n)).astype("int8")
    found = pack_constant(WordsOfB(8, 8, bits, unsigned), b)
    per = 32 // bits
    assert found.shape == (-(-n // 8), k // per, 8) and found.dtype == "int32"
    for row, column in np.ndindex(k, n):
        panel, at = divmod(column, 8)
        word = found[panel, row // per, at].copy().view("uint32")
        # Words of eight: the lower halves of the four bytes come first.
        place = row % per
        shift = 8 * (place % 4) + 4 * (place // 4)
        number = (int(word) >> shift) & (2 * half - 1)
        want = int(b[row, column])
        assert number == (want + half if unsigned else want & (2 * half - 1))


@pytest.mark.parametrize("shape", [(3, 32), (2, 3, 5), (1, 0), (4, 1, 2, 2)])
def test_rows(shape: tuple[int, ...]) -> None:
    a = RNG.integers(-9, 9, shape).astype("int8")
    found = pack_constant(RowsOfA("int32"), a)
    k = a[:1].size
    assert found.shape == (shape[0], packed_row_elems(k, 4)) and found.dtype == "int32"
    np.testing.assert_array_equal(found[:, :k], a.reshape(shape[0], k))
    assert not found[:, k:].any()


def test_rows_do_not_compete_for_a_set() -> None:
    for k in (0, 1, 16, 31, 32, 1024):
        elems = packed_row_elems(k, 4)
        assert elems >= k and elems % 16 == 0 and (elems // 16) % 2 == 1


def test_equal_layouts_are_equal() -> None:
    assert PanelsOfB(4, 4) == PanelsOfB(4, 4) != PanelsOfB(8, 4)
    quads = (
        *(QuadsOfB(4, 4, per, origin) for per, origin in ((4, 128), (4, 128), (2, 128), (4, 0))),
    )
    assert len({*quads, RowsOfA("int32")}) == 4
