"""Where facts hold: in the whole program, in one branch or function, or in a discarded attempt.

A branch may bind new symbols and require conditions on them. These conditions are checked inside
the branch, and a call that does not execute the branch does not check them. They are therefore
facts about the symbols of the branch only. Queries that mention a symbol of the branch use these
facts; all other queries ignore them.

in a branch             guard                 answers
k = nonzero(m)          -                     k <= m
reshape(k, [2, 4])      k == 8, in the branch about k: k == 8; about m alone: nothing
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .assume import assume
from .facts import Fact
from .state import Contradiction, State
from .terms import Atom


class FactScope:
    """The facts inside a branch or a function, including the facts that hold outside.

    Attributes:
        outer: the enclosing scope; None for the program.
        own: the symbols that it introduces.
        state, facts: the facts, once the scope is closed.
    """

    def __init__(self, outer: FactScope | None) -> None:
        self.outer = outer
        self.own: set[Atom] = set()
        self.state: State | None = None
        self.facts: list[Fact] = []
        self.seen: tuple[int, int] = (0, 0)

    def within(self, other: FactScope) -> bool:
        """Return whether this scope is ``other``, or nested in it."""
        scope: FactScope | None = self
        while scope is not None and scope is not other:
            scope = scope.outer
        return scope is not None


class FactStore:
    """The facts of a solver, by the scopes in which they hold.

    Attributes:
        state, facts: the facts of the innermost open scope, or of the program if none is open.
        local: facts of closed scopes, which do not hold outside.
        home: symbols of closed scopes.
    """

    def __init__(self, fresh: Callable[[], State]) -> None:
        self._fresh = fresh
        self.state = fresh()
        self.facts: list[Fact] = []
        self.local: list[Fact] = []
        self.home: dict[Atom, FactScope] = {}
        self._open: list[FactScope] = []

    @property
    def depth(self) -> int:
        """The number of open scopes."""
        return len(self._open)

    def introduce(self, atom: Atom, depth: int | None = None) -> None:
        """Record a new symbol of the innermost open scope, or of the one at ``depth``."""
        depth = len(self._open) if depth is None else depth
        if depth and atom not in self.home:
            self._open[depth - 1].own.add(atom)

    def at(self, syms: Iterable[Atom]) -> tuple[State, list[Fact]]:
        """Return the state and the facts for queries about these symbols.

        They are those of the innermost closed scope that introduced one of the symbols. If there
        is no such scope, or if two of these scopes are not nested, they are those of the current
        scope.
        """
        scope = self._innermost(syms) if self.home else None
        if scope is None:
            return self.state, self.facts
        return self._refreshed(scope), scope.facts

    def _innermost(self, syms: Iterable[Atom]) -> FactScope | None:
        """Return the innermost of the closed scopes that introduced the symbols.

        Returns None if no closed scope did, or if two of these scopes are not nested.
        """
        found: FactScope | None = None
        for scope in (self.home[a] for a in syms if a in self.home):
            if found is None or scope.within(found):
                found = scope
            elif not found.within(scope):
                return None
        return found

    def _refreshed(self, scope: FactScope) -> State:
        """Return the state of a closed scope, after adding new facts of the enclosing scopes
        to it.
        """
        facts = self.facts
        if scope.outer is not None and scope.outer.state is not None:
            self._refreshed(scope.outer)
            facts = scope.outer.facts
        assert scope.state is not None
        if scope.seen != (id(facts), len(facts)):
            known = set(map(id, scope.facts))
            for fact in [f for f in facts if id(f) not in known]:
                try:
                    assume(scope.state, fact.cond)
                    scope.facts.append(fact)
                except Contradiction:  # so no call executes the scope
                    scope.state = self.replayed(scope.facts)
            scope.seen = id(facts), len(facts)
        return scope.state

    def add(self, fact: Fact) -> None:
        """Add a fact to the scope of its symbols.

        Raises:
            Contradiction: it contradicts the facts there; the store is unchanged.
        """
        scope = self._innermost(fact.cond.syms) if self.home else None
        state, facts = self.at(fact.cond.syms)
        try:
            assume(state, fact.cond)
        except Contradiction:
            state = self.replayed(facts)
            if scope is None:
                self.state = state
            else:
                scope.state = state
            raise
        facts.append(fact)
        if scope is not None:
            self.local.append(fact)

    def replayed(self, facts: Iterable[Fact]) -> State:
        """Return a new state with these facts."""
        state = self._fresh()
        state.hits = self.state.hits
        for fact in facts:
            assume(state, fact.cond)
        return state

    def open(self) -> Callable[[], None]:
        """Open a scope; return the function that closes it."""
        outer, facts = self.state, self.facts
        scope = FactScope(self._open[-1] if self._open else None)
        self._open.append(scope)
        self.state, self.facts = outer.fork(), list(facts)

        def close() -> None:
            self._open.pop()
            scope.state, scope.facts = self.state, self.facts
            outer.steps += self.state.steps
            self.state, self.facts = outer, facts
            self.home.update(dict.fromkeys(scope.own, scope))
            mine = scope.facts[len(facts) :]
            self.local += [f for f in mine if not scope.own.isdisjoint(f.cond.syms)]

        return close

    def mark(self) -> Callable[[], None]:
        """Return a function that removes all facts that are added from now on."""
        state, facts, local, home = self.state, list(self.facts), list(self.local), dict(self.home)
        self.state = state.fork()

        def restore() -> None:
            state.steps += self.state.steps
            self.state, self.facts, self.local, self.home = state, facts, local, home

        return restore


__all__ = ["FactStore"]
