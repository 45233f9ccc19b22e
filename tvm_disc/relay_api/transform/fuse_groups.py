"""Grouping of operators by Relay's rules, over the post-dominator tree of uses.

A value may join its immediate post-dominator if the kind of every operator between them is
compatible with its own kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tvm_disc.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from tvm_disc.relay.ops.row import FusionClass
from tvm_disc.relay.types import TensorType, TupleType, is_dynamic
from tvm_disc.relay.visit import children, post_order
from tvm_disc.relay_api.dataflow_pattern.known_types import KnownTypes
from tvm_disc.relay_api.transform.rules import row_of

TUPLE = 7
MOST_NODES = 256
Condition = Callable[[int, bool], bool]


@dataclass(eq=False)
class FusionNode:
    """A value with its users, the kind of each use, and its place in the post-dominator tree."""

    expr: Expr
    kind: int
    users: list[tuple[FusionNode, int]] = field(default_factory=list)
    escapes: bool = False
    parent: FusionNode | None = None
    depth: int = 1
    way: int = FusionClass.OPAQUE  # highest kind of a use on the paths to the parent
    joined: FusionNode | None = None
    size: int = 1

    def root(self) -> FusionNode:
        """Return the last node of the group."""
        node = self
        while node.joined is not None:
            node = node.joined
        return node


def _kind(expr: Expr, types: KnownTypes) -> int:
    if isinstance(expr, Constant):
        return FusionClass.ELEMWISE if expr.data.ndim == 0 else FusionClass.OPAQUE
    if isinstance(expr, Tuple):
        return TUPLE
    if isinstance(expr, TupleGetItem):
        found = types.of(expr.tuple_value)
        plain = isinstance(found, TupleType) and all(
            isinstance(t, TensorType) for t in found.fields
        )
        return FusionClass.INJECTIVE if plain else FusionClass.OPAQUE
    row = row_of(expr)
    if row is None:
        return FusionClass.OPAQUE
    read_from_data = row.name.startswith("dyn.") and is_dynamic(types.of(expr))
    return FusionClass.OPAQUE if read_from_data else int(row.pattern)


def _reads(node: FusionNode, part: Expr, types: KnownTypes) -> int:
    """Return the kind of a use; a broadcast operand of the result's shape is read element-wise."""
    if node.kind == TUPLE:
        return FusionClass.INJECTIVE
    if node.kind != FusionClass.BROADCAST:
        return node.kind
    whole, read = types.tensor(node.expr), types.tensor(part)
    same = whole is not None and read is not None and len(whole.shape) == len(read.shape)
    equal = same and types.same_dims(node.expr, part)
    return FusionClass.ELEMWISE if equal else FusionClass.BROADCAST


def find_nodes(func: Function, types: KnownTypes) -> dict[Expr, FusionNode]:
    """Return the values of a function, each as a group with one member."""
    nodes: dict[Expr, FusionNode] = {}
    order = post_order(func)
    hidden = {n for f in order if is_primitive(f) and f is not func for n in post_order(f)}
    for expr in order:
        if expr in hidden:
            continue
        node = nodes[expr] = FusionNode(expr, _kind(expr, types))
        inner = isinstance(expr, (Call, Tuple, TupleGetItem)) and node.kind != FusionClass.OPAQUE
        for part in children(expr):
            if part not in nodes:
                continue
            if inner:
                nodes[part].users.append((node, _reads(node, part, types)))
            elif isinstance(expr, Call) and row_of(expr) is not None:
                nodes[part].users.append((node, FusionClass.OPAQUE))
            else:
                nodes[part].escapes = True
    for expr in reversed(order):
        if expr in nodes:
            _place(nodes[expr])
    return nodes


def is_primitive(expr: Expr) -> bool:
    """Return whether a function is already a fused group."""
    return isinstance(expr, Function) and bool(expr.attrs.get("Primitive"))


