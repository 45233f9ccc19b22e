"""Every tutorial runs as it stands, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TUTORIALS = sorted((Path(__file__).parents[2] / "tutorials").glob("*.py"))


def test_there_are_tutorials() -> None:
    assert len(TUTORIALS) >= 3


@pytest.mark.parametrize("path", TUTORIALS, ids=[p.stem for p in TUTORIALS])
def test_tutorial_runs(path: Path, root: Path) -> None:
    args = [sys.executable, "-W", "error::DeprecationWarning:__main__", str(path)]
    done = subprocess.run(args, cwd=root, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip()
