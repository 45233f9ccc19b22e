"""Imports go one way: no room imports a later one, not even inside a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "tvm_disc"
# Left never imports right.  Rooms of one step do not import each other, except that options,
# debug and processor may import errors.
ORDER = [
    {"errors"},
    {"options", "debug", "processor"},
    {"shape"},
    {"relay", "target"},
    {"frontends", "graph", "tir"},
    {"relay_passes"},
    {"schedules"},
    {"codegen"},
    {"runtime"},
    {"compile"},
    {"tune"},
    {"__init__", "__main__"},
]
STEP = {room: step for step, rooms in enumerate(ORDER) for room in rooms}


def room_of(module: str) -> str:
    """``tvm_disc.shape.solver`` is in ``shape``; the package itself is ``__init__``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports(source: str, module: str, is_package: bool, rooms: set[str]) -> Iterator[str]:
    """The modules of our own that ``source`` imports anywhere, relative imports resolved."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == PACKAGE)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                parts = parts[: len(parts) - node.level + 1]
                base = ".".join([*parts, base] if base else parts)
            if base == PACKAGE:  # ``from tvm_disc import relay`` imports a room
                named = {a.name for a in node.names}
                yield from (f"{PACKAGE}.{name}" for name in named & rooms)
                if named - rooms:
                    yield PACKAGE
            elif base.split(".")[0] == PACKAGE:
                yield base


def violations(source: str, module: str, is_package: bool, rooms: set[str]) -> list[str]:
    """The imports of ``source`` that go the wrong way."""
    room = room_of(module)
    found = []
    for target in imports(source, module, is_package, rooms):
        other = room_of(target)
        if room == other and room != "__init__":
            continue
        if STEP.get(other, len(ORDER)) >= STEP[room] and module != PACKAGE:
            found.append(f"{module} imports {target}")
    return found


def modules(root: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def rooms_of(root: Path) -> set[str]:
    return {room_of(module) for module, _ in modules(root)}


def test_every_room_has_a_place(root: Path) -> None:
    unplaced = rooms_of(root) - set(STEP)
    assert not unplaced, f"add to ORDER, and to the picture in README.md: {sorted(unplaced)}"


def test_imports_go_one_way(root: Path) -> None:
    rooms = rooms_of(root) | set(STEP)
    found = []
    for module, path in modules(root):
        source = path.read_text(encoding="utf-8")
        if module != f"{PACKAGE}.__main__":
            found += violations(source, module, path.name == "__init__.py", rooms)
    assert found == []


@pytest.mark.parametrize(
    ("module", "source", "count"),
    [
        ("tvm_disc.shape.solver", "from tvm_disc.errors import DiscError", 0),
        ("tvm_disc.shape.solver", "from ..relay import expr", 1),
        ("tvm_disc.shape.solver", "from .. import relay", 1),
        ("tvm_disc.shape.solver", "def f():\n    from tvm_disc import codegen", 1),
        ("tvm_disc.shape.solver", "import tvm_disc.runtime.executable", 1),
        ("tvm_disc.shape.solver", "import tvm_disc", 1),
        ("tvm_disc.shape.solver", "from tvm_disc import build", 1),
        ("tvm_disc.shape.solver", "from .facts import Fact\nimport tvm, tvm.tirx", 0),
        ("tvm_disc.frontends.onnx", "from tvm_disc.relay_passes import fuse", 1),
        ("tvm_disc.debug", "from .errors import DiscError", 0),
        ("tvm_disc.debug", "from .options import Options", 1),
        ("tvm_disc.compile", "from . import shape, runtime\nfrom .codegen import build", 0),
        ("tvm_disc.runtime.executable", "if TYPE_CHECKING:\n    from ..compile import x", 1),
    ],
)
def test_the_check_sees_what_it_should(module: str, source: str, count: int) -> None:
    assert len(violations(source, module, False, set(STEP))) == count
