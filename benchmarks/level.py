"""``--target``: the processor or x86-64 level to which all engines of a benchmark are limited.

    python benchmarks/gemm.py --target x86-64-v3

Import this module before any other library, because libraries read their environment when they are
loaded. tvm_disc compiles for the target. oneDNN, PyTorch, MKL, OpenBLAS and NumPy have environment
variables that limit the instruction sets that they use. ONNX Runtime has no such variable and uses
the instructions of the processor; a line of the output says so.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

OPTION = "--target"
_AVX512 = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
# number of float32 lanes that code for the target uses -> environment variables
VARIABLES: dict[int, dict[str, str]] = {
    16: {},
    8: {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": _AVX512,
    },
    4: {
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": f"{_AVX512} AVX2 FMA3",
    },
}


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option to the parser, for its help. :func:`hold` has already read the value."""
    parser.add_argument(
        OPTION, metavar="CPU", help="compile for, and hold the others to; default: this processor"
    )


def hold(words: list[str] | None = None) -> None:
    """Set the environment according to the option of the command line."""
    name = _given(sys.argv[1:] if words is None else words)
    if name is None:
        return
    os.environ["DISC_TARGET"] = name if " " in name else f"llvm -mcpu={name}"
    wanted, here = _lanes()
    if wanted < here:
        os.environ.update(VARIABLES[wanted])
        print("# ONNX Runtime follows the processor, which is larger than the target", flush=True)


def _given(words: list[str]) -> str | None:
    for k, word in enumerate(words):
        if word.startswith(f"{OPTION}="):
            return word.partition("=")[2]
        if word == OPTION and k + 1 < len(words):
            return words[k + 1]
    return None


def _lanes() -> list[int]:
    """Return the lanes of the target and of this processor.

    Another process computes them, because importing TVM here would load NumPy.
    """
    code = (
        "from tvm_disc.codegen.target import resolve_target as of; "
        "from tvm_disc.target.isa import isa_of; "
        "print(*(isa_of(of(t)).lanes_f32 for t in (None, 'llvm')))"
    )
    root = Path(__file__).parents[1]
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(run.stderr.strip().splitlines()[-1])
    return [int(word) for word in run.stdout.split()]
