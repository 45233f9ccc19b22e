"""Latency of a small call, and of each further kernel, compared to TVM's two virtual machines.

    python benchmarks/latency.py [PROGRAM ...] [--relay-python PYTHON] [--rounds N]

The programs are `dense_bias_relu`, and chains of 1 and 33 dense layers of 16 units on one row; each
layer is one kernel in all three systems. tvm_disc is called with NumPy arrays and with TVM tensors,
alternating with the Relax VM in one process. The Relay VM (`make relay-vm`) runs in a separate
process, before and after, with its inputs already bound. Printed are microseconds per call, the
median of the rounds, and per additional kernel the slope from the shortest chain to the longest.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

# TVM reads the variable once, when its library loads.
os.environ.setdefault("TVM_NUM_THREADS", str(min(2, os.cpu_count() or 1)))

import numpy as np
import tvm
from demo import leaves, paired_seconds, relax_vm

import tvm_disc
from tvm_disc import relay

ROOT = Path(__file__).resolve().parents[1]
RELAY_PYTHON = ROOT / ".venv-relay" / "bin" / "python"
CHAINS = (1, 33)
SYSTEMS = ("tvm-disc, NumPy", "tvm-disc, TVM tensors", "Relax VM", "Relay VM")


def chain(layers: int) -> relay.IRModule:
    """Return a chain of dense layers with nothing to fuse between them."""
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(relay.Any(), 16), dtype="float32")
    y = x
    for _ in range(layers):
        y = relay.nn.dense(y, relay.const((rng.standard_normal((16, 16)) / 4).astype("float32")))
    return relay.IRModule.from_expr(relay.Function([x], y))


def programs() -> dict[str, relay.IRModule]:
    """Return every measured program by name; each takes ``x`` of 16 columns."""
    text = ROOT / "tests" / "data" / "relay" / "printed" / "dense_bias_relu.relay"
    found = {"dense_bias_relu": relay.parse(text.read_text(encoding="utf-8"))}
    return found | {f"chain of {k}": chain(k) for k in CHAINS}


def relay_vm(python: Path, mod: relay.IRModule, x: np.ndarray, rounds: int) -> float | None:
    """Return the seconds per call on the Relay VM; None if it is not installed or fails."""
    if not python.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        model, inputs = Path(folder) / "model.relay", Path(folder) / "inputs.npz"
        model.write_text(mod.astext(), encoding="utf-8")
        np.savez(inputs, **{"0.x": x})
        script = ROOT / "benchmarks" / "relay_vm.py"
        argv = [str(python), str(script), str(model), str(inputs), str(rounds)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        print("the Relay VM ended:", (done.stderr.strip().splitlines() or ["no message"])[-1])
        return None
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"]["0"])


def measure(mod: relay.IRModule, python: Path, rounds: int) -> list[float | None]:
    """Return the microseconds per call of every system on one row."""
    exe, vm = tvm_disc.build(mod), relax_vm(mod)
    x = np.random.default_rng(1).standard_normal((1, 16)).astype("float32")
    tensor = tvm.runtime.tensor(x)
    np.testing.assert_allclose(exe(x), leaves(vm(tensor))[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(exe(x), exe(tensor).numpy())
    theirs = [relay_vm(python, mod, x, 2000)]

    def from_numpy(_: Any) -> Any:
        return exe(x)

    times: list[float | None] = [*paired_seconds([from_numpy, exe, vm], [tensor], rounds)]
    theirs.append(relay_vm(python, mod, x, 2000))
    known = [t for t in theirs if t is not None]
    times.append(statistics.mean(known) if known else None)
    return [None if t is None else t * 1e6 for t in times]


def row(name: str, times: list[float | None]) -> str:
    """Return a line of the table."""
    return f"| {name} | {' | '.join('-' if t is None else f'{t:.2f}' for t in times)} |"


def main() -> None:
    """Run the command."""
    known = programs()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"of {', '.join(known)}")
    parser.add_argument("--relay-python", type=Path, default=RELAY_PYTHON)
    parser.add_argument("--rounds", type=int, default=200)
    args = parser.parse_args()
    print(f"| us per call | {' | '.join(SYSTEMS)} |\n|---|{'---|' * len(SYSTEMS)}")
    found = {}
    for name in args.programs or known:
        found[name] = measure(known[name], args.relay_python, args.rounds)
        print(row(name, found[name]), flush=True)
    first, last = (f"chain of {k}" for k in (CHAINS[0], CHAINS[-1]))
    if first in found and last in found:
        pairs = zip(found[first], found[last], strict=True)
        kernels = CHAINS[-1] - CHAINS[0]
        slopes = [None if a is None or b is None else (b - a) / kernels for a, b in pairs]
        print(row("each kernel more", slopes))


if __name__ == "__main__":
    main()
