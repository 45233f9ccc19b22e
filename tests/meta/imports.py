"""Imports between the modules of the package, read from their sources, also inside functions."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Collection, Iterator
from pathlib import Path

PACKAGE = "tvm_disc"
# Modules that list public names of all layers. They import them on first use, and no module of a
# package imports a name from them.
FACES = {PACKAGE, f"{PACKAGE}.paths", f"{PACKAGE}.relay"}


def package_of(module: str) -> str:
    """Return the sub-package of a module; ``__init__`` for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def modules(root: Path) -> Iterator[tuple[str, Path]]:
    """Every module of the package and its file."""
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(source: str, module: str, is_package: bool, known: Collection[str]) -> Iterator[str]:
    """The modules of our own that ``source`` imports, relative imports resolved.

    ``from a import b`` imports ``a.b`` where that is ``known`` as a module, else ``a``.
    """
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
            if base.split(".")[0] == PACKAGE:
                inner = [f"{base}.{a.name}" for a in node.names]
                yield from dict.fromkeys(name if name in known else base for name in inner)


def strings(source: str, known: Collection[str]) -> Iterator[str]:
    """The modules of our own that ``source`` names in a string, which it may import later."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition(":")[0]
            if re.fullmatch(rf"{PACKAGE}(\.\w+)+", name) and name in known:
                yield name


@functools.cache
def graph(root: Path) -> dict[str, set[str]]:
    """What each module of the package imports of it."""
    files = dict(modules(root))
    return {
        module: {
            target
            for target in imports(path.read_text("utf-8"), module, path.stem == "__init__", files)
            if target != module
        }
        for module, path in files.items()
    }


@functools.cache
def named(root: Path) -> dict[str, set[str]]:
    """What each module of the package names in strings of it."""
    files = dict(modules(root))
    return {module: set(strings(path.read_text("utf-8"), files)) for module, path in files.items()}
