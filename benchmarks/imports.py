"""Processor time of imports: tvm_disc and TVM, alternately, each in a new interpreter.

    python benchmarks/imports.py [--rounds 7]

The user and system time of the process is measured, which other processes disturb little. The first
round, which writes bytecode, is not counted. PYTHONDONTWRITEBYTECODE is removed from the
environment, because Python would then compile every module again in each process.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = {
    "nothing": "pass",
    "import tvm": "import tvm",
    "import tvm_disc": "import tvm_disc",
    "tvm_disc.load(...)(x)": "import sys, numpy, tvm_disc; "
    "tvm_disc.load(sys.argv[1])(numpy.ones((3, 16), 'float32'))",
    "tvm_disc.build": "import tvm_disc; tvm_disc.build",
}
SAVE = """
import sys
from tvm_disc import build, relay
x = relay.var("x", shape=(relay.Any(), 16), dtype="float32")
build(relay.Function([x], relay.nn.softmax(x))).save(sys.argv[1])
"""
ROOT = Path(__file__).resolve().parents[1]


def run(program: str, library: Path) -> float:
    """Return the processor seconds of a program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(
        [sys.executable, "-c", program, str(library)],
        env={**env, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "softmax.so"
        run(SAVE, library)
        found: dict[str, list[float]] = {name: [] for name in CASES}
        for round_ in range(rounds + 1):
            for name, program in CASES.items():
                seconds = run(program, library)
                if round_:
                    found[name].append(seconds)
    print(f"| {rounds} rounds in turn | seconds | beyond `import tvm` |\n|---|---|---|")
    for name, seconds in found.items():
        pairs = [a - b for a, b in zip(seconds, found["import tvm"], strict=True)]
        print(f"| {name} | {statistics.median(seconds):.2f} | {statistics.median(pairs):+.2f} |")


if __name__ == "__main__":
    main()
