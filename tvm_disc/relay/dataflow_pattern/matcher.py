"""Matching: one pattern against one expression of a dataflow graph.

A pattern says how it matches, through :meth:`Pattern.matches`; what belongs to the whole match,
which expression each pattern stands for and who uses what in the graph, is here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from ..expr import Expr
from ..visit import children, post_order
from .known_types import KnownTypes


class Pattern(Protocol):
    """What matching and grouping ask of a pattern."""

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        """Whether ``expr`` is what the pattern describes."""

    def parts(self) -> Sequence[Pattern]:
        """The patterns inside it, in the order in which operands are evaluated."""

    def hidden(self) -> Sequence[Pattern]:
        """Those of them whose matches never are inputs of a group."""

    def inputs_of(self, found: Expr) -> Sequence[Expr]:
        """What of a match comes from outside of the group."""

    def keeps_constants(self) -> bool:
        """Whether a constant stays inside of the group rather than being an input."""


class Graph:
    """Who uses what, in everything below one root."""

    def __init__(self, root: Expr) -> None:
        self.order = post_order(root)
        self.position = {node: i for i, node in enumerate(self.order)}
        self.users: dict[Expr, list[Expr]] = {node: [] for node in self.order}
        for node in self.order:
            for part in children(node):
                self.users[part].append(node)
        self._dominated: dict[Expr, set[Expr]] = {}

    def dominated(self, last: Expr) -> set[Expr]:
        """The nodes whose results reach the root through ``last`` alone."""
        if last not in self._dominated:
            found: set[Expr] = set()
            for node in reversed(post_order(last)[:-1]):
                if all(user is last or user in found for user in self.users[node]):
                    found.add(node)
            self._dominated[last] = found
        return self._dominated[last]


class Matcher:
    """Patterns against expressions of one graph; ``memo`` has what each pattern matched."""

    def __init__(self, root: Expr) -> None:
        self.root = root
        self.memo: dict[Pattern, list[Expr]] = {}
        self._matched: list[Pattern] = []
        self._once = True

    @cached_property
    def graph(self) -> Graph:
        """The uses in the whole graph."""
        return Graph(self.root)

    @cached_property
    def types(self) -> KnownTypes:
        """The types of the whole graph."""
        return KnownTypes(self.root)

    def match(self, pattern: Pattern, expr: Expr) -> bool:
        """Whether ``expr`` matches, as a fresh start."""
        self.memo, self._matched, self._once = {}, [], True
        return self.visit(pattern, expr)

    def visit(self, pattern: Pattern, expr: Expr) -> bool:
        """Whether ``expr`` matches; one pattern object stands for one expression."""
        if self._once and pattern in self.memo:
            return self.memo[pattern][0] is expr
        mark = len(self._matched)
        if not pattern.matches(self, expr):
            self._forget(mark)
            return False
        self.memo.setdefault(pattern, []).append(expr)
        self._matched.append(pattern)
        return True

    def visit_all(self, patterns: Sequence[Pattern], exprs: Sequence[Expr]) -> bool:
        """Whether the expressions match in order."""
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

    def comes_from(self, parent: Pattern, path: Pattern, child: Expr) -> bool:
        """Whether all that flows into ``child`` comes from ``parent`` through ``path``."""
        return self._leads(parent, path, child) and any(
            self.visit(parent, node)
            for node in reversed(self.graph.order)
            if node in self.graph.dominated(child)
        )

    def _leads(self, parent: Pattern, path: Pattern, child: Expr) -> bool:
        """Whether each way up from ``child`` is along ``path`` until it comes to ``parent``.

        What is not computed, a variable or a constant, may flow in anywhere.
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

    def _along(self, path: Pattern, node: Expr) -> bool:
        """Whether ``node`` is one more on the path: a path may match many."""
        before, self._once = self._once, False
        try:
            return self.visit(path, node)
        finally:
            self._once = before


def _operands(node: Expr) -> tuple[Expr, ...]:
    """The values that flow into a node; not what it calls."""
    parts = children(node)
    return parts[1:] if parts and getattr(node, "op", None) is parts[0] else parts


__all__ = ["Graph", "Matcher", "Pattern"]
