"""Report of a comparison as text, Markdown, JSON and a plot."""

from __future__ import annotations

import importlib
import json
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvm_disc.bench.compare import NAMES, OURS, ComparisonRow, Engine

FORMATS = (".svg", ".png", ".pdf")


@dataclass
class ComparisonReport:
    """One comparison.

    Attributes:
        about: the machine and the settings, by name.
        engines: the requested engines, tvm_disc first.
        tolerance: the accepted difference from the reference.
    """

    model: str
    about: dict[str, str]
    engines: Sequence[Engine]
    rows: Sequence[ComparisonRow]
    tolerance: float

    @property
    def compared(self) -> list[str]:
        """The engines that started, tvm_disc first."""
        return [e.name for e in self.engines if not e.reason]

    @property
    def wrong(self) -> list[ComparisonRow]:
        """Rows in which results of tvm_disc differ from the reference by more than the
        tolerance.
        """
        return [r for r in self.rows if not r.differences.get(OURS, 0.0) <= self.tolerance]

    def text(self) -> str:
        """Return text for a terminal."""
        lines = [f"{self.model}: " + ", ".join(f"{k} {v}" for k, v in self.about.items()), ""]
        lines += _aligned([("engine", "version", "ready after"), *self._ready()])
        lines += ["", *_aligned([self._head(), *map(self._cells, self.rows)]), ""]
        return "\n".join([*lines, *self.notes()])

    def markdown(self) -> str:
        """Return Markdown for a document."""
        lines = [", ".join(f"{k} {v}" for k, v in {"model": self.model, **self.about}.items()), ""]
        lines += _table(("engine", "version", "ready after"), self._ready())
        lines += ["", *_table(self._head(), [self._cells(row) for row in self.rows]), ""]
        return "\n".join([*lines, *(f"- {note}" for note in self.notes()), ""])

    def to_json(self) -> str:
        """Return the report as JSON, including the time of each turn."""
        rows = [
            {
                **asdict(row),
                "median_s": self._medians(row),
                # JSON has no infinity
                "differences": {
                    e: d if math.isfinite(d) else None for e, d in row.differences.items()
                },
            }
            for row in self.rows
        ]
        engines = [asdict(e) for e in self.engines]
        made = {"model": self.model, "about": self.about, "tolerance": self.tolerance}
        return json.dumps({**made, "engines": engines, "points": rows}, indent=1) + "\n"

    def notes(self) -> Iterator[str]:
        """Yield lines below the table: gains, reasons for missing engines, and differences."""
        peers = [e for e in self.compared if e != OURS]
        for peer in peers:
            yield from _gain(label(peer), [row.gain(peer) for row in self.rows])
        if len(peers) > 1:
            yield from _gain("the best at each point", [row.best_gain(peers) for row in self.rows])
        for row in self.rows:
            for engine, reason in row.failed.items():
                yield f"{label(engine)} at {_at(row)}: {reason}"
            for engine, found in row.differences.items():
                if not found <= self.tolerance:
                    yield (
                        f"{label(engine)} at {_at(row)}: differs from {label(row.reference)} by "
                        f"{found:.1e} of the largest element, more than {self.tolerance:g}"
                    )

    def _ready(self) -> list[tuple[str, ...]]:
        return [
            (label(e.name), e.version, f"{e.load_s:.2f} s" if not e.reason else e.reason)
            for e in self.engines
        ]

    def _head(self) -> tuple[str, ...]:
        dims = list(self.rows[0].point) if self.rows else []
        over = ["over the best"] if len(self.compared) > 1 else []
        return (*dims, *(f"{label(e)} ms" for e in self.compared), *over, "difference")

    def _cells(self, row: ComparisonRow) -> tuple[str, ...]:
        times = [_ms(row.median(e)) for e in self.compared]
        best = row.best_gain([e for e in self.compared if e != OURS])
        over = [f"{best:.2f}" if best else "-"] if len(self.compared) > 1 else []
        own = row.differences.get(OURS)
        error = "-" if own is None else f"{own:.1e}" + ("" if own <= self.tolerance else " DIFFERS")
        return (*map(str, row.point.values()), *times, *over, error)

    def _medians(self, row: ComparisonRow) -> dict[str, float]:
        return {e: t for e in self.compared if (t := row.median(e)) is not None}

    def plot(self, path: Path) -> None:
        """Plot milliseconds over the points, a line per engine; requires matplotlib."""
        backend: Any = importlib.import_module("matplotlib.backends.backend_agg")
        pyplot: Any = importlib.import_module("matplotlib.figure")
        figure = pyplot.Figure(figsize=(max(6.0, 2 + 0.5 * len(self.rows)), 4.5), layout="tight")
        backend.FigureCanvasAgg(figure)
        axes = figure.subplots()
        labels = [_at(row, short=True) for row in self.rows]
        for engine in self.compared:
            times = [row.median(engine) for row in self.rows]
            values = [float("nan") if t is None else 1e3 * t for t in times]
            width = 2.2 if engine == OURS else 1.2
            axes.plot(range(len(labels)), values, marker="o", linewidth=width, label=label(engine))
        axes.set_xticks(range(len(labels)), labels, rotation=45, ha="right")
        axes.set_yscale("log")
        axes.set_ylabel("ms per call")
        axes.set_xlabel(" x ".join(self.rows[0].point) if self.rows else "")
        axes.set_title(self.model)
        axes.grid(True, which="both", alpha=0.3)
        axes.legend()
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def label(engine: str) -> str:
    """Return the engine's name in tables."""
    return NAMES.get(engine, engine)


def _gain(over: str, gains: Sequence[float | None]) -> Iterator[str]:
    known = [g for g in gains if g is not None]
    if known:
        mean, least = statistics.geometric_mean(known), min(known)
        points = "1 point" if len(known) == 1 else f"{len(known)} points"
        yield f"over {over}: geometric mean {mean:.2f}, least {least:.2f} ({points})"


def _at(row: ComparisonRow, short: bool = False) -> str:
    if short:
        return "x".join(map(str, row.point.values()))
    return " ".join(f"{name}={value}" for name, value in row.point.items()) or "its one shape"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.3f}"


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines]


__all__ = ["FORMATS", "ComparisonReport"]
