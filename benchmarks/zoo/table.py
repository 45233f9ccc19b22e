"""Print and store the results as a Markdown table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BEGIN = "<!-- begin: python -m benchmarks.zoo --write -->"
END = "<!-- end: measured -->"

HEAD = (
    "model", "path", "status", "largest error", "dims run", "compiles", "symbols", "guards",
    "kernels", "build s", "vs ONNX Runtime", "exporter, reason",
)  # fmt: skip


def table(records: Sequence[dict[str, Any]], known: Sequence[Sequence[str]] = ()) -> str:
    """Return a table with one line per row and path, followed by counts by path and status.

    ``known`` holds the cells of earlier lines. A line is kept if no record has its row and path.
    """
    found = {(cells[0], cells[1]): list(cells) for cells in known}
    found |= {(r["row"], r["path"]): _cells(r) for r in records}
    rows = [found[key] for key in sorted(found)]
    lines = [_line(HEAD), _line(["---"] * len(HEAD)), *map(_line, rows)]
    counts = Counter((cells[1], cells[2]) for cells in rows)
    said = [f"{p}: {n} {s}" for (p, s), n in sorted(counts.items())]
    counted = f"Number of models by path and status: {'; '.join(said)}."
    return "\n".join([*lines, "", f"{counted} {_models(rows)}"])


def _models(rows: Sequence[Sequence[str]]) -> str:
    """Return a sentence on how many models are right on all paths on which they were run."""
    paths: dict[str, list[bool]] = {}
    for cells in rows:
        paths.setdefault(cells[0], []).append(cells[2] == "right")
    every = Counter(len(p) for p in paths.values() if all(p))
    some = sum(any(p) and not all(p) for p in paths.values())
    parts = [f"{n} on {k} path{'s' * (k > 1)}" for k, n in sorted(every.items(), reverse=True)]
    right = f"{sum(every.values())} of {len(paths)} models are right on every path that was run"
    return f"{right} ({', '.join(parts)}); {some} are right only on some."


def write(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Replace the table between its markers in a document; lines without a new record are kept."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(f"{BEGIN}\n")
    old, end, after = rest.partition(f"\n{END}")
    assert begin and end, f"{path}: expected the lines {BEGIN!r} and {END!r}"
    lines = [line for line in old.splitlines()[2:] if line.startswith("| ")]
    known = [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    text = f"{before}{begin}{table(records, known)}{end}{after}"
    path.write_text(text, encoding="utf-8")


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(r: dict[str, Any]) -> list[str]:
    return [
        r["row"], r["path"], r["status"],
        f"{r['error']:.1e}" if "error" in r else "",
        *(str(r.get(k, "")) for k in ("combinations", "compiles")),
        str(r.get("symbols", "")), str(len(r["guards"])) if "guards" in r else "",
        str(r.get("kernels", "")),
        str(r.get("build_s", "")), f"{r['ratio']:.2f}x" if "ratio" in r else "",
        _plain(", ".join(t for t in (r.get("exporter", ""), r.get("reason", "")) if t)),
    ]  # fmt: skip


def _plain(text: str) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)  # remove the color codes of a terminal
    text = text.replace("|", "\\|").replace("<", "&lt;")
    return text if len(text) <= 240 else text[:237] + "..."


__all__ = ["table", "write"]
