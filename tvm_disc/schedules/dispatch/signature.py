"""Text that identifies a group independently of its names; its hash is the key of records."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.group import Group
from tvm_disc.tir.builder import index_var
from tvm_disc.tir.index import substitute
from tvm_disc.typing import Expr

# Modules that only select among variants; they do not affect the code of a variant.
_DECIDING = (
    "attention.cost cuda.handover gemm.cost group select dispatch.choose dispatch.cost "
    "dispatch.cost_model dispatch.learn dispatch.records dispatch.sampling dispatch.shipped "
    "dispatch.signature dispatch.tree dispatch.tree_fit"
).split()
# A docstring begins the file or follows a line that ends with a colon.
_DOCSTRING = re.compile(r'(\A|(?<=:\n)[ ]*)r?"""(?s:.*?)"""')
_NO_CODE = re.compile(r"^[ ]*(?:#.*)?\n", re.MULTILINE)


def canonical_names(group: Group) -> dict[Expr, object]:
    """Return a variable ``d0``, ``d1``, ... for each of the group's symbols, in argument order."""
    return {s: index_var(f"d{k}") for k, s in enumerate(group.symbols())}


def canonical_text(expr: Expr, names: Mapping[Any, Any]) -> str:
    """Return an expression over a group's symbols, printed with their canonical names."""
    if isinstance(expr, int | float | str):
        return str(expr)
    return str(substitute(expr, names))


def describe_group(group: Group) -> str:
    """Return a text with a line for each value: operator, operands, attributes, shape and dtype."""
    names = canonical_names(group)
    numbers: dict[Node, int] = {}
    lines = []
    for node in (*group.params, *group.nodes):
        for operand in node.inputs:
            if operand not in numbers:
                numbers[operand] = len(numbers)
                lines.append(_describe(operand, numbers, names, group))
        numbers.setdefault(node, len(numbers))
        lines.append(_describe(node, numbers, names, group))
    outputs = ", ".join(str(numbers[n]) for n in group.outputs)
    return "\n".join([group.kind, *dict.fromkeys(lines), f"return {outputs}"])


def _describe(
    node: Node, numbers: Mapping[Node, int], names: Mapping[Any, object], group: Group
) -> str:
    shape = ", ".join(canonical_text(d, names) for d in node.shape)
    attrs = ", ".join(f"{k}={v}" for k, v in sorted(node.attrs.items()))
    prims = ", ".join(
        "(" + ", ".join(canonical_text(x, names) for x in p) + ")"
        if isinstance(p, tuple)
        else canonical_text(p, names)
        for p in node.prims
    )
    operands = ", ".join(str(numbers.get(i, -1)) for i in node.inputs)
    literal = " constant" if node in group.constants else ""
    if node.is_scalar_const and node.value is not None:
        literal = f" {node.value.item()}"
    head = f"{numbers[node]} = {node.op}({operands}; {prims}; {attrs})"
    return f"{head} [{shape}] {node.dtype}{literal}"


def group_key(group: Group) -> str:
    """Return a short hash of :func:`describe_group`."""
    return hashlib.sha256(describe_group(group).encode()).hexdigest()[:12]


@cache
def template_hash() -> str:
    """Return a short hash of the code of all modules that emit code.

    Records with a different hash are not used, because the code that they measured may have
    changed. Docstrings, comment lines and blank lines are left out; a comment behind code is not.
    """
    digest = hashlib.sha256()
    for path in emitting_modules():
        digest.update(without_prose(path.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:12]


def emitting_modules() -> Iterator[Path]:
    """Yield the files of the modules that emit code."""
    package = Path(__file__).parents[2]
    for folder in (package / "schedules", package / "tir"):
        for path in sorted(folder.rglob("*.py")):
            if ".".join(path.relative_to(folder).with_suffix("").parts) not in _DECIDING:
                yield path


def without_prose(source: str) -> str:
    """Return the text of a module with empty docstrings, and without comment lines and blank lines.

    This is a search for patterns, which is fast enough for every build. It is only right for files
    without lines in strings that look like comments or blank lines; a test compares it with
    Python's parser for every file that :func:`template_hash` reads.
    """
    return _NO_CODE.sub("", _DOCSTRING.sub(r'\1""', source))


__all__ = ["canonical_names", "canonical_text", "describe_group", "group_key", "template_hash"]
