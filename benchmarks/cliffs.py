"""Time over one dim in steps of 1, and its cliffs: small problems that are slower than larger ones.

    python -m benchmarks.cliffs products --json times.json [--threads 2] [--peers ort,openvino]
    python -m benchmarks.cliffs rows attention --step 7 --json times.json --only softmax
    python -m benchmarks.cliffs --json times.json --again                  # repeats cliffs only
    python -m benchmarks.cliffs --json times.json --plot docs/cliffs.png   # needs matplotlib

``products`` multiplies M rows by constant weights, with (K, N) of BERT-base, LLaMA and the 1x1
convolutions of ResNet-50; ``rows`` are softmax and layer norm of 64 rows of 1 to 2048 elements;
``attention`` has 12 heads of 64, and one of query length and key length varies. A sweep is one
ONNX model with one unknown dim, which every engine compiles once.

A point is a cliff if t(n) > 1.10 t(n') for some n' >= n. The jump of a sweep is the largest ratio
of t(n) / n between adjacent points. Rounds iterate over the points in random order, and within a
point over the engines. A time is the least over the rounds: processor time on one thread, wall time
on several. Cliffs, and the points that they are compared with, are then timed again in up to six
batches of rounds, until no cliff disappears.
"""

# Thread counts must be set before the libraries load.
# ruff: noqa: E402
from __future__ import annotations

import os

from benchmarks import level

level.hold()
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from onnx import TensorProto, helper, numpy_helper

from benchmarks.ort_session import ort_session
from benchmarks.sequence_length import processor

LAYERS = {
    "BERT": ((768, 768), (768, 2304), (768, 3072), (3072, 768)),
    "LLaMA": ((768, 2048), (2048, 768), (4096, 4096), (4096, 11008), (11008, 4096)),
    "ResNet": (
        *((64, 64), (64, 256), (256, 64), (256, 128), (128, 512), (512, 128)),
        *((512, 256), (256, 1024), (1024, 256), (1024, 512), (512, 2048), (2048, 512)),
    ),
}  # (K, N)
MOST = {"products": 512, "rows": 2048, "queries": 64, "keys": 1024}
ROWS, HEADS, DEPTH = 64, 12, 64
ALLOWED = 1.10
SAMPLE_S = 0.001
BATCHES = 6  # maximum number of batches of rounds in which cliffs are timed again
OURS = "tvm_disc"

Call = Callable[[], object]
Times = dict[str, list[float]]  # engine -> seconds of each point


@dataclass(frozen=True)
class Sweep:
    """A model with one unknown dim, and its input shapes at each value of the dim."""

    name: str
    group: str
    model: Callable[[], bytes]
    shapes: Callable[[int], list[tuple[int, ...]]]
    most: int

    def points(self, step: int) -> list[int]:
        """Return the values of the dim; powers of two and the values next to them are always
        included.
        """
        near = {2**k + d for k in range(12) for d in (-1, 0, 1)} if step > 1 else set()
        values = {*range(1, self.most + 1, step), *near, self.most}
        return sorted(v for v in values if 1 <= v <= self.most)


def _model(
    nodes: Sequence[Any], inputs: Sequence[Sequence[Any]], constants: Sequence[Any]
) -> bytes:
    """Return an ONNX model of inputs ``x0``, ``x1`` ... and the result ``y``."""
    made = [
        helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, list(shape))
        for k, shape in enumerate(inputs)
    ]
    rank = [None] * len(inputs[0])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, rank)
    graph = helper.make_graph(list(nodes), "sweep", made, [result], list(constants))
    opset = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString())


def _constant(name: str, *shape: int) -> Any:
    values = np.random.default_rng(0).standard_normal(shape, dtype=np.float32) / 8
    return numpy_helper.from_array(values, name)


