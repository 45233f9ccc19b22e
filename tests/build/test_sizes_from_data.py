"""Sizes that only the data knows: none is negative, none overflows, alone or with others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import GuardFailed

HUGE = 1 << 62
TWO_BY_THREE = np.ones((2, 3), "float32")


def one() -> Any:
    """The number one."""
    return relay.const(np.float32(1))


def first(s: Any) -> Any:
    """The first of several numbers."""
    return relay.take(s, relay.const(np.int64(0)), axis=0)


def test_a_result_whose_shape_is_read_after_it_was_computed() -> None:
    """Its block is as large as what was computed, in dims that are bound by then."""
    x, s, t = (relay.var(n, shape=d, dtype=k) for n, d, k in (
        ("x", (12,), "float32"), ("s", (3,), "int64"), ("t", (2,), "int64")))  # fmt: skip
    total = relay.sum(relay.reshape(x, s), axis=(1,))
    later = relay.add(t, relay.cast(relay.take(s, relay.const([0, 0]), axis=0), "int64"))
    program = tvm_disc.build(relay.Function([x, s, t], relay.reshape(total, later)))
    values = np.arange(12, dtype="float32")
    for dims in ((2, 3, 2), (1, 12, 1), (3, 2, 2), (4, 1, 3), (12, 1, 1)):
        shape = (dims[0], dims[2])
        moved = np.array(shape) - dims[0]
        got = np.asarray(program(values, np.array(dims), moved))
        np.testing.assert_allclose(got, values.reshape(dims).sum(1))
    with pytest.raises(GuardFailed, match="must equal"):
        program(values, np.array([2, 3, 2]), np.array([1, 1]))


def test_explain_prints_the_condition_of_a_size_from_data() -> None:
    s = relay.var("s", shape=(2,), dtype="int64")
    zeros = relay.zeros(s, dtype="float32")
    ones = relay.image.resize2d(relay.const(np.ones((1, 1, 4, 4), "float32")), s)
    text = tvm_disc.build(relay.Function([s], relay.Tuple([zeros, ones]))).explain(full=True)
    shape = r"a tensor of shape \(number, number_1\) must have at most 2\*\*47 elements"
    assert len(re.findall(shape, text)) == 1, "the cost below a guard does not repeat it"
    assert "T.int64" not in text


def test_a_slice_by_data_lies_within_its_operand() -> None:
    x = relay.var("x", shape=(relay.Any("n"), 2))
    b, e = (relay.var(n, shape=(1,), dtype="int64") for n in "be")
    steps = relay.const(np.array([1]))
    program = tvm_disc.build(relay.Function([x, b, e], relay.strided_slice(x, b, e, steps)))
    for n in (1, 7, 16, 0):
        values = np.arange(2 * n, dtype="float32").reshape(n, 2)
        for begin, end in ((0, n), (1, -1), (-3, HUGE), (-HUGE, 2), (5, 3), (-(2**63), 2**63 - 1)):
            got = np.asarray(program(values, np.array([begin]), np.array([end])))
            np.testing.assert_array_equal(got, values[begin:end])


MAKERS: dict[str, Callable[[Any], Any]] = {
    "full": lambda s: relay.full(one(), s, dtype="float32"),
    "zeros": lambda s: relay.zeros(s, dtype="float32"),
    "broadcast_to": lambda s: relay.broadcast_to(one(), s),
    "tile": lambda s: relay.tile(relay.const(TWO_BY_THREE), s),
    "reshape": lambda s: relay.reshape(relay.const(TWO_BY_THREE), s),
    "one_hot": lambda s: relay.one_hot(
        relay.const(np.array([0, 1])), one(), one(), first(s), -1, "float32"
    ),
    "arange": lambda s: relay.arange(
        relay.const(np.int64(0)), first(s), relay.const(np.int64(1)), dtype="int64"
    ),
    "pad": lambda s: relay.nn.pad(relay.const(np.ones(3, "float32")), relay.reshape(s, (1, 2))),
    "resize": lambda s: relay.image.resize2d(relay.const(np.ones((1, 1, 4, 4), "float32")), s),
    "join": lambda s: relay.concatenate([relay.full(one(), s, dtype="float32")] * 2, axis=0),
}
TOO_LARGE = [(HUGE + 1, 4), (HUGE, 1), (1 << 40, 1 << 40), (2**63 - 1, 2), (0, HUGE)]


@pytest.mark.parametrize("name", MAKERS)
def test_a_size_from_data(name: str) -> None:
    s = relay.var("s", shape=(2,), dtype="int64")
    executable = tvm_disc.build(relay.Function([s], MAKERS[name](s)))
    assert executable(np.array([3, 2])).size > 0
    for sizes in TOO_LARGE:
        if name in ("one_hot", "arange") and sizes[0] <= 1 << 40:
            continue  # they take the first alone
        message = r"must be between|must have at most|must equal|memory"
        with pytest.raises((GuardFailed, MemoryError), match=message):
            executable(np.array(sizes))
    for sizes in ((-1, 2), (-(2**63), 2)):
        if name == "arange" or (name in ("reshape", "pad") and sizes[0] == -1):
            continue  # an empty range, a dim to infer, an element to take away
        with pytest.raises(GuardFailed, match=r"at least|must be between"):
            executable(np.array(sizes))


# -- sizes that depend on several numbers are symbols, which later formulas contain

INPUTS = (
    ("x", (relay.Any("n"), relay.Any("m")), "float32"),
    ("p", (2, 2), "int64"),
    ("q", (2, 2), "int64"),
)
SHAPES = ((1, 1), (2, 3), (7, 5), (33, 16))


def variables() -> list[Any]:
    return [relay.var(name, shape=shape, dtype=dtype) for name, shape, dtype in INPUTS]


def padded(x: Any, *pads: Any) -> Any:
    """Pad an image several times; its sizes depend on all the numbers."""
    for p in pads:
        x = relay.nn.pad(x, p)
    return x


def pads(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (2, 2)), rng.integers(0, 4, (2, 2))


def test_later_sizes_are_formulas_of_the_symbol() -> None:
    x, p, q = variables()
    twice = padded(x, p, q)
    exe = tvm_disc.build(relay.Function([x, p, q], relay.concatenate([twice, twice], 0)))
    for k, shape in enumerate(SHAPES):
        image = np.random.default_rng(k).normal(size=shape).astype("float32")
        a, b = pads(k)
        want = np.pad(image, a + b)
        np.testing.assert_array_equal(np.asarray(exe(image, a, b)), np.concatenate([want, want]))


def test_a_size_of_a_branch_is_computed_again_after_it() -> None:
    x, p, q = variables()
    c = relay.var("c", shape=(), dtype="bool")
    zero = relay.const(np.float32(0))
    inside = relay.If(c, relay.sum(relay.exp(padded(x, p, q))), zero)
    after = relay.add(relay.sum(relay.exp(padded(x, p, q))), inside)
    exe = tvm_disc.build(relay.Function([x, p, q, c], after))
    for k, shape in enumerate(SHAPES):
        image = np.random.default_rng(k).normal(size=shape).astype("float32")
        a, b = pads(k)
        want = np.exp(np.pad(image, a + b)).sum()
        for taken in (False, True):
            found = np.asarray(exe(image, a, b, np.array(taken)))
            np.testing.assert_allclose(found, want * (1 + taken), rtol=1e-5)


def test_a_named_size_is_checked_like_others() -> None:
    x, p, q = variables()
    exe = tvm_disc.build(relay.Function([x, p, q], padded(x, p, q)))
    image, less, none = np.ones((2, 2), "float32"), np.full((2, 2), -1), np.zeros((2, 2), "int64")
    assert np.asarray(exe(image, less, none)).shape == (0, 0)
    with pytest.raises(GuardFailed, match="axis 0 is shorter than the negative padding"):
        exe(image, less, less)


def test_sizes_of_fewer_numbers_keep_their_formulas() -> None:
    x, p, q = variables()
    count = relay.var("s", shape=(2,), dtype="int64")
    tiled = tvm_disc.build(relay.Function([count], relay.zeros(count, dtype="float32")))
    assert "float32[number, number_1]" in tiled.explain()
    named = tvm_disc.build(relay.Function([x, p, q], padded(x, p, q)))
    assert re.search(r"float32\[size_\d+, size_\d+\]", named.explain())
