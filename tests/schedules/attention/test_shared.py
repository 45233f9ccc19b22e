"""Heads that share keys and values, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.schedules.attention.cases import CLOSE, LENGTHS, compile_one, planned, tensor
from tvm_disc import Options, relay

DEPTH, WIDTH = 20, 32
FACTS = ["k.2 == v.2"]


def number(value: Any) -> Any:
    return relay.const(np.array([value], "int64"))


def size(x: Any, axis: int) -> Any:
    """The size of an axis, as a tensor of one element."""
    return relay.reshape(relay.take(relay.shape_of(x, "int64"), relay.const(axis)), (1,))


def repeated(x: Any, kept: int, heads: int, depth: int, inner: bool = True) -> Any:
    """Every head of ``[b, kept, n, depth]`` several times: next to each other if ``inner``."""
    group = heads // kept
    first = (1, kept, 1, -1, depth) if inner else (1, 1, kept, -1, depth)
    whole = (kept, group) if inner else (group, kept)
    shape = [number(d) for d in (1, *whole)]
    shape = relay.concatenate([*shape, size(x, 2), number(depth)], axis=0)
    return relay.reshape(relay.broadcast_to(relay.reshape(x, first), shape), (heads, -1, depth))


def attention(
    heads: int,
    kept: int,
    chain: Callable[[Any], Any] = lambda s: s,
    inner: bool = True,
    queries: object = "?",
) -> tuple[list[Any], Any]:
    """Inputs and result of an attention of ``heads`` over ``kept`` heads of keys and values."""
    q = tensor("q", 1, heads, queries, DEPTH)
    k, v = tensor("k", 1, kept, "?", DEPTH), tensor("v", 1, kept, "?", WIDTH)
    scores = relay.nn.batch_matmul(
        relay.reshape(q, (heads, -1, DEPTH)) * relay.const(0.3),
        repeated(k, kept, heads, DEPTH, inner),
    )
    weights = relay.nn.softmax(chain(relay.expand_dims(scores, 0)))
    values = repeated(v, kept, heads, WIDTH, inner)
    return [q, k, v], relay.nn.batch_matmul(relay.squeeze(weights, [0]), values, transpose_b=False)


def reference(arrays: list[np.ndarray], inner: bool = True, bias: Any = 0.0) -> np.ndarray:
    q, k, v = (x[0].astype("float64") for x in arrays)
    group = len(q) // len(k)
    k, v = (np.repeat(x, group, axis=0) if inner else np.tile(x, (group, 1, 1)) for x in (k, v))
    if not k.shape[1]:
        return np.zeros((*q.shape[:2], WIDTH))
    s = q @ k.swapaxes(1, 2) * 0.3 + bias
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True) @ v)


def random(heads: int, kept: int, m: int, n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(m * 7919 + n)
    shapes = [(1, heads, m, DEPTH), (1, kept, n, DEPTH), (1, kept, n, WIDTH)]
    return [rng.standard_normal(s).astype("float32") for s in shapes]


@pytest.mark.parametrize(("heads", "kept"), [(6, 2), (8, 1), (5, 5), (14, 2)])
def test_heads_that_share_keys(heads: int, kept: int) -> None:
    inputs, body = attention(heads, kept)
    program = compile_one(inputs, body, FACTS)
    for m, n in LENGTHS:
        arrays = random(heads, kept, m, n)
        np.testing.assert_allclose(program(*arrays), reference(arrays), **CLOSE["float32"])


def test_repeated_heads() -> None:
    """``repeat`` along the heads is a view as well."""
    q = tensor("q", 1, 6, "?", DEPTH)
    k, v = tensor("k", 1, 2, "?", DEPTH), tensor("v", 1, 2, "?", WIDTH)
    keys, values = (relay.reshape(relay.repeat(x, 3, axis=1), (-3, -2)) for x in (k, v))
    scores = relay.nn.batch_matmul(relay.reshape(q, (-3, -2)) * relay.const(0.3), keys)
    body = relay.nn.batch_matmul(relay.nn.softmax(scores), values, transpose_b=False)
    program = compile_one([q, k, v], body, FACTS)
    assert len(program.kernels) == 1
    for m, n in LENGTHS:
        arrays = random(6, 2, m, n)
        np.testing.assert_allclose(program(*arrays), reference(arrays), **CLOSE["float32"])


@pytest.mark.parametrize("scaled", ["group", "head"])
def test_keys_that_are_computed(scaled: str) -> None:
    """Keys in 16 bits with a factor: heads with a factor each do not share keys."""
    q = tensor("q", 1, 6, "?", DEPTH)
    k = tensor("k", 1, 2, "?", DEPTH, dtype="float16")
    v = tensor("v", 1, 2, "?", WIDTH, dtype="float16")
    count = 2 if scaled == "group" else 6
    factor = tensor("factor", 1, count, 1, 1)
    wide = relay.cast(k, "float32") * factor if scaled == "group" else relay.cast(k, "float32")
    keys = relay.repeat(wide, 3, axis=1)
    keys = keys if scaled == "group" else keys * factor
    values = relay.reshape(relay.repeat(relay.cast(v, "float32"), 3, axis=1), (-3, -2))
    scores = relay.nn.batch_matmul(
        relay.reshape(q, (-3, -2)) * relay.const(0.3), relay.reshape(keys, (-3, -2))
    )
    body = relay.nn.batch_matmul(relay.nn.softmax(scores), values, transpose_b=False)
    inputs = [q, k, v, factor]
    notes = planned(inputs, body, FACTS)
    assert ("heads that share keys: 3" in notes) == (scaled == "group")
    program = compile_one(inputs, body, FACTS)
    factors = np.arange(1, count + 1, dtype="float32").reshape(1, count, 1, 1) / 4
    for m, n in LENGTHS:
        a, b, c = random(6, 2, m, n)
        b, c = b.astype("float16"), c.astype("float16")
        whole = np.repeat(b.astype("float32"), 3, axis=1)
        whole = whole * (np.repeat(factors, 3, axis=1) if scaled == "group" else factors)
        expected = reference([a, whole, np.repeat(c.astype("float32"), 3, axis=1)])
        np.testing.assert_allclose(program(a, b, c, factors), expected, **CLOSE["float32"])


@pytest.mark.parametrize("axes", [(1, "?"), (1, 1), (6, "?"), (6, 1)])
def test_masks_of_heads_and_queries(axes: tuple[object, object]) -> None:
    """The rows of an item are queries of several heads: each reads its part of the mask."""
    heads, queries = axes
    mask = tensor("mask", 1, heads, queries, "?")
    inputs, body = attention(6, 2, lambda s: s + mask)
    facts = [*FACTS, "mask.3 == k.2"] + ["mask.2 == q.2"] * (queries == "?")
    program = compile_one([*inputs, mask], body, facts)
    for m, n in LENGTHS:
        arrays = random(6, 2, m, n)
        rng = np.random.default_rng(n)
        shape = (1, heads, m if queries == "?" else 1, n)
        bias = np.where(rng.random(shape) < 0.3, -30.0, rng.standard_normal(shape))
        bias = bias.astype("float32")
        expected = reference(arrays, bias=bias[0].astype("float64"))
        np.testing.assert_allclose(program(*arrays, bias), expected, rtol=5e-5, atol=5e-6)


def test_causal_masks_skip_keys() -> None:
    """Blocks of rows end inside of a head: keys are skipped only if no row of the block sees
    them.
    """
    mask = tensor("mask", 1, 1, "?", "?")
    inputs, body = attention(6, 2, lambda s: s + mask)
    facts = [*FACTS, "mask.3 == k.2", "mask.2 == q.2"]
    notes = planned([*inputs, mask], body, facts)
    assert "masked keys: skipped at both ends" in notes
    assert "heads that share keys: 3" in notes
    program = compile_one([*inputs, mask], body, facts)
    for m, n in ((1, 130), (8, 128), (36, 200), (50, 300), (131, 131), (200, 129)):
        arrays = random(6, 2, m, n)
        late = np.arange(n) > np.arange(m)[:, None] + n - m
        bias = np.where(late, np.finfo("float32").min, np.float32(0))[None, None]
        hidden = np.where(late, -np.inf, 0.0) if m <= n else np.where(late, -3.4e38, 0.0)
        expected = reference(arrays, bias=hidden)
        np.testing.assert_allclose(program(*arrays, bias), expected, rtol=2e-5, atol=5e-6)


def test_each_head_skips_its_own_keys() -> None:
    mask = tensor("mask", 1, 6, 1, "?")
    inputs, body = attention(6, 2, lambda s: s + mask)
    program = compile_one([*inputs, mask], body, [*FACTS, "mask.3 == k.2"])
    for m, n in ((1, 128), (9, 130), (12, 300), (40, 1030)):
        arrays = random(6, 2, m, n)
        late = np.arange(n) >= (n * np.arange(1, 7) // 6)[:, None, None]
        bias = np.where(late, np.float32(-1e9), np.float32(0))[None]
        expected = reference(arrays, bias=np.where(late, -np.inf, 0.0))
        np.testing.assert_allclose(program(*arrays, bias), expected, **CLOSE["float32"])


def test_heads_apart_are_not_merged() -> None:
    """Heads h and h + 2 share keys here; consecutive heads do not."""
    inputs, body = attention(6, 2, inner=False)
    assert "heads that share keys" not in planned(inputs, body, FACTS)
    program = compile_one(inputs, body, FACTS)
    for m, n in LENGTHS:
        arrays = random(6, 2, m, n)
        expected = reference(arrays, inner=False)
        np.testing.assert_allclose(program(*arrays), expected, **CLOSE["float32"])


@pytest.mark.parametrize("rows", ["?", 1])
def test_matmuls_that_share_an_operand(rows: object) -> None:
    a, b = tensor("a", 6, rows, 24), tensor("b", 1, 2, "?", 24)
    other = repeated(b, 2, 6, 24)
    program = tvm_disc.build(
        relay.Function([a, b], relay.nn.batch_matmul(a, other)), options=Options(threads=1)
    )
    assert len(program.kernels) == 1
    for m in (0, 1, 2, 7, 33) if rows == "?" else (1,):
        for n in (0, 1, 5, 48, 97):
            rng = np.random.default_rng(n)
            x = rng.standard_normal((6, m, 24)).astype("float32")
            y = rng.standard_normal((1, 2, n, 24)).astype("float32")
            expected = x @ np.repeat(y[0], 3, axis=0).swapaxes(1, 2)
            np.testing.assert_allclose(program(x, y), expected, rtol=1e-5, atol=1e-5)
