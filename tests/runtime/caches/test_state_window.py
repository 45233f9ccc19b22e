"""Caches that keep their last rows, beside copies."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.runtime.caches.walks import SEEDS, STEPS, Copies, in_threads, same, walk
from tvm_disc import relay
from tvm_disc.errors import BadInput, BadOption
from tvm_disc.runtime.arrays import numpy_dtype

RNG = np.random.default_rng(0)
HEADS, DEPTH, WINDOW = 3, 16, 8
Array = np.ndarray[Any, Any]


def decoder(last: int | None = WINDOW, heads: int = HEADS) -> relay.Function:
    """Attention of new rows over a cache, of which the result has the last rows."""
    shape = (1, heads, relay.Any(), DEPTH)
    names = ("q", "k", "v", "past_k", "past_v")
    q, k, v, past_k, past_v = (relay.var(n, shape=shape) for n in names)
    keys = relay.concatenate([past_k, k], axis=2)
    values = relay.concatenate([past_v, v], axis=2)
    flat = [relay.reshape(x, (-3, -2)) for x in (q, keys, values)]
    scores = relay.nn.softmax(relay.nn.batch_matmul(flat[0], flat[1], transpose_b=True))
    mixed = relay.nn.batch_matmul(scores, flat[2], transpose_b=False)
    grown = [keys, values]
    if last is not None:
        grown = [
            relay.strided_slice(x, begin=[-last], end=[2**31 - 1], strides=[1], axes=[2])
            for x in grown
        ]
    return relay.Function([q, k, v, past_k, past_v], relay.Tuple([mixed, *grown]))


def build(function: Any, state: Any = (), **more: Any) -> Any:
    return tvm_disc.build(function, options=tvm_disc.Options(state=state, **more))


@pytest.fixture(scope="module")
def copied() -> Any:
    return build(decoder())


@pytest.fixture(scope="module")
def owned() -> Any:
    return build(decoder(), ["past_*"])


def rows(count: int, heads: int = HEADS) -> list[Array]:
    shape = (1, heads, count, DEPTH)
    return [RNG.standard_normal(shape).astype("float32") for _ in "qkv"]


def copies_of(exe: Any, heads: int = HEADS) -> Copies:
    return Copies.of(exe, 1, heads, DEPTH)


COUNTS = (5, 1, 0, 1, 7, 1, 1, 31, 1, 64, 1, 0, *[1] * 40, 900, 1, 3, 1)


def held(state: Any) -> int:
    """The bytes of the buffers of a state."""
    return sum(s._memory.nbytes for s in state._buffers.sliding.values())


@pytest.mark.parametrize("capacity", [0, 1, 8, 200])
def test_rows_of_every_number(copied: Any, owned: Any, capacity: int) -> None:
    state, copies = owned.state(capacity=capacity), copies_of(copied)
    for count in COUNTS:
        given = rows(count)
        np.testing.assert_allclose(state(*given), copies(*given), rtol=1e-5, atol=1e-5)
        same(state, copies)
        assert state.length <= WINDOW


def test_memory_does_not_grow(copied: Any, owned: Any) -> None:
    """Buffers have few rows more than a call needs, however many rows were appended."""
    state = owned.state()
    sizes = set()
    for _ in range(300):
        state(*rows(1))
        sizes.add(state.capacity)
    assert max(sizes) <= 4 * (WINDOW + 1)
    assert held(state) <= 2 * 4 * (HEADS + 1) * DEPTH * 4 * (WINDOW + 1)
    state(*rows(1000))
    assert state.capacity >= 1000
    for _ in range(3):
        state(*rows(1))
    assert state.capacity <= 4 * (WINDOW + 1)


def test_buffers_are_copied_once_in_many_steps(owned: Any) -> None:
    state, known = owned.state(), set()
    state(*rows(WINDOW))
    kept = []
    for _ in range(200):
        state(*rows(1))
        if id(state._buffers) not in known:
            known.add(id(state._buffers))
            kept.append(state._buffers)  # no other object may have its id
    assert len(known) <= 2 + 200 // state.capacity + 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_other_types(copied: Any, dtype: str) -> None:
    """Factors of int8 rows move with them."""
    state, copies = build(decoder(), ["past_*"], state_dtype=dtype).state(), copies_of(copied)

    def kept(x: Array) -> Array:
        if dtype != "int8":
            return x.astype(numpy_dtype(dtype)).astype("float32")
        factor = np.abs(x).max(-1, keepdims=True, initial=1e-30) / np.float32(127)
        return np.asarray(np.round(x / factor) * factor, "float32")

    for count in (5, 1, 7, 1, 1, 31, 1, *[1] * 40):
        q, k, v = rows(count)
        found, want = state(q, k, v), copies(q, kept(k), kept(v))
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
        for name, cache in zip(("past_k", "past_v"), copies.caches, strict=True):
            np.testing.assert_array_equal(state.cache(name).astype("float32"), cache)


def walked(owned: Any, copied: Any, seed: int, steps: int = STEPS) -> None:
    """Walk over states of any first capacity, in parts of several calls."""

    def begin(draw: random.Random) -> tuple[Any, Copies]:
        return owned.state(capacity=draw.choice((0, 1, 40))), copies_of(copied)

    def call(draw: random.Random, state: Any, copies: Copies) -> None:
        for _ in range(draw.choice((1, 1, 12))):
            given = rows(draw.choice((0, 1, 1, 2, 17)))
            np.testing.assert_allclose(state(*given), copies(*given), rtol=1e-5, atol=1e-5)

    walk(begin, call, same, seed, steps, cut=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_sequences(copied: Any, owned: Any, seed: int) -> None:
    walked(owned, copied, seed)


def test_states_of_several_threads(copied: Any, owned: Any) -> None:
    in_threads(lambda seed, steps: walked(owned, copied, seed, steps))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_any_axis(axis: int, dtype: str) -> None:
    """Axis 0, where nothing lies between the rows; and columns."""
    shape = [4, 4]
    shape[axis] = relay.Any()
    x, past = (relay.var(n, shape=shape, dtype=dtype) for n in ("x", "past"))
    now = relay.concatenate([past, x], axis=axis)
    last = relay.strided_slice(now, begin=[-3], end=[2**31 - 1], strides=[1], axes=[axis])
    func = relay.Function([x, past], relay.Tuple([relay.sum(relay.cast(now, "float32")), last]))
    plain, state = build(func), build(func, ["past"]).state()
    cache = np.zeros([0 if k == axis else 4 for k in range(2)], dtype)
    for count in (2, 1, 3, 0, 20, 1, 1, 1, 1, 1, 1, 1):
        one = RNG.integers(-9, 9, [count if k == axis else 4 for k in range(2)]).astype(dtype)
        want, cache = plain(one, cache)
        np.testing.assert_allclose(state(one), want, rtol=1e-5)
        np.testing.assert_array_equal(state.cache("past"), cache)


def test_a_cache_that_keeps_all_rows_beside_one_that_does_not() -> None:
    x, short, long = (relay.var(n, shape=(relay.Any(), 4)) for n in ("x", "short", "long"))
    grown = [relay.concatenate([p, x], axis=0) for p in (short, long)]
    last = relay.strided_slice(grown[0], begin=[-3], end=[2**31 - 1], strides=[1], axes=[0])
    total = relay.add(*(relay.sum(g) for g in grown))
    func = relay.Function([x, short, long], relay.Tuple([total, last, grown[1]]))
    plain, state = build(func), build(func, ["short", "long"]).state()
    caches = [np.zeros((0, 4), "float32")] * 2
    for count in (2, 1, 3, 20, 1, 1):
        one = RNG.standard_normal((count, 4)).astype("float32")
        want, *caches = plain(one, *caches)
        np.testing.assert_allclose(state(one), want, rtol=1e-4, atol=1e-5)
        for name, cache in zip(("short", "long"), caches, strict=True):
            np.testing.assert_array_equal(state.cache(name), cache)


def test_a_promised_window() -> None:
    """With ``state_window`` a call reads the rows that are kept, and the new ones."""
    exe = build(decoder(None), ["past_*"], state_window=WINDOW)
    state, copies = exe.state(), copies_of(build(decoder(None)))
    for count in (5, 1, 7, 1, 31, *[1] * 30):
        given = rows(count)
        np.testing.assert_allclose(state(*given), copies(*given), rtol=1e-5, atol=1e-5)
        copies.caches = [np.ascontiguousarray(c[:, :, -WINDOW:]) for c in copies.caches]
        same(state, copies)
    shorter = build(decoder(), ["past_*"], state_window=3).state()
    shorter(*rows(20))
    assert shorter.length == 3


def test_a_slice_in_onnx() -> None:
    """A Slice with a negative start."""
    onnx = pytest.importorskip("onnx")
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    ends = {"first": [-4], "end": [2**31 - 1], "axes": [1]}
    graph = onnx.helper.make_graph(
        [
            node("Concat", ["past", "x"], ["whole"], axis=1),
            node("ReduceSum", ["whole", "axes"], ["y"], keepdims=0),
            node("Slice", ["whole", "first", "end", "axes"], ["now"]),
        ],
        "g",
        [value(n, 1, [2, f"{n}_rows", 3]) for n in ("x", "past")],
        [value("y", 1, [2, 3]), value("now", 1, [2, "kept", 3])],
        [onnx.numpy_helper.from_array(np.array(v), n) for n, v in ends.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    state, cache = build(model, ["past"]).state(), np.zeros((2, 0, 3), "float32")
    for count in (3, 1, 9, *[1] * 20):
        one = RNG.standard_normal((2, count, 3)).astype("float32")
        whole = np.concatenate([cache, one], 1)
        np.testing.assert_allclose(state(one), whole.sum(1), rtol=1e-4, atol=1e-5)
        cache = whole[:, -4:]
        np.testing.assert_array_equal(state.cache("past"), cache)


def test_windows_of_grouped_queries_in_onnx() -> None:
    """Equal to a program that keeps all rows: ``local_window_size`` hides the older ones."""
    onnx = pytest.importorskip("onnx")
    value = onnx.helper.make_tensor_value_info
    names = ("q", "k", "v", "past_k", "past_v", "lens", "total")
    made = onnx.helper.make_node(
        "GroupQueryAttention", names, ["y", "now_k", "now_v"], domain="com.microsoft",
        num_heads=4, kv_num_heads=2, local_window_size=6,
    )  # fmt: skip
    graph = onnx.helper.make_graph(
        [made],
        "g",
        [
            value("q", 1, ["b", "n", 16]),
            *(value(n, 1, ["b", "n", 8]) for n in "kv"),
            *(value(f"past_{n}", 1, ["b", 2, "past", 4]) for n in "kv"),
            value("lens", 6, ["b"]),
            value("total", 6, []),
        ],
        [
            value("y", 1, ["b", "n", 16]),
            *(value(f"now_{n}", 1, ["b", 2, "whole", 4]) for n in "kv"),
        ],
    )
    versions = [onnx.helper.make_opsetid(*v) for v in (("", 18), ("com.microsoft", 1))]
    model = onnx.helper.make_model(graph, opset_imports=versions)
    whole = build(model, ["past_*"]).state(b=2)
    short = build(model, ["past_*"], state_window=6).state(b=2)
    for count in (3, 1, 9, 1, 30, *[1] * 20):
        given = [RNG.standard_normal((2, count, n)).astype("float32") for n in (16, 8, 8)]
        want, found = (
            state(*given, np.full(2, n - 1, "int32"), np.array(n, "int32"))
            for state in (whole, short)
            for n in (state.length + count,)
        )
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
    assert (whole.length, short.length) == (64, 6)


def test_saved_programs(owned: Any, copied: Any, tmp_path: Any) -> None:
    owned.save(tmp_path / "step.so")
    state, copies = tvm_disc.load(tmp_path / "step.so").state(), copies_of(copied)
    for count in (30, 1, 1):
        given = rows(count)
        np.testing.assert_allclose(state(*given), copies(*given), rtol=1e-5, atol=1e-5)
    same(state, copies)


def test_a_profile_keeps_the_caches(copied: Any, owned: Any) -> None:
    state, copies = owned.state(), copies_of(copied)
    for count in (3, 16, 1):
        given = rows(count)
        state.profile(*given, repeat=2)
        np.testing.assert_allclose(state(*given), copies(*given), rtol=1e-5, atol=1e-5)
        same(state, copies)


def test_a_call_that_fails_changes_nothing(copied: Any, owned: Any) -> None:
    state, copies = owned.state(), copies_of(copied)
    for _ in range(11):
        given = rows(1)
        state(*given), copies(*given)
        with pytest.raises(BadInput):
            state(given[0], given[1], given[2].astype("float64"))
        same(state, copies)


def test_rows_that_are_lost(owned: Any) -> None:
    """Fewer rows would need those that were dropped; a fork before keeps them."""
    state = owned.state()
    state(*rows(WINDOW))
    state.truncate(5)
    fork = state.fork()
    state(*rows(4))
    with pytest.raises(BadInput) as failed:
        state.truncate(3)
    assert str(failed.value) == (
        "rows: expected 0 or 8, found 3: a cache has dropped its first rows and "
        "cannot be shortened; call fork() before rows are dropped"
    )
    state.truncate(8)
    fork.truncate(3)
    assert (state.length, fork.length) == (8, 3)
    state.reset()
    state(*rows(4))
    state.truncate(2)
    assert state.length == 2


@pytest.mark.parametrize("begin", ["front", "stride", "gap"])
def test_slices_that_are_not_the_last_rows(begin: str) -> None:
    x, past = (relay.var(n, shape=(relay.Any(), 4)) for n in ("x", "past"))
    now = relay.concatenate([past, x], axis=0)
    first, end, step = {"front": (0, 8, 1), "stride": (-8, 2**31 - 1, 2), "gap": (-8, -1, 1)}[begin]
    last = relay.strided_slice(now, begin=[first], end=[end], strides=[step], axes=[0])
    with pytest.raises(BadOption) as failed:
        build(relay.Function([x, past], relay.Tuple([relay.sum(now), last])), ["past"])
    assert str(failed.value) == (
        "state: input 'past' is not a cache: expected a result that is the concatenation of this "
        "input and new rows, in this order, or its last rows, or a scatter of new elements into "
        "this input"
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"state_window": -1}, "state_window: expected at least 0, found -1"),
        ({"state_window": "8"}, "state_window: expected an integer, found '8'"),
        ({"state_window": 8}, "state_window: expected names of caches in state, found none"),
    ],
)
def test_windows_that_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(BadOption) as failed:
        build(decoder(), **more)
    assert str(failed.value) == message
