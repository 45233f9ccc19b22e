"""Caches of a fixed size that programs update in place, beside copies."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.runtime.caches.walks import SEEDS, STEPS, in_threads, walk
from tvm_disc import relay
from tvm_disc.errors import BadInput, BadOption, GuardFailed
from tvm_disc.runtime.arrays import numpy_dtype
from tvm_disc.runtime.state import _Buffers

RNG = np.random.default_rng(0)
HEADS, DEPTH, SLOTS = 2, 16, 37
NEW_AND_AT = (("new", "float32"), ("at", "int64"))
Array = np.ndarray[Any, Any]


def build(function: Any, state: Sequence[str] = (), **more: Any) -> Any:
    return tvm_disc.build(function, options=tvm_disc.Options(state=state, **more))


def rows(batch: Any = 1, slots: Any = SLOTS, how: str = "update") -> relay.Function:
    """A cache of rows that are written at positions, and what attention reads of it."""
    q, new = (relay.var(n, shape=(batch, relay.Any(), DEPTH)) for n in ("q", "new"))
    at = relay.var("at", shape=(batch, relay.Any(), DEPTH), dtype="int64")
    past = relay.var("past", shape=(batch, slots, DEPTH))
    now = relay.scatter_elements(past, at, new, axis=1, reduction=how)
    scores = relay.nn.softmax(relay.nn.batch_matmul(q, now, transpose_b=True))
    mixed = relay.nn.batch_matmul(scores, now, transpose_b=False)
    return relay.Function([q, new, at, past], relay.Tuple([mixed, now]))


def scattered(cache: Array, at: Array, new: Array, how: str = "update") -> Array:
    """The rows of one axis after a scatter, in order; positions outside are dropped."""
    cache, slots = cache.copy(), cache.shape[1]
    for place in np.ndindex(*at.shape):
        row = int(at[place])
        row = row + slots if row < 0 else row
        if 0 <= row < slots:
            target = (place[0], row, *place[2:])
            old, value = cache[target], new[place]
            combined = {
                "update": value,
                "add": old + value,
                "mul": old * value,
                "min": min(old, value),
                "max": max(old, value),
            }
            cache[target] = combined[how]
    return cache


def given(batch: int, count: int, slots: int = SLOTS, outside: bool = False) -> list[Array]:
    q, new = (RNG.standard_normal((batch, count, DEPTH)).astype("float32") for _ in range(2))
    low, high = (-2 * slots, 2 * slots + 1) if outside else (0, max(slots, 1))
    at = RNG.integers(low, high, (batch, count, DEPTH))
    return [q, new, at]


@pytest.fixture(scope="module")
def copied() -> Any:
    return build(rows())


@pytest.fixture(scope="module")
def owned() -> Any:
    return build(rows(), ["past"])


class Copies:
    """The same cache, copied by every call."""

    def __init__(self, exe: Any, batch: int = 1, slots: int = SLOTS) -> None:
        self.exe, self.cache = exe, np.zeros((batch, slots, DEPTH), "float32")

    def __call__(self, *args: Array) -> Array:
        result, self.cache = self.exe(*args, self.cache)
        return result

    def truncate(self, count: int) -> None:
        assert count == 0
        self.cache = np.zeros_like(self.cache)

    def fork(self) -> Copies:
        made = Copies(self.exe)
        made.cache = self.cache
        return made


def same(state: Any, copies: Copies) -> None:
    np.testing.assert_array_equal(state.cache("past"), copies.cache)


def test_rows_of_every_number(copied: Any, owned: Any) -> None:
    assert owned.inputs == ["q", "new", "at", "past"]
    assert len(owned.results) == 1
    state, copies = owned.state(), Copies(copied)
    want = np.zeros((1, SLOTS, DEPTH), "float32")
    for count in (5, 1, 1, 0, 7, 31, 1, 64, 500):
        args = given(1, count, outside=count % 2 == 0)
        want = scattered(want, args[2], args[1])
        np.testing.assert_allclose(state(*args), copies(*args), rtol=1e-6, atol=1e-6)
        same(state, copies)
        np.testing.assert_array_equal(state.cache("past"), want)
    assert state.length == state.capacity == 0
    assert repr(state) == "<tvm_disc state of 1 caches, 0 rows>"


def test_nothing_is_copied(copied: Any, owned: Any) -> None:
    assert any("scatter" in name for name in copied.launches)
    assert not any("scatter" in name for name in owned.launches)
    assert sum("update" in name for name in owned.launches) == 1
    calls = [c for c in owned._manifest["calls"] if c["kind"] == "opaque"]
    assert [c["bytes"] for c in calls] == ["new_1 * 256"]  # 64 of the rows, twice, and 128 of at


@pytest.mark.parametrize("slots", [0, 1, 13, 4096])
@pytest.mark.parametrize("batch", [0, 1, 3])
def test_sizes_of_caches(batch: int, slots: int, any_size: tuple[Any, Any]) -> None:
    exe, plain = any_size
    names = next(dims for name, dims, _ in exe.signature if name == "past")[:2]
    state = exe.state(**dict(zip(names, (batch, slots), strict=True)))
    copies = Copies(plain, batch, slots)
    for count in (2, 1, 9):
        args = given(batch, count, slots, outside=True)
        np.testing.assert_allclose(state(*args), copies(*args), rtol=1e-5, atol=1e-5)
        same(state, copies)


@pytest.fixture(scope="module")
def any_size() -> tuple[Any, Any]:
    func = rows(relay.Any(), relay.Any())
    return build(func, ["past"]), build(func)


def walked(owned: Any, copied: Any, seed: int, steps: int = STEPS) -> None:
    """Walk over states, with positions in and out of range."""
    rng = np.random.default_rng(seed)

    def call(draw: random.Random, state: Any, copies: Copies) -> None:
        count = draw.choice((0, 1, 1, 2, 17))
        q, new = (rng.standard_normal((1, count, DEPTH)).astype("float32") for _ in "qn")
        args = [q, new, rng.integers(-50, 50, (1, count, DEPTH))]
        np.testing.assert_allclose(state(*args), copies(*args), rtol=1e-5, atol=1e-5)
        if draw.random() < 0.1:
            state.truncate(0)  # leaves caches of a fixed size

    walk(lambda draw: (owned.state(), Copies(copied)), call, same, seed, steps, cut=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_sequences(copied: Any, owned: Any, seed: int) -> None:
    walked(owned, copied, seed)


def test_states_of_several_threads(copied: Any, owned: Any) -> None:
    in_threads(lambda seed, steps: walked(owned, copied, seed, steps))


def test_forks_of_several_threads(copied: Any, owned: Any) -> None:
    """All forks write at once; each copies the elements of before."""
    state, copies = owned.state(), Copies(copied)
    args = given(1, 30)
    state(*args), copies(*args)
    pairs = [(state.fork(), copies.fork()) for _ in range(8)]
    more = [given(1, 20) for _ in pairs]

    def step(number: int) -> None:
        one, other = pairs[number]
        for _ in range(5):
            one(*more[number]), other(*more[number])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(step, range(8)))
    for one, other in pairs:
        same(one, other)
    same(state, copies)


def test_a_share_is_given_up_after_it_was_copied(monkeypatch: Any) -> None:
    """The other state, which owns the memory then, may write at once."""
    x, past = (relay.var(n, shape=(relay.Any(), 4)) for n in ("x", "past"))
    ring = relay.var("ring", shape=(8, 4))
    at = relay.var("at", shape=(1, relay.Any()), dtype="int64")
    grown = relay.concatenate([past, x], axis=0)
    results = [relay.sum(grown), grown, relay.scatter_nd(ring, at, x, "update")]
    exe = build(relay.Function([x, at, past, ring], relay.Tuple(results)), ["past", "ring"])
    leave = _Buffers.leave

    def overwritten(self: Any) -> bool:
        several = leave(self)
        for array in self.arrays.values():
            array.fill(9)
        return several

    state, ones = exe.state(), np.ones((2, 4), "float32")
    state(ones, np.array([[0, 5]]))
    fork = state.fork()
    monkeypatch.setattr(_Buffers, "leave", overwritten)
    fork(2 * ones, np.array([[5, 6]]))
    np.testing.assert_array_equal(fork.cache("past")[:, 0], [1, 1, 2, 2])
    np.testing.assert_array_equal(fork.cache("ring")[:, 0], [1, 0, 0, 0, 0, 2, 2, 0])
    assert (state.cache("ring") == 9).all()


@pytest.mark.parametrize("how", ["add", "mul", "min", "max"])
def test_reductions(how: str) -> None:
    exe = build(rows(how=how), ["past"])
    state, want = exe.state(), np.zeros((1, SLOTS, DEPTH), "float32")
    for count in (3, 1, 60):
        args = given(1, count, outside=True)
        state(*args)
        want = scattered(want, args[2], args[1], how)
        np.testing.assert_array_equal(state.cache("past"), want)


def slices(order: Sequence[int], depth: int, dtype: str = "float32") -> relay.Function:
    """A cache of three axes, of which ``scatter_nd`` writes slices in another order of axes."""
    dims = [5, 7, 4]
    past = relay.var("past", shape=dims, dtype=dtype)
    moved = [dims[a] for a in order]
    new = relay.var("new", shape=(relay.Any(), *moved[depth:]), dtype=dtype)
    at = relay.var("at", shape=(depth, relay.Any()), dtype="int64")
    plain = list(order) == [0, 1, 2]
    data = past if plain else relay.transpose(past, axes=order)
    now = relay.scatter_nd(data, at, new, "update")
    if not plain:
        now = relay.transpose(now, axes=[list(order).index(a) for a in range(3)])
    total = relay.sum(relay.cast(now, "float32"), axis=[0])
    return relay.Function([new, at, past], relay.Tuple([total, now]))


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1), (0, 2, 1), (2, 1, 0)])
def test_slices_in_every_order(order: tuple[int, ...], depth: int) -> None:
    exe, plain = build(slices(order, depth), ["past"]), build(slices(order, depth))
    assert sum("update" in name for name in exe.launches) == 1
    state, cache = exe.state(), np.zeros((5, 7, 4), "float32")
    moved = [(5, 7, 4)[a] for a in order]
    for count in (1, 0, 2, 13):
        new = RNG.standard_normal((count, *moved[depth:])).astype("float32")
        at = np.stack([RNG.integers(-9, 9, count) for _ in range(depth)]).astype("int64")
        want, cache = plain(new, at, cache)
        np.testing.assert_allclose(state(new, at), want, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(state.cache("past"), cache)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1)])
def test_elements_in_every_order(order: tuple[int, ...], axis: int) -> None:
    """Indices may be fewer than the elements of the other axes."""
    dims = (5, 7, 4)
    past = relay.var("past", shape=dims)
    new, at = (relay.var(n, shape=(3, relay.Any(), 4), dtype=t) for n, t in NEW_AND_AT)
    data = relay.transpose(past, axes=order)
    now = relay.scatter_elements(data, at, new, axis=axis, reduction="add")
    now = relay.transpose(now, axes=[order.index(a) for a in range(3)])
    func = relay.Function([new, at, past], relay.Tuple([relay.sum(now, axis=[2]), now]))
    exe, plain = build(func, ["past"]), build(func)
    assert sum("update" in name for name in exe.launches) == 1
    state, cache = exe.state(), np.zeros(dims, "float32")
    for count in (1, 0, 2, 4):
        one = RNG.integers(-9, 9, (3, count, 4)).astype("float32")
        places = RNG.integers(-9, 9, (3, count, 4))
        want, cache = plain(one, places, cache)
        np.testing.assert_array_equal(state(one, places), want)
        np.testing.assert_array_equal(state.cache("past"), cache)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "int8"])
def test_other_types(dtype: str) -> None:
    kind = numpy_dtype(dtype)
    exe = build(slices((1, 0, 2), 1, dtype), ["past"])
    state, want = exe.state(), np.zeros((5, 7, 4), kind)
    for count in (3, 8):
        new = RNG.integers(-9, 9, (count, 5, 4)).astype(kind)
        at = RNG.integers(0, 7, (1, count))
        state(new, at)
        for row, place in zip(new, at[0], strict=True):
            want[:, place] = row
        found = state.cache("past")
        assert found.dtype == kind
        np.testing.assert_array_equal(found, want)


def test_a_profile_keeps_the_caches(copied: Any) -> None:
    exe = build(rows(how="add"), ["past"])
    state = exe.state()
    args = given(1, 9)
    state(*args)
    before = state.cache("past")
    found = state.profile(*args, repeat=2)
    assert {line.kernel for line in found.lines()} == set(exe.kernels)
    np.testing.assert_array_equal(state.cache("past"), before)


def test_saved_programs_update_caches(owned: Any, copied: Any, tmp_path: Any) -> None:
    owned.save(tmp_path / "step.so")
    loaded = tvm_disc.load(tmp_path / "step.so")
    state, copies = loaded.state(), Copies(copied)
    for count in (3, 1):
        args = given(1, count)
        np.testing.assert_allclose(state(*args), copies(*args), rtol=1e-6, atol=1e-6)
    same(state, copies)
    with pytest.raises(BadInput, match=r"updates 'past' in place"):
        loaded(*given(1, 3), copies.cache)


def test_each_operator_alone(copied: Any) -> None:
    exe = build(rows(), ["past"], fuse=False)
    state, copies = exe.state(), Copies(copied)
    for count in (4, 1, 2):
        args = given(1, count)
        np.testing.assert_allclose(state(*args), copies(*args), rtol=1e-5, atol=1e-5)
    same(state, copies)


def test_both_kinds_of_caches() -> None:
    x, past = (relay.var(n, shape=(relay.Any(), 4)) for n in ("x", "past"))
    ring = relay.var("ring", shape=(8, 4))
    at = relay.var("at", shape=(1, relay.Any()), dtype="int64")
    grown = relay.concatenate([past, x], axis=0)
    now = relay.scatter_nd(ring, at, x, "update")
    total = relay.add(relay.sum(grown), relay.sum(now))
    func = relay.Function([x, at, past, ring], relay.Tuple([grown, total, now]))
    exe = build(func, ["past", "ring"], state_dtype="float16")
    state, want, every = exe.state(capacity=4), np.zeros((8, 4), "float32"), []
    for count in (2, 1, 9):
        new = RNG.integers(-9, 9, (count, 4)).astype("float32")
        places = np.arange(count) % 8
        every.append(new)
        for row, place in zip(new, places, strict=True):
            want[place] = row
        np.testing.assert_allclose(
            state(new, places[None]), np.concatenate(every).sum() + want.sum()
        )
        np.testing.assert_array_equal(state.cache("ring"), want)
        np.testing.assert_array_equal(state.cache("past"), np.concatenate(every))
    assert (state.length, state.cache("past").dtype, state.cache("ring").dtype) == (
        12,
        np.float16,
        np.float32,
    )
    state.truncate(3)
    np.testing.assert_array_equal(state.cache("ring"), want)
    fork = state.fork()
    state.reset()
    assert state.length == 0 and not state.cache("ring").any()
    np.testing.assert_array_equal(fork.cache("ring"), want)
    assert fork.length == 3


def test_results_that_are_views_of_the_cache() -> None:
    """They are copies: the next call does not change them."""
    new, past = relay.var("new", shape=(1, 4)), relay.var("past", shape=(6, 4))
    at = relay.var("at", shape=(1, 1), dtype="int64")
    now = relay.scatter_nd(past, at, new, "update")
    others = [relay.reshape(now, (2, 12)), relay.transpose(now, axes=[1, 0])]
    exe = build(relay.Function([new, at, past], relay.Tuple([*others, now])), ["past"])
    state, want = exe.state(), np.zeros((6, 4), "float32")
    results = []
    for place in (2, 5):
        one = RNG.standard_normal((1, 4)).astype("float32")
        want[place] = one
        results.append((want.copy(), state(one, np.array([[place]]))))
    for cache, (flat, turned) in results:
        np.testing.assert_array_equal(flat, cache.reshape(2, 12))
        np.testing.assert_array_equal(turned, cache.T)


def refusal(body: Callable[..., Any], state: Sequence[str] = ("past",), **more: Any) -> str:
    """The message for a function of an input ``past`` and new elements."""
    past, new = relay.var("past", shape=(6, 4)), relay.var("new", shape=(relay.Any(), 4))
    at = relay.var("at", shape=(1, relay.Any()), dtype="int64")
    results = body(past, at, new)
    with pytest.raises(BadOption) as failed:
        build(relay.Function([past, at, new], relay.Tuple(results)), state, **more)
    return str(failed.value)


def written(past: Any, at: Any, new: Any) -> Any:
    return relay.scatter_nd(past, at, new, "update")


OTHER_USES: dict[str, tuple[Callable[..., Any], str]] = {
    "read": (
        lambda past, at, new: [relay.sum(past), written(past, at, new)],
        "it is also read by operator 'sum'",
    ),
    "read through a view": (
        lambda past, at, new: [
            relay.sum(relay.reshape(past, (24,)), axis=[0]),
            written(past, at, new),
        ],
        "it is also read by operator 'reshape'",
    ),
    "returned": (
        lambda past, at, new: [past, written(past, at, new)],
        "the model also returns it unchanged",
    ),
    "scattered twice": (
        lambda past, at, new: [written(past, at, new), written(past, at, relay.nn.relu(new))],
        "it is also read by operator 'scatter_nd'",
    ),
    "its own updates": (
        lambda past, at, new: [
            new,
            relay.scatter_elements(past, relay.const(np.zeros((6, 4), "int64")), past, axis=0),
        ],
        "it is read twice by operator 'scatter_elements'",
    ),
    "returned twice": (
        lambda past, at, new: [*[written(past, at, new)] * 2],
        "results 0 and 1 are both the updated cache",
    ),
    "not returned": (
        lambda past, at, new: [relay.sum(written(past, at, new)), new],
        "the model does not return the updated input in the layout of the input",
    ),
    "returned in another order": (
        lambda past, at, new: [relay.transpose(written(past, at, new)), new],
        "the model does not return the updated input in the layout of the input",
    ),
    "changed again": (
        lambda past, at, new: [relay.nn.relu(written(past, at, new)), new],
        "the model does not return the updated input in the layout of the input",
    ),
}


@pytest.mark.parametrize("form", OTHER_USES)
def test_other_uses_are_refused(form: str) -> None:
    body, reason = OTHER_USES[form]
    start = "state: input 'past' cannot be updated in place by the scatter that reads it: "
    assert refusal(body) == start + reason


def test_inputs_that_are_no_caches() -> None:
    message = "state: input 'new' is not a cache: expected a result that is the concatenation of"
    plain = refusal(lambda *given: [given[2], written(*given)], ["new"])
    assert plain.startswith(message) and plain.endswith("a scatter of new elements into this input")
    plain = refusal(lambda past, at, new: [written(relay.nn.relu(past), at, new)])
    assert plain.startswith("state: input 'past' is not a cache")


def test_options_of_growing_caches_alone_are_refused() -> None:
    def body(*given: Any) -> list[Any]:
        return [given[2], written(*given)]

    for name, value in (("state_dtype", "float16"), ("state_window", 4)):
        message = f"{name}: expected growing caches in state, found only caches of fixed size"
        assert refusal(body, **{name: value}) == message


def test_sums_of_bfloat16_are_refused() -> None:
    past, new = (relay.var(n, shape=(6, 4), dtype="bfloat16") for n in ("past", "new"))
    at = relay.var("at", shape=(1, 6), dtype="int64")
    func = relay.Function([past, new, at], relay.scatter_nd(past, at, new, "add"))
    with pytest.raises(BadOption, match="reduction 'add' would round a bfloat16 cache"):
        build(func, ["past"])


def test_direct_calls_are_refused(owned: Any) -> None:
    """Of any arrays: a list, or another type, would be copied, and the update be lost."""
    cache = np.zeros((1, SLOTS, DEPTH), "float32")
    expected = "this program updates 'past' in place and is called through a state: "
    calls: list[Callable[..., Any]] = [
        owned,
        owned.bind,
        owned.profile,
        owned.verify,
        lambda *args: owned(*args, out=np.zeros((1, 3, DEPTH), "float32")),
        lambda q, new, at, past: owned(q=q, new=new, at=at, past=past),
    ]
    for call in calls:
        for given_cache in (cache, cache.tolist()):
            with pytest.raises(BadInput) as failed:
                call(*given(1, 3), given_cache)
            assert str(failed.value) == expected + "state = exe.state(); state(...)"
    assert not cache.any()


def test_states_that_are_refused(owned: Any, any_size: tuple[Any, Any]) -> None:
    state = owned.state()
    with pytest.raises(BadInput, match="name: expected one of "):
        state.cache("q")
    with pytest.raises(BadInput, match=r"rows: expected 0 .. 0, found 1"):
        state.truncate(1)
    with pytest.raises(BadInput, match="missing input at; expected q, new, at"):
        state(*given(1, 3)[:2])
    with pytest.raises(BadInput, match="whose size is not known: pass it by name"):
        any_size[0].state()


def test_a_call_that_fails_changes_nothing(owned: Any, any_size: tuple[Any, Any]) -> None:
    state = owned.state()
    args = given(1, 3)
    state(*args)
    before = state.cache("past")
    q, new, at = given(1, 5)
    for wrong in ((q, new.astype("float64"), at), (q, new, at[:, :4]), (q[:, :, :8], new, at)):
        with pytest.raises((BadInput, GuardFailed)):
            state(*wrong)
    np.testing.assert_array_equal(state.cache("past"), before)
    exe = any_size[0]
    names = next(dims for name, dims, _ in exe.signature if name == "past")[:2]
    state = exe.state(**dict(zip(names, (1, 9), strict=True)))
    with pytest.raises((BadInput, GuardFailed)):
        state(*given(3, 2, 9))  # more rows than the cache has
    assert not state.cache("past").any()


def test_several_threads_update_one_cache() -> None:
    """Each task writes all rows of its part in order, so that the last one remains."""
    heads, slots, depth = 8, 4096, 64
    past = relay.var("past", shape=(heads, slots, depth))
    new = relay.var("new", shape=(relay.Any(), heads, depth))
    at = relay.var("at", shape=(1, relay.Any()), dtype="int64")
    moved = relay.scatter_nd(relay.transpose(past, axes=[1, 0, 2]), at, new, "update")
    now = relay.transpose(moved, axes=[1, 0, 2])
    results = relay.Tuple([relay.max(now, axis=[1]), now])
    exe = build(relay.Function([new, at, past], results), ["past"], threads=2)
    state, want = exe.state(), np.zeros((heads, slots, depth), "float32")
    for count in (3000, 1, 20000):
        rows_of = RNG.standard_normal((count, heads, depth)).astype("float32")
        places = RNG.integers(0, slots, count)
        for row, place in zip(rows_of, places, strict=True):
            want[:, place] = row
        np.testing.assert_array_equal(state(rows_of, places[None]), want.max(1))
        np.testing.assert_array_equal(state.cache("past"), want)
