"""Types say something: budgets of ``Any``, and one public class for each name."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.meta.imports import modules

# Budgets only decrease.
ANY = 1829
ANY_PARAMETERS = 0.019

# Classes of Relay's Python API that share their names with others of our own.
RELAY_API = {"ConstructorValue", "Executable", "Executor", "Pass"}
# Still to be renamed.
AMBIGUOUS = {"Operand", "Run"}


def sources(root: Path) -> dict[str, str]:
    """Return the source of every module of the package."""
    return {module: path.read_text(encoding="utf-8") for module, path in modules(root)}


def mentions(source: str) -> int:
    """Return how often a source names ``Any``, imports included."""
    return sum(
        (isinstance(node, ast.Name) and node.id == "Any")
        or (isinstance(node, ast.alias) and node.name == "Any")
        for node in ast.walk(ast.parse(source))
    )


def parameters(source: str) -> Iterator[bool]:
    """For every parameter with an annotation: whether it is ``Any``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arguments):
            for arg in [*node.posonlyargs, *node.args, *node.kwonlyargs]:
                if arg.annotation is not None:
                    yield ast.unparse(arg.annotation) == "Any"


def ambiguous(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names of several public classes, with their modules."""
    found: dict[str, list[str]] = {}
    for path, source in sources.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(path)
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def share(found: Iterable[bool]) -> float:
    """Return the share of true values."""
    every = list(found)
    return sum(every) / len(every)


def test_any_within_its_budget(root: Path) -> None:
    assert sum(map(mentions, sources(root).values())) <= ANY


def test_few_parameters_are_any(root: Path) -> None:
    every = (is_any for source in sources(root).values() for is_any in parameters(source))
    assert share(every) <= ANY_PARAMETERS


def test_one_public_class_for_each_name(root: Path) -> None:
    found = ambiguous(sources(root))
    allowed = RELAY_API | AMBIGUOUS
    assert {name: paths for name, paths in found.items() if name not in allowed} == {}


@pytest.mark.parametrize(
    ("source", "count"),
    [("from typing import Any\ndef f(x: dict[str, Any]): ...", 2), ("any(x)", 0)],
)
def test_any_is_counted(source: str, count: int) -> None:
    assert mentions(source) == count


def test_parameters_are_read() -> None:
    assert list(parameters("def f(a: Any, b: int, *, c: list[Any], d): ...")) == [
        True,
        False,
        False,
    ]


def test_private_classes_may_share_a_name() -> None:
    assert ambiguous({"a": "class A: ...\nclass _B: ...", "b": "class _B: ..."}) == {}
    assert ambiguous({"a": "class A: ...", "b": "class A: ..."}) == {"A": ["a", "b"]}
