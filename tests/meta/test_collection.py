"""Every test is run: pytest leaves out directories by name, ``build`` among them, unless told."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest


def test_no_directory_of_tests_is_left_out(root: Path, pytestconfig: pytest.Config) -> None:
    patterns = pytestconfig.getini("norecursedirs")
    found = {p.relative_to(root).parent for p in (root / "tests").rglob("test_*.py")}
    assert Path("tests/build") in found
    left_out = [d for d in found if any(fnmatch(part, p) for part in d.parts for p in patterns)]
    assert left_out == []


def test_no_test_module_imports_another(root: Path) -> None:
    """What several need stands in a module of its own."""
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in sorted((root / "tests").rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.match(r"\s*(from (tests)?\.[\w.]*\btest_|from tests[\w.]* import test_)", line)
    ]
    assert found == []
