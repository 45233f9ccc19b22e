"""Groups: non-overlapping matches of a pattern in a program, which can be replaced together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tvm_disc.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    Op,
    Tuple,
    TupleGetItem,
    Var,
)
from tvm_disc.relay.visit import post_order
from tvm_disc.relay_api.dataflow_pattern.matcher import MatchablePattern, Matcher
from tvm_disc.relay_api.expr_functor import rewrite_post_order

PARTITIONED = "PartitionedFromPattern"


@dataclass
class MatchedGroup:
    """One match: its last node, the expressions that each pattern matched, and its function."""

    root: Expr
    matched: dict[MatchablePattern, list[Expr]]
    function: Function
    args: list[Expr]
    name: str


def find_groups(pattern: MatchablePattern, expr: Expr) -> dict[Expr, MatchedGroup]:
    """Return the non-overlapping matches by their last node; users are tried before operands."""
    finder = _Finder(pattern, expr)
    groups: dict[Expr, MatchedGroup] = {}
    for node in reversed(finder.matcher.graph.order):
        if node in finder.taken:
            continue
        if isinstance(node, Function) and PARTITIONED in node.attrs:
            finder.taken.update(post_order(node.body))
        elif finder.matcher.match(pattern, node):
            group = finder.group(node)
            if group is not None:
                groups[node] = group
    return groups


class _Finder:
    """State of one search."""

    def __init__(self, pattern: MatchablePattern, expr: Expr) -> None:
        self.order = list(_patterns(pattern))
        self.matcher = Matcher(expr)
        self.taken: set[Expr] = set()
        self.number = 0

    def group(self, root: Expr) -> MatchedGroup | None:
        """Return the match that ends at ``root``; None if another group contains a part of it, or
        if its inner results are used outside.
        """
        matched = {p: list(found) for p, found in self.matcher.memo.items()}
        args = list(dict.fromkeys(self._inputs(matched)))
        if any(value not in self.matcher.graph.users for value in args):
            return None  # the matcher built a product by regrouping
        params = [Var(f"FunctionVar_{self.number}_{i}") for i in range(len(args))]
        inputs: dict[Expr, Expr] = dict(zip(args, params, strict=True))
        self.number += 1
        done: dict[Expr, Expr] = {}
        body = rewrite_post_order(root, known=inputs, done=done)
        inner = [n for n in done if n not in inputs and not isinstance(n, (Op, Constant))]
        if not all(self._is_free(node, root, done) for node in inner):
            return None
        self.taken.update(n for n in inner if not isinstance(n, Function))
        return MatchedGroup(root, matched, Function(params, body), args, _name(root, inputs))

    def _inputs(self, matched: dict[MatchablePattern, list[Expr]]) -> Iterator[Expr]:
        hidden = {e for p in self.order for h in p.hidden() for e in matched.get(h, ())}
        for pattern in self.order:
            for found in matched.get(pattern, ()):
                for value in pattern.inputs_of(found):
                    inside = isinstance(value, (Op, Function)) or value in hidden
                    kept = isinstance(value, Constant) and pattern.keeps_constants()
                    if not inside and not kept:
                        yield value

    def _is_free(self, node: Expr, root: Expr, done: dict[Expr, Expr]) -> bool:
        """Return whether a node can move into the group.

        It can if its users are in the group, or reach the program's result through ``root`` only.
        """
        if isinstance(node, Function):
            return True
        if node in self.taken:
            return False
        graph = self.matcher.graph
        outside = (user for user in graph.users[node] if user not in done)
        return node is root or all(user in graph.dominated(root) for user in outside)


def _patterns(root: MatchablePattern) -> Iterator[MatchablePattern]:
    """Yield every pattern inside ``root`` once, parts first; a pattern may contain itself."""
    stack, seen = [(root, False)], set()
    while stack:
        pattern, done = stack.pop()
        if done:
            yield pattern
        elif pattern not in seen:
            seen.add(pattern)
            stack.append((pattern, True))
            stack.extend((part, False) for part in reversed(pattern.parts()))


def _name(root: Expr, inputs: dict[Expr, Expr]) -> str:
    """Return the classes of the nodes inside a group as one name, operands first."""
    done: dict[Expr, Expr] = {}
    rewrite_post_order(root, known=inputs, done=done)
    return "".join(_kind(node) for node in done if node not in inputs)


def _kind(node: Expr) -> str:
    if isinstance(node, Call):
        return f"{node.op.name}_" if isinstance(node.op, Op) else "FunctionCall_"
    if isinstance(node, TupleGetItem):
        return f"TupleGetItem{node.index}_"
    return f"{type(node).__name__}_" if isinstance(node, (Tuple, If, Let)) else ""


__all__ = ["PARTITIONED", "MatchedGroup", "find_groups"]
