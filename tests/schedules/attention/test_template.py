"""The attention template against NumPy in float64, one compilation per case and many lengths."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_disc
from tests.schedules.attention.cases import (
    CLOSE,
    FACTS,
    LENGTHS,
    LOWEST,
    SCALE,
    attend,
    compile_one,
    planned,
    qkv,
    random,
    reference,
    tensor,
)
from tvm_disc import Options, relay


@pytest.mark.parametrize(
    ("depth", "width", "dtype"),
    [(20, 64, "float32"), (64, 7, "float32"), (16, 130, "float32"), (9, 24, "float64")],
)
def test_every_length_in_one_program(depth: int, width: int, dtype: str) -> None:
    inputs = qkv(depth, width, dtype)
    program = compile_one(inputs, attend(*inputs, dtype=dtype))
    assert len(program.kernels) == 1
    for m, n in LENGTHS:
        arrays = random(m, n, depth, width, dtype)
        np.testing.assert_allclose(program(*arrays), reference(*arrays), **CLOSE[dtype])


@pytest.mark.parametrize("padded", [False, True])
def test_half_precision_with_sums_of_single(padded: bool) -> None:
    """Scores are rounded as the graph says; weights and sums are float32."""
    q, k, v = inputs = qkv(20, 64, "float16")
    facts, chain = FACTS, lambda s: s
    if padded:
        mask = tensor("mask", "?", 1, 1, "?", dtype="float16")
        inputs, facts = [*inputs, mask], [*FACTS, "mask.0 == q.0", "mask.3 == k.2"]
        chain = lambda s: s + mask  # noqa: E731
    program = compile_one(inputs, attend(q, k, v, chain, dtype="float16"), facts)
    assert len(program.kernels) == 1
    assert "masked keys" not in program.explain()
    for m, n in LENGTHS:
        arrays = random(m, n, 20, 64, "float16")
        a, b, c = (x.astype("float64") for x in arrays)
        scores = (a @ b.swapaxes(-1, -2)).astype("float16") * np.float16(SCALE)
        if padded:
            hidden = np.where(np.arange(n) >= n - n // 3, np.finfo("float16").min, np.float16(0))
            arrays.append(np.tile(hidden.astype("float16"), (2, 1, 1, 1)))
            scores = scores + arrays[-1]
        e = np.exp(scores.astype("float64") - scores.max(-1, keepdims=True, initial=-1e4))
        expected = e / e.sum(-1, keepdims=True) @ c if n else np.zeros((2, 3, m, 64))
        result = program(*arrays)
        assert result.dtype == "float16"
        np.testing.assert_allclose(result, expected, rtol=2e-3, atol=2e-3)


def rows_of_masks(m: int, n: int) -> np.ndarray:
    """Rows: nothing hidden, noise, all hidden finitely, all by minus infinity, late keys only."""
    rng = np.random.default_rng(m + n)
    mask = np.zeros((2, 1, m, n), "float32")
    mask[:, :, 1::5] = rng.standard_normal((2, 1, len(range(1, m, 5)), n))
    mask[:, :, 2::5] = LOWEST
    mask[:, :, 3::5] = -np.inf
    mask[:, :, 4::5, : n - n // 8] = -np.inf
    return mask


def test_additive_mask_and_rows_without_any_key() -> None:
    mask = tensor("mask", "?", 1, "?", "?")
    inputs = qkv(16, 16)
    body = attend(*inputs, chain=lambda s: s + mask)
    facts = [*FACTS, "mask.0 == q.0", "mask.2 == q.2", "mask.3 == k.2"]
    program = compile_one([*inputs, mask], body, facts)
    for m, n in LENGTHS:
        arrays, hidden = random(m, n, 16, 16), rows_of_masks(m, n)
        expected = reference(*arrays, hidden)
        np.testing.assert_allclose(program(*arrays, hidden), expected, **CLOSE["float32"])


def test_rows_without_any_key_are_what_the_unfused_kernels_give() -> None:
    mask = tensor("mask", "?", 1, "?", "?")
    inputs = qkv(16, 16)
    function = relay.Function([*inputs, mask], attend(*inputs, chain=lambda s: s + mask))
    facts = [*FACTS, "mask.0 == q.0", "mask.2 == q.2", "mask.3 == k.2"]
    fused, unfused = (
        tvm_disc.build(function, constraints=facts, options=Options(threads=1, fuse=fuse))
        for fuse in (True, False)
    )
    for m, n in ((5, 16), (6, 7)):
        arguments = (*random(m, n, 16, 16), rows_of_masks(m, n))
        np.testing.assert_allclose(fused(*arguments), unfused(*arguments), **CLOSE["float32"])


def test_boolean_mask_of_keys() -> None:
    mask = tensor("mask", "?", 1, 1, "?", dtype="bool")
    inputs = qkv(8, 33)
    hide = lambda s: relay.where(mask, s, relay.const(np.float32(-np.inf)))  # noqa: E731
    facts = [*FACTS, "mask.0 == q.0", "mask.3 == k.2"]
    program = compile_one([*inputs, mask], attend(*inputs, chain=hide), facts)
    for m, n in LENGTHS:
        arrays = random(m, n, 8, 33)
        keep = np.random.default_rng(n).random((2, 1, 1, n)) < 0.5
        expected = reference(*arrays, np.where(keep, np.float32(0), np.float32(-np.inf)))
        np.testing.assert_allclose(program(*arrays, keep), expected, **CLOSE["float32"])


def test_causal_mask_from_positions() -> None:
    inputs = q, *_ = qkv(16, 16)
    zero, one = relay.const(0, "int64"), relay.const(1, "int64")
    length = relay.take(relay.shape_of(q, "int64"), relay.const(2))
    position = relay.arange(zero, length, one, "int64")
    later = relay.less(relay.expand_dims(position, 1), relay.expand_dims(position, 0))
    hide = lambda s: s + relay.where(later, relay.const(LOWEST), relay.const(np.float32(0)))  # noqa: E731
    program = compile_one(inputs, attend(*inputs, chain=hide), [*FACTS, "q.2 == k.2"])
    for length_ in (0, 1, 2, 15, 16, 37, 48, 97, 1100):
        arrays = random(length_, length_, 16, 16)
        hidden = np.where(np.tri(length_, dtype=bool), np.float32(0), LOWEST)
        expected = reference(*arrays, hidden)
        np.testing.assert_allclose(program(*arrays), expected, **CLOSE["float32"])


def test_scaled_operands_are_computed_while_they_are_copied() -> None:
    inputs = q, k, v = qkv(20, 20)
    half = relay.const(np.float32(SCALE))
    one = relay.const(np.float32(1))
    body = attend(q * half, k * one, relay.nn.relu(v), scale=1.0)
    program = compile_one(inputs, body)
    assert len(program.kernels) == 1
    for m, n in LENGTHS:
        a, b, c = random(m, n, 20, 20)
        expected = reference(a, b, np.maximum(c, 0))
        np.testing.assert_allclose(program(a, b, c), expected, **CLOSE["float32"])


def test_heads_are_split_and_merged_without_a_copy() -> None:
    x = tensor("x", "?", "?", 3 * 4 * 16)
    split = []
    for k in range(3):
        part = relay.strided_slice(x, [k * 64], [k * 64 + 64], axes=[2])
        heads = relay.reshape(part, (0, 0, 4, 16))
        split.append(relay.transpose(heads, (0, 2, 1, 3)))
    q, k, v = split
    merged = relay.transpose(attend(q, k, v), (0, 2, 1, 3))
    program = compile_one([x], relay.reshape(merged, (0, 0, -3)), [])
    assert len(program.kernels) == 1
    text = program.explain()
    assert "packed in each call: Q, " in text and "computed by this kernel" not in text
    for b, s in ((1, 1), (2, 7), (3, 16), (1, 37), (2, 130), (0, 4), (1, 0)):
        value = np.random.default_rng(s).standard_normal((b, s, 192)).astype("float32")
        parts = value.reshape(b, s, 3, 4, 16).transpose(2, 0, 3, 1, 4)
        expected = reference(*parts).transpose(0, 2, 1, 3).reshape(b, s, 64)
        np.testing.assert_allclose(program(value), expected, **CLOSE["float32"])


def test_keys_may_lie_transposed() -> None:
    q, k, v = tensor("q", "?", "?", 12), tensor("k", "?", 12, "?"), tensor("v", "?", 10, "?")
    scores = relay.nn.batch_matmul(q, k, transpose_b=False) * relay.const(np.float32(SCALE))
    body = relay.nn.batch_matmul(relay.nn.softmax(scores), v)
    facts = ["k.0 == q.0", "v.0 == q.0", "v.2 == k.2"]
    program = compile_one([q, k, v], body, facts)
    for m, n in LENGTHS:
        a, b, c = (x[0] for x in random(m, n, 12, 10))
        got = program(a, b.swapaxes(1, 2).copy(), c.swapaxes(1, 2).copy())
        np.testing.assert_allclose(got, reference(a, b, c), **CLOSE["float32"])


@pytest.mark.parametrize("rows", [1, 9])
def test_transposed_keys_of_every_length(rows: int) -> None:
    """The stride of the depth is the unknown number of keys."""
    q, k, v = tensor("q", 6, rows, 64), tensor("k", 6, 64, "?"), tensor("v", 6, "?", 64)
    scores = relay.nn.batch_matmul(q, k, transpose_b=False) * relay.const(np.float32(SCALE))
    body = relay.nn.batch_matmul(relay.nn.softmax(scores), v, transpose_b=False)
    facts = ["v.1 == k.2"]
    text = planned([q, k, v], body, facts)
    assert "packed in each call: Q, K\nread in place: V\n" in text
    program = compile_one([q, k, v], body, facts)
    for n in (*range(1, 601), 1023, 1024, 1025):
        a, b, c = (x.reshape(6, -1, 64) for x in random(rows, n, 64, 64))
        got = program(a, b.swapaxes(1, 2).copy(), c)
        np.testing.assert_allclose(got, reference(a, b, c), **CLOSE["float32"])
    for special in (np.nan, np.inf, -np.inf):
        a, b, c = (x.reshape(6, -1, 64) for x in random(rows, 77, 64, 64))
        a[0, 0, 3] = special
        got = program(a, b.swapaxes(1, 2).copy(), c)
        np.testing.assert_allclose(got, reference(a, b, c), **CLOSE["float32"])


def test_two_threads_share_the_work() -> None:
    inputs = qkv(16, 16)
    program = compile_one(inputs, attend(*inputs), threads=2)
    for m, n in ((1, 1), (37, 96), (200, 130), (5, 2053)):
        arrays = random(m, n, 16, 16)
        np.testing.assert_allclose(program(*arrays), reference(*arrays), **CLOSE["float32"])


def test_special_values_stay_in_their_row() -> None:
    inputs = qkv(16, 16)
    program = compile_one(inputs, attend(*inputs))
    for special in (np.nan, np.inf, -np.inf):
        for n in (5, 70, 1100):
            q, k, v = random(4, n, 16, 16)
            q[0, 1, 2, 3] = special
            expected = reference(q, k, v)
            np.testing.assert_allclose(program(q, k, v), expected, **CLOSE["float32"])
