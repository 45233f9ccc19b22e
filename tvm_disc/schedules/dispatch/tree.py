"""Decision trees over the features of a group, with conversion to text and JSON.

if b*s < 48:
  loop(), serial
else:
  loop(), 2 threads
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tvm_disc.errors import BadInput, shown

DEEPEST = 64  # largest number of splits on a path of a tree that is read from a file
_FORM = '{"run": ...} or {"if": text, "below": integer, "then": ..., "else": ...}'


@dataclass(frozen=True)
class Leaf:
    """A leaf: run the variant with this index."""

    variant: int


@dataclass(frozen=True)
class Split:
    """A split: ``below`` applies if the feature with this index is < ``at``, else ``rest``."""

    feature: int
    at: int
    below: Tree
    rest: Tree


Tree: TypeAlias = "Leaf | Split"


def leaves(tree: Tree) -> list[int]:
    """Return the indices of the variants that the tree can pick, ascending."""
    if isinstance(tree, Leaf):
        return [tree.variant]
    return sorted({*leaves(tree.below), *leaves(tree.rest)})


def features(tree: Tree) -> list[int]:
    """Return the indices of the features that the tree reads, ascending."""
    if isinstance(tree, Leaf):
        return []
    return sorted({tree.feature, *features(tree.below), *features(tree.rest)})


def depth(tree: Tree) -> int:
    """Return the number of splits on the longest path."""
    return 0 if isinstance(tree, Leaf) else 1 + max(depth(tree.below), depth(tree.rest))


def decide(tree: Tree, value: Callable[[int], float]) -> int:
    """Return the index of the variant for one point; ``value`` returns a feature by index."""
    while isinstance(tree, Split):
        tree = tree.below if value(tree.feature) < tree.at else tree.rest
    return tree.variant


def prune(tree: Tree, below: Callable[[int, int], bool | None]) -> Tree:
    """Return the tree without needless splits.

    A split is needless if ``below(feature, at)`` decides it (is not None), or if both branches are
    equal.
    """
    if isinstance(tree, Leaf):
        return tree
    answer = below(tree.feature, tree.at)
    if answer is not None:
        return prune(tree.below if answer else tree.rest, below)
    first, second = prune(tree.below, below), prune(tree.rest, below)
    return first if first == second else Split(tree.feature, tree.at, first, second)


def renumber(tree: Tree, numbers: Mapping[int, int]) -> Tree:
    """Return the tree with each variant index replaced by ``numbers[index]``."""
    if isinstance(tree, Leaf):
        return Leaf(numbers[tree.variant])
    below, rest = renumber(tree.below, numbers), renumber(tree.rest, numbers)
    return Split(tree.feature, tree.at, below, rest)


def merged(tree: Tree) -> Tree:
    """Return an equivalent tree without splits between equal branches.

    Two splits of one feature with equal lower branches become one split.
    """
    if isinstance(tree, Leaf):
        return tree
    below, rest = merged(tree.below), merged(tree.rest)
    if below == rest:
        return below
    if isinstance(rest, Split) and (rest.feature, rest.below) == (tree.feature, below):
        return rest if rest.at > tree.at else Split(tree.feature, tree.at, below, rest.rest)
    return Split(tree.feature, tree.at, below, rest)


def shift_features(tree: Tree, by: int) -> Tree:
    """Return the tree with ``by`` added to each feature index."""
    if isinstance(tree, Leaf):
        return tree
    below, rest = shift_features(tree.below, by), shift_features(tree.rest, by)
    return Split(tree.feature + by, tree.at, below, rest)


def show(tree: Tree, features: Sequence[str], variants: Sequence[str], indent: str = "") -> str:
    """Return the tree as text, with if, elif and else."""
    if isinstance(tree, Leaf):
        return f"{indent}{variants[tree.variant]}"
    inner, test, lines = f"{indent}  ", "if", []
    while isinstance(tree, Split):
        lines.append(f"{indent}{test} {features[tree.feature]} < {tree.at}:")
        lines.append(show(tree.below, features, variants, inner))
        tree, test = tree.rest, "elif"
    return "\n".join([*lines, f"{indent}else:", show(tree, features, variants, inner)])


def to_json(tree: Tree, features: Sequence[str], variants: Sequence[object]) -> dict[str, Any]:
    """Return the tree as JSON-compatible values, with the features' texts and the variants."""
    if isinstance(tree, Leaf):
        return {"run": variants[tree.variant]}
    return {
        "if": features[tree.feature],
        "below": tree.at,
        "then": to_json(tree.below, features, variants),
        "else": to_json(tree.rest, features, variants),
    }


def read_trees(path: Path) -> dict[str, Any]:
    """Return the trees of a file by group key; empty entries are left out.

    Raises:
        BadInput: the file cannot be read, or an entry is not a tree.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"dispatch: {path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"dispatch: {path}: cannot be read as JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadInput(
            f"dispatch: {path}: expected a JSON object with a tree for each group, found "
            f"{shown(found)}"
        )
    for group, tree in found.items():
        if tree != {}:
            where = f"dispatch: {path}: group {group[:80]!r}"
            _check_form(tree, where)
            if "library" in tree:
                _check_form(tree["library"], where)
    return {group: tree for group, tree in found.items() if tree}


def _check_form(tree: Any, where: str) -> None:
    stack = [(tree, 0)]
    while stack:
        node, level = stack.pop()
        if level > DEEPEST:
            raise BadInput(f"{where}: expected at most {DEEPEST} splits from the root to a leaf")
        if isinstance(node, dict) and "run" in node:
            continue
        fits = isinstance(node, dict) and {"if", "below", "then", "else"} <= set(node)
        fits = fits and isinstance(node["if"], str)
        at = node["below"] if fits else None
        if not isinstance(at, int) or abs(at) >= 1 << 63:
            raise BadInput(f"{where}: expected {_FORM}, found {shown(node)}")
        stack += [(node["then"], level + 1), (node["else"], level + 1)]


def from_json(data: Mapping[str, Any], features: Sequence[str], variants: Sequence[object]) -> Tree:
    """Return the tree that :func:`to_json` wrote.

    Raises:
        ValueError: the tree uses a feature or variant that this group does not have.
    """
    if "run" in data:
        if data["run"] not in variants:
            raise ValueError(f"unknown variant {shown(data['run'])}")
        return Leaf(list(variants).index(data["run"]))
    if data["if"] not in features:
        raise ValueError(f"unknown quantity {data['if']!r}; expected one of {', '.join(features)}")
    below = from_json(data["then"], features, variants)
    rest = from_json(data["else"], features, variants)
    return Split(list(features).index(data["if"]), int(data["below"]), below, rest)
