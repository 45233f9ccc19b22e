"""Products on tensor cores on a real GPU: ``python -m tests.cuda.tensor.on_gpu [--target T]``.

Every tile, in one or two types each, at sizes around its edges. For NVIDIA's checkers:

    compute-sanitizer --tool racecheck python -m tests.cuda.tensor.on_gpu

Exit code 1 if any result is wrong.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

import tvm_disc
from tests.cuda.tensor.forced import TOLERANCE, numbers, only_group_tile, only_tensor_tile
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.schedules.cuda.tensor.template import GROUP_TILES, TILES
from tvm_disc.schedules.cuda.tensor.tile import TensorKnobs

CASES = (("bfloat16", (0, 1, 3, 5)), ("float16", (2, 4)), ("float32", (0, 1, 6)))
GROUP_TARGET = "cuda -arch=sm_90"  # elsewhere, the tiles by instructions of warps run
SIZES = ((1, 1, 1), (130, 66, 33), (136, 200, 328))


def wrong(only: Any, tile: TensorKnobs, dtype: str, target: str) -> list[str]:
    """The sizes at which a plain or a transposed product is wrong, in one tile ``only``."""
    x, y, z = (
        rows(*dims, name=n, dtype=dtype) for n, dims in (("x", "mk"), ("y", "kn"), ("z", "nk"))
    )
    results = [relay.nn.relu(relay.nn.matmul(x, y)), relay.nn.dense(x, z)]
    with only:
        program = tvm_disc.build(
            function(x, y, z, relay.Tuple(results)),
            target=target,
            options=tvm_disc.Options(tf32=True),
        )
    found = []
    for m, n, k in SIZES:
        given = [numbers(dtype, *shape, scale=k**-0.5) for shape in ((m, k), (k, n), (n, k))]
        a, b, c = (g.astype("f8") for g in given)
        wanted = [np.maximum(a @ b, 0), a @ c.T]
        for got, want in zip(program(*given), wanted, strict=True):
            if not np.abs(got.astype("f8") - want).max() < TOLERANCE[dtype]:
                found.append(f"{tile} {dtype} {m} x {n} x {k}")
    return found


def main() -> int:
    """Check all cases."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", default="cuda")
    options = parser.parse_args()
    found = []
    for dtype, tiles in CASES:
        for number in tiles:
            tile = TILES[number]
            found += wrong(only_tensor_tile(tile), tile, dtype, options.target)
    for number, pair in enumerate(GROUP_TILES):
        dtype = ("bfloat16", "float16")[number % 2]
        found += wrong(only_group_tile(pair), pair[1], dtype, GROUP_TARGET)
    print("\n".join(found))
    print(f"{len(found)} wrong")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
