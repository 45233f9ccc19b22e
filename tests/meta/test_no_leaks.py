"""Nothing that is tracked names a developer's machine, its paths, or a package index."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

# One letter of each pattern stands in brackets, so that this file does not match itself.
FORBIDDEN = {
    "a machine path": re.compile(
        r"(?<![\w.%>-])/(?:[w]ork|[r]oot|[h]ome/\w+|[o]pt|[U]sers/\w+|[m]nt|[s]rv)/"
        r"|/[t]mp/\w|[A-Z]:\\[U]sers"
    ),
    "a package index": re.compile(r"[p]ypi\.org|[p]ythonhosted\.org|--(?:extra-)?[i]ndex-url"),
    "a ticket or a conversation": re.compile(r"(?i)\b(?:[i]ssue #?\d|(?:this|my) [s]ession\b)"),
}
PATTERN_LIMIT_BYTES = 2_000_000


def tracked(root: Path) -> list[Path]:
    """Files under version control; without git, every file outside hidden and built folders."""
    git = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=False)
    if git.returncode == 0:
        return [root / name for name in git.stdout.decode().split("\0") if name]
    skipped = re.compile(r"(?:^|/)(?:\.(?!ci/)|__pycache__|build/|dist/|[^/]*\.egg-info)")
    return [
        path
        for path in root.rglob("*")
        if path.is_file() and not skipped.search(path.relative_to(root).as_posix())
    ]


def leaks(text: str) -> list[str]:
    """What ``text`` names that it must not, with the line."""
    return [
        f"{text.count(chr(10), 0, match.start()) + 1}: {what}: {match[0]}"
        for what, pattern in FORBIDDEN.items()
        for match in pattern.finditer(text)
    ]


def test_tracked_files_are_clean(root: Path) -> None:
    found = []
    for path in tracked(root):
        if path.is_file() and path.stat().st_size < PATTERN_LIMIT_BYTES:
            text = path.read_bytes().decode("utf-8", errors="ignore")
            found += [f"{path.relative_to(root)}:{leak}" for leak in leaks(text)]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "see /wo" + "rk/notes",
        "'/ho" + "me/ann/x'",
        "in /t" + "mp/x",
        "iss" + "ue 12",
        "Iss" + "ue #1",
    ],
)
def test_the_check_sees_a_leak(text: str) -> None:
    assert len(leaks(f"first\n{text}\n")) == 1
    assert leaks(f"first\n{text}\n")[0].startswith("2: ")


@pytest.mark.parametrize(
    "text", ["span=/m/embeddings/work/Gather", "a/work/b", "an issue of speed", "Session", "/dev"]
)
def test_the_check_lets_words_pass(text: str) -> None:
    assert leaks(text) == []
