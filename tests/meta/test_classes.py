"""The classes of defects in docs/testing.md have tests that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.meta.classes import CLASSES, SECTION, rows


@pytest.mark.parametrize("title", CLASSES)
def test_a_class_has_tests(title: str, root: Path) -> None:
    for path in CLASSES[title]:
        found = root / "tests" / path
        files = sorted(found.rglob("test_*.py")) if found.is_dir() else [found]
        assert any("pytest.mark.parametrize(" in file.read_text("utf-8") for file in files), path


def test_the_document_lists_the_classes() -> None:
    """Otherwise: python -m tests.meta.classes --write, with PyTorch installed."""
    lines = SECTION.read().splitlines()[2:]
    assert [row for row, line in zip(rows(), lines, strict=True) if not line.startswith(row)] == []
