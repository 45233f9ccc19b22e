"""Lines of each template for the processor and for a GPU: ``python -m tests.cuda.sizes --write``.

Of code, without comments, docstrings and blank lines; of a template's own files, not of what it
shares with others.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence

from tests.sections import ROOT, Section

ROOM = ROOT / "tvm_disc" / "schedules"
SECTION = Section("docs/cuda.md", "tests.cuda.sizes", "sizes")
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
           tokenize.ENDMARKER}  # fmt: skip
WINDOWS = ("conv/channel_window.py", "conv/window.py", "conv/window_tile.py")
# Work, the processor's files, the GPU's.
TEMPLATES: tuple[tuple[str, Sequence[str], Sequence[str]], ...] = (
    ("element-wise", ("loops/template.py", "loops/runs.py", "loops/joined.py"), ("elements.py",)),
    ("rows", ("rows/*.py",), ("rows/*.py",)),
    ("transposes", ("transpose/*.py",), ("transpose.py",)),
    ("products, and convolutions as products", ("gemm/*.py", "conv/*.py"),
     ("product.py", "task.py", "tile.py", "tiling.py", "views.py", "tensor/*.py")),
    ("pools and depthwise convolutions", WINDOWS, ("window.py",)),
    ("any contraction", ("loops/fallback.py",), ("reduce.py", "epilogue.py")),
    ("attention", ("attention/*.py",), ("attention/*.py",)),
    ("sorts", ("opaque/sorting.py",), ("sorting.py",)),
)  # fmt: skip
SHARED = ("cuda/vector.py",)


def code_lines(text: str) -> int:
    """Lines of a module that are code."""
    tree = ast.parse(text)
    told: set[int] = set()
    for node in ast.walk(tree):
        kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            told.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            found.update(range(token.start[0], token.end[0] + 1))
    return len(found - told)


def lines_of(patterns: Sequence[str], but: Sequence[str] = ()) -> int:
    """Of the files that match."""
    files = {file for pattern in patterns for file in ROOM.glob(pattern)}
    files -= {ROOM / name for name in but}
    return sum(code_lines(file.read_text(encoding="utf-8")) for file in files)


def table() -> Iterator[str]:
    """The lines of the table, and what follows it."""
    yield "| work | processor | GPU |"
    yield "|---|--:|--:|"
    for work, processor, device in TEMPLATES:
        own = lines_of(processor, () if processor is WINDOWS else WINDOWS)
        yield f"| {work} | {own} | {lines_of([f'cuda/{name}' for name in device])} |"
    yield ""
    yield f"All GPU templates share {lines_of(SHARED)} lines for vector accesses."


if __name__ == "__main__":
    SECTION.command(__doc__, lambda: "\n".join(["", *table()]))