def _place(node: FusionNode) -> None:
    """Set the immediate post-dominator of a node; its users are already in the tree."""
    if node.escapes or not node.users:
        return
    parent: FusionNode | None = node.users[0][0]
    way = node.users[0][1]
    for user, how in node.users[1:]:
        parent, way = _meet(parent, user, max(way, how))
    node.parent, node.way = parent, way if parent is not None else FusionClass.OPAQUE
    node.depth = 1 if parent is None else parent.depth + 1


def _meet(a: FusionNode | None, b: FusionNode | None, way: int) -> tuple[FusionNode | None, int]:
    """Return the lowest common ancestor, and the highest kind of a use on the paths to it."""
    while a is not b:
        if a is None or b is None:
            return None, way
        if a.depth < b.depth:
            a, b = b, a
        way = max(way, a.way)
        a = a.parent
    return a, way


def _between(source: FusionNode, sink: FusionNode) -> list[FusionNode]:
    """Return every node after ``source`` up to ``sink``."""
    found: dict[FusionNode, None] = {}
    todo = [user for user, _ in source.users]
    while todo:
        node = todo.pop()
        if node not in found:
            found[node] = None
            todo += [user for user, _ in node.users] if node is not sink else []
    return list(found)


def _join(node: FusionNode, most: int, allowed: Condition) -> None:
    """Merge a node, and the nodes between it and its parent, into the parent's group.

    Nothing is merged if ``allowed`` rejects the kind of a node, or the group would exceed ``most``
    values.
    """
    assert node.parent is not None
    way = _between(node, node.parent)
    if not all(allowed(n.root().kind, n is node.parent) for n in way):
        return
    target = node.parent.root()
    roots = {n.root() for n in (node, *way)} - {target}
    if target.size + sum(r.size for r in roots) > most:
        return
    for root in roots:
        root.joined = target
        target.size += root.size
        if root.kind == FusionClass.OUT_ELEMWISE:
            target.kind = max(root.kind, target.kind)


def _may_end_a_chain(kind: int, is_last: bool) -> bool:
    if not is_last:
        return kind <= FusionClass.INJECTIVE
    return kind <= FusionClass.REDUCE or kind == FusionClass.OUT_ELEMWISE


def _fuse(node: FusionNode, phase: int, most: int) -> None:
    """Fuse one node into its parent's group, if the rules of ``phase`` allow this.

    Phase 0 fuses matmuls and element-wise chains, phase 1 also injective operators, phase 2 values
    that a tuple reads.
    """
    parent = node.parent
    if parent is None or node.kind == FusionClass.OPAQUE:
        return
    if phase == 2:
        inside = parent.kind == TUPLE and parent.root().kind <= FusionClass.INJECTIVE
        if node.kind <= FusionClass.INJECTIVE and inside and parent.root().kind != TUPLE:
            _join(node, most, lambda kind, _: kind <= FusionClass.INJECTIVE)
        return
    if parent.root() is node.root() or parent.kind == TUPLE:
        return
    if node.kind == FusionClass.OUT_ELEMWISE:
        if phase == 0 and node.way == FusionClass.ELEMWISE:
            _join(node, most, lambda kind, _: kind <= FusionClass.BROADCAST)
    elif node.kind <= FusionClass.BROADCAST:
        if node.way <= FusionClass.REDUCE:
            _join(node, most, _may_end_a_chain)
    elif node.kind in (FusionClass.INJECTIVE, TUPLE) and phase == 1:
        _join(node, most, lambda kind, _: kind <= FusionClass.INJECTIVE)


def find_groups(
    func: Function, types: KnownTypes, level: int, most: int = MOST_NODES
) -> dict[Expr, FusionNode]:
    """Return the values of a function with their groups, at most ``most`` values per group.

    Below ``level`` 1 each operator is a group.
    """
    nodes = find_nodes(func, types)
    for phase in range(3) if level >= 1 else ():
        for node in nodes.values():
            if not isinstance(node.expr, Constant):
                _fuse(node, phase, most)
    return nodes


__all__ = ["MOST_NODES", "FusionNode", "find_groups", "is_primitive"]
