"""Results with one entry per item: reductions over the ragged axis, and elements at positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tests.relay_passes.ragged_helpers import batches, pack
from tvm_disc import Options, Ragged, relay
from tvm_disc.errors import GuardFailed, Unsupported


def _softmax_pooling(x: Any) -> Any:
    """A sum weighted by a softmax over the sequence."""
    scores = relay.nn.softmax(relay.sum(x, axis=2, keepdims=True), axis=1)
    return relay.sum(scores * x, axis=1)


def _masked_mean(x: Any) -> Any:
    """The mean of the rows that begin with a positive number, as sentence transformers write it."""
    first = relay.strided_slice(x, [0], [1], axes=[2])
    mask = relay.cast(relay.greater(first, relay.const(np.float32(0))), "float32")
    count = relay.maximum(relay.sum(mask, axis=1), relay.const(np.float32(1e-9)))
    return relay.sum(x * mask, axis=1) / count


def _by_heads(x: Any) -> Any:
    """A maximum over the sequence of ``[b, 2, s, features]``, and a mean over the features."""
    heads = relay.transpose(relay.reshape(x, (0, 0, 2, -1)), (0, 2, 1, 3))
    return relay.mean(relay.max(heads, axis=2), axis=2)


def _at(position: int) -> Callable[[Any], Any]:
    return lambda x: relay.take(x, relay.const(position), axis=1, mode="wrap")


POOLED: dict[str, Callable[[Any], Any]] = {
    "mean": lambda x: relay.mean(x, axis=1),
    "sum": lambda x: relay.sum(x, axis=1, keepdims=True),
    "product": lambda x: relay.prod(x, axis=1),
    "largest": lambda x: relay.max(x, axis=1),
    "least of all": lambda x: relay.min(x, axis=[1, 2]),
    "mean of all": lambda x: relay.mean(x, axis=[1, 2], keepdims=True),
    "position of the largest": lambda x: relay.argmax(x, axis=1),
    "softmax pooling": _softmax_pooling,
    "masked mean": _masked_mean,
    "heads": _by_heads,
    "dense layer": lambda x: relay.tanh(relay.mean(x, axis=1)) + relay.max(x, axis=1),
}
PICKED: dict[str, Callable[[Any], Any]] = {
    "first": _at(0),
    "third": _at(2),
    "last": _at(-1),
    "last but one": _at(-2),
}


def check(exe: Any, plain: Any, items: list[np.ndarray], what: object) -> None:
    """Compare a ragged call with calls item by item."""
    out = exe(items)
    assert not isinstance(out, Ragged)
    assert len(out) == len(items)
    for found, item in zip(out, items, strict=True):
        if len(item):
            np.testing.assert_allclose(found, plain(item[None])[0], 1e-5, 1e-5, err_msg=f"{what}")


@pytest.mark.parametrize("features", [2, 70, 1024])
@pytest.mark.parametrize("name", POOLED)
def test_pooling_equals_calls_item_by_item(name: str, features: int) -> None:
    x = rows("b", "s", features)
    module = function(x, POOLED[name](x))
    exe = tvm_disc.build(module, ragged={"x": 1}, options=Options(verify=True))
    plain = tvm_disc.build(module)
    rng = np.random.default_rng(7)
    for lengths in batches(rng, 3, most=6):
        check(exe, plain, pack(lengths, rng, features), (name, lengths))


@pytest.mark.parametrize("name", PICKED)
def test_an_element_of_every_item(name: str) -> None:
    x = rows("b", "s", 8)
    module = function(x, PICKED[name](x))
    exe, plain = tvm_disc.build(module, ragged={"x": 1}), tvm_disc.build(module)
    rng = np.random.default_rng(8)
    for lengths in ([], [1], [3], [64, 3, 5], [37] * 3, [4, 2, 13]):
        check(exe, plain, pack(lengths, rng, 8), (name, lengths))
    with pytest.raises(GuardFailed, match="input 'x' axis 1"):
        exe(pack([5, 0], rng, 8))


def test_items_without_rows_have_neutral_sums() -> None:
    x = rows("b", "s", 3)
    out = relay.Tuple([relay.sum(x, axis=1), relay.max(x, axis=1)])
    total, most = tvm_disc.build(function(x, out), ragged={"x": 1})(
        [np.ones((n, 3), "float32") for n in (0, 2, 0)]
    )
    np.testing.assert_array_equal(total[:, 0], [0, 2, 0])
    np.testing.assert_array_equal(most[:, 0], [-np.inf, 1, -np.inf])


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int64", "bool"])
def test_pooling_of_other_types(dtype: str) -> None:
    x = rows("b", "s", 40, dtype=dtype)
    out = relay.max(x, axis=1) if dtype == "bool" else relay.sum(x, axis=1)
    exe = tvm_disc.build(function(x, out), ragged={"x": 1})
    rng = np.random.default_rng(9)
    items = [rng.integers(0, 2, (n, 40)).astype(dtype) for n in (5, 1, 36, 2)]
    for found, item in zip(exe(items), items, strict=True):
        np.testing.assert_array_equal(found, item.max(0) if dtype == "bool" else item.sum(0))


def test_rows_minus_the_mean_of_their_item() -> None:
    x = rows("b", "s", 8)
    module = function(x, x - relay.mean(x, axis=1, keepdims=True))
    exe, plain = tvm_disc.build(module, ragged={"x": 1}), tvm_disc.build(module)
    items = pack([5, 1, 40], np.random.default_rng(10), 8)
    for found, item in zip(exe(items), items, strict=True):
        np.testing.assert_allclose(found, plain(item[None])[0], 1e-5, 1e-5)


def test_indices_are_checked_over_the_whole_batch() -> None:
    ids = rows("b", "s", name="ids", dtype="int64")
    table = relay.const(np.arange(12, dtype="float32").reshape(4, 3))
    low, high = relay.const(np.int64(0)), relay.const(np.int64(4))
    checked = relay.assert_inside(ids, low, high, what="the ids")
    exe = tvm_disc.build(function(ids, relay.take(table, checked, axis=0)), ragged={"ids": 1})
    out = exe([np.asarray([3, 0]), np.asarray([1])])
    np.testing.assert_array_equal(out.values[:, 0], [9, 0, 3])
    with pytest.raises(GuardFailed, match="the ids: expected 0 <= index < 4, found 4"):
        exe([np.asarray([3]), np.asarray([1, 4])])


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "sum over items and rows": (
        lambda x: relay.sum(x, axis=[0, 1]),
        "ragged: sum.*: it combines elements of different items",
    ),
    "part of a length": (
        lambda x: relay.strided_slice(x, [1], [1000], axes=[1]),
        "ragged: .*it slices the ragged axis",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_reductions_that_cannot_be_ragged_are_refused(name: str) -> None:
    make, message = REFUSED[name]
    x = rows("b", "s", 8)
    with pytest.raises(Unsupported, match=message):
        tvm_disc.build(function(x, make(x)), ragged={"x": 1})
