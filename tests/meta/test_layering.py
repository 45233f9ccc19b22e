"""Imports follow the layers: no package imports a later one, also inside functions; no cycles."""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.meta.imports import FACES, PACKAGE, graph, imports, modules, named, package_of, strings

# Left never imports right.  Packages of one step do not import each other.
ORDER = [
    {"paths"},
    {"errors", "typing"},
    {"options"},
    {"support"},
    # Before the compiler: whoever loads a saved program needs nothing of it.
    {"abi"},
    {"runtime"},
    {"shape"},
    {"relay", "target"},
    {"frontends", "graph", "tir"},
    {"relay_passes"},
    {"schedules"},
    {"codegen"},
    {"compile"},
    {"tuning", "dynamo", "jax", "language", "quantization", "relay_api"},
    {"__init__"},
    {"bench"},
    {"__main__"},
]
STEP = {package: step for step, packages in enumerate(ORDER) for package in packages}


def violations(module: str, targets: Iterable[str]) -> list[str]:
    """Return the imports of a module that violate the layers."""
    package = package_of(module)
    found = []
    for target in sorted(targets):
        other = package_of(target)
        if package == other and package != "__init__":
            continue
        if STEP.get(other, len(ORDER)) >= STEP[package] and module not in FACES:
            found.append(f"{module} imports {target}")
    return found


def circle(imported: Mapping[str, Iterable[str]]) -> list[str]:
    """Return a cycle of imports, with the first module repeated at the end; empty if none."""
    try:
        graphlib.TopologicalSorter(imported).prepare()
    except graphlib.CycleError as found:
        return list(reversed(found.args[1]))
    return []


def test_every_package_has_a_place(root: Path) -> None:
    unplaced = {package_of(module) for module, _ in modules(root)} - set(STEP)
    assert not unplaced, f"add to ORDER, and to the table in CONTRIBUTING.md: {sorted(unplaced)}"


def test_imports_go_one_way(root: Path) -> None:
    found = []
    for module, targets in graph(root).items():
        if module != f"{PACKAGE}.__main__":
            found += violations(module, targets | named(root)[module])
    assert found == []


def test_only_what_is_above_all_imports_the_lists_of_public_names(root: Path) -> None:
    """Others import the module that defines a name: a list would bring in higher layers."""
    allowed = {f"{PACKAGE}.__main__", f"{PACKAGE}.bench.server", f"{PACKAGE}.relay.expr"}
    found = {m for m, targets in graph(root).items() if (targets | named(root)[m]) & FACES}
    assert found - FACES <= allowed


def test_no_circle_among_files(root: Path) -> None:
    below = {module: found for module, found in graph(root).items() if module not in FACES}
    assert circle(below) == [], "move what both need below both, or name it by a protocol"


@pytest.mark.parametrize(
    ("module", "source", "count"),
    [
        ("tvm_disc.shape.solver", "from tvm_disc.errors import DiscError", 0),
        ("tvm_disc.shape.solver", "from ..relay import expr", 1),
        ("tvm_disc.shape.solver", "from .. import relay", 1),
        ("tvm_disc.shape.solver", "def f():\n    from tvm_disc import codegen", 1),
        ("tvm_disc.shape.solver", "import tvm_disc.codegen.build", 1),
        ("tvm_disc.shape.solver", "import tvm_disc", 1),
        ("tvm_disc.shape.solver", "from tvm_disc import build", 1),
        ("tvm_disc.shape.solver", "from .facts import Fact\nimport tvm, tvm.tirx", 0),
        ("tvm_disc.frontends.onnx", "from tvm_disc.relay_passes import fuse", 1),
        ("tvm_disc.options", "from .errors import DiscError", 0),
        ("tvm_disc.errors", "from .options import Options", 1),
        ("tvm_disc.compile", "from . import shape, runtime\nfrom .codegen import build", 0),
        ("tvm_disc.runtime.executable", "import tvm_disc.codegen.build", 1),
        ("tvm_disc.runtime.executable", "if TYPE_CHECKING:\n    from ..compile import x", 1),
    ],
)
def test_the_check_sees_what_it_should(module: str, source: str, count: int) -> None:
    known = {f"{PACKAGE}.{package}" for package in STEP}
    assert len(violations(module, imports(source, module, False, known))) == count


def test_modules_named_in_strings_count() -> None:
    known = {"tvm_disc.shape.facts", "tvm_disc.compile"}
    source = 'a = "tvm_disc.compile:build"\nb = {"x": "tvm_disc.shape.facts"}\nc = "see tvm_disc.x"'
    assert sorted(strings(source, known)) == ["tvm_disc.compile", "tvm_disc.shape.facts"]


def test_a_circle_is_named_in_order() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) in (["b", "c", "b"], ["c", "b", "c"])


def test_imports_in_functions_and_for_types_count() -> None:
    source = """
from __future__ import annotations
from . import prove as p
if TYPE_CHECKING:
    from .solver import Solver
def f():
    from tvm_disc.shape import Dim
"""
    known = {"tvm_disc.shape", "tvm_disc.shape.prove", "tvm_disc.shape.solver"}
    found = set(imports(source, "tvm_disc.shape.facts", False, known))
    assert found == known
