"""Measure the size limits of non-temporal stores, of transposes and of near weights on a processor.

    python benchmarks/memory_limits.py [--quick] [--write]

Every program is compiled several times, with different values of one limit (``Memory`` in
``tvm_disc/schedules/dispatch/cost_model.py``). The programs are called alternately on every shape,
on one thread, with the same arrays. ``then read`` adds a sum over the result, as in a model: after
non-temporal stores it must fetch the result from memory. A printed value is the ratio of CPU times
to the first program, a median over rounds. A limit changes only if another value is clearly faster.

far_bytes      rows and loops with non-temporal stores never, and always. The limit is the number of
               bytes of operands and results from which on "always" is faster, with ``then read``
stream_bytes   as far_bytes, for transposes whose registers fill cache lines (AVX-512)
run_tiles      runs of 0 (never), 8, 16, 32 and 64 tiles along the rows of a transpose's result
weights_bytes  the most bytes of convolution weights that stay in the cache while images stream

``--write`` writes the limits to the shipped file of this processor, which
``benchmarks/dispatch.py constants`` has created.
"""

# The environment must be set before the libraries load.
# ruff: noqa: E402
from __future__ import annotations

import os

os.environ["TVM_NUM_THREADS"] = "1"

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1])]
import tvm

from tvm_disc import Options, build, relay
from tvm_disc.codegen import machine
from tvm_disc.codegen.target import host_cpu, resolve_target, runs_here
from tvm_disc.schedules.dispatch.cost_model import Memory
from tvm_disc.schedules.dispatch.shipped import FOLDER, memory_for
from tvm_disc.target.processor import processor_of
from tvm_disc.tir.llvm_ops import LANES, streams

NEVER = 1 << 50
TURN_S = 0.004
TILES = (0, 8, 16, 32, 64)
CLEARLY = 0.97  # a ratio of times below this means that a program is faster
Call = Callable[[], Any]
Shape = tuple[int, ...]


def matrix(name: str = "x") -> Any:
    """Return an input of unknown shape."""
    return relay.var(name, shape=(relay.Any(), relay.Any()), dtype="float32")


def _relu() -> Any:
    x = matrix()
    return relay.Function([x], relay.nn.relu(x))


def _add() -> Any:
    x, y = matrix("x"), matrix("y")
    return relay.Function([x, y], relay.add(x, y))


def _softmax() -> Any:
    x = matrix()
    return relay.Function([x], relay.nn.softmax(x))


def _norm() -> Any:
    x = matrix()
    scale, shift = (relay.var(n, shape=(relay.Any(),), dtype="float32") for n in "gb")
    return relay.Function([x, scale, shift], relay.nn.layer_norm(x, scale, shift))


def _transpose() -> Any:
    x = matrix()
    return relay.Function([x], relay.transpose(x))


def _sum() -> Any:
    x = matrix()
    return relay.Function([x], relay.sum(x))


# name -> (program, number of arrays of the input's size that the program reads or writes)
MOVES: dict[str, tuple[Callable[[], Any], int]] = {
    "relu": (_relu, 2),
    "add": (_add, 3),
    "softmax": (_softmax, 2),
    "layer norm": (_norm, 2),
}
CONVS = ((128, 128, 3, 28), (256, 256, 3, 14), (512, 512, 3, 7), (256, 1024, 1, 14))


