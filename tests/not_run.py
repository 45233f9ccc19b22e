"""The tests that a run left out: what they lack, and the command that runs them.

A test of an optional package is marked ``frontends``: ``make test-frontends`` installs the packages
and selects the mark. The mark is set by what a test's module has imported, so no list is kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from types import ModuleType

import pytest

# Packages that `make test` does not install.
OPTIONAL = ("jax", "keras", "torch", "transformers", "onnxruntime", "gguf")
MARK = "frontends"
COMMANDS: tuple[tuple[str, str], ...] = (
    (r"tensorflow|tf2onnx", "pip install 'tvm_disc[tensorflow]', then make test-frontends"),
    (rf"\b({'|'.join(OPTIONAL)})\b", "make test-frontends"),
    (r"\bQEMU\b|\bqemu\b|aarch64", "make emulate"),
    (r"\bNVRTC\b|\bGPU\b", "make test-cuda"),
    (r"playwright|Chromium", "pip install 'tvm_disc[browser]' and Chromium, then make test"),
    (r"extra docs", "make docs"),
    (r"extra plot", "pip install 'tvm_disc[plot]', then make test"),
    (r"ziglang", "pip install 'tvm_disc[clang]', then make test"),
    (r"which this processor lacks", "make test on a processor that has them"),
)
NO_COMMAND = "nothing here: see the reason"


def needs_optional(module: ModuleType) -> bool:
    """Return whether a test module holds one of the optional packages, or part of one."""
    return any(
        isinstance(value, ModuleType) and value.__name__.partition(".")[0] in OPTIONAL
        for value in vars(module).values()
    )


def mark_optional(items: Iterable[pytest.Item]) -> None:
    """Mark the tests whose module has imported an optional package."""
    for item in items:
        module = getattr(item, "module", None)
        if isinstance(module, ModuleType) and needs_optional(module):
            item.add_marker(getattr(pytest.mark, MARK))


def command_for(reason: str) -> str:
    """Return the command that runs a test which was skipped for this reason."""
    for pattern, command in COMMANDS:
        if re.search(pattern, reason):
            return command
    return NO_COMMAND


def report(reasons: Iterable[str]) -> list[str]:
    """Return a line for each reason: how many tests or modules it left out, and the command."""
    counts = Counter(re.sub(r"^Skipped: ", "", reason).strip() for reason in reasons)
    return [
        f"{count:4} {'test or module' if count == 1 else 'tests or modules'}: {reason} -> "
        f"{command_for(reason)}"
        for reason, count in counts.most_common()
    ]
