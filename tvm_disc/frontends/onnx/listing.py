"""Writes the table of ONNX operators into a document.

Usage: ``python -m tvm_disc.frontends.onnx.listing FILE``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tvm_disc.frontends.onnx.rows import FAMILIES, joined
from tvm_disc.frontends.onnx.table import Row

BEGIN, END = "<!-- operators -->", "<!-- end of operators -->"
# Operators without a converter: programs have no element type for strings and encoded images.
MISSING = (
    "ImageDecoder",
    "RegexFullMatch",
    "StringConcat",
    "StringNormalizer",
    "StringSplit",
)


def markdown() -> str:
    """Return a Markdown table with one row for each family of operators."""
    lines = ["| family | operators, with the first opsets of their converters |"]
    lines.append("|---|---|")
    lines += [f"| {family} | {', '.join(_names(rows))} |" for family, rows in FAMILIES.items()]
    return "\n".join(lines)


def _names(family: Iterable[Row]) -> Iterator[str]:
    for (domain, name), rows in joined([family]).items():
        shown = f"{domain}.{name}" if domain else name
        many = len(rows) > 1 or rows[0].since > 1
        yield f"{shown} ({', '.join(str(r.since) for r in rows)})" if many else shown


def write(path: Path) -> None:
    """Replace the text between the marks ``BEGIN`` and ``END`` of a file by the table."""
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n{markdown()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))

__all__ = ["MISSING", "markdown", "write"]
