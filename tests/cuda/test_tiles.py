"""Tiles of products and convolutions: every size, over edges of tiles, wherever operands begin."""

from __future__ import annotations

import ctypes
from typing import Any
from unittest import mock

import numpy as np
import pytest

import tvm_disc
from tests.cuda.forced import check_all, made, only_sums, only_tile, ptx
from tests.cuda.helpers import noise
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.schedules.cuda.product import TILES
from tvm_disc.schedules.cuda.reduce import ALL, ReduceKnobs
from tvm_disc.schedules.cuda.tensor import template
from tvm_disc.schedules.cuda.tile import Side, TileKnobs

# (m, n, k): 1, a prime, a tile less one, a tile, one more; multiples of four, and nothing to add.
SIZES = ((1, 1, 1), (5, 3, 7), (15, 63, 15), (16, 64, 16), (17, 68, 20), (130, 66, 33), (3, 8, 0))


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_products(gpu: ctypes.CDLL, tile: TileKnobs) -> None:
    """Plain, and with a second operand that lies the other way; with what follows."""
    x, y, z = rows("m", "k"), rows("k", "n", name="y"), rows("n", "k", name="z")
    bias = rows("n", name="b")
    plain = relay.nn.relu(relay.add(relay.nn.matmul(x, y), bias))
    with only_tile(tile):
        program, code = made(function(x, y, z, bias, relay.Tuple([plain, relay.nn.dense(x, z)])))
    _are_tiles(code, tile)
    for m, n, k in (*SIZES, (20, 36, 600)):
        a, b, c = noise(m, k), noise(k, n) / 8, noise(n)
        d = noise(n, k) / 8
        wanted = [np.maximum(a.astype("f8") @ b + c, 0), a.astype("f8") @ d.T]
        check_all(gpu, program, [a, b, d, c], wanted, 5e-5)


def _are_tiles(code: dict[str, str], tile: TileKnobs) -> None:
    """Two barriers, before the first slice and in the loop; copies of several where facts hold."""
    tiles = {k: text for k, text in code.items() if "__shared__" in text}
    assert len(tiles) == 4
    assert all(text.count("__syncthreads()") == 2 for text in tiles.values())
    # Shared memory is read by fours on either way; operands on the wide one alone.
    assert sum("*(float4*)(cell" in text for text in tiles.values()) == 2
    assembled = ptx(tiles) if tile == TILES[0] else None
    for text in (assembled or {}).values():
        assert ".local" not in text  # sums and what is multiplied are in registers
        assert "ld.shared.v4" in text


def test_products_of_a_batch(gpu: ctypes.CDLL) -> None:
    """With a first operand that lies the other way."""
    x, y = rows("b", "k", "m"), rows("b", "k", "n", name="y")
    both = relay.nn.batch_matmul(x, y, transpose_a=True, transpose_b=False)
    with only_tile(TILES[2]):
        program, code = made(function(x, y, relay.nn.relu(both)))
        assert sum("float4*)(cell" in text for text in code.values()) == 1
    for b, m, n, k in ((1, 1, 1, 1), (2, 36, 40, 20), (3, 33, 31, 17)):
        a, c = noise(b, k, m), noise(b, k, n) / 8
        turned = a.transpose(0, 2, 1).astype("f8")
        check_all(gpu, program, [a, c], [np.maximum(turned @ c, 0)], 5e-5)


def test_operands_that_are_computed(gpu: ctypes.CDLL) -> None:
    """Half precision without tensor cores: eight elements to an access."""
    x, y = rows("m", "k", dtype="float16"), rows("k", "n", name="y", dtype="float16")
    with only_tile(TILES[0]), mock.patch.object(template, "ARCHITECTURE", 1000):
        program, code = made(function(x, y, relay.nn.matmul(x, y)))
    assert any("*(uint4*)(cell" in text for text in code.values())
    for m, n, k in ((1, 1, 1), (65, 72, 24), (7, 8, 9)):
        a, b = (noise(m, k).astype("f2"), (noise(k, n) / 8).astype("f2"))
        check_all(gpu, program, [a, b], [a.astype("f8") @ b.astype("f8")], 2e-2)


CONVOLUTIONS: list[dict[str, Any]] = [
    {"groups": 1, "strides": (2, 1), "padding": (1, 1), "kernel": (3, 3), "channels": 40},
    {"groups": 2, "strides": (1, 1), "padding": (0, 1), "kernel": (1, 3), "channels": 64},
]


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=["plain", "groups"])
def test_convolutions(gpu: ctypes.CDLL, case: dict[str, Any], last: bool) -> None:
    source = _convolution(case, last)
    with only_tile(TILES[1]):
        program, code = made(source)
    plain = tvm_disc.build(source)
    assert any("*(float4*)(cell" in text for text in code.values())
    for n, h, w in ((1, 1, 1), (2, 9, 7), (1, 33, 20), (1, 4, 4)):
        a = noise(*((n, h, w, 8) if last else (n, 8, h, w)))
        check_all(gpu, program, [a], [plain(a)], 1e-4)


def _convolution(case: dict[str, Any], last: bool) -> Any:
    kernel, groups, channels = case["kernel"], case["groups"], case["channels"]
    each = 8 // groups
    shape = (*kernel, each, channels) if last else (channels, each, *kernel)
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"} if last else {}
    x = rows("n", "h", "w", 8) if last else rows("n", 8, "h", "w")
    y = relay.nn.conv2d(
        x,
        relay.const(noise(*shape) / 16),
        strides=case["strides"],
        padding=case["padding"],
        groups=groups,
        channels=channels,
        kernel_size=kernel,
        **layouts,
    )
    return function(x, relay.nn.relu(y))


@pytest.mark.parametrize("knobs", ALL, ids=str)
def test_sums_in_every_way(gpu: ctypes.CDLL, knobs: ReduceKnobs) -> None:
    """Products with a vector either way, and sums of columns and of rows."""
    x, y, z = rows(1, "k"), rows("k", "n", name="y"), rows("n", "k", name="z")
    results = [relay.nn.matmul(x, y), relay.nn.dense(x, z), relay.sum(y, 0), relay.sum(z, 1)]
    with only_sums(knobs):
        program, code = made(function(x, y, z, relay.Tuple(results)))
    # Neighbours are along the result, or along what is added up: half of the sums lie so.
    assert any("float4" in text for text in code.values())
    for k, n in ((1, 1), (63, 5), (64, 8), (4100, 12)):
        a, b, c = noise(1, k), noise(k, n) / 64, noise(n, k) / 64
        wanted = [a.astype("f8") @ b, a.astype("f8") @ c.T, b.sum(0, "f8"), c.sum(1, "f8")]
        check_all(gpu, program, [a, b, c], wanted, 5e-5)


@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
@pytest.mark.parametrize("extent", [32, 64, 128])
def test_a_warp_stores_to_different_banks(lanes: int, extent: int) -> None:
    """What is turned on its way into shared memory: at most two of 32 threads meet in a bank."""
    side, depth = Side(True, True, lanes), 16
    chunks = depth // lanes
    banks: dict[int, int] = {}
    for thread in range(32):
        kk, x = thread % chunks * lanes, thread // chunks
        at = kk * extent + (x ^ _value(side.swizzle(_literal(kk), extent, depth)))
        banks[at % 32] = banks.get(at % 32, 0) + 1
    assert max(banks.values()) <= (2 if lanes < 4 else 1)


def _literal(value: int) -> Any:
    from tvm_disc.tir.builder import i64

    return i64(value)


def _value(expr: Any) -> int:
    import tvm

    return int(tvm.sym.Analyzer().simplify(expr).value)
