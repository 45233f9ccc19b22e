"""Matching of one pattern against one expression of a dataflow graph.

Patterns implement :meth:`Pattern.matches`. This module holds the state of a whole match: the
expressions that each pattern matched, and the users of each node of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from tvm_disc.relay.expr import Expr
from tvm_disc.relay.visit import children, post_order
from tvm_disc.relay_api.dataflow_pattern.known_types import KnownTypes


class MatchablePattern(Protocol):
    """Interface of a pattern for matching and grouping."""

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        """Return whether ``expr`` matches."""

    def parts(self) -> Sequence[MatchablePattern]:
        """Return the direct subpatterns, in the order in which their operands are evaluated."""

    def hidden(self) -> Sequence[MatchablePattern]:
        """Return the inner patterns whose matches are never inputs of a group."""

    def inputs_of(self, found: Expr) -> Sequence[Expr]:
        """Return the expressions of a match that come from outside the group."""

    def keeps_constants(self) -> bool:
        """Return whether a matched constant stays in the group rather than becoming an input."""


class UserGraph:
    """Users of every node below one root."""

    def __init__(self, root: Expr) -> None:
        self.order = post_order(root)
        self.position = {node: i for i, node in enumerate(self.order)}
        self.users: dict[Expr, list[Expr]] = {node: [] for node in self.order}
        for node in self.order:
            for part in children(node):
                self.users[part].append(node)
        self._dominated: dict[Expr, set[Expr]] = {}

    def dominated(self, last: Expr) -> set[Expr]:
        """Return the nodes whose results reach the root only through ``last``."""
        if last not in self._dominated:
            found: set[Expr] = set()
            for node in reversed(post_order(last)[:-1]):
                if all(user is last or user in found for user in self.users[node]):
                    found.add(node)
            self._dominated[last] = found
        return self._dominated[last]


class Matcher:
    """Matcher of patterns in one graph; ``memo`` holds the expressions that each pattern
    matched.
    """

    def __init__(self, root: Expr) -> None:
        self.root = root
        self.memo: dict[MatchablePattern, list[Expr]] = {}
        self._matched: list[MatchablePattern] = []
        self._once = True

    @cached_property
    def graph(self) -> UserGraph:
        """Return the graph of the whole program."""
        return UserGraph(self.root)

    @cached_property
    def types(self) -> KnownTypes:
        """Return the types of the whole program."""
        return KnownTypes(self.root)

    def match(self, pattern: MatchablePattern, expr: Expr) -> bool:
        """Return whether ``expr`` matches; earlier matches are forgotten."""
        self.memo, self._matched, self._once = {}, [], True
        return self.visit(pattern, expr)

    def visit(self, pattern: MatchablePattern, expr: Expr) -> bool:
        """Return whether ``expr`` matches; every occurrence of a pattern object must match the
        same node.
        """
        if self._once and pattern in self.memo:
            return self.memo[pattern][0] is expr
        mark = len(self._matched)
        if not pattern.matches(self, expr):
            self._forget(mark)
            return False
        self.memo.setdefault(pattern, []).append(expr)
        self._matched.append(pattern)
        return True

    def visit_all(self, patterns: Sequence[MatchablePattern], exprs: Sequence[Expr]) -> bool:
        """Return whether the expressions match the patterns pairwise."""
        if len(patterns) != len(exprs):
            return False
        mark = len(self._matched)
        for pattern, expr in zip(patterns, exprs, strict=True):
            if not self.visit(pattern, expr):
                self._forget(mark)
                return False
        return True

    def _forget(self, mark: int) -> None:
        while len(self._matched) > mark:
            pattern = self._matched.pop()
            self.memo[pattern].pop()
            if not self.memo[pattern]:
                del self.memo[pattern]

    def comes_from(self, parent: MatchablePattern, path: MatchablePattern, child: Expr) -> bool:
        """Return whether all dataflow into ``child`` comes from ``parent`` through ``path``."""
        return self._leads(parent, path, child) and any(
            self.visit(parent, node)
            for node in reversed(self.graph.order)
            if node in self.graph.dominated(child)
        )

    def _leads(self, parent: MatchablePattern, path: MatchablePattern, child: Expr) -> bool:
        """Return whether each path from ``child`` through its operands consists of nodes that match
        ``path`` until a node that matches ``parent``.

        Variables and constants may be operands anywhere on the path.
        """
        todo, seen = [child], {child}
        while todo:
            parts = _operands(todo.pop())
            from_parent = [part for part in parts if self.visit(parent, part)]
            computed = [p for p in parts if p not in from_parent and _operands(p)]
            if not from_parent and not computed:
                return False
            for part in computed:
                if part not in seen and not self._along(path, part):
                    return False
            todo += [part for part in computed if part not in seen]
            seen.update(computed)
        return True

    def _along(self, path: MatchablePattern, node: Expr) -> bool:
        """Return whether ``node`` matches ``path``, which may match a different node each time."""
        before, self._once = self._once, False
        try:
            return self.visit(path, node)
        finally:
            self._once = before


def _operands(node: Expr) -> tuple[Expr, ...]:
    """Return the operands of a node without its callee."""
    parts = children(node)
    return parts[1:] if parts and getattr(node, "op", None) is parts[0] else parts


__all__ = ["MatchablePattern", "Matcher", "UserGraph"]
