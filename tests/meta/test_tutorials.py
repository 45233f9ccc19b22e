"""Every tutorial runs as it stands, in a process of its own, and prints what it says it prints."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests import not_run

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "tutorials").glob("*.py"))
OPTIONAL = ("torch", "transformers", "onnx", "jax")  # packages beyond our dependencies
BLOCK = re.compile(r"^# ```text\n((?:#.*\n)*?)# ```$", re.MULTILINE)
STOPS = "stops here: "  # what a tutorial prints that cannot go on


def optional(source: str) -> list[str]:
    """Return the optional packages that a tutorial imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return [name for name in OPTIONAL if name in found]


def missing(source: str) -> list[str]:
    """Return the optional packages that a tutorial imports and that are not installed."""
    return [name for name in optional(source) if find_spec(name) is None]


def case(path: Path) -> ParameterSet:
    """Return the test case of a tutorial, marked if `make test` does not install what it needs."""
    needs = set(optional(path.read_text(encoding="utf-8"))) & set(not_run.OPTIONAL)
    marks = [getattr(pytest.mark, not_run.MARK)] if needs else []
    return pytest.param(path, id=path.stem, marks=marks)


def blocks(source: str) -> list[str]:
    """The outputs that a tutorial shows, in order."""
    return [re.sub(r"^# ?", "", m[1], flags=re.MULTILINE) for m in BLOCK.finditer(source)]


def pattern(block: str) -> re.Pattern[str]:
    """Matches an output; ``...`` stands for anything, as far as one line, or alone for lines."""
    lines = [
        r"(?:.*\n)*?" if line == "..." else r".*?".join(map(re.escape, line.split("..."))) + r"\n"
        for line in block.splitlines()
    ]
    return re.compile("^" + "".join(lines), re.MULTILINE)


def unprinted(source: str, output: str) -> str:
    """The first output shown that was not printed behind those before it; empty if all were."""
    at = 0
    for block in blocks(source):
        found = pattern(block).search(output, at)
        if found is None:
            return "" if STOPS in output[at:] else block
        at = found.end()
    return ""


@pytest.fixture(scope="session")
def entry_point(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that says of the checkout what an installation says of the package: by what name
    PyTorch finds our backend."""
    folder = tmp_path_factory.mktemp("installed")
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    entry = re.search(r"^\[project\.entry-points\.(\w+)\]\n(.*?)\n\n", text, re.MULTILINE | re.S)
    assert entry is not None
    name, value = entry[2].split(" = ")
    about = folder / "tvm_disc-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tvm_disc\nVersion: 0\n")
    points = f"[{entry[1]}]\n{name} = {ast.literal_eval(value)}\n"
    (about / "entry_points.txt").write_text(points)
    return folder


def test_there_are_tutorials() -> None:
    assert len(TUTORIALS) >= 10


@pytest.mark.parametrize("path", [case(path) for path in TUTORIALS])
def test_tutorial_runs(path: Path, root: Path, entry_point: Path) -> None:
    source = path.read_text(encoding="utf-8")
    if lacks := missing(source):
        pytest.skip(f"needs {' and '.join(lacks)}")
    args = [sys.executable, "-W", "error::DeprecationWarning:__main__", str(path)]
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, (root, entry_point))))
    done = subprocess.run(args, cwd=root, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip()
    assert unprinted(source, done.stdout) == "", done.stdout


def test_outputs_are_compared_in_order() -> None:
    source = '"""T."""\n# ```text\n# a 1 ... x\n# ...\n# end\n# ```\n#\n# ```text\n# b\n# ```\n'
    assert blocks(source) == ["a 1 ... x\n...\nend\n", "b\n"]
    assert unprinted(source, "a 1 2 3 x\nmore\nand more\nend\nb\n") == ""
    assert unprinted(source, "a 1 2 3 x\nend\nb\n") == ""
    assert unprinted(source, "b\na 1 2 3 x\nend\n") == "b\n"
    assert unprinted(source, "a 1 x y\nend\nb\n").startswith("a 1")
    assert unprinted(source, f"a 1 2 x\nend\n{STOPS}no compiler\n") == ""


def test_what_a_tutorial_needs_is_read_from_its_imports() -> None:
    absent = [name for name in OPTIONAL if find_spec(name) is None]
    text = "import os\nfrom torch import nn\nimport transformers, onnx.helper, jax"
    assert missing(text) == absent
    assert missing("import numpy as np\nfrom tvm import relax\n") == []
