"""Budgets: lengths, inheritance, files a folder, and for the package documentation and exports.

Tests are read as often as what they test: sizes and depths hold for them too. The budget of
cyclomatic complexity is a rule of ruff's, in pyproject.toml, for every file.
"""

from __future__ import annotations

import ast
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

FILE_LINES = 600
FOLDER_FILES = 25
FUNCTION_LINES_MEDIAN = 12
FUNCTION_LINES_P90 = 30
INHERITED = 2

Function = (ast.FunctionDef, ast.AsyncFunctionDef)


# The package, and what is held to the same sizes.
PACKAGE = "tvm_disc"
SIZED = (PACKAGE, "tests")


def sources(root: Path, trees: Iterable[str] = (PACKAGE,)) -> dict[str, str]:
    """Every module of the package, or of several trees, by path."""
    return {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for tree in trees
        for path in sorted((root / tree).rglob("*.py"))
    }


def crowded(paths: Iterable[str]) -> dict[str, int]:
    """Folders with more files than they may have, and how many."""
    folders = Counter(str(Path(path).parent) for path in paths)
    return {folder: n for folder, n in folders.items() if n > FOLDER_FILES}


def bases(sources: Iterable[str]) -> dict[str, set[str]]:
    """Classes by name, and the names of what they inherit; those of one name count as one."""
    found: dict[str, set[str]] = {}
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                names = (ast.unparse(b).partition("[")[0].rpartition(".")[2] for b in node.bases)
                found.setdefault(node.name, set()).update(names)
    return found


def depth(name: str, above: Mapping[str, set[str]]) -> int:
    """How many classes of our own lie above one of them."""
    # A class may bear the name of the foreign one that it inherits.
    own = [b for b in above.get(name, ()) if b in above and b != name]
    return 1 + max(depth(b, above) for b in own) if own else 0


def undocumented(source: str) -> list[str]:
    """Public functions and classes of a module, and the module itself, without a docstring.

    Overloads and properties' setters carry none; methods answer to their class.
    """
    tree = ast.parse(source)
    if not tree.body:
        return []
    found = [] if ast.get_docstring(tree) else ["the module"]
    for node in tree.body:
        if isinstance(node, (*Function, ast.ClassDef)) and not node.name.startswith("_"):
            overload = any(ast.unparse(d).endswith("overload") for d in node.decorator_list)
            if not overload and not ast.get_docstring(node):
                found.append(node.name)
    return found


def exports(source: str) -> list[str] | None:
    """The literal ``__all__`` of a module."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
        ):
            names = ast.literal_eval(node.value)
            assert isinstance(names, list)
            return names
    return None


def isort_key(name: str) -> tuple[int, list[tuple[int, str]]]:
    """CONSTANTS, then Classes, then functions; numbers by value: the order that ruff keeps."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    parts = re.findall(r"\d+|\D+", name)
    return kind, [(int(p), "") if p.isdecimal() else (-1, p) for p in parts]


def test_no_long_file(root: Path) -> None:
    lengths = {path: source.count("\n") for path, source in sources(root, SIZED).items()}
    assert {path: n for path, n in lengths.items() if n > FILE_LINES} == {}


def test_functions_are_short(root: Path) -> None:
    lengths = sorted(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for source in sources(root).values()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, Function)
    )
    assert statistics.median(lengths) <= FUNCTION_LINES_MEDIAN
    assert lengths[int(0.9 * len(lengths))] <= FUNCTION_LINES_P90


@pytest.mark.parametrize("tree", SIZED)
def test_classes_are_composed_not_inherited(root: Path, tree: str) -> None:
    above = bases(sources(root, [tree]).values())
    deep = {name: d for name in above if (d := depth(name, above)) > INHERITED}
    assert deep == {}, "give a part what it needs, and name that by a protocol"


def test_no_method_waits_for_a_subclass(root: Path) -> None:
    """A class whose methods are written elsewhere is one class in several files."""
    assert [path for path, source in sources(root).items() if "NotImplementedError" in source] == []


def test_public_names_are_documented(root: Path) -> None:
    missing = {path: undocumented(source) for path, source in sources(root).items()}
    assert {path: names for path, names in missing.items() if names} == {}


def test_exports_are_sorted_and_exist(root: Path) -> None:
    for path, source in sources(root).items():
        names = exports(source)
        if names is not None:
            assert names == sorted(names, key=isort_key), path
            assert len(names) == len(set(names)), path


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("", []),
        ("x = 1", ["the module"]),
        ('"""Doc."""\ndef f(): pass\ndef _g(): pass', ["f"]),
        ('"""Doc."""\nclass A:\n    def m(self): pass', ["A"]),
        ('"""Doc."""\n@overload\ndef f(): ...', []),
    ],
)
def test_the_check_sees_what_it_should(source: str, missing: list[str]) -> None:
    assert undocumented(source) == missing


def test_inheritance_is_counted_across_modules() -> None:
    first = "class A: ...\nclass B(A, Generic[T]): ..."
    second = "class C(other.B): ...\nclass D(Exception): ...\nclass E(other.C[int]): ..."
    above = bases([first, second])
    assert [depth(name, above) for name in "ABCDE"] == [0, 1, 2, 0, 3]


def test_folders_are_small(root: Path) -> None:
    assert crowded(sources(root, SIZED)) == {}, "name what the half of them have in common"


def test_files_are_counted_by_folder() -> None:
    paths = [f"a/b/{i}.py" for i in range(FOLDER_FILES)] + ["a/c.py"]
    assert crowded(paths) == {}
    assert crowded([*paths, "a/b/more.py"]) == {"a/b": FOLDER_FILES + 1}
