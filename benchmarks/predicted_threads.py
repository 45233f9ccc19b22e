"""Predicted speed-up on two threads (``explain(full=True)``) beside the measured one.

    python -m benchmarks.predicted_threads [--rounds 150] [--only dense]

Kernels of BERT-base and ResNet-50 are compiled for two threads. Rounds alternate between calls on
one and on two threads; the least wall time over the rounds counts. Other processes on the machine
make the measured speed-up smaller.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tvm

import tvm_disc
from tvm_disc import relay

DENSE = [(8, 768, 768), (64, 768, 768), (64, 3072, 768), (128, 768, 3072), (512, 768, 768)]
ROWS = [(64, 128), (768, 128), (1536, 128), (128, 768), (512, 768)]
CONVOLUTIONS = [(64, 56, 3), (128, 28, 3), (256, 14, 3), (512, 7, 3), (256, 56, 1), (1024, 14, 1)]
SAMPLE_S = 5e-4
THREADS = 2


def cases() -> Iterator[tuple[str, Any, tuple[int, ...]]]:
    """Yield a name, a function of one input, and the shape of the input."""
    rng = np.random.default_rng(0)
    weights: Callable[..., Any] = lambda *s: relay.const(rng.standard_normal(s, dtype=np.float32))  # noqa: E731
    for m, k, n in DENSE:
        x = relay.var("x", shape=(relay.Any("m"), k), dtype="float32")
        yield f"dense {m}x{k}x{n}", relay.Function([x], relay.nn.dense(x, weights(n, k))), (m, k)
    for m, n in ROWS:
        x = relay.var("x", shape=(relay.Any("m"), n), dtype="float32")
        yield f"softmax {m}x{n}", relay.Function([x], relay.nn.softmax(x)), (m, n)
        norm = relay.nn.layer_norm(x, weights(n), weights(n))
        yield f"layer norm {m}x{n}", relay.Function([x], norm), (m, n)
    for channels, side, kernel in CONVOLUTIONS:
        x = relay.var("x", shape=(relay.Any("m"), channels, side, side), dtype="float32")
        out = max(64, channels // 4) if kernel == 1 else channels
        y = relay.nn.conv2d(
            x, weights(out, channels, kernel, kernel), padding=(kernel // 2, kernel // 2)
        )
        name = f"convolution {channels} to {out}, {side}x{side}, {kernel}x{kernel}"
        yield name, relay.Function([x], relay.nn.relu(y)), (1, channels, side, side)


def speed_up(exe: Any, shape: tuple[int, ...], rounds: int) -> tuple[float, float]:
    """Return microseconds on one thread, and the measured speed-up on two."""
    x = tvm.runtime.tensor(np.random.default_rng(1).standard_normal(shape, dtype=np.float32))
    call = exe.bind(x)
    times: dict[int, list[float]] = {1: [], THREADS: []}
    for number in range(rounds + 1):
        for threads, found in times.items():
            exe.threads = threads
            call()
            begin, count = time.perf_counter(), 0
            while (now := time.perf_counter()) - begin < SAMPLE_S:
                call()
                count += 1
            if number:
                found.append((now - begin) / count)
    one, two = (min(found) for found in times.values())
    return one * 1e6, one / two


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} at the start")
    print("| kernel | us on one thread | predicted | measured | predicted / measured |")
    print("|---|---|---|---|---|")
    errors = []
    for name, function, shape in cases():
        if args.only not in name:
            continue
        exe = tvm_disc.build(
            function,
            constraints=[f"likely(m, [{shape[0]}])"],
            options=tvm_disc.Options(threads=THREADS),
        )
        kernels = exe._manifest["scaling"]["kernels"].values()
        predicted = sum(k["ns"][0] for k in kernels) / sum(k["ns"][1] for k in kernels)
        one, measured = speed_up(exe, shape, args.rounds)
        errors.append(predicted / measured)
        print(
            f"| {name} | {one:.1f} | {predicted:.2f} | {measured:.2f} | {errors[-1]:.2f} |",
            flush=True,
        )
    logs = np.log(errors)
    print(
        f"predicted / measured: geometric mean {np.exp(logs.mean()):.2f}, "
        f"mean absolute error {np.expm1(np.abs(logs).mean()):.0%}, "
        f"least {min(errors):.2f}, largest {max(errors):.2f}; load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
