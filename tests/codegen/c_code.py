"""Support code in C as LLVM IR: ``python -m tests.codegen.c_code --write``.

The wheel ``ziglang`` contains Clang 22; TVM 0.27 has the same LLVM version. The IR names no
target, so that one text serves all 64-bit architectures: it is compiled for AArch64, where stack
arrays have the least alignment. Without ``--write`` the IR is printed.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tvm_disc.abi import generation, threads

_CODEGEN = Path(threads.__file__).parents[1] / "codegen"
# Attributes and metadata describe a target, and may contradict those of the module that imports.
_DROPPED = re.compile(r"^(?:attributes |source_filename|target |; |!).*\n", re.MULTILINE)
_MARKS = re.compile(r" #\d+|, ![\w.]+ !\d+| +; preds = .*")


@dataclass(frozen=True)
class Source:
    """A C source, with the macros that it expects."""

    path: Path
    definitions: dict[str, int]


_CORES = ("BLIND", "CORES", "MASK", "MASK_WORDS", "QUOTA")
CORES = Source(_CODEGEN / "threads" / "cores.c", {name: getattr(threads, name) for name in _CORES})
LOOP = Source(_CODEGEN / "generation" / "loop.c", generation.constants())
SOURCES = (CORES, LOOP)


def has_clang() -> bool:
    """Return whether the wheel with Clang is installed."""
    return importlib.util.find_spec("ziglang") is not None


def compiled(source: Source, target: str = "aarch64-linux-gnu") -> str:
    """Return the LLVM IR of a C source: functions that TVM imports and inlines."""
    flags = ["-Os", "-g0", "-S", "-emit-llvm", "-fno-sanitize=all", "-fno-stack-protector"]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made.ll"
        words = [f"-D{name}={value}" for name, value in source.definitions.items()]
        clang = [sys.executable, "-m", "ziglang", "cc", "-target", target]
        command = [*clang, *flags, *words, "-o", str(made), str(source.path)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        text = made.read_text(encoding="utf-8")
    text = _MARKS.sub("", _DROPPED.sub("", text))
    text = re.sub(r"^define (?!internal)", "define linkonce_odr ", text, flags=re.MULTILINE)
    text = re.sub(r"@disc_(\w+)", r"@disc.\1", text)
    head = f"; Generated from {source.path.name} by tests.codegen.c_code: do not edit.\n\n"
    return head + re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


if __name__ == "__main__":
    for each in SOURCES:
        if "--write" in sys.argv:
            each.path.with_suffix(".ll").write_text(compiled(each), encoding="utf-8")
        else:
            print(compiled(each), end="")
