"""``FuseOps``, ``DefuseOps`` and ``MergeComposite``: group operators in functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm_disc.errors import BadNode, shown
from tvm_disc.relay.expr import Call, Constant, Expr, Function, TupleGetItem, Var
from tvm_disc.relay.inference.infer import infer_type
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.visit import children
from tvm_disc.relay_api.dataflow_pattern.known_types import KnownTypes
from tvm_disc.relay_api.dataflow_pattern.patterns import DFPattern
from tvm_disc.relay_api.expr_functor import rewrite_post_order
from tvm_disc.relay_api.transform.fuse_groups import (
    MOST_NODES,
    FusionNode,
    find_groups,
    is_primitive,
)
from tvm_disc.relay_api.transform.rules import op_name, row_of
from tvm_disc.relay_api.transform.substitute import applied, fresh

RESHAPES = frozenset(["reshape", "dyn.reshape", "expand_dims", "squeeze", "reshape_like"])


def fuse_ops(func: Function, level: int, most: int = MOST_NODES, link_params: bool = False) -> Expr:
    """Return ``func`` with every group of operators as a function with ``Primitive=1``.

    Args:
        level: below 1 each operator is a group.
        most: the number of values in a group.
        link_params: keep all constants inside of the functions, not only scalars.
    """
    if is_primitive(func):
        return func
    types = KnownTypes(func)
    nodes = find_groups(func, types, level, most)
    members: dict[FusionNode, set[Expr]] = {}
    for node in nodes.values():
        members.setdefault(node.root(), set()).add(node.expr)
    done: dict[Expr, Expr] = {}

    def kept(node: Constant) -> bool:
        return link_params or (node.data.ndim == 0 and level >= 1)

    def leave(node: Expr, made: Expr) -> Expr:
        group = nodes.get(node)
        if op_name(node) == "annotation.stop_fusion" and isinstance(made, Call):
            return made.args[0]
        if group is None or group.joined is not None:
            return made
        inside = members[group]
        if not _is_function(node, inside):
            return made
        return _as_call(node, _inputs(node, inside, kept), inside, types, done)

    return rewrite_post_order(func, leave, done=done)


def _is_function(root: Expr, inside: set[Expr]) -> bool:
    """Return whether a group becomes a function: its last node is an operator call, or an item of
    a call in the group.
    """
    if isinstance(root, TupleGetItem):
        return root.tuple_value in inside and row_of(root.tuple_value) is not None
    return row_of(root) is not None


def _as_call(
    root: Expr, args: list[Expr], inside: set[Expr], types: KnownTypes, done: dict[Expr, Expr]
) -> Expr:
    """Return a call of a group's function."""
    params = [Var(f"p{i}", types.of(arg)) for i, arg in enumerate(args)]
    body = rewrite_post_order(root, known=dict(zip(args, params, strict=True)))
    attrs: dict[str, object] = {"Primitive": 1}
    if all(op_name(n) in RESHAPES for n in inside if row_of(n) is not None):
        attrs["relay.reshape_only"] = 1
    return Call(Function(params, body, types.of(root), attrs=attrs), [done[a] for a in args])


def _inputs(root: Expr, inside: set[Expr], kept: Callable[[Constant], bool]) -> list[Expr]:
    """Return the inputs of a group in order of first use; ``kept`` constants stay inside."""
    found: dict[Expr, None] = {}
    todo, seen = [root], set()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        if node not in inside:
            if not (isinstance(node, Constant) and kept(node)):
                found[node] = None
            continue
        operands = children(node)[1:] if isinstance(node, Call) else children(node)
        todo.extend(reversed(operands))
    return list(found)


def defuse_ops(func: Function) -> Expr:
    """Return ``func`` with calls of fused functions replaced by their bodies."""

    def leave(_before: Expr, made: Expr) -> Expr:
        if isinstance(made, Call) and isinstance(made.op, Function) and is_primitive(made.op):
            copy = fresh(made.op)
            assert isinstance(copy, Function)
            return applied(copy, made.args)
        return made

    return rewrite_post_order(func, leave)


Entry = Sequence[Any]


def merge_composite(func: Function, pattern_table: Sequence[Entry], mod: IRModule) -> Expr:
    """Return ``func`` with every match of a named pattern in a function with ``Composite``.

    Checks of every entry receive typed expressions; ``mod`` has the functions that ``func`` calls.
    """
    expr = infer_type(func, mod)
    for entry in pattern_table:
        name, pattern, check = (*entry, None, None, None)[:3]
        if not isinstance(name, str) or not isinstance(pattern, DFPattern):
            raise BadNode(
                "MergeComposite: expected a table of (name, pattern) or (name, pattern, check), "
                f"found {shown(entry)}"
            )
        test: Callable[[Expr], bool] = check or (lambda _: True)
        expr = infer_type(pattern.partition(expr, {"Composite": name}, test), mod)
    return expr


__all__ = ["defuse_ops", "fuse_ops", "merge_composite"]
