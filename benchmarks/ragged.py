"""Requests per second of batches of different lengths, ragged and padded.

    python benchmarks/full_models.py export FOLDER bert
    python -m benchmarks.ragged FOLDER/bert.onnx --onnxruntime PYTHON --openvino PYTHON

The lengths are log-normal with median 40, limited to 5 .. 512; a batch has 1 to 32 requests. Every
engine runs in a separate process, with the Python that its option names. An engine runs a batch in
two ways: padded, or one request after another; tvm_disc also runs it ragged. In each round every
way runs each batch once, in alternating order. Inputs are padded or packed outside of the measured
time.

Printed are requests per second, from the median of the rounds, and the speed-up of ragged batches
over each other way: over all batches together, and the least of a single batch. ``--cpu`` uses the
CPU time of the process instead of wall time, which is more stable on a shared machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
SEED, BATCHES = 44, 30
MEDIAN, SIGMA, SHORTEST, LONGEST, MOST = 40, 0.8, 5, 512, 32
TOLERANCE = 1e-4
THREADS = ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

Items = Sequence[np.ndarray]


def batches() -> list[list[np.ndarray]]:
    """Return the token ids of every request of every batch."""
    rng = np.random.default_rng(SEED)
    made = []
    for _ in range(BATCHES):
        lengths = rng.lognormal(np.log(MEDIAN), SIGMA, rng.integers(1, MOST + 1))
        sizes = np.clip(lengths.round(), SHORTEST, LONGEST).astype(int)
        made.append([rng.integers(0, 30000, n) for n in sizes])
    return made


# --- the engines, each in a process of its own ---------------------------------------------------


def padded(items: Items) -> tuple[np.ndarray, np.ndarray]:
    """Return a batch and its mask, with zeros after the end of every request."""
    shape = len(items), max(map(len, items))
    ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for k, item in enumerate(items):
        ids[k, : len(item)], mask[k, : len(item)] = item, 1
    return ids, mask


def dense_calls(
    call: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> dict[str, Callable[[Items], Callable[[], Any]]]:
    """Return the two ways of an engine that takes dense tensors. Each binds a batch to a call."""

    def together(items: Items) -> Callable[[], Any]:
        ids, mask = padded(items)
        return lambda: call(ids, mask)

    def one_by_one(items: Items) -> Callable[[], Any]:
        given = [(x[None], np.ones((1, len(x)), np.int64)) for x in items]
        return lambda: [call(ids, mask)[0] for ids, mask in given]

    return {"padded": together, "one by one": one_by_one}


def tvm_disc_ways(path: str, threads: int) -> Mapping[str, Any]:
    """Return the calls of tvm_disc: a ragged batch, a padded batch, and one request after
    another.
    """
    import tvm_disc

    options = tvm_disc.Options(threads=threads)
    plain = tvm_disc.build(path, options=options)
    ragged = tvm_disc.build(path, ragged={"ids": 1, "mask": 1}, options=options)

    def packed(items: Items) -> Callable[[], Any]:
        ids = tvm_disc.Ragged.pack(items)
        mask = tvm_disc.Ragged(np.ones_like(ids.values), ids.offsets)
        return lambda: ragged(ids, mask)

    shares = []
    for items in batches():
        rows, count, most = sum(map(len, items)), len(items), max(map(len, items))
        shapes = {"ids": [rows], "mask": [rows], "ids_offsets": [count + 1]}
        dense = {"ids": [count, most], "mask": [count, most]}
        shares.append(ragged.workspace_bytes(shapes) / plain.workspace_bytes(dense))
    print(f"workspace: {min(shares):.2f} to {max(shares):.2f} of that of the padded program")
    return {"ragged": packed, **dense_calls(plain)}


def onnxruntime_ways(path: str, threads: int) -> Mapping[str, Any]:
    """Return the calls of ONNX Runtime on the CPU: a padded batch, and one request after
    another.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(path, options, ["CPUExecutionProvider"])
    return dense_calls(lambda ids, mask: session.run(None, {"ids": ids, "mask": mask})[0])


