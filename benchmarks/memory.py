"""Workspace of a program for all shapes, compared to programs for one shape.

    python benchmarks/memory.py [MODEL ...]

For every shape of a sweep the model is planned twice: once for all shapes, and once with its dims
replaced by numbers, which kernels, scratch memory and the memory plan can then use. Prints one
Markdown row per shape with the workspace of both, and the worst ratio of each model. Nothing is
compiled to machine code, and nothing runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from tvm_disc.abi.formula import evaluate
from tvm_disc.codegen.build import emit_tir
from tvm_disc.codegen.manifest import describe
from tvm_disc.compile import prepare
from tvm_disc.options import Options
from tvm_disc.support.debug import Trace

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "relax"
# Sizes around those of vectors (16) and tiles (9, 14, 36, 48), and sizes at which a second thread
# begins to be faster.
SEQUENCES = [(1, 1), (2, 1), (5, 1), (8, 1), (33, 1), (1, 2), (3, 2), (1, 4), (2, 4), (3, 3)]
SEQUENCES += [(2, 5), (1, 7), (1, 8), (1, 9), (2, 7), (3, 5), (4, 4), (1, 12), (1, 15), (1, 16)]
SEQUENCES += [(1, 17), (2, 16), (1, 31), (1, 37), (1, 48), (1, 49), (3, 33), (8, 64), (64, 50)]
IMAGES = [(1, 1, 1), (1, 2, 2), (1, 5, 7), (3, 7, 7), (1, 8, 8), (2, 8, 8), (16, 8, 8), (64, 8, 8)]
IMAGES += [(5, 9, 9), (1, 13, 29), (1, 16, 16), (3, 16, 16), (1, 20, 20), (1, 28, 28), (1, 32, 32)]
IMAGES += [(2, 32, 32), (16, 32, 32), (1, 33, 41), (2, 45, 46), (2, 64, 64), (1, 91, 93)]
IMAGES += [(3, 7, 200), (1, 3, 500), (1, 224, 224)]
SWEEPS: dict[str, list[tuple[int, ...]]] = {
    "bert": SEQUENCES,
    "gpt2": SEQUENCES,
    "vit": [(k,) for k in (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 33, 65, 128)],
    "cnn": IMAGES,
}


def workspace(mod: Any) -> tuple[str, list[str]]:
    """Return the formula of a module's workspace, and the dims in the order of its inputs."""
    front = prepare(mod, None, None, (), Options(), Trace(0, None))
    emit_tir(front.programs, front.machine)
    manifest = describe(front.programs, front.versions, front.library, front.refused)
    dims = [d for _, shape, _ in manifest["inputs"] for d in shape if not d.isdigit()]
    return manifest["workspace_bytes"], list(dict.fromkeys(dims))


def ratio(known: int, unknown: int) -> float:
    """Return the workspace for all shapes divided by that for one; 1 if both are 0."""
    return unknown / known if known else 1.0 + unknown


def compare(name: str) -> float:
    """Print the rows of a model, and return its worst ratio."""
    mod = tvm.ir.load_json((DATA / f"{name}.json").read_text(encoding="utf-8"))
    text, names = workspace(mod)
    worst = 0.0
    for sizes in SWEEPS[name]:
        dims = dict(zip(names, sizes, strict=True))
        values = {k: tvm.tirx.IntImm("int64", v) for k, v in dims.items()}
        static, _ = workspace(relax.transform.BindSymbolicVars(values)(mod))
        known, unknown = evaluate(static, {}), evaluate(text, dims)
        worst = max(worst, ratio(known, unknown))
        shape = ", ".join(f"{k}={v}" for k, v in dims.items())
        print(f"| {name} | {shape} | {unknown} | {known} | {ratio(known, unknown):.3f} |")
    return worst


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(SWEEPS)}")
    args = parser.parse_args()
    print("| model | dims | all shapes, bytes | this shape, bytes | ratio |")
    print("|---|---|---|---|---|")
    worst = {name: compare(name) for name in args.models or SWEEPS}
    print(", ".join(f"{name}: at most {value:.3f}" for name, value in worst.items()))


if __name__ == "__main__":
    main()
