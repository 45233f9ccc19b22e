"""The table of semantics, and how it is printed. Each family of corners has a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.semantics import edges, special_values
from tests.semantics.corner import Corner

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "semantics.md"

FAMILIES: tuple[tuple[str, Sequence[Corner]], ...] = (
    ("Special values", special_values.ROWS),
    ("Indices, integers and sizes", edges.ROWS),
)  # fmt: skip

_HEAD = """# Corners of operators

What operators do where a definition for ordinary numbers leaves it open, or where frameworks
differ. A program does what its source does: PyTorch, ONNX (ONNX Runtime where the text is silent),
or Relay. Written by `python -m tests.semantics --write`; a test compares.
"""


def document() -> str:
    """The document as text."""
    parts = [_HEAD]
    for title, rows in FAMILIES:
        parts += [f"## {title}\n", "\n".join(_table(rows)), ""]
    return "\n".join(parts)


def _table(rows: Sequence[Corner]) -> list[str]:
    head = "| operators | corner | PyTorch | ONNX | Relay | here | test |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for row in rows:
        tests = "<br>".join(f"`{t.removeprefix('tests/')}`" for t in row.tests)
        cells = [row.operators, row.corner, row.pytorch, row.onnx, row.relay, row.ours, tests]
        lines.append(f"| {' | '.join(c.replace('|', chr(92) + '|') for c in cells)} |")
    return lines
