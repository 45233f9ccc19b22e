"""Comparisons of unsigned integers with the least and the largest element of their type."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay

NAMES = ["greater", "greater_equal", "less", "less_equal"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["uint8", "uint32"])
def test_comparisons_with_the_ends(dtype: str, name: str) -> None:
    """As the condition of a ``where``, each literal on both sides, also negated."""
    ends = np.iinfo(dtype)
    x, y = (relay.var(n, shape=(relay.Any("n"),), dtype=dtype) for n in "xy")
    a = np.array([0, 1, 2, ends.max, ends.max - 1], dtype)
    b = np.roll(a, 1)
    outs, wanted = [], []
    for number in (0, 1, ends.max):
        literal, same = relay.const(number, dtype), np.array(number, dtype)
        for pair, values in (((x, literal), (a, same)), ((literal, x), (same, a))):
            condition, want = getattr(relay, name)(*pair), getattr(np, name)(*values)
            outs += [condition, relay.where(condition, x, y)]
            outs += [relay.where(relay.logical_not(condition), x, y)]
            wanted += [want, np.where(want, a, b), np.where(want, b, a)]
    outs.append(relay.where(relay.greater_equal(relay.abs(x), relay.const(0, dtype)), x, y))
    wanted.append(a)
    exe = tvm_disc.build(relay.Function([x, y], relay.Tuple(outs)))
    for times in (1, 7):
        found = exe(np.tile(a, times), np.tile(b, times))
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(got, np.tile(want, times))
