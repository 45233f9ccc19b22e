"""The diagram of packages in CONTRIBUTING.md agrees with the imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.meta.packages import SECTION, packages, picture, reduced


def test_the_picture_is_up_to_date(root: Path) -> None:
    assert SECTION.read(root) == picture(root), "run: python -m tests.meta.packages --write"


def test_packages_see_what_they_import(root: Path) -> None:
    found = packages(root)
    assert "shape" in found["relay"]
    assert "schedules" in found["codegen"]
    assert found["errors"] == set()
    assert "__main__" not in found


def test_what_other_imports_imply_is_left_out() -> None:
    imported = {"a": set(), "b": {"a"}, "c": {"a", "b"}, "d": {"c", "a"}}
    assert reduced(imported) == {"a": set(), "b": {"a"}, "c": {"b"}, "d": {"c"}}


def test_a_section_needs_its_marks() -> None:
    begin, end = SECTION.begin, SECTION.end
    assert SECTION.split(f"x\n{begin}\ny\n{end}\nz") == (f"x\n{begin}\n", "y", f"\n{end}\nz")
    with pytest.raises(AssertionError, match="expected the lines"):
        SECTION.split("x")
