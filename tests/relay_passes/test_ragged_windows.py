"""Convolutions and pooling along the ragged axis that change the lengths of items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tests.relay_passes.ragged_helpers import convolution, norm, pack, self_attention
from tvm_disc import Options, Ragged, relay
from tvm_disc.errors import GuardFailed, Unsupported

BATCHES = ([], [1], [5, 1, 37], [2, 40, 3, 3], [64] * 3, [127, 1, 2, 8], [0, 4, 0], [0])


def pooled(
    kind: str, size: int, stride: int, padding: tuple[int, int] = (0, 0), **more: Any
) -> Any:
    """A function of ``[b, s, 8]`` that pools along the sequence."""
    op = getattr(relay.nn, f"{kind}_pool1d")

    def apply(x: Any) -> Any:
        made = op(
            relay.transpose(x, (0, 2, 1)),
            pool_size=(size,),
            strides=(stride,),
            padding=padding,
            **more,
        )
        return relay.transpose(made, (0, 2, 1))

    return apply


def strided(x: Any, window: int = 3, padding: tuple[int, int] = (1, 1), stride: int = 2) -> Any:
    return convolution(x, window, padding, strides=(stride,))


def with_positions(x: Any) -> Any:
    """A strided convolution whose result has a table of positions added."""
    made = strided(x)
    table = relay.const(np.arange(512, dtype="float32").reshape(64, 8) * 0.01)
    length = relay.take(relay.shape_of(made), relay.const(1))
    place = relay.arange(relay.const(0), length, relay.const(1), dtype="int32")
    return relay.tanh(made) + relay.take(table, place, axis=0)


# A graph, and the least length of its items.
GRAPHS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "stride 2": (strided, 0),
    "stride 3": (lambda x: strided(relay.tanh(x), 5, (2, 2), 3), 0),
    "patches": (lambda x: strided(x, 4, (0, 0), 4), 1),
    "without padding": (lambda x: convolution(x, 3, (0, 0)), 2),
    "dilation": (lambda x: convolution(x, 3, (2, 1), dilation=(2,), strides=(2,)), 0),
    "two strides": (lambda x: strided(relay.tanh(strided(x, 3, (0, 1))), 3, (1, 1)), 0),
    "keeps the length again": (lambda x: convolution(relay.tanh(strided(x))), 0),
    "attention": (lambda x: norm(self_attention(norm(strided(x)))), 0),
    "positions": (with_positions, 0),
    "merged rows": (lambda x: relay.exp(relay.reshape(strided(x), (-3, 0))), 0),
    "largest": (pooled("max", 2, 2), 0),
    "largest with padding": (pooled("max", 3, 2, (1, 1)), 0),
    "largest, partial windows": (pooled("max", 3, 2, ceil_mode=True), 1),
    "mean": (pooled("avg", 2, 2), 0),
    "mean without padding": (pooled("avg", 3, 1, (1, 1), count_include_pad=False), 0),
    "mean with padding": (pooled("avg", 3, 2, (1, 1), count_include_pad=True), 0),
    "mean of a convolution": (lambda x: pooled("avg", 3, 3)(strided(x)), 3),
}


def check(exe: Any, plain: Any, items: Sequence[np.ndarray], what: object) -> None:
    """Compare a ragged call with calls item by item."""
    out = exe(list(items))
    assert isinstance(out, Ragged)
    assert len(out) == len(items)
    for found, item in zip(out, items, strict=True):
        wanted = plain(item[None])
        wanted = wanted.reshape(-1, wanted.shape[-1])
        assert found.shape == wanted.shape, what
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-5, err_msg=str(what))


@pytest.mark.parametrize("name", GRAPHS)
def test_windows_equal_calls_item_by_item(name: str) -> None:
    make, least = GRAPHS[name]
    x = rows("b", "s", 8)
    module = function(x, make(x))
    exe = tvm_disc.build(module, ragged={"x": 1}, options=Options(verify=True))
    plain = tvm_disc.build(module)
    rng = np.random.default_rng(11)
    drawn = [list(rng.integers(0, 100, rng.integers(1, 9))) for _ in range(4)]
    for lengths in (*BATCHES, *drawn):
        lengths = [max(n, least) for n in lengths]
        check(exe, plain, pack(lengths, rng, 8), (name, lengths))


def test_one_entry_per_item_behind_a_window() -> None:
    x = rows("b", "s", 8)
    made = relay.nn.relu(strided(x))
    last = relay.take(made, relay.const(-1), axis=1, mode="wrap")
    module = function(x, relay.mean(made, axis=1) + relay.max(made, axis=1) + last)
    exe, plain = tvm_disc.build(module, ragged={"x": 1}), tvm_disc.build(module)
    rng = np.random.default_rng(12)
    for lengths in ([], [1], [5, 1, 37], [64] * 3, [2, 40, 3, 3]):
        items = pack(lengths, rng, 8)
        for found, item in zip(exe(items), items, strict=True):
            np.testing.assert_allclose(found, plain(item[None])[0], 1e-5, 1e-5)


def test_results_have_their_own_lengths(tmp_path: Path) -> None:
    """Also of a saved program; the same offsets are computed once."""
    x = rows("b", "s", 8)
    half = strided(x)
    module = function(x, relay.Tuple([half, relay.exp(x), relay.tanh(half), strided(half)]))
    exe = tvm_disc.build(module, ragged={"x": 1})
    assert len(exe.results) == 4 + 2
    exe.save(tmp_path / "windows.so")
    for program in (exe, tvm_disc.load(tmp_path / "windows.so")):
        out = program(pack([5, 0, 8], np.random.default_rng(13), 8))
        assert [list(r.lengths) for r in out] == [[3, 0, 4], [5, 0, 8], [3, 0, 4], [2, 0, 2]]
        np.testing.assert_allclose(np.tanh(out[0].values), out[2].values, 1e-5, 1e-6)


def test_an_item_that_is_too_short_is_reported() -> None:
    x = rows("b", "s", 8)
    exe = tvm_disc.build(function(x, convolution(x, 5, (0, 0))), ragged={"x": 1})
    rng = np.random.default_rng(14)
    assert list(exe(pack([4, 9], rng, 8)).lengths) == [0, 5]
    with pytest.raises(GuardFailed, match="input 'x' axis 1"):
        exe(pack([9, 3, 9], rng, 8))


def test_a_requirement_on_derived_lengths_is_checked_for_every_item() -> None:
    """The table has 64 positions, the lengths are halved."""
    x = rows("b", "s", 8)
    table = relay.const(np.ones((64, 8), "float32"))
    made = strided(x)
    end = relay.strided_slice(relay.shape_of(made), [1], [3])
    part = relay.strided_slice(table, relay.const(np.asarray([0, 0])), end)
    exe = tvm_disc.build(function(x, made + part), ragged={"x": 1})
    rng = np.random.default_rng(15)
    assert list(exe(pack([128, 1], rng, 8)).lengths) == [64, 1]
    with pytest.raises(GuardFailed, match=r"'x' axis 1\) must equal min"):
        exe(pack([1, 129], rng, 8))


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "groups": (
        lambda x: relay.transpose(
            relay.nn.conv1d(
                relay.transpose(x, (0, 2, 1)),
                relay.const(np.ones((8, 1, 3), "float32")),
                padding=(1, 1),
                kernel_size=(3,),
                groups=8,
            ),
            (0, 2, 1),
        ),
        "ragged: .*conv1d.*expected one group, the layouts NCW and OIW",
    ),
    "wider than the item": (
        lambda x: convolution(x, 3, (2, 2)),
        "ragged: .*conv1d.*its result for an item of length 0 is not empty",
    ),
    "integers": (
        lambda x: pooled("max", 2, 2)(relay.cast(x, "int32")),
        "ragged: .*max_pool1d.*it pools int32; only floats are supported",
    ),
    "along the features": (
        lambda x: relay.nn.max_pool1d(x, pool_size=(2,), strides=(2,)),
        "ragged: .*max_pool1d.*only its data may be ragged, along the axis of the window",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_windows_that_cannot_be_ragged_are_refused(name: str) -> None:
    make, message = REFUSED[name]
    x = rows("b", "s", 8)
    with pytest.raises(Unsupported, match=message):
        tvm_disc.build(function(x, make(x)), ragged={"x": 1})
