"""Concatenations of operands of any size along any axis, and what moves their elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay

RNG = np.random.default_rng(0)
ANY = relay.Any()
SIZES = (0, 1, 7, 16, 33, 129, 1031)


def alike(names: Sequence[str], rank: int, axis: int) -> list[str]:
    """Facts: all operands have the first one's dims but for an axis."""
    return [f"{names[0]}.{a} == {n}.{a}" for n in names[1:] for a in range(rank) if a != axis]


def numbers(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    return RNG.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


def check(program: Any, given: Sequence[np.ndarray], axis: int) -> None:
    np.testing.assert_array_equal(program(*given), np.concatenate(given, axis))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8", "bool"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_every_dim_unknown(axis: int, dtype: str) -> None:
    xs = [relay.var(n, shape=(ANY, ANY, ANY), dtype=dtype) for n in "xyz"]
    body = relay.concatenate(xs, axis=axis)
    exe = tvm_disc.build(relay.Function(xs, body), constraints=alike("xyz", 3, axis))
    assert len(exe.kernels) == 1
    assert "joined operands: 3, each copied by its own loop" in str(exe.explain())
    for k, size in enumerate(SIZES):
        for others in ((1, 1), (3, 5), (2, 64), (0, 4)):
            shapes = [list(others) for _ in xs]
            for s, n in zip(shapes, (size, SIZES[k - 1], 2), strict=True):
                s.insert(axis, n)
            check(exe, [numbers(tuple(s), dtype) for s in shapes], axis)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_cache_that_grows(threads: int) -> None:
    """Two results of a kernel, of which the rows that are new lie in another order."""
    cache, word = (ANY, 4, ANY, 64), (ANY, 1, 256)
    names = ["k", "v", "a", "b"]
    k, v, a, b = (
        relay.var(n, shape=s) for n, s in zip(names, (cache, cache, word, word), strict=True)
    )
    new = [relay.transpose(relay.reshape(x, (-1, 1, 4, 64)), axes=(0, 2, 1, 3)) for x in (a, b)]
    grown = [relay.concatenate(pair, axis=2) for pair in zip((k, v), new, strict=True)]
    facts = ["k.0 == v.0", "k.2 == v.2", "k.0 == a.0", "k.0 == b.0"]
    program = relay.Function([k, v, a, b], relay.Tuple(grown))
    options = tvm_disc.Options(threads=threads)
    exe = tvm_disc.build(program, constraints=facts, options=options)
    for batch, past in ((1, 0), (1, 1), (3, 17), (2, 300), (4, 2100), (0, 5)):
        old = [numbers((batch, 4, past, 64)) for _ in "kv"]
        words = [numbers((batch, 1, 256)) for _ in "ab"]
        for found, o, w in zip(exe(*old, *words), old, words, strict=True):
            row = w.reshape(batch, 1, 4, 64).transpose(0, 2, 1, 3)
            np.testing.assert_array_equal(found, np.concatenate([o, row], 2))


def test_what_is_computed_of_them_element_by_element() -> None:
    """Two that are cut alike, an operand that is computed, a vector beside them."""
    w, x, y = (relay.var(n, shape=(ANY, ANY)) for n in "wxy")
    bias = relay.var("bias", shape=(ANY, 1))
    first = relay.concatenate([relay.exp(w), x], axis=1)
    second = relay.concatenate([x, y], axis=1)
    body = relay.nn.relu(relay.subtract(relay.multiply(first, second), bias))
    facts = ["w.0 == x.0", "w.0 == y.0", "w.1 == x.1", "w.1 == y.1", "bias.0 == w.0"]
    exe = tvm_disc.build(relay.Function([w, x, y, bias], body), constraints=facts)
    for n, m in ((1, 1), (5, 0), (3, 16), (2, 1031), (40, 3)):
        given = [RNG.standard_normal((n, m)).astype("float32") for _ in "wxy"]
        column = RNG.standard_normal((n, 1)).astype("float32")
        one = np.concatenate([np.exp(given[0]), given[1]], 1)
        want = np.maximum(one * np.concatenate(given[1:], 1) - column, 0)
        np.testing.assert_allclose(exe(*given, column), want, rtol=1e-5, atol=1e-6)


def test_an_operand_that_no_vector_holds() -> None:
    """Comparisons of integers are written element by element, the operand beside them is not."""
    x, y = (relay.var(n, shape=(ANY, ANY), dtype="int64") for n in "xy")
    small = relay.cast(relay.less(x, relay.const(50, "int64")), "int64")
    body = relay.negative(relay.concatenate([small, y], axis=1))
    exe = tvm_disc.build(relay.Function([x, y], body), constraints=["x.0 == y.0"])
    assert "joined operands: 2, each copied by its own loop" in str(exe.explain())
    for n, a, b in ((1, 1, 1), (3, 0, 17), (5, 33, 0), (40, 129, 7), (0, 2, 3)):
        given = [numbers((n, c), "int64") for c in (a, b)]
        want = -np.concatenate([(given[0] < 50).astype("int64"), given[1]], 1)
        np.testing.assert_array_equal(exe(*given), want)


def test_an_operand_whose_positions_would_be_divided() -> None:
    """A transposed one is read in rows, as a vector beside the result is."""
    x, y = (relay.var(n, shape=(ANY, ANY, ANY)) for n in "xy")
    body = relay.concatenate([relay.transpose(x, (0, 2, 1)), y], axis=1)
    exe = tvm_disc.build(relay.Function([x, y], body), constraints=["x.0 == y.0", "x.1 == y.2"])
    assert "joined operands:" not in str(exe.explain())
    for n, a, b, c in ((1, 1, 1, 1), (3, 5, 17, 2), (2, 0, 3, 4), (2, 40, 33, 7)):
        given = [numbers((n, a, b)), numbers((n, c, a))]
        want = np.concatenate([given[0].transpose(0, 2, 1), given[1]], 1)
        np.testing.assert_array_equal(exe(*given), want)


MOVED: list[tuple[str, Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = [
    ("transposed", lambda c: relay.transpose(c, axes=(1, 0)), lambda c: c.T),
    (
        "beside its transpose",
        lambda c: relay.add(c, relay.transpose(c, axes=(1, 0))),
        lambda c: c + c.T,
    ),
    ("reversed", lambda c: relay.reverse(c, axis=1), lambda c: c[:, ::-1]),
    (
        "sliced backwards",
        lambda c: relay.strided_slice(c, (-1, -1), (-99, -99), (-1, -1)),
        lambda c: c[::-1, ::-1],
    ),
    (
        "at its own rows",
        lambda c: relay.take(c, relay.const([3, 1, 0, 2], "int64"), axis=0),
        lambda c: c[[3, 1, 0, 2]],
    ),
]


@pytest.mark.parametrize(("name", "move", "moved"), MOVED, ids=[m[0] for m in MOVED])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("known", [True, False])
def test_elements_that_move_within_a_shape(
    name: str, move: Callable[[Any], Any], moved: Callable[..., Any], axis: int, known: bool
) -> None:
    """A square, moved, has the shape of the concatenation, not its places."""
    del name
    shape: list[Any] = [4, 4]
    shape[axis] = 2 if known else ANY
    x, y = (relay.var(n, shape=tuple(shape)) for n in "xy")
    body = relay.exp(move(relay.concatenate([x, y], axis=axis)))
    facts = [] if known else [f"x.{axis} == 2", f"y.{axis} == 2"]
    exe = tvm_disc.build(relay.Function([x, y], body), constraints=facts)
    size = [4, 4]
    size[axis] = 2
    given = [RNG.standard_normal(size).astype("float32") for _ in "xy"]
    want = np.exp(moved(np.concatenate(given, axis)))
    np.testing.assert_allclose(exe(*given), want, rtol=1e-5)
