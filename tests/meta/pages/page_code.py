"""The code of a page as one script: what it runs, and what it shows as output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

LIMIT_SECONDS = 600
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"[Ii]n\s`([\w.]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "=== block {} ==="
SHELL = "import subprocess; subprocess.run({!r}, shell=True, check=True)"


def blocks(text: str) -> list[tuple[str, str]]:
    """(language, body) of every fenced block, in order."""
    return [(m[1], m[2]) for m in BLOCK.finditer(text)]


def program(text: str, shell: bool = False) -> tuple[str, dict[int, str]]:
    """All Python blocks as one script, and the expected output of those followed by ``text``.

    Args:
        shell: the commands of ``bash`` blocks belong to the script, too.
    """
    found = blocks(text)
    script, expected = [], {}
    for i, (language, body) in enumerate(found):
        if language == "bash" and shell:
            body = re.sub("^tvm-disc", f"{sys.executable} -m tvm_disc", body, flags=re.MULTILINE)
            language, body = "python", SHELL.format("set -e\n" + body)
        if language == "python":
            script.append(f"print({MARK.format(i)!r}, flush=True)\n{body}")
            if i + 1 < len(found) and found[i + 1][0] == "text":
                expected[i] = found[i + 1][1]
    return "\n".join(script), expected


def written(text: str) -> dict[str, str]:
    """The files that a page shows after "In `NAME`:", by name."""
    return dict(FILE.findall(text))


def _path() -> str:
    """Programs of this Python come first, as in an activated environment."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def check(script: str, expected: dict[int, str], root: Path, tmp_path: Path) -> str:
    """Run a script, compare the output of its blocks, and return everything that it printed."""
    path = tmp_path / "readme.py"
    path.write_text(script)
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root), "PATH": _path()},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outputs = re.split(r"^=== block (\d+) ===\n", done.stdout, flags=re.MULTILINE)[1:]
    printed = {int(i): out for i, out in zip(outputs[::2], outputs[1::2], strict=True)}
    assert {i: printed[i] for i in expected} == expected
    return done.stdout
