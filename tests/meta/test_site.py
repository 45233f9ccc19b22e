"""The documentation site: every document has a place, and no link of the built site is dead."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HAS_MKDOCS = all(importlib.util.find_spec(name) for name in ("mkdocs", "material", "mkdocstrings"))


def test_every_document_has_a_place(root: Path) -> None:
    nav = (root / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    placed = re.findall(r"(\S+\.md)$", nav, re.MULTILINE)
    documents = {str(p.relative_to(root / "docs")) for p in (root / "docs").rglob("*.md")}
    generated = {"changelog.md", "contributing.md", "tutorials.md"}
    assert sorted(placed) == sorted(documents | generated), "name it once in nav of mkdocs.yml"


@pytest.mark.skipif(not HAS_MKDOCS, reason="needs the extra docs")
def test_the_site_builds_without_warnings(root: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    reference = (tmp_path / "reference" / "python.html").read_text(encoding="utf-8")
    for name in ("build", "load", "Executable.profile", "tune", "generate", "Ragged"):
        assert f'id="tvm_disc.{name}"' in reference
    operators = (tmp_path / "reference" / "operators.html").read_text(encoding="utf-8")
    assert "<code>axis=-1</code>" in operators
    assert "--constraint" in (tmp_path / "reference" / "commands.html").read_text(encoding="utf-8")
    assert (tmp_path / "tutorials" / "01_compile_a_dynamic_model.html").exists()
