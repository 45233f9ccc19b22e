"""The guide to extending: its changes, applied to a copy as they stand there, and their costs."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

LIMIT_SECONDS = 1200
FENCE = re.compile(
    r"[Ii]n\s+(?P<new>a new file\s+)?`(?P<path>[\w/]+\.(?:py|txt|json))`"
    r"(?:,\s+(?P<where>in place of the line|above the line|in|before|at the end|among the imports)"
    r"(?:\s+`(?P<name>[^`]+)`)?)?:\n\n"
    r"```(?:python|text|json)\n(?P<text>.*?)```",
    re.S,
)


@dataclass(frozen=True)
class Change:
    """A block of the guide: what is written where."""

    path: str
    where: str
    name: str
    text: str

    def apply(self, folder: Path) -> None:
        """Write it into a copy of the tree."""
        file = folder / self.path
        assert file.is_file() != (self.where == "new"), self.path
        source = "" if self.where == "new" else file.read_text(encoding="utf-8")
        file.write_text(self.of(source), encoding="utf-8")

    def of(self, source: str) -> str:
        """A file's text with the change."""
        if self.where == "new":
            return self.text
        if self.where == "at the end":
            return f"{source}\n\n{self.text}"
        lines = source.splitlines(keepends=True)
        if self.where.endswith("the line"):
            [at] = [k for k, line in enumerate(lines) if line.strip() == self.name.strip()]
            rest = lines[at + 1 :] if self.where.startswith("in place") else lines[at:]
            gap = "\n\n" if self.text.startswith("@") else ""
            return "".join([*lines[:at], self.text, gap, *rest])
        at = self._line(source)
        text = f"{self.text}\n\n" if self.where == "before" else self.text
        return "".join([*lines[:at], text, *lines[at:]])

    def _line(self, source: str) -> int:
        """The number of lines before the change."""
        if self.where == "among the imports":
            return source.splitlines().index("from tvm_disc.shape import Solver")
        table, _, key = self.name.partition("[")
        found = next(
            node
            for node in ast.parse(source).body
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == table
        )
        if self.where == "before":
            return found.lineno - 1
        if key:  # an entry of a dictionary
            assert isinstance(found.value, ast.Dict)
            keys = [ast.unparse(k) for k in found.value.keys if k is not None]
            number = keys.index(ast.unparse(ast.parse(key.rstrip("]"), mode="eval").body))
            return found.value.values[number].lineno
        assert found.value is not None
        return found.value.lineno


def sections(root: Path) -> Iterator[tuple[str, list[Change]]]:
    """The headers of the guide, and the changes below each."""
    guide = (root / "docs" / "extending.md").read_text(encoding="utf-8")
    for part in guide.split("\n## ")[1:]:
        found = [
            Change(m["path"], "new" if m["new"] else m["where"], m["name"] or "", m["text"])
            for m in FENCE.finditer(part)
        ]
        fences = sum(part.count(f"```{language}\n") for language in ("python", "text", "json"))
        assert len(found) == fences, "a block says where it belongs"
        yield part.partition("\n")[0], found


@pytest.fixture(scope="module")
def changes(root: Path) -> dict[str, list[Change]]:
    """What the guide changes, by its headers."""
    return dict(sections(root))


def functions(change: Change) -> list[str]:
    """The functions that a change brings; a row is an entry of a table, and no statement."""
    if change.where == "in" or not change.path.endswith(".py"):
        return []
    return [n.name for n in ast.parse(change.text).body if isinstance(n, ast.FunctionDef)]


def kinds(found: list[Change]) -> list[str]:
    """What each change is, of the package, in order: rows, functions, files."""
    package = [c for c in found if c.path.startswith("tvm_disc/")]
    named = {"in": "row", "new": "file", "among the imports": "import"}
    return ["line" if "line" in c.where else named.get(c.where, "function") for c in package]


FILES = re.compile(r"^\| ([\w ]+?) \| [^|]* \| (\d) \|[^|]*\|$", re.M)


def test_an_operator_is_a_row_and_at_most_three_functions(
    changes: dict[str, list[Change]],
) -> None:
    found = changes["An operator"]
    assert [c.name for c in found if c.path.startswith("tvm_disc/relay/ops/")] == ["ROWS", ""]
    assert sum(len(functions(c)) for c in found) <= 3
    # The import rule is in another package than the row, and its table names it.
    assert kinds(found) == ["row", "function", "function", "row"]
    assert [c.path for c in found if c.path.startswith("tests/")] == [
        "tests/relay/ops/samples/tensor.txt"
    ]


def test_a_rewrite_is_a_row_and_a_test(changes: dict[str, list[Change]]) -> None:
    found = changes["A rewrite"]
    assert kinds(found) == ["function", "row"]
    assert [c.where for c in found if c.path.startswith("tests/")] == ["new"]


