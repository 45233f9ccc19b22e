"""The checks for a machine with a GPU, on the emulated one."""

from __future__ import annotations

from tests.cuda.tensor.forced import only_tensor_tile
from tests.cuda.tensor.on_gpu import CASES, wrong
from tvm_disc.schedules.cuda.tensor.template import TILES


def test_every_tile_is_checked() -> None:
    assert {n for _, tiles in CASES for n in tiles} == set(range(len(TILES)))


def test_products_are_right() -> None:
    assert wrong(only_tensor_tile(TILES[0]), TILES[0], "float16", "cuda") == []
