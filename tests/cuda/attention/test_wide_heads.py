"""Attention with wide heads: rows of a tile are copied element by element, without local memory."""

from __future__ import annotations

import ctypes

import pytest

from tests.cuda.attention.forced import only_attention
from tests.cuda.forced import check_all, made, ptx
from tests.schedules.attention.cases import FACTS, attend, qkv, random, reference
from tvm_disc import relay
from tvm_disc.schedules.cuda.attention.tile import FlashKnobs

TILE = FlashKnobs(32, 32, 4, 4)


@pytest.mark.parametrize("width", [80, 128])
def test_elements_are_not_staged(gpu: ctypes.CDLL, width: int) -> None:
    inputs = qkv(width, width)
    with only_attention(TILE):
        program, code = made(relay.Function(inputs, attend(*inputs)), FACTS)
    tiles = {k: t for k, t in code.items() if "queries_ptr" in t}
    assert len(tiles) == 2
    plain = {k: t for k, t in tiles.items() if "float4*)(p" not in t}
    for text in (ptx(plain) or {}).values():
        # Addresses of all elements of a tile would not fit registers.
        assert text.count("ld.global") < width
    for m, n in ((0, 3), (5, 0), (1, 1), (33, 65)):
        arrays = random(m, n, width, width)
        check_all(gpu, program, arrays, [reference(*arrays)])