def _product(group: str, k: int, n: int) -> Sweep:
    def model() -> bytes:
        node = helper.make_node("MatMul", ["x0", "w"], ["y"])
        return _model([node], [("m", k)], [_constant("w", k, n)])

    return Sweep(f"{group} {k}x{n}", "products", model, lambda m: [(m, k)], MOST["products"])


def _rows(operator: str) -> Sweep:
    def model() -> bytes:
        if operator == "softmax":
            node = helper.make_node("Softmax", ["x0"], ["y"], axis=-1)
            return _model([node], [(ROWS, "n")], [])
        node = helper.make_node("LayerNormalization", ["x0", "x1", "x2"], ["y"], axis=-1)
        return _model([node], [(ROWS, "n"), ("n",), ("n",)], [])

    vectors = operator != "softmax"
    shapes: Callable[[int], list[tuple[int, ...]]] = lambda n: [(ROWS, n), *[(n,)] * (2 * vectors)]  # noqa: E731
    return Sweep(operator, "rows", model, shapes, MOST["rows"])


def _attention(of: str, other: int) -> Sweep:
    """Return the sweep over queries or keys; the other length is fixed."""
    queries = of == "queries"

    def model() -> bytes:
        q, k = ("n", other) if queries else (other, "n")
        nodes = [
            helper.make_node("MatMul", ["x0", "x1"], ["scores"]),
            helper.make_node("Mul", ["scores", "scale"], ["scaled"]),
            helper.make_node("Softmax", ["scaled"], ["weights"], axis=-1),
            helper.make_node("MatMul", ["weights", "x2"], ["y"]),
        ]
        inputs = [(HEADS, q, DEPTH), (HEADS, DEPTH, k), (HEADS, k, DEPTH)]
        scale = numpy_helper.from_array(np.float32(DEPTH**-0.5), "scale")
        return _model(nodes, inputs, [scale])

    def shapes(n: int) -> list[tuple[int, ...]]:
        q, k = (n, other) if queries else (other, n)
        return [(HEADS, q, DEPTH), (HEADS, DEPTH, k), (HEADS, k, DEPTH)]

    text = f"{other} keys" if queries else f"{other} queries"
    return Sweep(f"attention, {of} of {text}", "attention", model, shapes, MOST[of])


SWEEPS = {
    s.name: s
    for s in (
        *(_product(group, k, n) for group, layers in LAYERS.items() for k, n in layers),
        *(_rows(operator) for operator in ("softmax", "layer norm")),
        *(_attention("queries", keys) for keys in (17, 128, 1024)),
        *(_attention("keys", queries) for queries in (1, 8, 64)),
    )
}


# -- engines -------------------------------------------------------------------------------------


def _ours(model: bytes, threads: int) -> Callable[[list[np.ndarray]], Call]:
    import onnx

    import tvm_disc

    exe = tvm_disc.build(
        onnx.load_model_from_string(model), options=tvm_disc.Options(threads=threads)
    )
    return lambda arrays: exe.bind(*map(tvm.runtime.tensor, arrays))


def _onnx_runtime(model: bytes, threads: int) -> Callable[[list[np.ndarray]], Call]:
    session = ort_session(model, threads)

    def bind(arrays: list[np.ndarray]) -> Call:
        io = session.io_binding()
        for k, x in enumerate(arrays):
            io.bind_input(f"x{k}", "cpu", 0, np.float32, x.shape, x.ctypes.data)
        [result] = session.run(None, {f"x{k}": x for k, x in enumerate(arrays)})
        io.bind_output("y", "cpu", 0, np.float32, result.shape, result.ctypes.data)

        def call(_keep: object = (arrays, result)) -> None:
            session.run_with_iobinding(io)

        return call

    return bind


def _openvino(model: bytes, threads: int) -> Callable[[list[np.ndarray]], Call]:
    import openvino as ov

    config = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
    core = ov.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", config)

    def bind(arrays: list[np.ndarray]) -> Call:
        request = compiled.create_infer_request()
        for k, x in enumerate(arrays):
            request.set_tensor(f"x{k}", ov.Tensor(x, shared_memory=True))

        def call(_keep: object = arrays) -> None:
            request.infer()

        return call

    return bind


