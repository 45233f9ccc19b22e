"""Split the time of a call into compute-bound kernels, memory-bound kernels and the host.

    python benchmarks/breakdown.py [MODEL ...] [--repeat N]

Runs the recorded models of ``tests/data`` on their recorded shapes and prints one row per shape as
Markdown: milliseconds per call in compute-bound kernels (matrix products, convolutions, attention),
in all other kernels, in compiled host code between kernels, in Python around the program, and in
all; and the number of kernel calls. With ``--kernels`` it also prints the profile of every shape.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

# TVM reads the variable once, when its library loads.
os.environ.setdefault("TVM_NUM_THREADS", str(min(2, os.cpu_count() or 1)))

import numpy as np
import tvm

import tvm_disc
from tvm_disc import relay

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"


def models() -> dict[str, Path]:
    """Return the paths of all recorded models by name; the Relay form if a model has two forms."""
    paths = [*(DATA / "relax").glob("*.json"), *(DATA / "relay" / "models").glob("*.relay")]
    return {path.stem: path for path in sorted(paths)}


def build(path: Path) -> tvm_disc.Executable:
    """Return the compiled model."""
    text = path.read_text(encoding="utf-8")
    return tvm_disc.build(relay.parse(text) if path.suffix == ".relay" else tvm.ir.load_json(text))


def cases(path: Path, names: list[str]) -> Iterator[list[np.ndarray]]:
    """Yield the recorded inputs in the order of ``names``; keys are ``<case>.<input>`` or
    ``<case>.in<k>``.
    """
    with np.load(path.with_suffix(".npz")) as arrays:
        for case in dict.fromkeys(key.partition(".")[0] for key in arrays.files):
            keys = [f"{case}.{name}" for name in names]
            if keys[0] not in arrays.files:
                keys = [f"{case}.in{k}" for k in range(len(names))]
            yield [arrays[key] for key in keys]


def row(exe: tvm_disc.Executable, name: str, inputs: list[np.ndarray], repeat: int) -> str:
    """Return one line of the table, from medians."""
    profile = exe.profile(*inputs, repeat=repeat)
    split = {key: value / 1e3 for key, value in profile.split().items()}
    shape = ", ".join(dict.fromkeys("x".join(map(str, a.shape)) for a in inputs))
    numbers = [split[k] for k in ("compute_us", "memory_us", "host_us", "python_us", "total_us")]
    cells = [name, shape, *(f"{x:.4f}" for x in numbers), str(len(profile.calls[0]))]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Run the command."""
    known = models()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(known)}")
    parser.add_argument("--repeat", type=int, default=30, help="calls per shape")
    parser.add_argument("--kernels", action="store_true", help="also every kernel")
    args = parser.parse_args()
    print("| model | shape | compute-bound | memory-bound | host | Python | all | kernel calls |")
    print("|---|---|---|---|---|---|---|---|")
    for name in args.models or known:
        exe = build(known[name])
        for inputs in cases(known[name], [n for n, _, _ in exe.signature]):
            print(row(exe, name, inputs, args.repeat), flush=True)
            if args.kernels:
                print(exe.profile(*inputs, repeat=args.repeat))


if __name__ == "__main__":
    main()
