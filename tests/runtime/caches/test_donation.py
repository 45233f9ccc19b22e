"""Donated inputs: results that take their memory equal those of programs that copy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import Options, relay
from tvm_disc.errors import BadInput, BadOption

RNG = np.random.default_rng(0)
SLOTS = 37
Array = np.ndarray[Any, Any]


def build(function: Any, donate: Sequence[str | int] = (), **more: Any) -> Any:
    return tvm_disc.build(function, options=Options(donate=donate, **more))


def scatters(how: str = "update", slots: Any = SLOTS, dtype: str = "float32") -> relay.Function:
    """A cache that is updated at positions, and the sum of it."""
    past = relay.var("past", shape=(2, slots, 3), dtype=dtype)
    at = relay.var("at", shape=(2, relay.Any(), 3), dtype="int64")
    new = relay.var("new", shape=(2, relay.Any(), 3), dtype=dtype)
    now = relay.scatter_elements(past, at, new, axis=1, reduction=how)
    return relay.Function([past, at, new], relay.Tuple([now, relay.sum(now)]))


def given(count: int, slots: int = SLOTS, dtype: str = "float32") -> list[Array]:
    """A cache, positions, of which some are outside, and new elements."""
    past, new = (RNG.integers(-9, 9, (2, n, 3)).astype(dtype) for n in (slots, count))
    return [past, RNG.integers(-2 * slots, 2 * slots + 1, (2, count, 3)), new]


def products() -> relay.Function:
    """A result that may have the memory of ``x``: nothing reads ``x`` when it is written."""
    n = relay.Any()
    x, w = relay.var("x", shape=(n, 8)), relay.var("w", shape=(8, 8))
    y = relay.nn.dense(relay.nn.relu(relay.nn.dense(x, w)), w)
    return relay.Function([x, w], y)


def product(x: Array, w: Array) -> Array:
    return np.maximum(x @ w.T, 0) @ w.T


@pytest.mark.parametrize("how", ["update", "add", "mul", "min", "max"])
@pytest.mark.parametrize("slots", [SLOTS, relay.Any()], ids=["static", "dynamic"])
def test_a_scatter_writes_into_its_input(how: str, slots: Any) -> None:
    plain, donating = build(scatters(how, slots)), build(scatters(how, slots), ["past"])
    assert donating.donated == {0: 0}
    for count in (1, 0, 7, 31, 64):
        for size in (SLOTS,) if slots == SLOTS else (0, 1, 64):
            past, at, new = given(count, size)
            wanted = plain(past.copy(), at, new)
            now, total = donating(past, at, new)
            np.testing.assert_array_equal(now, wanted[0])
            np.testing.assert_array_equal(total, wanted[1])
            np.testing.assert_array_equal(now, past)
            assert np.shares_memory(now, past) == (past.size > 0)


@pytest.mark.parametrize("dtype", ["float16", "int8", "int64", "bool"])
def test_element_types(dtype: str) -> None:
    plain, donating = build(scatters(dtype=dtype)), build(scatters(dtype=dtype), ["past"])
    past, at, new = given(5, dtype=dtype)
    np.testing.assert_array_equal(plain(past.copy(), at, new)[0], donating(past, at, new)[0])


def test_bfloat16() -> None:
    import ml_dtypes

    donating = build(scatters(dtype="bfloat16"), ["past"])
    past, at, new = given(5, dtype="float32")
    wanted = build(scatters())(past.copy(), at, new)[0]
    narrow = [a.astype(ml_dtypes.bfloat16) for a in (past, new)]
    now = donating(narrow[0], at, narrow[1])[0]
    np.testing.assert_array_equal(now.astype("float32"), wanted)
    assert np.shares_memory(now, narrow[0])


def test_a_result_takes_the_memory_of_an_input_that_is_read_before() -> None:
    donating = build(products(), ["x"])
    assert "x: result 0" in donating.explain()
    w = RNG.standard_normal((8, 8)).astype("float32")
    for rows in (1, 0, 3, 16, 257):
        x = RNG.standard_normal((rows, 8)).astype("float32")
        wanted = product(x, w)
        y = donating(x, w)
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)
        assert np.shares_memory(y, x) == (rows > 0)


def test_shapes_that_are_equal_in_some_calls_only() -> None:
    x, w = relay.var("x", shape=(relay.Any(), 8)), relay.var("w", shape=(relay.Any(), 8))
    donating = build(relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w))), [0])
    # The product reads x while it writes its result.
    assert donating.donated == {}
    u = relay.var("u", shape=(relay.Any(), relay.Any()))
    z = relay.nn.dense(relay.nn.relu(relay.nn.dense(x, w)), u)
    donating = build(relay.Function([x, w, u], z), ["x"])
    assert donating.donated == {0: 0}
    for rows, inner, columns in [(3, 5, 8), (3, 5, 4), (1, 8, 8), (4, 1, 9), (2, 7, 0)]:
        shapes = (rows, 8), (inner, 8), (columns, inner)
        a, b, c = (RNG.standard_normal(s).astype("float32") for s in shapes)
        wanted = np.maximum(a @ b.T, 0) @ c.T
        y = donating(a, b, c)
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)
        assert np.shares_memory(y, a) == (columns == 8)


def test_two_inputs_take_two_results() -> None:
    n = relay.Any()
    x, y, w = (relay.var(v, shape=(n if v != "w" else 8, 8)) for v in "xyw")
    inner = [relay.nn.relu(relay.nn.dense(v, w)) for v in (x, y)]
    both = [relay.nn.dense(v, w) for v in inner]
    donating = build(relay.Function([x, y, w], relay.Tuple(both)), ["[xy]"], versions=False)
    weights = RNG.standard_normal((8, 8)).astype("float32")
    for rows in (1, 5, 64):
        a, b = (RNG.standard_normal((rows, 8)).astype("float32") for _ in range(2))
        wanted = product(a, weights), product(b, weights)
        found = donating(a, b, weights)
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
        assert not np.shares_memory(*found)


def test_one_array_for_two_inputs() -> None:
    past, at, other = (
        relay.var("past", shape=(4, 3)),
        relay.var("at", shape=(relay.Any(), 3), dtype="int64"),
        relay.var("other", shape=(4, 3)),
    )
    new = relay.var("new", shape=(relay.Any(), 3))
    now = relay.scatter_elements(past, at, new, axis=0)
    function = relay.Function([past, at, new, other], relay.Tuple([now, now * other]))
    donating = build(function, ["past"])
    a, b = (RNG.standard_normal((4, 3)).astype("float32") for _ in range(2))
    places, rows = np.array([[1, 2, 3]]), np.ones((1, 3), "float32")
    wanted = build(function)(a.copy(), places, rows, b)
    for got, want in zip(donating(a.copy(), places, rows, b), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    kept = a.copy()
    with pytest.raises(BadInput, match="shares memory with input 'other', which is still needed"):
        donating(a, places, rows, a)
    np.testing.assert_array_equal(a, kept)


def test_results_into_given_memory() -> None:
    donating = build(scatters(), ["past"])
    past, at, new = given(4)
    wanted = build(scatters())(past.copy(), at, new)
    total, other = np.empty((), "float32"), np.empty_like(past)
    kept = past.copy()
    donating(past, at, new, out=(other, total))
    np.testing.assert_array_equal(other, wanted[0])
    np.testing.assert_array_equal(past, kept)
    donating(past, at, new, out=(past, total))
    np.testing.assert_array_equal(past, wanted[0])
    np.testing.assert_array_equal(total, wanted[1])
    line = np.zeros(past.size + 3, "float32")
    shifted = line[3:].reshape(past.shape)
    with pytest.raises(BadInput, match="output 0: shares memory with input 'past'"):
        donating(line[: past.size].reshape(past.shape), at, new, out=(shifted, total))


def test_arrays_that_are_converted_are_not_changed() -> None:
    donating = build(scatters(), ["past"])
    past, at, new = given(4)
    wanted = build(scatters())(past, at, new)[0]
    turned = np.asfortranarray(past)
    np.testing.assert_array_equal(donating(turned, at, new)[0], wanted)
    np.testing.assert_array_equal(turned, past)


def test_bound_and_profiled_calls_keep_their_arguments() -> None:
    function = scatters("add")
    donating = build(function, ["past"])
    past, at, new = given(4)
    kept = past.copy()
    donating.profile(past, at, new, repeat=3)
    np.testing.assert_array_equal(past, kept)
    assert donating.verify(past, at, new, source=function)
    np.testing.assert_array_equal(past, kept)
    call = donating.bind(past, at, new)  # calls once, and then adds to its copy
    plain = build(scatters("add"))
    wanted = plain(plain(past, at, new)[0], at, new)[0]
    np.testing.assert_array_equal(call()[0].numpy(), wanted)
    np.testing.assert_array_equal(past, kept)


def test_a_saved_program(tmp_path: Path) -> None:
    donating = build(scatters(), ["past"])
    donating.save(tmp_path / "donating.so")
    loaded = tvm_disc.load(tmp_path / "donating.so")
    assert loaded.donated == {0: 0}
    past, at, new = given(4)
    wanted = build(scatters())(past.copy(), at, new)[0]
    now = loaded(past, at, new)[0]
    np.testing.assert_array_equal(now, wanted)
    assert np.shares_memory(now, past)


def test_random_calls_equal_copies() -> None:
    plain, donating = build(scatters("add")), build(scatters("add"), ["past"])
    cache = copied = given(0)[0]
    cache = cache.copy()
    for _ in range(200):
        _, at, new = given(int(RNG.integers(0, 9)))
        copied = plain(copied, at, new)[0]
        cache = donating(cache, at, new)[0]
        np.testing.assert_array_equal(cache, copied)


def test_why_a_result_takes_no_memory() -> None:
    x, y = relay.var("x", shape=(relay.Any(), 4)), relay.var("y", shape=(3,))
    text = build(relay.Function([x, y], relay.exp(x)), ["*"]).explain()
    assert "x: none, because it is read while, or after, a result of its shape is written" in text
    assert (
        "y: none, because no result that is still free has its dtype and a shape that may be equal"
        in text
    )


@pytest.mark.parametrize(
    ("donate", "message"),
    [
        (["pasd"], "donate: no input matches 'pasd'; the inputs are ['past', 'at', 'new']"),
        ([3], "donate: no input matches 3; the inputs are ['past', 'at', 'new']"),
        ([-1], "donate: no input matches -1"),
        ("past", "donate: expected a list of input names or positions, found 'past'"),
        ([True], "donate: expected a list of input names or positions, found [True]"),
        ([1.5], "donate: expected a list of input names or positions, found [1.5]"),
    ],
)
def test_options_that_are_refused(donate: Any, message: str) -> None:
    with pytest.raises(BadOption) as refused:
        build(scatters(), donate)
    assert str(refused.value).startswith(message)


def test_a_cache_of_state_is_no_donated_input() -> None:
    with pytest.raises(
        BadOption, match="donate: input 'past' is a cache listed in state; leave it out"
    ):
        build(scatters(), ["past"], state=["past"])


def test_a_read_only_array_is_copied() -> None:
    donating = build(scatters(), ["past"])
    past, at, new = given(2)
    kept = past.copy()
    past.flags.writeable = False
    now = donating(past, at, new)[0]
    np.testing.assert_array_equal(now, build(scatters())(kept, at, new)[0])
    np.testing.assert_array_equal(past, kept)


@pytest.mark.parametrize("shape", [(2, -1, 3), (-1,), (1, 2, -1, 3)], ids=str)
def test_a_view_that_is_returned_before_the_updated_input(shape: tuple[int, ...]) -> None:
    past, at, new = scatters().params
    now = relay.scatter_elements(past, at, new, axis=1)
    both = relay.Tuple([relay.reshape(relay.exp(now) if shape[0] == 2 else now, shape), now])
    function = relay.Function([past, at, new], both)
    donating = build(function, ["past"])
    assert donating.donated == {0: 1}
    arrays = given(4)
    wanted = build(function)(arrays[0].copy(), *arrays[1:])
    found = donating(*arrays)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want, strict=True)
    assert np.shares_memory(found[1], arrays[0])


def test_a_flat_view_that_is_updated_and_returned() -> None:
    past = relay.var("past", shape=(4, 3))
    at, new = relay.var("at", shape=(2,), dtype="int64"), relay.var("new", shape=(2,))
    flat = relay.scatter_elements(relay.reshape(past, (-1,)), at, new, axis=0)
    function = relay.Function([past, at, new], relay.Tuple([flat, relay.reshape(flat, (4, 3))]))
    arrays = [np.zeros((4, 3), "float32"), np.array([1, 7]), np.ones(2, "float32")]
    wanted = build(function)(arrays[0].copy(), *arrays[1:])
    found = build(function, ["past"])(*arrays)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want, strict=True)


def test_a_result_does_not_keep_all_earlier_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a limit, releasing the last of many results overflows the stack."""
    from tvm_disc.runtime import donation

    monkeypatch.setattr(donation, "MOST_KEPT", 10)
    donating = build(scatters("add"), ["past"])
    cache, (_, at, new) = np.zeros((2, SLOTS, 3), "float32"), given(1)
    at[:], new[:] = 0, 1
    kept = []
    for k in range(1, 50):
        cache = donating(cache, at, new)[0]
        kept.append(cache.ctypes.data)
        assert cache[0, 0, 0] == k and not cache[:, 1:].any()
    assert len(set(kept)) > 1  # copied


def test_an_update_that_is_part_of_a_list() -> None:
    function = relay.parse("""#[version = "0.0.5"]
    type List[A] { Cons(A, List[A]), Nil, }
    def @main(%x: Tensor[(4, 3), float32], %at: Tensor[(2, 3), int64],
              %n: Tensor[(2, 3), float32]) {
      let %s = scatter_elements(%x, %at, %n, axis=0, reduction="add");
      (%s, Cons(%s, Nil))
    }""")
    x, new = (RNG.random((k, 3), dtype="float32") for k in (4, 2))
    at = np.array([[0, 1, 2], [3, 1, 0]])
    wanted = x.copy()
    np.add.at(wanted, (at, np.arange(3)[None]), new)
    found, listed = build(function, ["x"])(x, at, new)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_allclose(listed.fields[0], wanted, rtol=1e-6)
