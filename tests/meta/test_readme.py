"""The code of the README, and of the first pages and guides, runs and prints what they show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tvm_disc.relay.ops.derived import checks, special
from tvm_disc.relay.ops.refused import REFUSED
from tvm_disc.relay.ops.table import OPS

LIMIT_SECONDS = 300
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "=== block {} ==="
# Pages whose code is complete.
PAGES = (
    *("index.md", "start/first.md", "debugging.md", "reference/examples.md"),
    *(f"guides/{name}.md" for name in ("generate", "profile", "serve", "tune")),
)
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


def test_documents_count_the_operators(root: Path) -> None:
    text = " ".join((root / "docs" / "questions.md").read_text(encoding="utf-8").split())
    relay = len(OPS) - len(special.ROWS) - len(checks.ROWS)
    compiled = relay - len(REFUSED)
    assert f"Of Relay's {relay} operators, quantized ones included, {compiled} compile" in text
    assert f"the other {len(REFUSED)} are" in text


def test_readme_runs(root: Path, tmp_path: Path) -> None:
    script, expected = program((root / "README.md").read_text(encoding="utf-8"))
    assert script and expected
    assert (root / "README.md").read_text(encoding="utf-8").count("\n") <= 120
    check(script, expected, root, tmp_path)


def test_readme_lists_all_extras(root: Path) -> None:
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    table = project.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = re.findall(r"^([\w-]+) = \[", table, re.MULTILINE)
    text = (root / "README.md").read_text(encoding="utf-8")
    assert extras and [extra for extra in extras if f"`{extra}`" not in text] == []


@pytest.mark.parametrize("page", PAGES)
def test_pages_run(page: str, root: Path, tmp_path: Path) -> None:
    script, expected = program((root / "docs" / page).read_text(encoding="utf-8"), shell=True)
    assert script
    check(script, expected, root, tmp_path)


def check(script: str, expected: dict[int, str], root: Path, tmp_path: Path) -> None:
    """Run a script, and compare the output of its blocks."""
    path = tmp_path / "readme.py"
    path.write_text(script)
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outputs = re.split(r"^=== block (\d+) ===\n", done.stdout, flags=re.MULTILINE)[1:]
    printed = {int(i): out for i, out in zip(outputs[::2], outputs[1::2], strict=True)}
    assert {i: printed[i] for i in expected} == expected


def test_blocks_are_found_and_numbered() -> None:
    text = "a\n```bash\nls\n```\n```python\nprint(1)\n```\n\n```text\n1\n```\n```python\nx\n```\n"
    script, expected = program(text)
    assert expected == {1: "1\n"}
    assert script.count("=== block") == 2 and "ls" not in script


def test_local_links_lead_somewhere(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", text)
    assert [link for link in links if not (root / link).exists()] == []
