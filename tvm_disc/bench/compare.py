"""Measure the engines alternately at every point, and compare their results."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tvm_disc.bench.points import Case, Point
from tvm_disc.bench.served import EngineRefused, Served

OURS = "tvm_disc"
NAMES: Mapping[str, str] = {
    OURS: "tvm_disc",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "torch": "PyTorch",
    "torch.compile": "torch.compile",
    "relax_vm": "Relax VM",
}
"""Display names of the engines, in the order in which they are measured."""


@dataclass
class Engine:
    """An engine, and ``reason``: why it did not start, or "" if it did."""

    name: str
    version: str = ""
    load_s: float = 0.0
    reason: str = ""


@dataclass
class ComparisonRow:
    """Measurements at one point.

    Attributes:
        seconds: times of each engine, one per turn.
        differences: largest difference of each engine's results from those of the reference,
            relative to the largest element of the same result.
        failed: the reason why an engine did not run, by the engine's name.
    """

    point: Point
    shapes: Mapping[str, tuple[int, ...]]
    seconds: dict[str, list[float]] = field(default_factory=dict)
    differences: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    reference: str = ""

    def median(self, engine: str) -> float | None:
        """Return the median seconds of a call; None if the engine did not run."""
        turns = self.seconds.get(engine)
        return statistics.median(turns) if turns else None

    def gain(self, engine: str) -> float | None:
        """Return the engine's median time divided by that of tvm_disc; None if either did not
        run.
        """
        ours, theirs = self.median(OURS), self.median(engine)
        return theirs / ours if ours and theirs else None

    def best_gain(self, engines: Sequence[str]) -> float | None:
        """Return the gain over the fastest of several engines; None if none of them ran."""
        gains = [g for e in engines if (g := self.gain(e)) is not None]
        return min(gains, default=None)


@dataclass
class ComparisonEffort:
    """Number of turns of each engine at each point, and seconds per turn."""

    rounds: int = 5
    turn_s: float = 0.2


def measure(
    served: Mapping[str, Served],
    cases: Iterable[Case],
    effort: ComparisonEffort,
    tell: Callable[[ComparisonRow], None],
) -> list[ComparisonRow]:
    """Measure every case; ``tell`` is called with each completed row.

    The reference for results is the first engine, other than tvm_disc, that returned results.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            row = ComparisonRow(case.point, {n: a.shape for n, a in case.arrays.items()})
            _results(row, served, case.arrays, Path(folder))
            for _ in range(effort.rounds):
                for name in [n for n in served if n not in row.failed]:
                    try:
                        row.seconds.setdefault(name, []).append(served[name].seconds(effort.turn_s))
                    except EngineRefused as error:
                        row.failed[name] = str(error)
                        row.seconds.pop(name, None)
            rows.append(row)
            tell(row)
    return rows


def _results(
    row: ComparisonRow, served: Mapping[str, Served], arrays: Mapping[str, np.ndarray], folder: Path
) -> None:
    """Call each engine once, and compare its results with those of the reference."""
    inputs = folder / "inputs.npz"
    numbered: dict[str, Any] = {str(k): a for k, a in enumerate(arrays.values())}
    np.savez(inputs, **numbered)
    found: dict[str, list[np.ndarray]] = {}
    for name, engine in served.items():
        results = folder / f"{name}.npz"
        try:
            engine.run(list(arrays), inputs, results)
        except EngineRefused as error:
            row.failed[name] = str(error)
            continue
        with np.load(results) as made:
            found[name] = [made[str(k)] for k in range(len(made.files))]
        results.unlink()
    row.reference = next((n for n in found if n != OURS), "")
    if row.reference:
        wanted = found[row.reference]
        row.differences = {
            n: difference(made, wanted) for n, made in found.items() if n != row.reference
        }


def difference(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """Return the largest difference between results, relative to the largest element of the same
    result.

    The difference is infinite if the number or the shapes of the results differ, or if the
    positions or values of non-finite elements do.
    """
    if [x.shape for x in found] != [x.shape for x in wanted]:
        return float("inf")
    return max((_difference(a, b) for a, b in zip(found, wanted, strict=True)), default=0.0)


def _difference(found: np.ndarray, wanted: np.ndarray) -> float:
    if not wanted.size:
        return 0.0
    a, b = (x.astype("complex128" if x.dtype.kind == "c" else "float64") for x in (found, wanted))
    bad = ~np.isfinite(b)
    if not np.array_equal(a[bad], b[bad], equal_nan=True) or not np.isfinite(a[~bad]).all():
        return float("inf")
    a, b = np.where(bad, 0, a), np.where(bad, 0, b)
    return float(np.abs(a - b).max() / max(float(np.abs(b).max()), 1e-6))


__all__ = ["NAMES", "OURS", "ComparisonEffort", "ComparisonRow", "Engine", "difference", "measure"]
