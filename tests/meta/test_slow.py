"""The mark ``slow``: its list names existing tests, and a measurement updates it."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.slow import ALL, LIMIT, MARK, read, updated


def functions(path: Path) -> set[str]:
    """Return the names of the test functions of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}


def test_the_list_names_existing_tests(root: Path) -> None:
    for module, names in read().items():
        assert (root / module).exists(), f"remove {module} from tests/slow.json"
        stale = set(names) - {ALL} - functions(root / module)
        assert not stale, f"{module}: remove these from tests/slow.json"


def test_the_inner_loop_has_tests_of_every_package(root: Path) -> None:
    slow = read()
    quick = {
        path.relative_to(root / "tests").parts[0]
        for path in (root / "tests").rglob("test_*.py")
        if (names := slow.get(str(path.relative_to(root)), [])) != [ALL]
        and {n for n in functions(path) if n.startswith("test_")} - set(names)
    }
    packages = {p.name for p in (root / "tvm_disc").iterdir() if p.is_dir()}
    tested = {p.name for p in (root / "tests").iterdir() if any(p.rglob("test_*.py"))}
    assert sorted((packages & tested) - quick) == []


def test_a_measurement_replaces_entries() -> None:
    slow = {"a": ["test_x", "test_y", "test_z"], "b": [ALL], "c": [ALL], "d": ["test_x"]}
    seconds = {
        ("a", "test_x"): LIMIT + 1,
        ("a", "test_y"): LIMIT,
        ("b", "test_x"): LIMIT + 1,
        ("d", "test_x"): 0.0,
    }
    assert updated(slow, seconds) == {"a": ["test_x", "test_z"], "b": ["test_x"], "c": [ALL]}


def test_make_quick_omits_the_mark(root: Path) -> None:
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    assert f'-m "not {MARK} and not frontends"' in makefile
