"""Attention as PyTorch's exporter writes it: zeros for weights that are NaN, scaled keys."""

from __future__ import annotations

import numpy as np

from tests.schedules.attention.cases import (
    CLOSE,
    FACTS,
    HEADS,
    LENGTHS,
    SCALE,
    compile_one,
    flat,
    guarded,
    guarded_reference,
    planned,
    qkv,
    random,
    tensor,
)
from tvm_disc import relay


def test_every_length() -> None:
    inputs = qkv(16, 24)
    program = compile_one(inputs, guarded(*inputs))
    for m, n in LENGTHS:
        given = random(m, n, 16, 24)
        np.testing.assert_allclose(program(*given), guarded_reference(*given), **CLOSE["float32"])


def test_rows_without_numbers_are_zeros() -> None:
    """Keys that are all hidden, and scores that are NaN or infinite, in the first block of keys, a
    later one, or all; other rows are as ever."""
    inputs = [*qkv(16, 24), tensor("mask", "?", "?")]
    facts = [*FACTS, "mask.0 == q.2", "mask.1 == k.2"]
    program = compile_one(inputs, guarded(*inputs), facts)
    for m, n in ((8, 5), (9, 48), (12, 130), (11, 1500), (10, 2053)):
        q, k, v = random(m, n, 16, 24)
        mask = np.zeros((m, n), "float32")
        mask[0] = -np.inf
        mask[1, : n // 2] = -np.inf
        mask[2, n // 2 :] = -np.inf
        mask[3, 0], mask[4, -1] = np.nan, np.nan
        mask[5, 0], mask[6, -1] = np.inf, np.inf
        got, exact = program(q, k, v, mask), guarded_reference(q, k, v, mask)
        assert not got[..., [0, 3, 4, 5, 6], :].any()
        np.testing.assert_allclose(got, exact, **CLOSE["float32"])


def test_scaled_keys_are_read_where_they_lie() -> None:
    q, k, v = qkv(16, 24)
    root = relay.const(SCALE**0.5)
    keys = relay.transpose(relay.multiply(flat(k), root), axes=(0, 2, 1))
    scores = relay.nn.batch_matmul(flat(relay.multiply(q, root)), keys, transpose_b=False)
    weights = relay.nn.softmax(relay.reshape_like(scores, q, **HEADS))
    result = relay.nn.batch_matmul(flat(weights), flat(v), transpose_b=False)
    body = relay.reshape_like(result, q, **HEADS)
    text = planned([q, k, v], body, FACTS)
    assert "Q (computed by this kernel), K (attention, algorithm=keys packed), V\n" in text
    assert "read in place: K (attention, algorithm=keys in place)\n" in text
    program = compile_one([q, k, v], body)
    for m, n in LENGTHS:
        given = random(m, n, 16, 24)
        if n:
            np.testing.assert_allclose(
                program(*given), guarded_reference(*given), **CLOSE["float32"]
            )
