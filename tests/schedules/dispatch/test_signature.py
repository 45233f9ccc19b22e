"""The hash of the code that records of tuning belong to."""

from __future__ import annotations

import ast

import pytest

from tvm_disc.schedules.dispatch.signature import emitting_modules, without_prose

MODULE = '''"""Tiles."""

import math

# The number of rows.
ROWS = 4


def rows(n: int) -> int:
    """Return the rows.

    Rows are counted.
    """
    # At least one.
    return max(n, ROWS)  # rows
'''


def code_of(source: str) -> str:
    """Return the syntax tree of a module with empty docstrings, as text."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
            and isinstance(node.body[0].value, ast.Constant)
            and isinstance(node.body[0].value.value, str)
        ):
            node.body[0].value.value = ""
    return ast.dump(tree)


def test_only_prose_is_left_out() -> None:
    """Python's parser finds the same code in what remains of each module, and nothing else."""
    paths = list(emitting_modules())
    assert len(paths) > 100
    for path in paths:
        source = path.read_text(encoding="utf-8")
        rest = without_prose(source)
        assert code_of(rest) == code_of(source), path
        assert ast.dump(ast.parse(rest)) == code_of(source), path  # docstrings are empty
        assert all(line.strip() and line.lstrip()[0] != "#" for line in rest.splitlines()), path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Tiles."""', '"""Register tiles: a text of\n\ntwo lines."""'),
        ("    Rows are counted.\n", "    Rows are counted, and columns are not.\n"),
        ("    # At least one.\n", ""),
        ("# The number of rows.", "# The number of rows in a tile.\n\n# Measured."),
    ],
)
def test_prose_does_not_matter(old: str, new: str) -> None:
    assert old in MODULE
    assert without_prose(MODULE.replace(old, new)) == without_prose(MODULE)


@pytest.mark.parametrize(
    ("old", "new"), [("ROWS = 4", "ROWS = 8"), ("max(n", "min(n"), ("return", "yield")]
)
def test_code_matters(old: str, new: str) -> None:
    assert without_prose(MODULE.replace(old, new)) != without_prose(MODULE)
