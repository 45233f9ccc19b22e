"""``topk`` of a few elements: selected without a sort, in the order of a stable sort."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.relay.importer.lowering.order import FEW
from tvm_disc.relay.ops.references.transform import topk

SIZE = FEW + 6


def values(dtype: str, shape: tuple[int, int, int], seed: int) -> np.ndarray:
    """Return elements with many ties, and among floats NaN and infinities."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2 if dtype == "bool" else 6, shape).astype(dtype)
    if dtype.startswith("float"):
        for value in (np.nan, np.inf, -np.inf):
            x[rng.random(shape) < 0.1] = value
    return x


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "int64", "bool"])
@pytest.mark.parametrize(("k", "axis", "up"), [(1, 1, False), (3, -1, True), (FEW, 1, False)])
def test_order_of_a_stable_sort(dtype: str, k: int, axis: int, up: bool) -> None:
    shape = (relay.Any(), SIZE, 3) if axis == 1 else (relay.Any(), 2, SIZE)
    x = relay.var("x", shape=shape, dtype=dtype)
    made = relay.topk(x, k, axis=axis, is_ascend=up, dtype="int64").astuple()
    exe = tvm_disc.build(relay.Function([x], made))
    for n in (1, 5, 0, 2):
        given = values(dtype, (n, *(int(d) for d in shape[1:])), n)
        wanted = topk(given, k=k, axis=axis, ret_type="both", is_ascend=up, dtype="int64")
        for found, want in zip(exe(given), wanted, strict=True):
            np.testing.assert_array_equal(found, want)


def test_many_elements_are_sorted() -> None:
    for k in (FEW + 1, 0):
        x = relay.var("x", shape=(relay.Any(), SIZE))
        exe = tvm_disc.build(relay.Function([x], relay.topk(x, k, ret_type="indices")))
        given = np.random.default_rng(k).standard_normal((3, SIZE)).astype("float32")
        wanted = np.argsort(-given, 1, kind="stable")[:, : k or SIZE]
        np.testing.assert_array_equal(exe(given), wanted)


def test_an_axis_that_may_be_shorter() -> None:
    x = relay.var("x", shape=(2, relay.Any()))
    exe = tvm_disc.build(relay.Function([x], relay.topk(x, 3, ret_type="values")))
    for n in (1, 2, 3, 9):
        given = np.random.default_rng(n).standard_normal((2, n)).astype("float32")
        np.testing.assert_array_equal(exe(given), -np.sort(-given, 1)[:, :3])