def openvino_ways(path: str, threads: int) -> Mapping[str, Any]:
    """Return the calls of OpenVINO on the CPU, in float32, with one stream: a padded batch,
    and one request after another.
    """
    import openvino as ov

    config = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
    }
    request = ov.Core().compile_model(path, "CPU", config).create_infer_request()

    def call(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        found = request.infer([ids, mask], share_inputs=True)
        return np.asarray(next(iter(found.values())))

    return dense_calls(call)


ENGINES = {
    "tvm_disc": tvm_disc_ways,
    "onnxruntime": onnxruntime_ways,
    "openvino": openvino_ways,
}


def serve(engine: str, path: str, threads: int) -> None:
    """Answer ``[way, batch]`` with wall seconds, CPU seconds, and a sample of the results."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    ways, given = ENGINES[engine](path, threads), batches()
    for way in ways.values():
        way(given[0][:2])()
    print(json.dumps(list(ways)), file=channel, flush=True)
    for line in sys.stdin:
        way, k = json.loads(line)
        call = ways[way](given[k])
        cpu, wall = time.process_time(), time.perf_counter()
        found = call()
        spent = time.perf_counter() - wall, time.process_time() - cpu
        sample = [np.asarray(x)[0, :4].tolist() for x in found]
        print(json.dumps([*spent, sample]), file=channel, flush=True)


class Engine:
    """The process of an engine."""

    def __init__(self, name: str, python: str, path: Path, threads: int) -> None:
        command = [python, __file__, str(path), "--serve", name, "--threads", str(threads)]
        more = {"PYTHONPATH": str(ROOT)} if name == "tvm_disc" else {}
        env = {**os.environ, **dict.fromkeys(THREADS, str(threads)), **more}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=env, text=True)
        self.ways: list[str] = self._answer()

    def run(self, way: str, batch: int) -> tuple[float, float, Any]:
        """Return wall seconds, CPU seconds and a sample of the results."""
        assert self.process.stdin is not None
        print(json.dumps([way, batch]), file=self.process.stdin, flush=True)
        wall, cpu, sample = self._answer()
        return wall, cpu, sample

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"an engine ended with exit code {self.process.wait()}")
        return json.loads(line)


# --- the comparison ------------------------------------------------------------------------------

OURS = ("tvm_disc", "ragged")
Way = tuple[str, str]


def measure(
    engines: Mapping[str, Engine], rounds: int, cpu: bool
) -> Iterator[tuple[list[int], dict[Way, float]]]:
    """Yield for each batch the lengths of its requests, and the seconds of every way."""
    ways = [(name, way) for name, engine in engines.items() for way in engine.ways]
    for k, items in enumerate(batches()):
        times: dict[Way, list[float]] = {w: [] for w in ways}
        samples: dict[Way, Any] = {}
        for turn in range(rounds):
            for name, way in ways if turn % 2 == 0 else reversed(ways):
                spent = engines[name].run(way, k)
                times[name, way].append(spent[int(cpu)])
                samples[name, way] = np.asarray(spent[2])
        for way, sample in samples.items():
            error = float(np.abs(sample - samples[OURS]).max())
            assert error < TOLERANCE, f"batch {k}: {' '.join(way)} differs by {error}"
        yield [len(x) for x in items], {w: statistics.median(t) for w, t in times.items()}


def table(rows: Sequence[tuple[list[int], Mapping[Way, float]]]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| engine | way | requests/s | gain of ragged | least gain of a batch |"
    yield "|---|---|---:|---:|---:|"
    requests = sum(len(lengths) for lengths, _ in rows)
    for way in rows[0][1]:
        total = sum(t[way] for _, t in rows)
        gain = total / sum(t[OURS] for _, t in rows)
        least = min(t[way] / t[OURS] for _, t in rows)
        yield f"| {way[0]} | {way[1]} | {requests / total:.2f} | {gain:.2f} | {least:.2f} |"
    peers = [w for w in rows[0][1] if w[0] != "tvm_disc"]
    if peers:
        best = sum(min(t[w] for w in peers) for _, t in rows)
        yield f"| best peer of each batch | | {requests / best:.2f} | " + (
            f"{best / sum(t[OURS] for _, t in rows):.2f} | |"
        )


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, or serve one engine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="BERT as ONNX, with the inputs ids and mask")
    parser.add_argument("--onnxruntime", metavar="PYTHON")
    parser.add_argument("--openvino", metavar="PYTHON")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--serve", choices=ENGINES, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.serve:
        serve(given.serve, str(given.model), given.threads)
        return
    pythons = {
        "tvm_disc": sys.executable,
        "onnxruntime": given.onnxruntime,
        "openvino": given.openvino,
    }
    engines = {n: Engine(n, p, given.model, given.threads) for n, p in pythons.items() if p}
    rows = []
    for lengths, times in measure(engines, given.rounds, given.cpu):
        rows.append((lengths, times))
        text = ", ".join(f"{' '.join(w)} {t:.3f}" for w, t in times.items())
        print(f"{len(lengths)} requests, {sum(lengths)} rows, {max(lengths)} longest: {text}",
              file=sys.stderr, flush=True)  # fmt: skip
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
