"""Comments, docstrings and documents of the project, and the references that they contain."""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.meta.imports import PACKAGE


@dataclass(frozen=True)
class Text:
    """A comment, a docstring, or a document.

    Attributes:
        path: its file, relative to the root.
        line: its first line.
    """

    path: str
    line: int
    text: str


@functools.cache
def texts(root: Path) -> tuple[Text, ...]:
    """Return the comments and docstrings of the package, the tutorials, and the documents."""
    files = [*(root / PACKAGE).rglob("*.py"), *(root / "tutorials").glob("*.py")]
    found = [text for path in sorted(files) for text in of_source(path, root)]
    for path in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")]):
        found.append(Text(str(path.relative_to(root)), 1, path.read_text(encoding="utf-8")))
    return tuple(found)


def of_source(path: Path, root: Path) -> Iterator[Text]:
    """Yield the comments and docstrings of a Python file."""
    source = path.read_text(encoding="utf-8")
    name = str(path.relative_to(root))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(name, token.start[0], token.string)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield Text(name, getattr(node, "lineno", 1), text)


# --- references ------------------------------------------------------------------------------

# A path in code quotes: letters, a suffix, perhaps a test's name; no wildcard or placeholder.
PATH = re.compile(r"`([A-Za-z_][\w./-]*\.(?:py|md|cc|h|tir|relay|txt))(?:::(\w+))?`")
# A dotted name in code quotes, or the target of a role such as :mod:`.pack` and :func:`split`.
DOTTED = re.compile(r"(?<![:\w])``?([a-z_]\w*(?:\.\w+)+)(?:\(\))?``?(?!\w)")
ROLE = re.compile(r":(?:mod|class|func|meth|attr|data):`[~!]?([\w.]+)(?:\(\))?`")
MODULE = re.compile(r"python -m ((?:tvm_disc|tests|benchmarks)[\w.]*)")
LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([\w-]+))?\)")
# Files that a command writes, or that exist only in an example.
WRITTEN = re.compile(r"(?:bert|model|main)\.|index\.txt|\d\d_\w+\.relax\.py")
# docs/extending.md creates files; the changelog names what was removed.
EXEMPT = ("docs/extending.md", "CHANGELOG.md")


@functools.cache
def tree(root: Path) -> frozenset[str]:
    """Return the paths of all files of the project, each with all of its suffixes."""
    folders = (PACKAGE, "tests", "docs", "tutorials", "benchmarks", "examples")
    paths = [p for folder in folders for p in (root / folder).rglob("*") if p.is_file()]
    parts = [p.relative_to(root).parts for p in [*paths, *root.glob("*.*")]]
    return frozenset("/".join(p[k:]) for p in parts for k in range(len(p)))


@functools.cache
def names(root: Path) -> frozenset[str]:
    """Return every name that the package defines: classes, functions, attributes, parameters."""
    found: set[str] = set()
    for path in (root / PACKAGE).rglob("*.py"):
        found.update(path.relative_to(root).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.arg):
                found.add(node.arg)
    return frozenset(found)


def stale(text: Text, root: Path) -> list[str]:
    """Return the references of a text to files and names that do not exist."""
    if text.path in EXEMPT:
        return []
    found = list(_paths(text, root))
    roles = ROLE.findall(text.text)
    found += [n for n in roles if n.strip(".").rpartition(".")[2] not in names(root)]
    found += [n for n in DOTTED.findall(text.text) if not _resolves(n, root)]
    found += [m for m in MODULE.findall(text.text) if not _is_module(m, root)]
    return [f"{text.path}:{text.line}: {name}" for name in found]


def _paths(text: Text, root: Path) -> Iterator[str]:
    for path, function in PATH.findall(text.text):
        if WRITTEN.match(path.rpartition("/")[2]):
            continue
        if path not in tree(root):
            yield path
        elif function and f"def {function}(" not in _contents(path, root):
            yield f"{path}::{function}"


def _contents(path: str, root: Path) -> str:
    folders = (root, root / "tests", root / PACKAGE)
    return next(f for f in (d / path for d in folders) if f.exists()).read_text(encoding="utf-8")


@functools.cache
def _packages(root: Path) -> frozenset[str]:
    """Return the sub-packages without those named as another package: JAX, and parts of TVM."""
    found = {p.parent.name for p in (root / PACKAGE).glob("*/__init__.py")}
    return frozenset(found - {"jax", "relay", "tir"})


def _resolves(name: str, root: Path) -> bool:
    """Return whether a dotted name exists, if it begins with this package or a sub-package."""
    first, *rest = name.split(".")
    if first == PACKAGE or first in _packages(root):
        return all(part in names(root) for part in rest)
    return True


def _is_module(name: str, root: Path) -> bool:
    path = root.joinpath(*name.rstrip(".").split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def dead_links(text: Text, root: Path) -> list[str]:
    """Return the links of a document to files or headings that do not exist."""
    found = []
    for target, heading in LINK.findall(re.sub(r"`[^`]*`", "", text.text)):
        path = (root / text.path).parent / target if target else root / text.path
        if not path.exists() or (heading and heading not in _headings(path)):
            found.append(f"{text.path}: {target}#{heading}")
    return found


def _headings(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub forms them."""
    lines = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}
