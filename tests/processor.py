"""Which tests this machine can run: one question, and one reason where the answer is no."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest
import tvm

from tvm_disc.codegen.target import instruction_sets
from tvm_disc.support import processor

AVX512 = processor.PLAIN["x86_64"]["x86-64-v4"]


def needs(*sets: str) -> pytest.MarkDecorator:
    """A mark: the test runs code of these instruction sets, by LLVM's names."""
    absent = _lacks("x86_64" if set(sets) & set(processor.X86) else "aarch64", sets)
    return pytest.mark.skipif(bool(absent), reason=_reason(absent))


def run_on(target: Any) -> None:
    """Skip what follows, the running of code for ``target``, where that cannot be run.

    What can be asked of the code without running it belongs before the call.
    """
    absent = absent_for(target)
    if absent:
        pytest.skip(_reason(absent))


def absent_for(target: Any) -> list[str]:
    """What this processor lacks of what a target (or an LLVM CPU of this machine's kind) needs."""
    if isinstance(target, str):
        target = tvm.target.Target({"kind": "llvm", "mcpu": target})
    return _lacks(
        processor.architecture(str(target.attrs.get("mtriple", ""))), instruction_sets(target)
    )


def _lacks(architecture: str, sets: Any) -> list[str]:
    if architecture != processor.architecture():
        return [architecture]
    return processor.lacks(sets)


def _reason(absent: list[str]) -> str:
    return f"needs {', '.join(absent)}, which this processor lacks"


def linux_with_cores(count: int) -> pytest.MarkDecorator:
    """A mark: the test needs Linux and so many cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 0
    return pytest.mark.skipif(cores < count, reason=f"needs Linux and {count} cores, has {cores}")