ENGINES = {OURS: _ours, "ort": _onnx_runtime, "openvino": _openvino}


class Measured:
    """The engines of one sweep, and the least times so far."""

    def __init__(self, sweep: Sweep, engines: Sequence[str], points: list[int], threads: int):
        self.sweep, self.points, self.threads = sweep, points, threads
        model = sweep.model()
        self.binds = {name: ENGINES[name](model, threads) for name in engines}
        self.clock = time.process_time if threads == 1 else time.perf_counter
        self.least: Times = {name: [math.inf] * len(points) for name in engines}

    def rounds(self, count: int, seed: int, at: Mapping[str, Sequence[int]] | None = None) -> None:
        """Time all points once per round, or for each engine only the points with the indices
        ``at``.
        """
        rng = np.random.default_rng(seed)
        wanted = {k for numbers in (at or {}).values() for k in numbers}
        for _ in range(count):
            for k in rng.permutation(sorted(wanted) if at else len(self.points)):
                names = [n for n in self.binds if at is None or k in at[n]]
                arrays = [
                    np.random.default_rng(1).standard_normal(s, dtype=np.float32)
                    for s in self.sweep.shapes(self.points[k])
                ]
                for name in names:
                    seconds = self._seconds(self.binds[name](arrays))
                    self.least[name][k] = min(self.least[name][k], seconds)

    def _seconds(self, call: Call) -> float:
        call()
        begin = time.perf_counter()
        call()
        count = max(1, int(SAMPLE_S / max(time.perf_counter() - begin, 1e-7)))
        found = math.inf
        for _ in range(3 if count > 1 else 1):
            begin = self.clock()
            for _ in range(count):
                call()
            found = min(found, (self.clock() - begin) / count)
        return found

    def again(self, rounds: int, seed: int) -> None:
        """Time cliffs, and the points that they are compared with, until all are repeatable."""
        for batch in range(BATCHES):
            before = {name: cliffs(times) for name, times in self.least.items()}
            numbers = {n: sorted({k for two in pairs for k in two}) for n, pairs in before.items()}
            if not any(numbers.values()):
                return
            self.rounds(rounds, seed + batch, numbers)
            if all(len(cliffs(self.least[n])) == len(before[n]) for n in before):
                return


# -- results -------------------------------------------------------------------------------------


def cliffs(times: Sequence[float]) -> list[tuple[int, int]]:
    """Return pairs (k, later) with times[k] > ALLOWED * times[later]; ``later`` has the least
    time after k.
    """
    found, least = [], len(times) - 1
    for k in reversed(range(len(times))):
        if times[k] > ALLOWED * times[least]:
            found.append((k, least))
        elif times[k] < times[least]:
            least = k
    return found[::-1]


def worst(points: Sequence[int], times: Sequence[float]) -> tuple[float, int]:
    """Return the largest ratio of t(n) to the least t(n') with n' >= n, and its n."""
    later = np.minimum.accumulate(np.array(times)[::-1])[::-1]
    k = int(np.argmax(np.array(times) / later))
    return float(times[k] / later[k]), points[k]


