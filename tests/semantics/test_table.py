"""docs/semantics.md is current, and every test that it names exists."""

from __future__ import annotations

import re

import pytest

from tests.semantics.table import DOCUMENT, FAMILIES, ROOT, document

ROWS = [row for _, rows in FAMILIES for row in rows]


def test_the_document_is_current() -> None:
    """Otherwise: python -m tests.semantics --write."""
    assert DOCUMENT.read_text(encoding="utf-8") == document()


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r.operators}: {r.corner}"[:60])
def test_a_row_names_tests_that_exist(row: object) -> None:
    assert row.tests and row.ours and (row.pytorch or row.onnx or row.relay)  # type: ignore[attr-defined]
    for test in row.tests:  # type: ignore[attr-defined]
        path, _, function = test.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^def {re.escape(function)}\(", text, re.M), test


def test_no_corner_has_two_rows() -> None:
    keys = [(r.operators, r.corner) for r in ROWS]
    assert len(set(keys)) == len(keys)
