"""The matrices of minimal filters, in exact numbers, and weights in their domain."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tvm_disc.schedules.conv.minimal_filter import FilteredPanels, MinimalFilter
from tvm_disc.schedules.packing import Joined, pack_constant

RNG = np.random.default_rng(0)


def exact(array: np.ndarray) -> np.ndarray:
    return np.array([Fraction(int(v)) for v in array.reshape(-1)], object).reshape(array.shape)


@pytest.mark.parametrize("outputs", [2, 4])
def test_the_identity_holds_exactly(outputs: int) -> None:
    """Of integers the filter gives the sums over taps, to the last digit."""
    made = MinimalFilter(outputs)
    there, weigh, back = (np.array(m) for m in (made.of_input, made.of_weights, made.of_output))
    assert there.shape == (made.side, made.side) and back.shape == (outputs, made.side)
    for _ in range(5):
        data = exact(RNG.integers(-9, 9, (made.side, made.side)))
        w = exact(RNG.integers(-9, 9, (3, 3)))
        sums = back @ ((weigh @ w @ weigh.T) * (there @ data @ there.T)) @ back.T
        for i in range(outputs):
            for j in range(outputs):
                assert sums[i, j] == (data[i : i + 3, j : j + 3] * w).sum()


def test_the_small_filter_adds_and_subtracts_only() -> None:
    made = MinimalFilter(2)
    factors = {abs(x) for m in (made.of_input, made.of_output) for row in m for x in row}
    assert factors == {0, 1}


def test_packed_weights() -> None:
    """A panel of 4 columns, 6 outputs of 2 inputs: the rest of the last panel is zero."""
    weights = RNG.standard_normal((6, 2, 3, 3)).astype("float32")
    made = MinimalFilter(2)
    packed = pack_constant(FilteredPanels(made, 4), weights)
    assert packed.shape == (2, 16, 2, 4) and packed.dtype == np.float32
    g = np.array(made.of_weights, np.float64)
    expected = g @ weights[5, 1].astype(np.float64) @ g.T
    np.testing.assert_array_equal(packed[1, :, 1, 1], expected.reshape(-1).astype(np.float32))
    assert not packed[1, :, :, 2:].any()


def test_two_layouts_of_one_constant() -> None:
    weights = RNG.standard_normal((6, 2, 3, 3)).astype("float32")
    parts = FilteredPanels(MinimalFilter(2), 4), FilteredPanels(MinimalFilter(4), 8)
    both = pack_constant(Joined(parts), weights)
    each = [pack_constant(part, weights).reshape(-1) for part in parts]
    np.testing.assert_array_equal(both, np.concatenate(each))
