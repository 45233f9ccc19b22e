"""Dense channels-last 3x3 convolutions: direct summation against Winograd's minimal filtering.

    python benchmarks/conv_winograd.py [--target x86-64-v3] [--threads N]

Every layer is compiled three times with dynamic dims and constant weights: without Winograd, with
F(2x2, 3x3) and with F(4x4, 3x3); the last two are used at all sizes. The three programs are called
alternately. Printed are the GFLOP/s of the median call, with the operations of the direct sum, the
ratios to the first program, and the largest errors against sums in float64, relative to the largest
result.
"""

# The environment must be set before the libraries load.
# ruff: noqa: E402
from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import level

level.hold()
import argparse
import statistics
from collections.abc import Sequence

import numpy as np

from benchmarks.conv_direct import Layer, built, seconds, weights_of
from tvm_disc.schedules.conv.winograd import plan_winograd

LAYERS: Sequence[Layer] = [
    (64, 64, 1, 3, 1, 56),
    (128, 128, 1, 3, 1, 28),
    (256, 256, 1, 3, 1, 14),
    (512, 512, 1, 3, 1, 7),
    (128, 32, 1, 3, 1, 28),
    (16, 64, 1, 3, 1, 55),
    (96, 128, 1, 3, 1, 28),
    (160, 320, 1, 3, 1, 14),
]
ASKED = (("conv", plan_winograd),)


def error(got: np.ndarray, x: np.ndarray, w: np.ndarray) -> float:
    """Return the largest error after the relu, against float64 sums, relative to the largest
    result.
    """
    wide = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = x.shape[1:3]
    expected = sum(
        wide[:, i : i + height, j : j + width] @ w[:, :, i, j].T.astype(np.float64)
        for i in range(3)
        for j in range(3)
    )
    expected = np.maximum(expected, 0)
    return float(np.abs(got - expected).max() / expected.max())


def main(argv: Sequence[str] | None = None) -> None:
    """Print one line per layer and batch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    level.add_option(parser)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(argv)
    ratios: list[list[float]] = [[], []]
    for layer in LAYERS:
        ic, oc, *_, size = layer
        direct = built(layer, options.threads)
        exes = [direct, *(built(layer, options.threads, ASKED, m) for m in (2, 4))]
        for batch in (1, 4):
            x = np.random.default_rng(1).standard_normal((batch, size, size, ic)).astype("float32")
            first, *others = taken = seconds(exes, x)
            work = 2 * batch * size * size * oc * ic * 9
            found = [first / t for t in others]
            for kept, ratio in zip(ratios, found, strict=True):
                kept.append(ratio)
            text = "  ".join(f"{work / t / 1e9:6.1f}" for t in taken)
            text += "  " + " ".join(f"{r:.2f}" for r in found)
            if batch == 1:
                text += "  " + " ".join(f"{error(e(x), x, weights_of(layer)):.1e}" for e in exes)
            print(f"{batch}x{size}x{size}x{ic} -> {oc:4}  {text}", flush=True)
    for name, kept in zip(("F(2x2)", "F(4x4)"), ratios, strict=True):
        mean, least = statistics.geometric_mean(kept), min(kept)
        print(f"{name} over direct sums: geometric mean {mean:.2f}, least {least:.2f}")


if __name__ == "__main__":
    main()
