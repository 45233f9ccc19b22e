"""The table of docs/semantics.md, printed as Markdown. Each section has its own module."""

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

_HEAD = """# Edge cases of operators

Frameworks define the results of operators for special values, indices out of range and empty axes
differently, or leave them undefined. A program of `tvm_disc` follows the framework of its model:
PyTorch, ONNX, or Relay. If the specification of ONNX leaves a case undefined, the program follows
ONNX Runtime. The columns PyTorch, ONNX and Relay give the result in the framework (a cell is empty
if the row does not concern the framework), and the column `tvm_disc` that of a program. The tests
in the last column check the row. `python -m tests.semantics --write` generates this page.
"""


def document() -> str:
    """Return the document as text."""
    parts = [_HEAD]
    for title, rows in FAMILIES:
        parts += [f"## {title}\n", "\n".join(_table(rows)), ""]
    return "\n".join(parts)


def _table(rows: Sequence[Corner]) -> list[str]:
    head = "| operators | case | PyTorch | ONNX | Relay | `tvm_disc` | test |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for row in rows:
        tests = "<br>".join(f"`{t.removeprefix('tests/')}`" for t in row.tests)
        cells = [row.operators, row.corner, row.pytorch, row.onnx, row.relay, row.ours, tests]
        lines.append(f"| {' | '.join(c.replace('|', chr(92) + '|') for c in cells)} |")
    return lines
