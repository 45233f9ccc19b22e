"""Replace the matches of a pattern with a function call or with a callback's result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tvm_disc.errors import BadNode
from tvm_disc.relay.expr import Call, Expr, Function, as_expr
from tvm_disc.relay.inference.infer import infer_type
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.visit import post_order
from tvm_disc.relay_api.dataflow_pattern.groups import PARTITIONED, find_groups
from tvm_disc.relay_api.dataflow_pattern.matcher import MatchablePattern
from tvm_disc.relay_api.expr_functor import rewrite_post_order
from tvm_disc.relay_api.structural import structural_equal

MOST_REWRITES = 100
MOST_GROWTH = 100  # limit of the number of nodes, as a multiple of the original program's
SMALL = 10_000  # number of nodes to which any program may grow


class Callback(Protocol):
    """One rewrite: a pattern, and the replacement of its matches."""

    pattern: MatchablePattern
    require_type: bool
    rewrite_once: bool

    def callback(
        self, pre: Expr, post: Expr, node_map: Mapping[MatchablePattern, list[Expr]]
    ) -> Expr:
        """Return the replacement of ``post``, which is the match ``pre`` with rewritten
        operands.
        """


def partition_expr(
    pattern: MatchablePattern,
    expr: Expr,
    attrs: Mapping[str, object],
    check: Callable[[Expr], bool],
) -> Expr:
    """Return ``expr`` with each match that passes ``check`` replaced by a call of a new
    function.
    """
    groups = find_groups(pattern, expr)
    done: dict[Expr, Expr] = {}

    def leave(node: Expr, made: Expr) -> Expr:
        group = groups.get(node)
        if group is None or not check(node):
            return made
        function = group.function
        told = {PARTITIONED: group.name, **attrs}
        function = Function(function.params, function.body, attrs=told)
        return Call(function, [done[a] for a in group.args])

    return rewrite_post_order(expr, leave, done=done)


def rewrite_expr(callbacks: Sequence[Callback], expr: Expr, mod: IRModule | None = None) -> Expr:
    """Return ``expr`` rewritten until no callback changes it.

    A callback with ``rewrite_once`` is dropped after the first round in which it changed the
    program. One with ``require_type`` reads a typed program; ``mod`` has the functions and data
    types that ``expr`` uses.

    Raises:
        BadNode: the program still changes after 100 rewrites, or it grows without bound.
    """
    before, count = None, 0
    active = list(callbacks)
    largest = max(SMALL, MOST_GROWTH * len(post_order(expr)))
    while active and (before is None or not (expr is before or structural_equal(before, expr))):
        before = expr
        for callback in list(active):
            if count == MOST_REWRITES or (count and len(post_order(expr)) > largest):
                raise BadNode(
                    f"rewrite: the program still changes after {count} rewrites; set "
                    "rewrite_once=True for a callback that undoes another one or matches its own "
                    "result"
                )
            typed = infer_type(expr, mod) if callback.require_type else expr
            made = _rewrite_once(callback, typed)
            made = expr if made is typed else made
            count += 1
            if callback.rewrite_once and made is not expr and not structural_equal(made, expr):
                active.remove(callback)
            expr = made
    return expr


def _rewrite_once(callback: Callback, expr: Expr) -> Expr:
    groups = find_groups(callback.pattern, expr)
    done: dict[Expr, Expr] = {}

    def leave(node: Expr, made: Expr) -> Expr:
        group = groups.get(node)
        if group is None:
            return made
        done[node] = made
        node_map = {p: [done.get(e, e) for e in found] for p, found in group.matched.items()}
        return as_expr(callback.callback(node, made, node_map))

    return rewrite_post_order(expr, leave, done=done) if groups else expr


__all__ = ["Callback", "partition_expr", "rewrite_expr"]
