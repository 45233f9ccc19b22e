"""Every place that names the Python versions we run on names the same ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


def supported(root: Path) -> list[int]:
    """The minor versions that the package's metadata admit."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    bounds = re.search(r'^requires-python = ">=3\.(\d+),<3\.(\d+)"$', text, re.MULTILINE)
    assert bounds is not None
    return list(range(int(bounds[1]), int(bounds[2])))


def test_this_python_is_one(root: Path) -> None:
    assert sys.version_info[0] == 3 and sys.version_info[1] in supported(root)


def test_the_classifiers_are_these(root: Path) -> None:
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    named = re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', text)
    assert [int(minor) for minor in named] == supported(root)


@pytest.mark.parametrize(
    ("path", "phrase"),
    [
        ("README.md", "# Python 3.{0}-3.{1}\n"),
        ("CONTRIBUTING.md", "an installed Python 3.{0} to 3.{1};"),
        ("Makefile", "a bare Python 3.{0}-3.{1}:"),
        ("Makefile", "need Python 3.{0} to 3.{1} with"),
        ("Makefile", "(3, {0}) <= sys.version_info[:2] <= (3, {1})"),
    ],
)
def test_texts_say_so(root: Path, path: str, phrase: str) -> None:
    minors = supported(root)
    assert phrase.format(minors[0], minors[-1]) in (root / path).read_text(encoding="utf-8")


def test_make_looks_for_each(root: Path) -> None:
    command = ["make", "--dry-run", "relay-vm"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert {f"python3.{minor}" for minor in supported(root)} <= set(re.split(r"[\s;]", done.stdout))