def conv(ic: int, oc: int, kernel: int) -> Any:
    """Return a convolution of images of unknown number and size."""
    x = relay.var("x", shape=(relay.Any(), ic, relay.Any(), relay.Any()), dtype="float32")
    w = np.random.default_rng(0).standard_normal((oc, ic, kernel, kernel)).astype("float32")
    pads = (kernel // 2,) * 2
    y = relay.nn.conv2d(x, relay.const(w), padding=pads, channels=oc, kernel_size=(kernel, kernel))
    return relay.Function([x], y)


def compiled(source: Any, memory: Memory) -> Any:
    """Return a program for one thread, compiled with given memory limits."""
    with patch.object(machine, "memory_for", lambda processor: memory):
        return build(source, constraints=facts(source), options=Options(threads=1))


def facts(source: Any) -> list[str]:
    """Return constraints: matrices have one shape, vectors have the length of its rows."""
    found = []
    for param in source.params[1:]:
        axes = (0, 1) if len(param.type_annotation.shape) == 2 else (1,)
        name = param.name_hint
        found += [f"{name}.{k} == x.{axis}" for k, axis in enumerate(axes)]
    return found


def arrays(source: Any, shape: Shape) -> list[Any]:
    """Return operands aligned to cache lines; vectors have the length of a row."""
    rng = np.random.default_rng(1)
    found = []
    for param in source.params:
        dims = shape[-1:] if len(param.type_annotation.shape) == 1 else shape
        found.append(tvm.runtime.tensor(rng.standard_normal(dims).astype("float32")))
    return found


def ratios(calls: Sequence[Call], rounds: int) -> list[float]:
    """Return the CPU times relative to the first call's; the calls alternate.

    Each turn begins with a warm-up call.
    """
    start = time.perf_counter()
    for call in calls:
        call()
    repeat = max(1, int(TURN_S * len(calls) / (time.perf_counter() - start)))
    rows = []
    for _ in range(rounds):
        row = []
        for call in calls:
            call()
            start = time.process_time()
            for _ in range(repeat):
                call()
            row.append(time.process_time() - start)
        rows.append([t / row[0] for t in row])
    return [float(v) for v in np.median(rows, axis=0)]


def limit(
    name: str, knob: str, programs: Mapping[str, tuple[Callable[[], Any], int]], base: Memory,
    shapes: Sequence[Shape], rounds: int,
) -> int | None:  # fmt: skip
    """Return the bytes from which on non-temporal stores are faster for most programs, or None."""
    reader = compiled(_sum(), base)
    gains: dict[int, list[float]] = {}
    for title, (make, touched) in programs.items():
        source = make()
        pair = [compiled(source, replace(base, **{knob: b})) for b in (NEVER, 1)]
        for shape in shapes:
            args = arrays(source, shape)
            out = pair[0](*args)
            alone = [lambda p=p, a=args, o=out: p(*a, out=o) for p in pair]
            read = [lambda c=c, o=out: (c(), reader(o)) for c in alone]
            first, second = ratios(alone, rounds)[1], ratios(read, rounds)[1]
            size = 4 * shape[0] * shape[1] * (touched if knob == "far_bytes" else 1)
            gains.setdefault(size, []).append(second)
            print(f"{name} {title:<11}{'x'.join(map(str, shape)):>11} {size / 2**20:7.1f} MiB  "
                  f"past the caches {first:5.2f}, then read {second:5.2f}", flush=True)  # fmt: skip
    return first_gain({size: float(np.median(v)) for size, v in gains.items()})


def first_gain(gains: Mapping[int, float]) -> int | None:
    """Return the least size such that the gain is clear at this and all larger sizes, or None."""
    sizes = sorted(gains)
    found = None
    for k in range(len(sizes) - 1, -1, -1):
        if gains[sizes[k]] >= CLEARLY:
            break
        found = sizes[k]
    return found


def turns(base: Memory, shapes: Sequence[Shape], rounds: int) -> int:
    """Return the number of tiles per run with the least geometric mean of the times."""
    source = _transpose()
    programs = [compiled(source, replace(base, run_tiles=n)) for n in TILES]
    logs = []
    for shape in shapes:
        args = arrays(source, shape)
        out = programs[0](*args)
        found = ratios([lambda p=p: p(*args, out=out) for p in programs], rounds)  # noqa: B023
        logs.append(np.log(found))
        text = "  ".join(f"{n}: {v:5.2f}" for n, v in zip(TILES, found, strict=True))
        print(f"run_tiles {'x'.join(map(str, shape)):>11}  {text}", flush=True)
    mean = np.exp(np.mean(logs, axis=0))
    print("run_tiles        mean  " + "  ".join(
        f"{n}: {v:5.2f}" for n, v in zip(TILES, mean, strict=True)))  # fmt: skip
    return better(TILES, mean, base.run_tiles)


def near_weights(base: Memory, rounds: int) -> int:
    """Return the bytes of near weights with the least geometric mean of the times."""
    values = [base.weights_bytes * n // 2 for n in (1, 2, 4, 8)]
    logs = []
    for ic, oc, kernel, side in CONVS:
        source = conv(ic, oc, kernel)
        programs = [compiled(source, replace(base, weights_bytes=v)) for v in values]
        for shape in ((1, ic, side, side), (3, ic, side - 1, side - 1)):
            args = arrays(source, shape)
            found = ratios([lambda p=p: p(*args) for p in programs], rounds)  # noqa: B023
            logs.append(np.log(found))
            text = "  ".join(f"{v >> 10} KiB: {r:5.2f}" for v, r in zip(values, found, strict=True))
            print(f"weights_bytes {ic}->{oc} {kernel}x{kernel} {shape}  {text}", flush=True)
    return better(values, np.exp(np.mean(logs, axis=0)), base.weights_bytes)


def better(values: Sequence[int], times: Any, present: int) -> int:
    """Return the value with the least time if this is clearly faster than ``present``, else
    ``present``.
    """
    least = values[int(np.argmin(times))]
    before = times[list(values).index(present)] if present in values else np.inf
    return least if min(times) < CLEARLY * before else present


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few shapes and rounds")
    parser.add_argument("--write", action="store_true", help="into the shipped file")
    args = parser.parse_args()
    target = resolve_target()
    processor = processor_of(target, runs_here(target))
    base, isa = memory_for(processor), processor.isa
    print(f"# {processor}\n# {base}")
    rounds = 3 if args.quick else 9
    rows = (1024, 4096) if args.quick else (256, 512, 1024, 1536, 2048, 3072, 4096, 8192)
    found: dict[str, int | None] = {}
    if streams(isa, LANES):
        squares = [(r, 1024) for r in rows]
        found["far_bytes"] = limit("far_bytes", "far_bytes", MOVES, base, squares, rounds)
    sides = [(512, 1024), (1024, 1024), (64, 8192), (8192, 64), (2048, 1024), (768, 3072)]
    sides = sides[::3] if args.quick else [*sides, (512, 8192), (8192, 257), (8192, 1024)]
    if isa.lanes_f32 == LANES:
        one = {"transpose": (_transpose, 1)}
        found["stream_bytes"] = limit("stream_bytes", "stream_bytes", one, base, sides, rounds)
    found["run_tiles"] = turns(base, sides, rounds)
    if not args.quick:
        found["weights_bytes"] = near_weights(base, rounds)
    known = {name: value for name, value in found.items() if value is not None}
    print(json.dumps(known))
    if args.write:
        write(known)


def write(known: Mapping[str, int]) -> None:
    """Write limits to the shipped file of this processor."""
    path = FOLDER / f"{host_cpu()}.json"
    if not path.is_file():
        raise SystemExit(f"{path}: not there yet: python benchmarks/dispatch.py constants first")
    data = json.loads(path.read_text())
    data["memory"] = {**data.get("memory", {}), **known}
    path.write_text(json.dumps(data, indent=1) + "\n")
    print(path)


if __name__ == "__main__":
    main()
