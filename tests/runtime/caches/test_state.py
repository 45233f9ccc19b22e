"""Caches that programs extend in place, beside copies."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.runtime.caches.walks import SEEDS, STEPS, Copies, in_threads, same, walk
from tvm_disc import relay
from tvm_disc.errors import BadInput, BadOption, GuardFailed
from tvm_disc.runtime.arrays import numpy_dtype

RNG = np.random.default_rng(0)
HEADS, DEPTH = 2, 16
Array = np.ndarray[Any, Any]


def decoder(batch: Any = 1, dtype: str = "float32") -> relay.Function:
    """Attention of new rows over a growing cache of keys and values."""
    names = ("q", "k", "v", "past_k", "past_v")
    shape = (batch, HEADS, relay.Any(), DEPTH)
    q, k, v, past_k, past_v = (relay.var(n, shape=shape, dtype=dtype) for n in names)
    keys = relay.concatenate([past_k, k], axis=2)
    values = relay.concatenate([past_v, v], axis=2)
    flat = [relay.reshape(x, (-3, -2)) for x in (q, keys, values)]
    scores = relay.nn.softmax(relay.nn.batch_matmul(flat[0], flat[1], transpose_b=True))
    mixed = relay.nn.batch_matmul(scores, flat[2], transpose_b=False)
    return relay.Function([q, k, v, past_k, past_v], relay.Tuple([mixed, keys, values]))


def build(function: Any, state: Sequence[str] = (), **more: Any) -> Any:
    return tvm_disc.build(function, options=tvm_disc.Options(state=state, **more))


@pytest.fixture(scope="module")
def copied() -> Any:
    return build(decoder())


@pytest.fixture(scope="module")
def owned() -> Any:
    return build(decoder(), ["past_*"])


def rows(count: int, batch: int = 1) -> list[Array]:
    shape = (batch, HEADS, count, DEPTH)
    return [RNG.standard_normal(shape).astype("float32") for _ in "qkv"]


def copies_of(exe: Any, batch: int = 1) -> Copies:
    return Copies.of(exe, batch, HEADS, DEPTH)


def test_rows_of_every_number(copied: Any, owned: Any) -> None:
    assert owned.inputs[3:] == ["past_k", "past_v", "past_k_length", "past_v_length"]
    assert len(owned.results) == 1
    text = " ".join(owned.explain().split())
    assert "caches A call writes its new rows into past_k, past_v; " in text
    assert "The size of past_k_length, past_v_length is the number of rows before the call." in text
    state, copies = owned.state(), copies_of(copied)
    for count in (5, 1, 1, 0, 7, 31, 1, 64, 1):
        given = rows(count)
        np.testing.assert_allclose(state(*given), copies(*given), rtol=1e-6, atol=1e-6)
        same(state, copies)
    assert state.length == 111 and state.capacity == 180
    assert repr(state) == "<tvm_disc state of 2 caches, 111 rows>"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_caches_of_16_bits(copied: Any, dtype: str) -> None:
    """Equal to float32 caches of rows that were rounded before the call."""
    exe = build(decoder(), ["past_*"], state_dtype=dtype)
    assert exe.kernels == ["opaque_append_0", "attention_matmul_2"]
    assert "read in place: V (otherwise), K (algorithm=keys in place)" in exe.explain()
    kind = numpy_dtype(dtype)
    state, copies = exe.state(), copies_of(copied)
    for count in (5, 1, 1, 0, 7, 31, 1, 64, 1, 900, 1, 200, 1, 9):
        q, *new = rows(count)
        rounded = [x.astype(kind).astype("float32") for x in new]
        np.testing.assert_allclose(state(q, *new), copies(q, *rounded), rtol=1e-5, atol=1e-6)
        for name, want in zip(("past_k", "past_v"), copies.caches, strict=True):
            found = state.cache(name)
            assert found.dtype == kind
            np.testing.assert_array_equal(found.astype("float32"), want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_models_of_16_bits(dtype: str) -> None:
    exe, plain = build(decoder(1, dtype), ["past_*"]), build(decoder(1, dtype))
    kind = numpy_dtype(dtype)
    state, copies = exe.state(), copies_of(plain)
    copies.caches = [c.astype(kind) for c in copies.caches]
    for count in (5, 1, 0, 40, 1):
        given = [x.astype(kind) for x in rows(count)]
        found, want = (f(*given).astype("float32") for f in (state, copies))
        np.testing.assert_allclose(found, want, rtol=2e-2, atol=2e-2)
        same(state, copies)


def test_nothing_is_concatenated(copied: Any, owned: Any) -> None:
    assert any("concat" in name for name in copied.launches)
    assert not any("concat" in name for name in owned.launches)
    assert sum("append" in name for name in owned.launches) == 2
    # The products read the used rows where they are.
    assert owned.kernels == ["opaque_append_0", "attention_matmul_2"]


def test_a_profile_keeps_the_caches(copied: Any, owned: Any) -> None:
    state, copies = owned.state(), copies_of(copied)
    for count in (0, 3, 16, 1):
        given = rows(count)
        fork = state.fork()
        found = state.profile(*given, repeat=2)
        assert {line.kernel for line in found.lines()} == set(owned.kernels)
        assert state.length == fork.length == copies.caches[0].shape[2]
        np.testing.assert_allclose(state(*given), copies(*given), rtol=1e-6, atol=1e-6)
        same(state, copies)
    with pytest.raises(BadInput, match="missing input v; expected q, k, v"):
        state.profile(*rows(1)[:2])
    with pytest.raises(BadInput, match="repeat: expected at least 1, found 0"):
        state.profile(*rows(1), repeat=0)


def test_bytes_of_a_call_do_not_depend_on_the_capacity(owned: Any) -> None:
    moved = [call["bytes"] for call in owned._manifest["calls"] if call["kind"] == "opaque"]
    assert moved == ["k_2 * 256", "v_2 * 256"]


def test_a_batch_of_unknown_size() -> None:
    exe, plain = build(decoder(relay.Any()), ["past_k", "past_v"]), build(decoder(relay.Any()))
    names = {dims[0] for name, dims, _ in exe.signature if name in ("past_k", "past_v")}
    for batch in (1, 3):
        state, copies = exe.state(**dict.fromkeys(names, batch)), copies_of(plain, batch)
        for count in (2, 1, 9):
            given = rows(count, batch)
            np.testing.assert_allclose(state(*given), copies(*given), rtol=1e-6, atol=1e-6)
            same(state, copies)


def walked(owned: Any, copied: Any, seed: int, steps: int = STEPS) -> None:
    """Walk over states of any first capacity."""

    def begin(draw: random.Random) -> tuple[Any, Copies]:
        return owned.state(capacity=draw.choice((0, 1, 40))), copies_of(copied)

    def call(draw: random.Random, state: Any, copies: Copies) -> None:
        given = rows(draw.choice((0, 1, 1, 2, 17)))
        np.testing.assert_allclose(state(*given), copies(*given), rtol=1e-5, atol=1e-5)

    walk(begin, call, same, seed, steps)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_sequences(copied: Any, owned: Any, seed: int) -> None:
    walked(owned, copied, seed)


def test_states_of_several_threads(copied: Any, owned: Any) -> None:
    in_threads(lambda seed, steps: walked(owned, copied, seed, steps))


def test_saved_programs_extend_caches(owned: Any, copied: Any, tmp_path: Any) -> None:
    owned.save(tmp_path / "step.so")
    state, copies = tvm_disc.load(tmp_path / "step.so").state(), copies_of(copied)
    for count in (3, 1):
        given = rows(count)
        np.testing.assert_allclose(state(*given), copies(*given), rtol=1e-6, atol=1e-6)
    same(state, copies)


def test_each_operator_alone(copied: Any) -> None:
    exe = build(decoder(), ["past_*"], fuse=False)
    state, copies = exe.state(), copies_of(copied)
    for count in (4, 1, 2):
        given = rows(count)
        np.testing.assert_allclose(state(*given), copies(*given), rtol=1e-5, atol=1e-5)
    same(state, copies)


FORMS: dict[str, tuple[int, Callable[..., Any]]] = {
    "read before": (0, lambda past, now: relay.sum(past, axis=[0])),
    "read after": (1, lambda past, now: relay.max(now, axis=[1])),
    "both": (1, lambda past, now: relay.sum(past) + relay.sum(now)),
    "not read": (1, lambda past, now: relay.const(np.float32(1))),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int8"])
def test_other_caches(form: str, dtype: str) -> None:
    """Any axis and type; reads of the rows before and after a call, or none."""
    axis, result = FORMS[form]
    shape = [4, 4]
    shape[axis] = relay.Any()
    x, past = (relay.var(n, shape=shape, dtype=dtype) for n in ("x", "past"))
    now = relay.concatenate([past, relay.add(x, x)], axis=axis)
    if form == "not read":
        value = relay.add(x, x)
    else:
        value = result(relay.cast(past, "float32"), relay.cast(now, "float32"))
    exe = build(relay.Function([x, past], relay.Tuple([value, now])), ["past"])
    plain = build(relay.Function([x, past], relay.Tuple([value, now])))
    kind = numpy_dtype(dtype)
    state, cache = exe.state(), np.zeros([0 if k == axis else 4 for k in range(2)], kind)
    for count in (2, 1, 3, 20):
        one = RNG.integers(-9, 9, [count if k == axis else 4 for k in range(2)]).astype(kind)
        want, cache = plain(one, cache)
        found, want = (np.asarray(v).astype("float32") for v in (state(one), want))
        np.testing.assert_allclose(found, want, rtol=1e-3)
        np.testing.assert_array_equal(state.cache("past"), cache)


def test_names_that_are_no_identifiers() -> None:
    """Capacities have the names of caches, as identifiers that differ."""
    x, one, two = (relay.var(n, shape=(relay.Any(), 4)) for n in ("x", "past.0", "past_0"))
    grown = [relay.concatenate([p, x], axis=0) for p in (one, two)]
    total = relay.add(*(relay.sum(g) for g in grown))
    exe = build(relay.Function([x, one, two], relay.Tuple([total, *grown])), ["past*"])
    state = exe.state()
    for count in (2, 17):
        state(np.ones((count, 4), "float32"))
    assert state.cache("past.0").shape == state.cache("past_0").shape == (19, 4)


@pytest.mark.parametrize(
    "results",
    [
        lambda x: [relay.sum(x), relay.const(np.float32(7))],
        lambda x: [relay.Tuple([relay.sum(x), relay.max(x)])],
        lambda x: [relay.Tuple([relay.sum(x), relay.Tuple([x])]), x],
        lambda x: [x],
        lambda x: [],
    ],
)
def test_results_beside_the_cache(results: Callable[..., Any]) -> None:
    """Literals, inputs and nested tuples are returned as they are without state."""
    x, past = (relay.var(n, shape=(relay.Any(), 4)) for n in ("x", "past"))
    now = relay.concatenate([past, x], axis=0)
    func = relay.Function([x, past], relay.Tuple([*results(x), now]))
    one = RNG.standard_normal((2, 4)).astype("float32")
    state = build(func, ["past"]).state()
    *want, cache = build(func)(one, one[:0])
    found = state(one)
    found = [found] if len(want) == 1 else found
    assert len(found) == len(want)
    for a, b in zip(found, want, strict=True):
        leaves_same(a, b)
    np.testing.assert_array_equal(state.cache("past"), cache)


def leaves_same(found: Any, want: Any) -> None:
    if isinstance(want, list | tuple):
        assert len(found) == len(want)
        for a, b in zip(found, want, strict=True):
            leaves_same(a, b)
    else:
        np.testing.assert_array_equal(found, want)


def test_caches_of_different_lengths() -> None:
    """Each length is an input of its own, and each cache grows by its own number of rows."""
    shape = (relay.Any(), 4)
    x, y, a, b = (relay.var(n, shape=shape) for n in "xyab")
    grown = [relay.concatenate(p, axis=0) for p in ([a, x], [b, y])]
    total = relay.add(*(relay.sum(g, axis=[0]) for g in grown))
    exe = build(relay.Function([x, y, a, b], relay.Tuple([total, *grown])), ["a", "b"])
    state = exe.state()
    kept: list[list[Array]] = [[], []]
    for counts in ((1, 2), (3, 0), (0, 5)):
        given = [RNG.standard_normal((c, 4)).astype("float32") for c in counts]
        for have, more in zip(kept, given, strict=True):
            have.append(more)
        want = sum(np.concatenate(have).sum(0) for have in kept)
        np.testing.assert_allclose(state(*given), want, rtol=1e-4, atol=1e-5)
    assert state.length == 7
    for name, have in zip("ab", kept, strict=True):
        np.testing.assert_array_equal(state.cache(name), np.concatenate(have))


def test_a_call_that_fails_changes_nothing(copied: Any, owned: Any) -> None:
    state, copies = owned.state(), copies_of(copied)
    given = rows(3)
    state(*given), copies(*given)
    with pytest.raises(BadInput):
        state(given[0], given[1], given[2].astype("float64"))
    with pytest.raises(BadInput, match="missing input v; expected q, k, v"):
        state(*given[:2])
    with pytest.raises((BadInput, GuardFailed)):
        state(given[0], given[1], rows(4)[2])
    same(state, copies)
    np.testing.assert_allclose(state(*given), copies(*given), rtol=1e-6, atol=1e-6)


def test_a_buffer_that_is_too_small(owned: Any) -> None:
    """A call without a state passes buffers itself; they are never overrun."""
    q, k, v = rows(3)
    buffers = [np.zeros((1, HEADS, 4, DEPTH), "float32") for _ in range(2)]
    with pytest.raises(GuardFailed, match="the capacity of 'past_k' is too small"):
        owned(q, k, v, *buffers, *[np.zeros(2, "int8")] * 2)
    assert not buffers[0].any() and not buffers[1].any()


def test_a_length_beyond_the_capacity() -> None:
    """A kernel that reads the cache before it is extended must not read past the buffer."""
    x, past = (relay.var(n, shape=(relay.Any(), 4)) for n in ("x", "past"))
    now = relay.concatenate([past, x], axis=0)
    exe = build(relay.Function([x, past], relay.Tuple([relay.sum(past, axis=[0]), now])), ["past"])
    one, buffer = np.ones((1, 4), "float32"), np.ones((4, 4), "float32")
    np.testing.assert_array_equal(exe(one, buffer, np.zeros(3, "int8")), [3, 3, 3, 3])
    for length in (4, 5, 1 << 20):
        with pytest.raises(GuardFailed, match="capacity"):
            exe(one, buffer, np.zeros(length, "int8"))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (["nothing*"], "state: no input matches 'nothing*'; the inputs are ['q', 'k', 'v', "),
        (["q"], "state: input 'q' is not a cache: expected a result that is the concatenation"),
        (["past_k", "v"], "state: input 'v' is not a cache"),
    ],
)
def test_inputs_that_are_no_caches(state: list[str], message: str) -> None:
    with pytest.raises(BadOption) as failed:
        build(decoder(), state)
    assert str(failed.value).startswith(message)


def test_a_gpu_has_no_state() -> None:
    options = tvm_disc.Options(state=["past_*"])
    with pytest.raises(BadOption, match="state: expected a CPU target, found a GPU"):
        tvm_disc.build(decoder(), target="cuda", options=options)


@pytest.mark.parametrize("state", ["past_*", [1], 3])
def test_names_of_caches(state: Any) -> None:
    with pytest.raises(BadOption, match="state: expected a list of input names, found "):
        tvm_disc.Options(state=state)


def test_types_of_caches_that_are_refused() -> None:
    with pytest.raises(BadOption) as failed:
        tvm_disc.Options(state=["past_*"], state_dtype="int4")
    expected = "state_dtype: expected 'float16', 'bfloat16', 'int8' or None, found 'int4'"
    assert str(failed.value) == expected
    with pytest.raises(BadOption) as failed:
        build(decoder(), [], state_dtype="float16")
    assert str(failed.value) == "state_dtype: expected names of caches in state, found none"


def test_states_that_are_refused(copied: Any, owned: Any) -> None:
    with pytest.raises(BadInput, match=r"build it with Options\(state=\[...\]\)"):
        copied.state()
    with pytest.raises(BadInput, match="capacity"):
        owned.state(capacity=-1)
    with pytest.raises(BadInput, match=r"rows: expected 0 .. 0, found 1"):
        owned.state().truncate(1)
    with pytest.raises(BadInput, match="name: expected one of "):
        owned.state().cache("q")
    exe = build(decoder(relay.Any()), ["past_*"])
    with pytest.raises(BadInput, match="whose size is not known: pass it by name"):
        exe.state()
