"""States of Relay's random generator at the ends of a path, as Relay's own kernels leave them."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay

# What TVM 0.19's Relay gives for the state 1, 2, 3, 4, 7, 9, 0, 0 with these last two words.
KEY = (17707947661040930373, 12158142785933034024, 17674726782273005287, 10965227613552016592)
FRESH = (
    (*KEY, 0, 0, 0, 0, 1 << 62, 0),
    (*KEY, 1 << 63, 0, 0, 0, 1 << 62, 0),
)
LAST = ((1, 2, 3, 4, 7, 9, 0, 0, 0, 1 << 63),) * 2


@pytest.fixture(scope="module")
def split() -> tvm_disc.Executable:
    """A split of one state, compiled once."""
    key = relay.var("key", shape=(10,), dtype="uint64")
    halves = relay.Call(relay.op.get("random.threefry_split"), [key])
    return tvm_disc.build(relay.Function([key], halves))


@pytest.mark.parametrize(
    ("end", "wanted"),
    [
        ((0, 0), FRESH),
        ((0, 1), FRESH),  # a path in its second word is used up
        ((0, 1 << 63), FRESH),
        ((1, 0), LAST),
    ],
)
def test_a_path_has_64_bits(
    split: tvm_disc.Executable, end: tuple[int, int], wanted: tuple[tuple[int, ...], ...]
) -> None:
    state = np.array([1, 2, 3, 4, 7, 9, 0, 0, *end], np.uint64)
    for half, want in zip(split(state), wanted, strict=True):
        np.testing.assert_array_equal(half, np.array(want, np.uint64))
