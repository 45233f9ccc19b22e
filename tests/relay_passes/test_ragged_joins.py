"""Joins along the ragged axis: tokens before or behind the rows of each item, rows behind rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tests.relay_passes.ragged_helpers import convolution, norm, pack, self_attention, weights
from tvm_disc import Options, Ragged, relay
from tvm_disc.errors import Unsupported

BATCHES = ([], [0], [1], [0, 4, 0], [5, 1, 37], [2, 40, 3, 3], [64] * 3, [127, 1, 2, 8])


def _tokens(x: Any, count: int = 1) -> Any:
    """Rows ``[b, count, 8]`` that are the same in every item."""
    first = relay.sum(x, axis=1, keepdims=True) * relay.const(np.float32(0))
    return relay.nn.relu(first) + weights(1, count, 8)


def _with_token(x: Any) -> Any:
    return relay.concatenate([_tokens(x), x], axis=1)


def _half(x: Any) -> Any:
    return convolution(x, strides=(2,))


GRAPHS: dict[str, Callable[[Any], Any]] = {
    "a token first": _with_token,
    "three tokens last": lambda x: relay.concatenate([relay.tanh(x), _tokens(x, 3)], axis=1),
    "tokens around": lambda x: relay.concatenate([_tokens(x), x, _tokens(x, 2), x], axis=1),
    "two tokens": lambda x: relay.concatenate([_tokens(x), _tokens(x, 2), x], axis=1),
    "rows twice": lambda x: relay.concatenate([relay.tanh(x), x], axis=1),
    "the mean behind": lambda x: relay.concatenate(
        [x, relay.sum(x, axis=1, keepdims=True)], axis=1
    ),
    "rows and half of them": lambda x: relay.concatenate([_half(x), x, _half(x)], axis=1),
    "attention": lambda x: norm(self_attention(norm(self_attention(_with_token(x))))),
    "half of a join": lambda x: _half(relay.tanh(relay.concatenate([x, x], axis=1))),
    "other axes": lambda x: relay.transpose(
        relay.concatenate([relay.transpose(x, (0, 2, 1)), relay.transpose(x, (0, 2, 1))], axis=2),
        (0, 2, 1),
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_joins_equal_calls_item_by_item(name: str) -> None:
    x = rows("b", "s", 8)
    module = function(x, GRAPHS[name](x))
    exe = tvm_disc.build(module, ragged={"x": 1}, options=Options(verify=True))
    plain = tvm_disc.build(module)
    rng = np.random.default_rng(21)
    drawn = [list(rng.integers(0, 100, rng.integers(1, 9))) for _ in range(4)]
    for lengths in (*BATCHES, *drawn):
        items = pack(lengths, rng, 8)
        out = exe(items)
        assert isinstance(out, Ragged)
        for found, item in zip(out, items, strict=True):
            wanted = plain(item[None])[0]
            assert found.shape == wanted.shape, (name, lengths)
            np.testing.assert_allclose(found, wanted, 1e-5, 1e-5, err_msg=f"{name} {lengths}")


def test_the_token_is_read_behind_an_attention() -> None:
    x = rows("b", "s", 8)
    made = self_attention(_with_token(x))
    module = function(x, relay.take(made, relay.const(0), axis=1))
    exe, plain = tvm_disc.build(module, ragged={"x": 1}), tvm_disc.build(module)
    rng = np.random.default_rng(22)
    for lengths in BATCHES:
        items = pack(lengths, rng, 8)
        for found, item in zip(exe(items), items, strict=True):
            np.testing.assert_allclose(found, plain(item[None])[0], 1e-5, 1e-5)


def _first(x: Any, y: Any) -> Any:
    return relay.concatenate([x, y], axis=1)


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "rows of two inputs": (
        _first,
        "ragged: concat.*it joins values along the ragged axis, and the length of the result is "
        "not computed from that of one input",
    ),
    "items": (
        lambda x, y: relay.concatenate([x, x], axis=0),
        "ragged: concat.*it combines elements of different items",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_joins_that_cannot_be_ragged_are_refused(name: str) -> None:
    make, message = REFUSED[name]
    x, y = rows("b", "s", 8), rows("b", "n", 8, name="y")
    module = function(x, y, relay.Tuple([make(x, y), relay.exp(y)]))
    with pytest.raises(Unsupported, match=message):
        tvm_disc.build(module, ragged={"x": 1, "y": 1})
