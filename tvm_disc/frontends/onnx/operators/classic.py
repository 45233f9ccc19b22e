"""Converters of classic machine learning (``ai.onnx.ml``): tree ensembles and scalers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_disc.errors import TypeMismatch, Unsupported, shown
from tvm_disc.frontends.calc import Calc, Expr, const, op
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.table import CLASSIC, Row
from tvm_disc.frontends.onnx.tensors import array_of
from tvm_disc.typing import Array

MEMBER = 6  # mode of a tree node that tests whether a value is in a set
_TESTS = ("less_equal", "less", "greater_equal", "greater", "equal", "not_equal")
_SUM, _AVERAGE, _MIN = 1, 0, 2


@dataclass(frozen=True)
class Forest:
    """Tables of all trees: one entry for each inner node, then one for each leaf.

    Both successors of a leaf are the leaf itself.

    Attributes:
        roots: the root of each tree.
        features: the feature that a node tests.
        modes: the comparison of a node, as in ONNX.
        splits: the number with which a node compares the feature.
        ways: the successors of each node, if its test fails and if it holds.
        members: the set of each node of mode ``MEMBER``, padded with NaN.
        missing: whether a node's test holds if the feature is NaN.
        nodes: the number of inner nodes.
        depth: the maximum number of tests on a path from a root to a leaf.
    """

    roots: np.ndarray
    features: np.ndarray
    modes: np.ndarray
    splits: np.ndarray
    ways: tuple[np.ndarray, np.ndarray]
    members: np.ndarray
    missing: np.ndarray
    nodes: int
    depth: int


def _tree_ensemble(n: OnnxNode) -> Expr:
    """Convert TreeEnsemble: each step moves every row, in every tree, from a node to a successor.

    The number of steps is the depth of the deepest tree.
    """
    x = n[0]
    forest = _forest(n)
    at = n.broadcast(const(forest.roots[None]), [n.size(x, 0), len(forest.roots)])
    for _ in range(forest.depth):
        otherwise, then = (_read(n, way, at) for way in forest.ways)
        at = n.where(_test(n, x, forest, at), then, otherwise)
    made = _gathered(n, at - forest.nodes, len(forest.roots))
    return _transformed(n, made)


def _read(n: Calc, table: np.ndarray, at: Expr) -> Expr:
    return n.take(const(table), at, 0)


def _test(n: Calc, x: Expr, forest: Forest, at: Expr) -> Expr:
    """Return whether the tests of the nodes ``at`` hold, ``[rows, trees]``."""
    value = op("gather", x, _read(n, forest.features, at), axis=1)
    split = n.cast(_read(n, forest.splits, at), n.dtype(x))
    found: Any = None
    for mode in sorted(set(forest.modes.tolist())):
        if mode == MEMBER:
            members = n.cast(_read(n, forest.members, at), n.dtype(x))
            same = n.cast(n.equal(n.expand(value, 2), members), "int8")
            holds = n.reduce("max", same, [2]) > 0
        else:
            holds = op(_TESTS[mode], value, split)
        here = n.equal(_read(n, forest.modes, at), mode)
        found = holds if found is None else n.where(here, holds, found)
    if forest.missing.any():
        found = found | (_read(n, forest.missing, at) & op("isnan", value))
    return found  # type: ignore[no-any-return]


def _gathered(n: OnnxNode, leaf: Expr, trees: int) -> Expr:
    """Return the aggregated weights of the leaves that each row reaches, ``[rows, targets]``."""
    how, folder = int(n.attr("aggregate_function", _SUM)), n.graph.model.folder
    weights = array_of(n.required("leaf_weights"), folder).reshape(-1)
    targets, count = np.asarray(n.required("leaf_targetids")), int(n.required("n_targets"))
    if len(targets) != len(weights) or not np.all((targets >= 0) & (targets < count)):
        raise TypeMismatch(
            f"leaf_targetids: expected {len(weights)} integers, one for each entry of "
            f"leaf_weights, at least 0 and less than n_targets, {count}; found "
            f"{shown(targets.tolist())}"
        )
    dtype = n.dtype(n[0])
    limits = np.finfo(weights.dtype)
    nothing = 0 if how in (_SUM, _AVERAGE) else limits.max if how == _MIN else limits.min
    table = np.full((len(weights), count), nothing, weights.dtype)
    table[np.arange(len(weights)), targets] = weights
    each = n.cast(_read(n, table, leaf), dtype)
    made = n.reduce({_MIN: "min", 3: "max"}.get(how, "sum"), each, [1])
    return made / float(trees) if how == _AVERAGE else made


def _transformed(n: OnnxNode, x: Expr) -> Expr:
    how = int(n.attr("post_transform", 0))
    if how not in (0, 1, 2):
        raise Unsupported(
            f"post_transform: expected 0 (none), 1 (softmax) or 2 (logistic), found {how}"
        )
    return x if how == 0 else n.softmax(x, -1) if how == 1 else n.sigmoid(x)


# -- trees -----------------------------------------------------------------------------------


def _forest(n: OnnxNode) -> Forest:
    """Return the trees that the attributes of a TreeEnsemble describe."""
    folder = n.graph.model.folder
    modes = array_of(n.required("nodes_modes"), folder).astype("int64")
    nodes = len(modes)
    leaves = array_of(n.required("leaf_weights"), folder).size
    ways = (_ways(n, "nodes_false", nodes, leaves), _ways(n, "nodes_true", nodes, leaves))
    roots = np.asarray(n.required("tree_roots"), "int64")
    features = _filled("nodes_featureids", n.required("nodes_featureids"), nodes, leaves)
    splits = array_of(n.required("nodes_splits"), folder)
    missing = n.attr("nodes_missing_value_tracks_true") or [0] * nodes
    if np.any((modes < 0) | (modes > MEMBER)):
        raise TypeMismatch(
            f"nodes_modes: expected integers from 0 to {MEMBER}, found {shown(modes.tolist())}"
        )
    if roots.size == 0 or not np.all((roots >= 0) & (roots < nodes)):
        raise TypeMismatch(
            f"tree_roots: expected one or more integers, at least 0 and less than {nodes}, the "
            f"number of nodes; found {shown(roots.tolist())}"
        )
    return Forest(
        roots,
        features,
        _filled("nodes_modes", modes, nodes, leaves),
        _filled("nodes_splits", splits, nodes, leaves, splits.dtype),
        ways,
        _members(n, modes, leaves),
        _filled("nodes_missing_value_tracks_true", missing, nodes, leaves, "bool"),
        nodes,
        _depth(roots, ways, nodes),
    )


def _filled(
    name: str, values: Sequence[int] | Array, nodes: int, leaves: int, dtype: Any = "int64"
) -> np.ndarray:
    """Return an array with the value of each inner node, then an arbitrary value for each leaf."""
    made = np.asarray(values, dtype).reshape(-1)
    if len(made) != nodes:
        raise TypeMismatch(
            f"{name}: expected {nodes} entries, as in nodes_modes, found {len(made)}"
        )
    return np.concatenate([made, np.full(leaves, made[0], dtype)])


def _ways(n: OnnxNode, name: str, nodes: int, leaves: int) -> np.ndarray:
    ids = np.asarray(n.required(f"{name}nodeids"), "int64")
    is_leaf = np.asarray(n.required(f"{name}leafs"), "int64") != 0
    if len(ids) != nodes or len(is_leaf) != nodes:
        raise TypeMismatch(
            f"{name}nodeids and {name}leafs: expected {nodes} entries, as in nodes_modes, found "
            f"{len(ids)} and {len(is_leaf)}"
        )
    if np.any((ids < 0) | (ids >= np.where(is_leaf, leaves, nodes))):
        raise TypeMismatch(
            f"{name}nodeids: expected integers of at least 0, less than {nodes} for nodes and less "
            f"than {leaves} for leaves, found {shown(ids.tolist())}"
        )
    return np.concatenate([np.where(is_leaf, ids + nodes, ids), nodes + np.arange(leaves)])


def _depth(roots: np.ndarray, ways: Sequence[np.ndarray], nodes: int) -> int:
    """Return the maximum number of tests on a path from a root to a leaf.

    Raises:
        TypeMismatch: the nodes contain a cycle.
    """
    level = np.unique(roots)
    for depth in range(1, nodes + 1):
        level = np.unique(np.concatenate([w[level] for w in ways]))
        level = level[level < nodes]
        if not len(level):
            return depth
    raise TypeMismatch("the nodes of a tree form a cycle")


def _members(n: OnnxNode, modes: np.ndarray, leaves: int) -> np.ndarray:
    """Return one row for each node and leaf: the set of a node of mode ``MEMBER``, else NaN.

    The attribute has all sets in sequence; a NaN ends each set.
    """
    asked, sets = np.flatnonzero(modes == MEMBER), list[np.ndarray]()
    if n.attr("membership_values") is not None:
        values = array_of(n.attr("membership_values"), n.graph.model.folder)
        sets = np.split(values, np.flatnonzero(np.isnan(values)) + 1)[:-1]
    if len(sets) != len(asked):
        raise TypeMismatch(
            f"membership_values: expected as many sets, each ended by NaN, as nodes of mode "
            f"{MEMBER}, {len(asked)}; found {len(sets)}"
        )
    width = max((len(s) for s in sets), default=1)
    table = np.full((len(modes) + leaves, width), np.nan, sets[0].dtype if sets else "float32")
    for at, members in zip(asked, sets, strict=True):
        table[at, : len(members)] = members
    return table


def _scaler(n: OnnxNode) -> Expr:
    """Convert Scaler: ``(x - offset) * scale`` as float32, with one number or one per feature.

    Float64 elements are rounded after the multiplication, as in ONNX Runtime.
    """
    x = n[0]
    offset, scale = (np.array(n.required(a), "float32").reshape(-1) for a in ("offset", "scale"))
    for values in (offset, scale):
        if len(values) != 1:
            [x] = n.fitted({"X": (x, [None] * (n.rank(x) - 1) + [len(values)])})
    wide = "float64" if n.dtype(x) == "float64" else "float32"
    moved = n.cast(x, wide) - const(offset.astype(wide))
    return n.cast(moved * const(scale.astype(wide)), "float32")


ROWS: tuple[Row, ...] = (
    Row("TreeEnsemble", _tree_ensemble, domain=CLASSIC, since=5),
    Row("Scaler", _scaler, domain=CLASSIC),
)
