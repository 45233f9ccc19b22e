"""Attention in every plan: sizes around tiles, masks, heads of any size, types of storage."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.cuda.attention.forced import PLANS, only_attention
from tests.cuda.forced import check_all, made
from tests.schedules.attention.cases import (
    FACTS,
    SCALE,
    attend,
    guarded,
    guarded_reference,
    qkv,
    random,
    reference,
    tensor,
)
from tvm_disc import relay
from tvm_disc.schedules.cuda.attention.template import TILES

# (queries, keys): none, one, primes, around tiles of 16, 32 and 64, several tiles and parts.
LENGTHS = (
    (0, 3), (5, 0), (1, 1), (1, 600), (7, 13), (15, 31), (16, 32), (17, 33), (31, 63), (33, 64),
    (63, 65), (64, 129), (65, 200),
)  # fmt: skip
FEW = ((3, 1), (17, 65), (66, 130))


def compiled(inputs: list[Any], body: Any, facts: list[str]) -> tuple[Any, dict[str, str]]:
    """A program of one attention, and its device functions."""
    return made(relay.Function(inputs, body), facts)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_every_length(gpu: ctypes.CDLL, plan: Any) -> None:
    inputs = qkv(12, 20)
    with only_attention(plan):
        program, code = compiled(inputs, attend(*inputs), FACTS)
    tiles = [text for text in code.values() if "queries_ptr" in text]
    assert len(tiles) == (2 if plan in TILES else 0)
    assert sum("= *(float4*)(p" in text for text in code.values()) == len(tiles) // 2
    for m, n in LENGTHS:
        arrays = random(m, n, 12, 20)
        check_all(gpu, program, arrays, [reference(*arrays)])


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_rows_without_any_key(gpu: ctypes.CDLL, plan: Any) -> None:
    """Masks of minus infinity: some keys, a whole tile, all keys of a row, which give NaN."""
    mask = tensor("mask", "?", 1, "?", "?")
    inputs = qkv(8, 8)
    body = attend(*inputs, chain=lambda s: s + mask)
    facts = [*FACTS, "mask.0 == q.0", "mask.2 == q.2", "mask.3 == k.2"]
    with only_attention(plan):
        program, _ = compiled([*inputs, mask], body, facts)
    for m, n in FEW:
        hidden = np.zeros((2, 1, m, n), "float32")
        hidden[:, :, 1::4] = -np.inf
        hidden[:, :, 2::4, : n - n // 8] = -np.inf
        hidden[0, :, 3::4] = np.finfo("float32").min
        arrays = [*random(m, n, 8, 8), hidden]
        check_all(gpu, program, arrays, [reference(*arrays)])


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_guard_against_nan(gpu: ctypes.CDLL, plan: Any) -> None:
    """Weights that are NaN count as 0, as PyTorch exports attention."""
    inputs = [*qkv(8, 8), tensor("mask", "?", "?")]
    with only_attention(plan):
        program, _ = compiled(inputs, guarded(*inputs), [*FACTS, "mask.0 == q.2", "mask.1 == k.2"])
    for m, n in FEW:
        hidden = np.zeros((m, n), "float32")
        hidden[0] = -np.inf
        hidden[1:2, n // 2 :] = np.nan
        arrays = [*random(m, n, 8, 8), hidden]
        check_all(gpu, program, arrays, [guarded_reference(*arrays)])


@pytest.mark.parametrize("plan", (TILES[0], TILES[-1]), ids=str)
def test_half_precision(gpu: ctypes.CDLL, plan: Any) -> None:
    """Scores are rounded as the graph says; weights and sums are float32."""
    inputs = qkv(16, 24, "float16")
    with only_attention(plan):
        program, code = compiled(inputs, attend(*inputs, dtype="float16"), FACTS)
    assert any("*(uint4*)(cell" in text for text in code.values())
    for m, n in FEW:
        arrays = random(m, n, 16, 24, "float16")
        a, b, c = (x.astype("float64") for x in arrays)
        scores = (a @ b.swapaxes(-1, -2)).astype("float16") * np.float16(SCALE)
        e = np.exp(scores.astype("float64") - scores.max(-1, keepdims=True))
        check_all(gpu, program, arrays, [e / e.sum(-1, keepdims=True) @ c], 4e-3)


@pytest.mark.parametrize("size", [1, 5, 80, 128])
def test_heads_of_any_size(gpu: ctypes.CDLL, size: int) -> None:
    inputs = qkv(size, size)
    with only_attention(TILES[2]):
        program, code = compiled(inputs, attend(*inputs), FACTS)
    assert any("queries_ptr" in text for text in code.values())
    for m, n in FEW:
        arrays = random(m, n, size, size)
        check_all(gpu, program, arrays, [reference(*arrays)])


def test_heads_that_fit_no_tile(gpu: ctypes.CDLL) -> None:
    inputs = qkv(300, 8)
    program, code = compiled(inputs, attend(*inputs), FACTS)
    assert not any("queries_ptr" in text for text in code.values())
    assert "heads of 300 and 8 do not fit shared memory" in str(program.explain())
    arrays = random(3, 70, 300, 8)
    check_all(gpu, program, arrays, [reference(*arrays)])


def test_heads_of_unknown_size(gpu: ctypes.CDLL) -> None:
    inputs = [tensor(n, "?", "?", "?", "?") for n in "qkv"]
    program, code = compiled(inputs, attend(*inputs), [*FACTS, "k.3 == q.3"])
    assert not any("queries_ptr" in text for text in code.values())
    assert "the size of a head is not known" in str(program.explain())
    arrays = random(3, 70, 9, 8)
    check_all(gpu, program, arrays, [reference(*arrays)])


def test_the_model_chooses_by_the_number_of_queries(gpu: ctypes.CDLL) -> None:
    inputs = qkv(64, 64)
    program, _ = compiled(inputs, attend(*inputs), FACTS)
    text = str(program.explain(full=True))
    few, many = " keys=128, parts=1\n", "queries=32, keys=32"
    assert few in text and many in text and "columns=4, parts=8" in text
