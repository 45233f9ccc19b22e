"""Classes of defects, and the tests of their members: ``python -m tests.meta.classes --write``.

A class has a generator or a table: a defect of a new member fails a test. Members are counted by
pytest, in an environment with PyTorch.
"""

from __future__ import annotations

import subprocess
import sys

from tests.sections import ROOT, Section

SECTION = Section("docs/testing.md", "tests.meta.classes", "classes")

_TORCH, _ONNX, _RELAY = "frontends/torch/test_", "frontends/onnx/test_", "relay/"

# Class of defects -> files and folders of its tests, below tests/.
CLASSES: dict[str, tuple[str, ...]] = {
    "conditions of a model that a program does not check: decisions on sizes": (
        f"{_TORCH}conditions.py",
    ),
    "sizes that shape arithmetic makes negative": (
        "build/test_negative_sizes.py",
        f"{_ONNX}negative_sizes.py",
        f"{_TORCH}negative_sizes.py",
    ),
    "legal programs that are refused: ranks that differ in branches": (f"{_ONNX}ranks.py",),
    "special values: NaN, infinities, signed zeros, their order, masked rows": (
        "semantics/test_onnx.py",
        "semantics/test_relay.py",
        "semantics/test_torch.py",
        "relay_passes/test_attention.py",
    ),
    "indices out of range, zero divisors, sizes that do not fit": (
        f"{_TORCH}indices.py",
        "semantics/test_edges_onnx.py",
        "semantics/test_edges_relay.py",
        "semantics/test_edges_torch.py",
    ),
    "accuracy of functions in their tails": ("schedules/math/test_functions.py",),
    "`torch.compile`: graphs that are partly unsupported, calls that are refused": (
        f"{_TORCH}partition.py",
        f"{_TORCH}dynamo.py",
        f"{_TORCH}generate.py",
        f"{_TORCH}graph_operators.py",
    ),
    "`build(nn.Module)`: sizes of 1, derived sizes, asserts, signatures, names": (
        f"{_TORCH}export.py",
        f"{_TORCH}inputs.py",
        "frontends/torch/nested/test_structure.py",
        f"{_TORCH}build.py",
    ),
    "operators without a converter": (
        f"{_TORCH}special.py",
        f"{_TORCH}rows.py",
        f"{_ONNX}table.py",
    ),
    "untrusted files and machines without resources": ("limits", "relay/test_hostile.py"),
    "time of a build: questions to the solver, joins of unrelated dims": (
        "shape/test_budget.py",
        "shape/test_joins.py",
        f"{_ONNX}detectors.py",
    ),
    "sizes without a value for some inputs": ("codegen/test_undefined_sizes.py",),
    "passes and types of Relay scripts": (
        f"{_RELAY}transform",
        f"{_RELAY}suite/test_families.py",
        f"{_RELAY}suite/test_simplification.py",
        f"{_RELAY}suite/test_type_inference.py",
        f"{_RELAY}suite/test_pass_manager.py",
        f"{_RELAY}suite/test_dataflow_pattern.py",
        f"{_RELAY}testing",
    ),
    "choices that depend on the machine of the test; tests that do not run": (
        "schedules/test_ways.py",
        "meta/test_not_run.py",
    ),
}


def counts() -> dict[str, int]:
    """Return the number of test cases by file, below tests/."""
    paths = sorted({f"tests/{path}" for paths in CLASSES.values() for path in paths})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider"]
    text = subprocess.run([*command, *paths], cwd=ROOT, capture_output=True, text=True).stdout
    lines = (line.rpartition(": ") for line in text.splitlines() if line.startswith("tests/"))
    return {path.removeprefix("tests/"): int(n) for path, _, n in lines if n.isdigit()}


def rows() -> list[str]:
    """Return the beginning of every row of the table, without its count."""
    return [
        f"| {title} | {' '.join(f'`{path}`' for path in paths)} |"
        for title, paths in CLASSES.items()
    ]


def table() -> str:
    """Return the table as Markdown."""
    found = counts()
    lines = ["| class | tests, below `tests/` | members |", "|---|---|--:|"]
    for row, paths in zip(rows(), CLASSES.values(), strict=True):
        members = sum(n for f, n in found.items() if f.startswith(paths))
        assert members, f"no tests in {paths}"
        lines.append(f"{row} {members} |")
    return "\n".join(lines)


if __name__ == "__main__":
    SECTION.command(__doc__, table)
