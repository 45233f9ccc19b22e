"""Counts and tables of documents are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.meta import classes
from tests.meta.counts import OWN, STATED, Stated, operator_differences, operator_rows
from tests.relay.ops.report import SECTION
from tvm_disc.relay.ops.table import OPS


@pytest.mark.parametrize("stated", STATED, ids=lambda s: s.pattern)
def test_a_count_is_current(stated: Stated) -> None:
    """Otherwise: python -m tests.meta.counts --write."""
    assert stated.difference() == ""


def test_the_table_of_operators_is_current() -> None:
    """Otherwise: python -m tests.relay.ops.report --results NEW_FILE --match NAME --write."""
    assert list(operator_differences(SECTION.read())) == []


def test_the_document_lists_the_operators_that_relay_lacks(root: Path) -> None:
    """Otherwise: make the list of docs/operators.md equal to OWN in tests/meta/counts.py."""
    text = (root / SECTION.path).read_text(encoding="utf-8")
    [listed] = re.findall(r"the operators that Relay lacks\s+\((.*?)\)", text, re.S)
    assert tuple(re.findall(r"`(\w+)`", listed)) == OWN
    assert set(OWN) <= set(OPS)


def test_the_classes_of_defects_have_as_many_members() -> None:
    """Otherwise: python -m tests.meta.classes --write. Needs PyTorch: tests are collected."""
    pytest.importorskip("torch")
    assert classes.SECTION.read() == classes.table()


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("| abs | fully | 6 |", "| abs | fully | 0 |", "abs was not run"),
        ("| abs | fully |", "| abz | fully |", "abz is not an operator"),
        ("| abs | fully |", "| abz | fully |", "abs has no row"),
        ("int64 | elemwise |\n| acos ", "int64 | opaque |\n| acos ", "abs: the fusion class is"),
        ("| acos | fully |", "| acos | refused: no |", "acos: it is not refused"),
        ("refused: created by", "refused: left by", "annotation.with_funcid: the reason is"),
        (f"{len(OPS)} operators", "1 operators", "the first line is"),
    ],
)
def test_a_stale_table_is_reported(old: str, new: str, difference: str) -> None:
    section = SECTION.read()
    assert section.count(old) >= 1
    found = list(operator_differences(section.replace(old, new, 1)))
    assert any(line.startswith(difference) for line in found)


def test_rows_are_read() -> None:
    text = "| operator | dims |\n|---|---|\n| abs | fully | 6 | f | elemwise |\n"
    assert operator_rows(text) == {"abs": ["fully", "6", "f", "elemwise"]}


def test_a_count_is_found_across_lines_and_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("All of the\n12 cases are here.\n")
    stated = Stated("page.md", r"the (\d+) cases", lambda: 13)
    assert stated.difference(tmp_path).endswith("is 13, found 12")
    stated.write(tmp_path)
    assert page.read_text() == "All of the\n13 cases are here.\n"
    assert stated.difference(tmp_path) == ""


def test_a_count_that_the_document_lacks_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("None.")
    with pytest.raises(AssertionError, match="expected one"):
        Stated("page.md", r"the (\d+) cases", lambda: 1).difference(tmp_path)
