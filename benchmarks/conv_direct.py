"""Channels-last convolutions by two templates: direct summation, and a GEMM over pixels.

    python benchmarks/conv_direct.py [--only resnext] [--threads N]

The direct template broadcasts input channels. The GEMM over pixels first gathers the rows of each
window (im2row). Both programs are compiled for the same layer with dynamic dims and constant
weights, and are called alternately. Printed are the GFLOP/s of the median call and their ratio, on
one image and on four.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import tvm_disc  # noqa: E402
from tvm_disc import relay  # noqa: E402
from tvm_disc.schedules.conv.channel_window import plan_channel_window  # noqa: E402
from tvm_disc.schedules.conv.plan import plan_pixels  # noqa: E402

# (input channels, output channels, groups, kernel, stride, image side in pixels)
Layer = tuple[int, int, int, int, int, int]
LAYERS: Mapping[str, Sequence[Layer]] = {
    "resnet": [
        (3, 64, 1, 7, 2, 224),
        (64, 64, 1, 3, 1, 56),
        (128, 128, 1, 3, 1, 28),
        (256, 256, 1, 3, 1, 14),
        (512, 512, 1, 3, 1, 7),
        (512, 512, 1, 3, 1, 2),
        (256, 256, 1, 3, 2, 28),
    ],
    "densenet": [(128, 32, 1, 3, 1, size) for size in (56, 28, 14, 7)],
    "resnext": [(128 << k, 128 << k, 32, 3, 1, 56 >> k) for k in range(4)],
    "regnet": [
        (48, 48, 6, 3, 2, 112),
        (104, 104, 13, 3, 1, 28),
        (208, 208, 26, 3, 1, 14),
        (440, 440, 55, 3, 1, 7),
        (336, 336, 14, 3, 1, 14),
    ],
    "others": [(64, 64, 1, 3, 1, 8), (128, 128, 1, 3, 1, 9), (24, 40, 1, 3, 1, 17)],
}
ROUNDS = 15


def weights_of(layer: Layer) -> np.ndarray:
    """Return random weights, scaled so that results have the magnitude of the inputs."""
    ic, oc, groups, kernel, *_ = layer
    shape = (oc, ic // groups, kernel, kernel)
    made = np.random.default_rng(0).standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
    return made.astype("float32")


def built(layer: Layer, threads: int, templates: Any = (), winograd: int = 0) -> Any:
    """Return the layer and a relu, channels last; Winograd filtering is used only if requested."""
    ic, oc, groups, kernel, stride, _ = layer
    w = weights_of(layer)
    x = relay.var("x", shape=(relay.Any(), relay.Any(), relay.Any(), ic), dtype="float32")
    y = relay.nn.conv2d(
        x, relay.const(w), strides=(stride,) * 2, padding=(kernel // 2,) * 2, groups=groups,
        channels=oc, kernel_size=(kernel,) * 2, data_layout="NHWC", kernel_layout="OIHW",
    )  # fmt: skip
    options = tvm_disc.Options(threads=threads, templates=templates, winograd=winograd)
    return tvm_disc.build(relay.Function([x], relay.nn.relu(y)), options=options)


def seconds(exes: Sequence[Any], x: np.ndarray) -> list[float]:
    """Return the median seconds of the calls, which alternate."""
    times: list[list[float]] = [[] for _ in exes]
    for _ in range(ROUNDS):
        for exe, taken in zip(exes, times, strict=True):
            exe(x)
            begin = time.perf_counter()
            exe(x)
            taken.append(time.perf_counter() - begin)
    return [statistics.median(t) for t in times]


def main(argv: Sequence[str] | None = None) -> None:
    """Print one line per layer and batch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=sorted(LAYERS))
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(argv)
    ratios = []
    for name in [options.only] if options.only else LAYERS:
        for layer in LAYERS[name]:
            ic, oc, groups, kernel, stride, size = layer
            direct = built(layer, options.threads, (("conv", plan_channel_window),))
            product = built(layer, options.threads, (("conv", plan_pixels),))
            for batch in (1, 4):
                x = np.random.default_rng(1).standard_normal((batch, size, size, ic))
                taken = seconds([direct, product], x.astype("float32"))
                out = -(-size // stride)
                work = 2 * batch * out * out * oc * (ic // groups) * kernel * kernel
                ratios.append(taken[1] / taken[0])
                rates = "  ".join(f"{work / t / 1e9:6.1f}" for t in taken)
                where = f"{batch}x{size}x{size}x{ic} -> {oc}, {groups} groups, stride {stride}"
                print(f"{name:9} {where:44} {rates}  {ratios[-1]:.2f}", flush=True)
    mean = statistics.geometric_mean(ratios)
    print(f"direct over product: geometric mean {mean:.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
