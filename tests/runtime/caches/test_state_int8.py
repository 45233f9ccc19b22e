"""Caches of int8 numbers with a factor for each row, beside float32 caches of rounded rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.runtime.caches.walks import SEEDS, STEPS, Copies, in_threads, same, walk
from tvm_disc import relay
from tvm_disc.errors import BadInput, BadOption

RNG = np.random.default_rng(0)
HEADS, DEPTH = 2, 16
Array = np.ndarray[Any, Any]


def decoder(depth: int = DEPTH, shared: int = 1, masked: bool = False) -> relay.Function:
    """Attention of new rows over a growing cache; ``shared`` heads read the same keys."""
    shape = (1, HEADS, relay.Any(), depth)
    k, v, past_k, past_v = (relay.var(n, shape=shape) for n in ("k", "v", "past_k", "past_v"))
    q = relay.var("q", shape=(HEADS * shared, relay.Any(), depth))
    keys = relay.concatenate([past_k, k], axis=2)
    values = relay.concatenate([past_v, v], axis=2)
    flat = [relay.reshape(x, (-3, -2)) for x in (keys, values)]
    if shared > 1:
        flat = [relay.repeat(x, shared, axis=0) for x in flat]
    scores = relay.nn.batch_matmul(q, flat[0], transpose_b=True)
    mask = relay.var("mask", shape=(relay.Any(), relay.Any()))
    if masked:
        scores = relay.add(scores, mask)
    mixed = relay.nn.batch_matmul(relay.nn.softmax(scores), flat[1], transpose_b=False)
    params = [q, k, v, *([mask] if masked else []), past_k, past_v]
    return relay.Function(params, relay.Tuple([mixed, keys, values]))


def build(function: Any, state: Sequence[str] = (), **more: Any) -> Any:
    return tvm_disc.build(function, options=tvm_disc.Options(state=state, **more))


def in_bytes(function: Any, **more: Any) -> Any:
    return build(function, ["past*"], state_dtype="int8", **more)


@pytest.fixture(scope="module")
def copied() -> Any:
    return build(decoder())


@pytest.fixture(scope="module")
def owned() -> Any:
    return in_bytes(decoder())


def rows(count: int, depth: int = DEPTH, shared: int = 1) -> list[Array]:
    new = [RNG.standard_normal((1, HEADS, count, depth)).astype("float32") for _ in "kv"]
    queries = RNG.standard_normal((HEADS * shared, count, depth)) / np.sqrt(depth)
    return [queries.astype("float32"), *new]


def rounded(x: Array, axis: int = -1) -> Array:
    """The rows of an int8 cache."""
    most = np.maximum(np.abs(x).max(axis, keepdims=True, initial=0), np.float32(1e-30))
    factor = most / np.float32(127)
    return np.asarray(np.clip(np.round(x / factor), -127, 127) * factor, np.float32)


def copies_of(exe: Any, depth: int = DEPTH) -> Copies:
    """Float32 caches of rounded rows."""
    return Copies.of(exe, 1, HEADS, depth, kept=rounded)


COUNTS = (5, 1, 1, 0, 7, 31, 1, 64, 1, 900, 1, 200, 1, 9)


def test_rows_of_every_number(copied: Any, owned: Any) -> None:
    assert owned.inputs[3:] == ["past_k", "past_k_scale", "past_v", "past_v_scale",
                                "past_k_length", "past_v_length"]  # fmt: skip
    types = {name: dtype for name, _, dtype in owned.signature}
    assert types["past_k"] == types["past_v"] == "int8"
    assert types["past_k_scale"] == types["past_v_scale"] == "float32"
    assert "read in place: V (otherwise), K (algorithm=keys in place)" in owned.explain()
    assert "dequantized by rows: K, V" in owned.explain()
    state, copies = owned.state(), copies_of(copied)
    assert repr(state) == "<tvm_disc state of 2 caches, 0 rows>"
    for count in COUNTS:
        given = rows(count)
        np.testing.assert_allclose(state(*given), copies(*given), rtol=1e-5, atol=1e-5)
        same(state, copies)


@pytest.mark.parametrize("shared", [1, 3])
@pytest.mark.parametrize("depth", [7, 64])
def test_heads_that_share_keys(depth: int, shared: int) -> None:
    exe, plain = in_bytes(decoder(depth, shared)), build(decoder(depth, shared))
    assert "dequantized by rows: K, V" in exe.explain()
    state, copies = exe.state(), copies_of(plain, depth)
    for count in (1, 3, 0, 150, 1, 12, 40):
        given = rows(count, depth, shared)
        np.testing.assert_allclose(state(*given), copies(*given), rtol=1e-5, atol=1e-5)
        same(state, copies)


@pytest.fixture(scope="module")
def masked() -> tuple[Any, Any]:
    facts = ["mask.0 == q.1", "mask.1 == k.2 + past_k.2", "k.2 == q.1"]
    function = decoder(32, masked=True)
    owned, copied = (
        tvm_disc.build(function, options=options, constraints=facts)
        for options in (
            tvm_disc.Options(state=["past*"], state_dtype="int8"),
            tvm_disc.Options(),
        )
    )
    return owned, copied


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e30])
def test_keys_that_a_mask_hides(masked: tuple[Any, Any], size: float) -> None:
    """Whether keys are skipped depends on the magnitudes of the dequantized rows."""
    exe, plain = masked
    assert "skipped at both ends" in exe.explain()
    state, copies = exe.state(), copies_of(plain, 32)
    for count in (300, 1, 260):
        q, k, v = rows(count, 32)
        k *= np.float32(size)
        total = count + state.length
        seen = np.arange(total) <= np.arange(total - count, total)[:, None]
        mask = np.where(seen, 0, -1e9).astype("float32")
        found, want = state(q, k, v, mask), copies(q, k, v, mask)
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
        same(state, copies)


def test_the_error_is_bounded(owned: Any, copied: Any) -> None:
    """An element is at most half a step away, which bounds the error of scores and results."""
    state, exact = owned.state(), [np.zeros((1, HEADS, 0, DEPTH), "float32")] * 2
    for count in (40, 1, 300, 1):
        q, k, v = rows(count)
        want, *exact = copied(q, k, v, *exact)
        found = state(q, k, v)
        for name, past in zip(("past_k", "past_v"), exact, strict=True):
            step = np.abs(past).max(-1, keepdims=True) / 127
            assert (np.abs(state.cache(name) - past) <= 0.5001 * step).all()
        keys, values = (np.abs(x[0]).max(-1) / 254 for x in exact)
        moved = (np.abs(q).sum(-1) * keys.max(-1, keepdims=True))[..., None]
        largest = np.abs(exact[1][0]).max((1, 2))[:, None, None]
        bound = np.expm1(2 * moved) * largest + values.max(-1)[:, None, None]
        assert (np.abs(found - want) <= bound + 1e-5).all()
        assert np.abs(found - want).max() > 1e-5


def walked(owned: Any, copied: Any, seed: int, steps: int = STEPS) -> None:
    """Walk over states of any first capacity."""

    def begin(draw: random.Random) -> tuple[Any, Copies]:
        return owned.state(capacity=draw.choice((0, 1, 40))), copies_of(copied)

    def call(draw: random.Random, state: Any, copies: Copies) -> None:
        given = rows(draw.choice((0, 1, 1, 2, 17)))
        np.testing.assert_allclose(state(*given), copies(*given), rtol=1e-4, atol=1e-5)

    walk(begin, call, same, seed, steps)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_sequences(copied: Any, owned: Any, seed: int) -> None:
    walked(owned, copied, seed)


def test_states_of_several_threads(copied: Any, owned: Any) -> None:
    in_threads(lambda seed, steps: walked(owned, copied, seed, steps))


def test_saved_programs(owned: Any, copied: Any, tmp_path: Any) -> None:
    owned.save(tmp_path / "step.so")
    state, copies = tvm_disc.load(tmp_path / "step.so").state(), copies_of(copied)
    for count in (3, 1):
        given = rows(count)
        np.testing.assert_allclose(state(*given), copies(*given), rtol=1e-5, atol=1e-5)
    same(state, copies)


def test_each_operator_alone(copied: Any) -> None:
    state, copies = in_bytes(decoder(), fuse=False).state(), copies_of(copied)
    for count in (4, 1, 2):
        given = rows(count)
        np.testing.assert_allclose(state(*given), copies(*given), rtol=1e-5, atol=1e-5)
    same(state, copies)


FORMS: dict[str, tuple[int, Callable[..., Any]]] = {
    "rows before": (0, lambda past, now: relay.sum(past, axis=[0])),
    "rows after": (0, lambda past, now: relay.sum(now, axis=[0])),
    "columns": (1, lambda past, now: relay.max(now, axis=[1])),
    "both": (1, lambda past, now: relay.sum(past) + relay.sum(now)),
}


@pytest.mark.parametrize("form", FORMS)
def test_other_readers(form: str) -> None:
    """Any axis; the elements that share a factor are those of the last other axis."""
    axis, result = FORMS[form]
    shape = [4, 4]
    shape[axis] = relay.Any()
    x, past = (relay.var(n, shape=shape) for n in ("x", "past"))
    now = relay.concatenate([past, x], axis=axis)
    func = relay.Function([x, past], relay.Tuple([result(past, now), now]))
    state, plain = in_bytes(func).state(), build(func)
    cache = np.zeros([0 if k == axis else 4 for k in range(2)], "float32")
    for count in (2, 1, 0, 3, 20):
        shape = [count if k == axis else 4 for k in range(2)]
        one = RNG.standard_normal(shape).astype("float32")
        one *= RNG.choice([0, 1e-20, 1, 1e20], [count if k == axis else 1 for k in range(2)])
        one = one.astype("float32")
        want, cache = plain(rounded(one, 1 - axis), cache)
        np.testing.assert_allclose(state(one), want, rtol=1e-4)
        np.testing.assert_array_equal(state.cache("past"), cache)


def test_a_row_that_is_not_finite() -> None:
    """Such a row reads as infinities and NaN, and no other row changes."""
    x, past = (relay.var(n, shape=(relay.Any(), 4)) for n in ("x", "past"))
    now = relay.concatenate([past, x], axis=0)
    func = relay.Function([x, past], relay.Tuple([relay.sum(now, axis=[1]), now]))
    state = in_bytes(func).state()
    given = np.ones((3, 4), "float32")
    given[0, 2], given[2, 1] = np.nan, np.inf
    assert np.isfinite(state(given)).tolist() == [False, True, False]
    np.testing.assert_array_equal(np.isfinite(state.cache("past")).any(1), [False, True, False])
    np.testing.assert_array_equal(state.cache("past")[1], given[1])


@pytest.mark.parametrize(("shape", "dtype"), [((), "float32"), ((4,), "int32"), ((4,), "float16")])
def test_caches_that_keep_their_type(shape: tuple[int, ...], dtype: str) -> None:
    """Vectors have no rows, and other types are kept as they are."""
    x, past = (relay.var(n, shape=(relay.Any(), *shape), dtype=dtype) for n in ("x", "past"))
    now = relay.concatenate([past, x], axis=0)
    exe = in_bytes(relay.Function([x, past], relay.Tuple([relay.sum(now), now])))
    assert {name: kind for name, _, kind in exe.signature}["past"] == dtype
    state, one = exe.state(), np.ones((3, *shape), dtype)
    state(one)
    np.testing.assert_array_equal(state.cache("past"), one)


def test_names_of_caches(owned: Any) -> None:
    with pytest.raises(BadInput) as failed:
        owned.state().cache("past_k_scale")
    expected = "name: expected one of ['past_k', 'past_v'], found 'past_k_scale'"
    assert str(failed.value) == expected


@pytest.mark.parametrize("name", ["past_scale", "past_length"])
def test_names_that_are_taken(name: str) -> None:
    x, past, other = (relay.var(n, shape=(relay.Any(), 4)) for n in ("x", "past", name))
    now = relay.concatenate([past, x], axis=0)
    func = relay.Function([x, past, other], relay.Tuple([relay.sum(now) + relay.sum(other), now]))
    with pytest.raises(BadOption) as failed:
        build(func, ["past"], state_dtype="int8")
    assert str(failed.value) == (
        f"state: expected no input named {name!r}, which is the name of a new input of the "
        "program; rename it in the model"
    )
