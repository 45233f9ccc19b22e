"""Two threads against one thread while other processes use the cores: medians and 99th percentiles.

    python benchmarks/busy.py [--busy 0,1,2,4] [--calls 400] [--models bert,cnn]
                              [--ways plain,fork,callers,one-core] [--ort]

The recorded models are compiled once for two threads and once for one. At every shape both programs
are called alternately, with a pause before each call. ``fork`` measures in a child of a
process that has called the programs before, ``callers`` from eight threads at once, ``one-core`` on
one core. ``--ort`` adds ONNX Runtime: a dense layer of 512x512 with a bias and relu, at 8 and 256
rows, for ONNX Runtime and tvm_disc with two threads and with one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]
MODELS = ROOT / "tests" / "data" / "relay" / "models"
SHAPES = {
    "bert": [(1, 1), (1, 7), (2, 7), (2, 16), (4, 64), (8, 31)],
    "cnn": [(1, 8, 8), (1, 33, 41), (2, 17, 64), (5, 96, 50)],
}
PAUSE_S = 0.001
CALLERS = 8
ROUNDS = 5
Call = Callable[[], Any]


def inputs(model: str, shape: Sequence[int]) -> dict[str, Any]:
    """Return random inputs of a recorded model."""
    import numpy as np

    rng = np.random.default_rng(0)
    if model == "bert":
        return {"ids": rng.integers(0, 90, shape), "mask": np.ones(shape, "int64")}
    batch, height, width = shape
    return {"x": rng.standard_normal((batch, 3, height, width)).astype("float32")}


def ours(model: str) -> dict[str, dict[int, Call]]:
    """Return for each shape a call on two threads and one on one thread, of separate programs."""
    import tvm_disc

    programs = {
        n: tvm_disc.build(str(MODELS / f"{model}.relay"), options=tvm_disc.Options(threads=n))
        for n in (2, 1)
    }
    found: dict[str, dict[int, Call]] = {}
    for shape in SHAPES[model]:
        given = inputs(model, shape)
        name = f"{model} {'x'.join(map(str, shape))}"
        found[name] = {n: lambda e=e, g=given: e(**g) for n, e in programs.items()}
    return found


def layers() -> dict[str, dict[int, Call]]:
    """Return calls of a dense layer by ONNX Runtime and tvm_disc, on two threads and on one."""
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    import tvm_disc

    rng = np.random.default_rng(0)
    w, b = (rng.standard_normal(s).astype("float32") for s in ((512, 512), (512,)))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Add", ["h", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 512]) for n in "xy")
    weights = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")]
    graph = helper.make_graph(nodes, "layer", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    found: dict[str, dict[int, Call]] = {}
    sessions, programs = {}, {}
    for n in (2, 1):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = n
        sessions[n] = onnxruntime.InferenceSession(model.SerializeToString(), options)
        programs[n] = tvm_disc.build(model, options=tvm_disc.Options(threads=n))
    for rows in (8, 256):
        a = rng.standard_normal((rows, 512)).astype("float32")
        found[f"onnxruntime {rows}x512"] = {
            n: lambda s=s, a=a: s.run(None, {"x": a}) for n, s in sessions.items()
        }
        found[f"ours {rows}x512"] = {n: lambda e=e, a=a: e(a) for n, e in programs.items()}
    return found


def times(calls: dict[int, Call], count: int) -> dict[int, list[float]]:
    """Return the seconds of single calls; the programs are called alternately."""
    found: dict[int, list[float]] = {n: [] for n in calls}
    for call in calls.values():
        for _ in range(5):
            call()
    for _ in range(count):
        for n, call in calls.items():
            time.sleep(PAUSE_S)
            start = time.perf_counter()
            call()
            found[n].append(time.perf_counter() - start)
    return found


def from_callers(calls: dict[int, Call], count: int) -> dict[int, list[float]]:
    """Return the seconds of calls from eight threads at once.

    Rounds on two threads and on one alternate, because the load of other processes changes from one
    second to the next.
    """
    found: dict[int, list[float]] = {n: [] for n in calls}
    for _ in range(ROUNDS):
        for n, call in calls.items():
            found[n] += at_once(n, call, -(-count // (ROUNDS * CALLERS)))
    return found


def at_once(n: int, call: Call, count: int) -> list[float]:
    """Return the seconds of the calls of `CALLERS` threads, each of which makes `count` calls."""
    own: list[list[float]] = [[] for _ in range(CALLERS)]

    def work(mine: list[float]) -> None:
        mine += times({n: call}, count)[n]

    callers = [threading.Thread(target=work, args=(mine,)) for mine in own]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return [t for mine in own for t in mine]


def measure(args: argparse.Namespace) -> None:
    """Measure in a child process, and print one JSON line per shape."""
    points: dict[str, dict[int, Call]] = {}
    for model in filter(None, args.models.split(",")):
        points |= ours(model)
    if args.ort:
        points |= layers()
    if args.child == "fork":
        for calls in points.values():
            times(calls, 3)
        child = os.fork()
        if child:
            sys.exit(os.waitpid(child, 0)[1] != 0)
    timed = from_callers if args.child == "callers" else times
    for name, calls in points.items():
        found = timed(calls, args.calls)
        row = {n: [quantile(t, 0.5), quantile(t, 0.99)] for n, t in found.items()}
        print(json.dumps([name, row]), flush=True)
    os._exit(0)


def quantile(values: Sequence[float], at: float) -> float:
    """Return the quantile ``at`` of a list."""
    return sorted(values)[min(len(values) - 1, int(at * len(values)))]


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Run ``count`` processes that compute endlessly, for the duration of the context."""
    spin = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(spin) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def run(way: str, busy: int, args: argparse.Namespace) -> list[tuple[float, float]]:
    """Return for every shape the ratios of medians and of 99th percentiles: two threads over
    one thread.
    """
    given = ["--child", way, "--models", args.models, "--calls", str(args.calls)]
    command = [sys.executable, __file__, *given, *(["--ort"] if args.ort else [])]
    if way == "one-core":
        command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command]
    with neighbours(busy):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    ratios = []
    for line in done.stdout.splitlines():
        name, row = json.loads(line)
        (two, two_99), (one, one_99) = row["2"], row["1"]
        print(
            f"{way:9} {busy} busy  {name:18} one thread {one * 1e3:8.3f} {one_99 * 1e3:8.3f} ms"
            f"   two {two * 1e3:8.3f} {two_99 * 1e3:8.3f} ms"
            f"   median {two / one:5.2f}x  p99 {two_99 / one_99:5.2f}x",
            flush=True,
        )
        ratios.append((two / one, two_99 / one_99))
    return ratios


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--busy", default="0,1,2,4")
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--models", default="bert,cnn")
    parser.add_argument("--ways", default="plain,fork,callers,one-core")
    parser.add_argument("--ort", action="store_true")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        measure(args)
    for way in args.ways.split(","):
        for busy in map(int, args.busy.split(",")):
            ratios = run(way, busy, args)
            worst = [max(r[k] for r in ratios) for k in range(2)]
            print(f"# {way}, {busy} busy: worst median {worst[0]:.2f}x, worst p99 {worst[1]:.2f}x")


if __name__ == "__main__":
    main()