def jump(points: Sequence[int], times: Sequence[float]) -> tuple[float, int]:
    """Return the largest ratio of t(n) / n at adjacent points, and the n of the second point."""
    each = np.array(times) / np.array(points)
    ratios = each[1:] / each[:-1]
    k = int(np.argmax(ratios))
    return float(ratios[k]), points[k + 1]


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown table with one row for each sweep and engine."""
    lines = ["| sweep | threads | engine | points | cliffs | worst (at) | jump (at) | speed |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for r in records:
        for name, times in r["s"].items():
            most, at = worst(r["points"], times)
            ratio, where = jump(r["points"], times)
            speeds = [t / own for t, own in zip(times, r["s"][OURS], strict=True)]
            speed = "" if name == OURS else f"{statistics.geometric_mean(speeds):.2f}"
            lines.append(
                f"| {r['sweep']} | {r['threads']} | {name} | {len(times)} | {len(cliffs(times))} "
                f"| {most:.2f} ({at}) | {ratio:.2f} ({where}) | {speed} |"
            )
    return "\n".join(lines)


def plot(records: Sequence[Mapping[str, Any]], machine: str, path: Path) -> None:
    """Plot t(n) relative to the least t(n') with n' >= n, one panel per group and thread count."""
    from matplotlib.figure import Figure

    panels = list(dict.fromkeys((SWEEPS[r["sweep"]].group, r["threads"]) for r in records))
    figure = Figure(figsize=(8, 3 * len(panels)), layout="tight")
    for number, (group, threads) in enumerate(panels):
        axes = figure.add_subplot(len(panels), 1, number + 1)
        for r in records:
            if (SWEEPS[r["sweep"]].group, r["threads"]) != (group, threads):
                continue
            for name, times in r["s"].items():
                later = np.minimum.accumulate(np.array(times)[::-1])[::-1]
                own = {} if name == OURS else {"color": "0.8", "zorder": 0}
                label = r["sweep"] if name == OURS else None
                axes.plot(r["points"], np.array(times) / later, linewidth=0.9, label=label, **own)
        axes.axhline(ALLOWED, color="black", linewidth=0.6, linestyle=":")
        title = f"{group}, {threads} thread{'s' * (threads > 1)} of {machine} (peers grey)"
        axes.set(ylabel="t(n) / least t(n' ≥ n)", title=title, xscale="log", ylim=(0.98, 1.6))
        axes.legend(fontsize=6, ncols=3)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure the sweeps of the named groups, and print or plot all results of the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("groups", nargs="*", choices=["products", "rows", "attention", []])
    parser.add_argument("--json", type=Path, required=True, help="sweeps are replaced or added")
    parser.add_argument("--only", default="", help="sweeps with this in their name")
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--most", type=int, help="largest value of the dim")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", default="", help="ort, openvino, with commas between")
    parser.add_argument("--again", action="store_true", help="repeat the cliffs of the file")
    parser.add_argument("--plot", type=Path)
    level.add_option(parser)
    args = parser.parse_args()
    held = json.loads(args.json.read_text()) if args.json.exists() else {}
    records = {(r["sweep"], r["threads"]): r for r in held.get("sweeps", [])}
    engines = [OURS, *filter(None, args.peers.split(","))]
    seed = int(time.time())

    def keep(measured: Measured) -> None:
        name, threads = measured.sweep.name, measured.threads
        own = {"sweep": name, "threads": threads, "points": measured.points, "s": measured.least}
        records[name, threads] = own
        data = {"machine": processor(), "sweeps": list(records.values())}
        args.json.write_text(json.dumps(data) + "\n")
        print("\n".join(table([own]).splitlines()[2:]), flush=True)

    if args.again:
        for r in [r for r in records.values() if args.only in r["sweep"]]:
            measured = Measured(SWEEPS[r["sweep"]], list(r["s"]), r["points"], r["threads"])
            measured.least = r["s"]
            measured.again(args.rounds, seed)
            keep(measured)
    for sweep in SWEEPS.values():
        if sweep.group in args.groups and args.only in sweep.name:
            points = [n for n in sweep.points(args.step) if n <= (args.most or n)]
            measured = Measured(sweep, engines, points, args.threads)
            measured.rounds(args.rounds, seed)
            measured.again(args.rounds, seed)
            keep(measured)
    print(table(list(records.values())))
    if args.plot is not None:
        plot(list(records.values()), processor(), args.plot)


if __name__ == "__main__":
    main()
