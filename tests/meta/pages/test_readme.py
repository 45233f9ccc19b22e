"""The code of the README, and of the first pages and guides, runs and prints what they show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.meta.pages.page_code import check, program
from tvm_disc.relay.ops.derived import checks, slices, special
from tvm_disc.relay.ops.refused import REFUSED
from tvm_disc.relay.ops.table import OPS

# Pages whose code is complete.
PAGES = (
    *("index.md", "debugging.md", "quantization.md"),
    *("reference/examples.md", "reference/examples-relay.md"),
    *("guides/serve.md", "guides/tune.md"),
)


def test_documents_count_the_operators(root: Path) -> None:
    text = " ".join((root / "docs" / "questions.md").read_text(encoding="utf-8").split())
    relay = len(OPS) - sum(len(own.ROWS) for own in (special, checks, slices))
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


def test_blocks_are_found_and_numbered() -> None:
    text = "a\n```bash\nls\n```\n```python\nprint(1)\n```\n\n```text\n1\n```\n```python\nx\n```\n"
    script, expected = program(text)
    assert expected == {1: "1\n"}
    assert script.count("=== block") == 2 and "ls" not in script


def test_local_links_lead_somewhere(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", text)
    assert [link for link in links if not (root / link).exists()] == []