def test_a_template_is_a_file_a_line_and_a_test(changes: dict[str, list[Change]]) -> None:
    found = changes["A kernel template"]
    assert kinds(found) == ["file", "row", "import"]
    assert [c.where for c in found if c.path.startswith("tests/")] == ["new", "in"]


def test_contributing_lists_the_files_that_the_guide_touches(
    changes: dict[str, list[Change]], root: Path
) -> None:
    """Tests in new files and golden cases are not counted, samples are."""
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    stated = {name: int(files) for name, files in FILES.findall(text)}
    found = {
        title.partition(" ")[2]: {
            c.path for c in every if c.path.startswith("tvm_disc/") or c.path.endswith(".txt")
        }
        for title, every in changes.items()
    }
    assert {name: stated.get(name) for name in found} == {n: len(f) for n, f in found.items()}


def test_a_fusion_rule_is_an_if_in_one_file_and_a_test(changes: dict[str, list[Change]]) -> None:
    rule, test = changes["A fusion rule"]
    [statement] = ast.parse(textwrap.dedent(rule.text)).body
    assert isinstance(statement, ast.If)
    assert rule.path == "tvm_disc/relay_passes/fusion_plan.py"
    assert functions(test) == ["test_a_power_is_not_an_epilogue"]


def test_the_guide_names_the_functions_of_fusion_rules(root: Path) -> None:
    guide = (root / "docs" / "extending.md").read_text(encoding="utf-8")
    table = guide.partition("## A fusion rule")[2].partition("## ")[0]
    names = re.findall(r"^\| `(?:_Merger\.)?(\w+)`", table, re.M)
    assert len(names) >= 5
    sources = [
        (root / "tvm_disc" / "relay_passes" / f"fusion_{n}.py").read_text(encoding="utf-8")
        for n in ("plan", "merge")
    ]
    assert [n for n in names if not any(f"def {n}(" in s for s in sources)] == []


def test_a_variant_is_in_the_file_of_its_template(changes: dict[str, list[Change]]) -> None:
    found = changes["A kernel variant"]
    package = {c.path for c in found if c.path.startswith("tvm_disc/")}
    assert package == {"tvm_disc/schedules/loops/pairs.py"}
    assert [c.where for c in found if c.path.startswith("tests/")] == ["new"]


def test_a_cpu_is_a_line_and_a_file(changes: dict[str, list[Change]]) -> None:
    found = changes["A CPU target"]
    assert kinds(found) == ["row", "file"]
    assert [c.where for c in found if c.path.startswith("tests/")] == ["new"]


def test_an_onnx_operator_is_a_row_and_a_test(changes: dict[str, list[Change]]) -> None:
    found = changes["An ONNX operator"]
    assert kinds(found) == ["row"]
    assert [functions(c) for c in found if c.path.startswith("tests/")] == [["test_squared_relu"]]


def test_what_the_guide_brings_runs(
    changes: dict[str, list[Change]], root: Path, tmp_path: Path
) -> None:
    """In a copy: the operator's row tests itself, both tests pass, and so do the budgets."""
    for tree in ("tvm_disc", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "*.npz")
        shutil.copytree(root / tree, tmp_path / tree, ignore=ignored)
    shutil.copy(root / "pyproject.toml", tmp_path)
    every = [change for found in changes.values() for change in found]
    for change in every:
        change.apply(tmp_path)
    ours = [c.path for c in every if re.search(r"^tests/.*/test_\w+\.py$", c.path)]
    ours.append("tests/schedules/golden/test_golden.py")
    held = ["tests/meta/test_layering.py", "tests/meta/test_budgets.py"]
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", "-k"]
    added = "squareplus or test_negative or pair or power or gracemont or squared_relu"
    chosen = f"{added} or (meta and not covers)"
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    write = [sys.executable, "-m", "tests.schedules.golden", "--write"]
    subprocess.run(write, cwd=tmp_path, env=env, timeout=LIMIT_SECONDS, check=True)
    done = subprocess.run(
        [*command, chosen, "tests/build/test_op_table.py", *ours, *held],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed" not in done.stdout


TABLES = "A: T = (\n    2,\n)\nB: T = {\n    3: (\n        4,\n    ),\n}\n"


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [
        (Change("", "in", "A", "    1,\n"), "A: T = (\n", "    2,\n"),
        (Change("", "in", "B[3]", "        5,\n"), "    3: (\n", "        4,\n"),
        (Change("", "before", "B", "def f(): ...\n"), ")\n", "\n\nB: T"),
        (Change("", "at the end", "", "x = 1\n"), "}\n\n\n", ""),
        (Change("", "above the line", "2,", "    1,\n"), "A: T = (\n", "    2,\n"),
        (Change("", "in place of the line", "2,", "    1,\n"), "A: T = (\n", ")\nB"),
    ],
)
def test_changes_go_where_they_are_told(change: Change, before: str, after: str) -> None:
    assert before + change.text + after in change.of(TABLES)


def test_a_place_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"gone\.py"):
        Change("gone.py", "at the end", "", "x").apply(tmp_path)
