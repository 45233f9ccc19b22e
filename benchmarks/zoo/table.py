"""What was measured, as Markdown."""

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


def table(records: Sequence[dict[str, Any]]) -> str:
    """A table of records, one line a row and path, and below it how many there are of each kind."""
    lines = [_line(HEAD), _line(["---"] * len(HEAD))]
    lines += [_line(_cells(r)) for r in sorted(records, key=lambda r: (r["row"], r["path"]))]
    counts = Counter((r["path"], r["status"]) for r in records)
    said = [f"{p}: {n} {s}" for (p, s), n in sorted(counts.items())]
    return "\n".join([*lines, "", "; ".join(said) + ". " + _models(records)])


def _models(records: Sequence[dict[str, Any]]) -> str:
    """How many models are right on how many paths."""
    right = Counter({r["row"]: 0 for r in records})
    right.update(r["row"] for r in records if r["status"] == "right")
    paths = len({r["path"] for r in records})
    both = sum(count == paths for count in right.values())
    one = sum(0 < count < paths for count in right.values())
    return f"Of {len(right)} models {both} are right on every path, {one} on one of them."


def write(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Put the table between its marks in a document."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(f"{BEGIN}\n")
    _, end, after = rest.partition(f"\n{END}")
    assert begin and end, f"{path}: expected the lines {BEGIN!r} and {END!r}"
    text = f"{before}{begin}{table(records)}{end}{after}"
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
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)  # colours of a terminal
    text = text.replace("|", "\\|").replace("<", "&lt;")
    return text if len(text) <= 240 else text[:237] + "..."


__all__ = ["table", "write"]
