"""The classes of defects in docs/testing.md have tests that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.meta.classes import CLASSES, SECTION, rows


@pytest.mark.parametrize("title", CLASSES)
def test_a_class_has_a_table_of_tests(title: str, root: Path) -> None:
    places = [root / "tests" / path for path in CLASSES[title]]
    assert [place for place in places if not place.exists()] == []
    files = [f for p in places for f in (sorted(p.rglob("test_*.py")) if p.is_dir() else [p])]
    assert any("pytest.mark.parametrize(" in file.read_text("utf-8") for file in files)


def test_the_document_lists_the_classes() -> None:
    """Otherwise: python -m tests.meta.classes --write, with PyTorch installed."""
    lines = SECTION.read().splitlines()[2:]
    assert [row for row, line in zip(rows(), lines, strict=True) if not line.startswith(row)] == []
