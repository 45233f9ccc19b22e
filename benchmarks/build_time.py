"""Build times: without a cache of compiled code, while the cache is filled, and with the cache.

    python benchmarks/build_time.py [MODEL.onnx ...]

Every build runs in a separate process, which has built another program before, so that imports are
not counted. Times are seconds of processor time, including the linker; a row is the median of the
rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CHILD = """
import json, resource, sys
import numpy as np
import tvm_disc
from tvm_disc import relay
from tvm_disc.options import Options

def program(name):
    x, y = (relay.var(n, shape=(relay.Any(), relay.Any())) for n in "xy")
    if name.endswith(".onnx"):
        return name
    w = relay.const(np.zeros((64, 48), "float32"))
    made = {
        "add": lambda: relay.add(x, y),
        "relu": lambda: relay.nn.relu(x),
        "gelu": lambda: relay.multiply(x, relay.erf(x)),
        "softmax": lambda: relay.nn.softmax(x),
        "sum": lambda: relay.sum(x, axis=1),
        "transpose": lambda: relay.transpose(x, axes=(1, 0)),
        "concatenate": lambda: relay.concatenate((x, y), axis=1),
        "dense": lambda: relay.nn.dense(x, w),
        "matmul": lambda: relay.nn.dense(x, y),
    }[name]()
    return relay.Function(relay.free_vars(made), made)

def seconds():
    parts = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(p.ru_utime + p.ru_stime for p in parts)

tvm_disc.build(relay.tanh(relay.var("z", shape=(relay.Any(),))), options=Options(cache=False))
cache = False if sys.argv[2] == "off" else sys.argv[2]
model = program(sys.argv[1])
begin = seconds()
exe = tvm_disc.build(model, options=Options(cache=cache))
print(json.dumps(seconds() - begin))
"""
OPERATORS = "add relu gelu softmax sum transpose concatenate dense matmul".split()


def build(name: str, cache: str) -> float:
    """Return the processor seconds of one build in a new process."""
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", CHILD, name, cache]
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help="ONNX files, beside the operators")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    print("| program | no cache, s | empty cache, s | kept, s |\n|---|---|---|---|")
    kept = []
    for name in [*OPERATORS, *args.models]:
        rows: list[tuple[float, float, float]] = []
        for _ in range(args.rounds):
            with tempfile.TemporaryDirectory() as folder:
                rows.append((build(name, "off"), build(name, folder), build(name, folder)))
        medians = [statistics.median(column) for column in zip(*rows, strict=True)]
        print(
            f"| {Path(name).stem} | " + " | ".join(f"{m:.2f}" for m in medians) + " |", flush=True
        )
        kept += medians[2:] if name in OPERATORS else []
    print(f"\noperators with kept code: median {statistics.median(kept):.3f} s")


if __name__ == "__main__":
    main()
