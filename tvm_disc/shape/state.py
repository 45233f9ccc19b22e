"""Solved form of all facts: substitutions, ranges, inequalities, exclusions.

A `State` only ever grows:

subst    atom -> polynomial     `s2 == s + 1`, `b == 4`, `s == 8*(s // 8)`
rules    p == 0                 equalities that no symbol can be solved from; the leading monomial
                                is rewritten: `h*d == 768`, `n*m == k*l`
lo, hi   atom -> integer        ranges
ineqs    p >= 0                 relations between symbols: `s <= t`
nes      p != 0
ors      disjunctions           `n == m or n == 1 or m == 1`

New facts make results stronger, never wrong. A cached result therefore only needs recomputation
after a fact about one of its symbols, or about a symbol that a fact links to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .budget import Budget
from .terms import Atom, Cond, Poly, Terms
from .witness import Witnesses


class Contradiction(Exception):
    """Raised if a fact contradicts the known facts; `Solver` quotes both (internal)."""


class State:
    """The facts of one solver in solved form; see the module's table."""

    def __init__(self, terms: Terms, budget: Budget | None = None) -> None:
        self.terms = terms
        # units of work left for the current query, shared with copies
        self.budget = budget or Budget()
        self.subst: dict[Atom, Poly] = {}
        self.rules: list[Poly] = []
        self.lo: dict[Atom, int] = {}
        self.hi: dict[Atom, int] = {}
        self.ineqs: list[Poly] = []
        # inequalities that only bound a symbol from above -> that symbol
        self.caps: dict[Poly, Atom] = {}
        self.nes: set[Poly] = set()
        self.ors: list[Cond] = []
        self.quotients: dict[Atom, tuple[Poly, Poly]] = {}
        # law name -> number of uses
        self.hits: Counter[str] = Counter()
        # work done, in proof steps; the linear-time test counts them
        self.steps = 0
        self.epoch = 0
        # number of hypotheses in force
        self.depth = 0
        # remaining hypotheses of the current query, shared with copies
        self.splits = [0]
        # remaining ranges that the fact being added may narrow
        self.fuel = 0
        # atoms whose normal form is being computed
        self.active: set[Atom] = set()
        # whether the range of an atom's argument is being computed
        self.inside_atom = False
        # values that satisfy the facts; they refute claims without a proof search
        self.witnesses = Witnesses(self.budget)
        self._parent: dict[Atom, Atom] = {}
        self._linked: set[Atom] = set()
        self._changed: dict[Atom, int] = {}
        self._group_changed: dict[Atom, int] = {}
        self.norm_cache: dict[Poly, tuple[int, Poly]] = {}
        self.atom_cache: dict[Atom, tuple[int, Poly]] = {}
        self.bound_cache: dict[tuple[Poly, int], tuple[int, int | None]] = {}
        # (atom, `inside_atom`) -> epoch, and the range that follows from the atom's definition
        self.range_cache: dict[tuple[Atom, bool], tuple[int, tuple[int | None, int | None]]] = {}
        # results of `stamp` since the last change of an epoch or a group
        self._stamps: dict[frozenset[Atom], int] = {}
        # normal forms found after a query's budget was used up: valid for that query only
        self.weak_cache: dict[Poly | Atom, tuple[int, int, Poly]] = {}
        self.proof_cache: dict[tuple[Cond, int], tuple[int, bool | None]] = {}

    def copy(self) -> State:
        """Return an independent state for a hypothetical fact; counters are shared."""
        self.budget.left -= 10 + (len(self.subst) + len(self.lo) + len(self._changed)) // 8
        other = State(self.terms, self.budget)
        other.subst = dict(self.subst)
        other.rules = list(self.rules)
        other.lo, other.hi = dict(self.lo), dict(self.hi)
        other.ineqs = list(self.ineqs)
        other.caps = dict(self.caps)
        other.nes = set(self.nes)
        other.ors = list(self.ors)
        other.quotients = self.quotients
        other.hits = self.hits
        other.splits = self.splits
        other.epoch = self.epoch
        other.depth = self.depth + 1
        other.witnesses = self.witnesses.copy()
        other._parent = dict(self._parent)
        other._linked = set(self._linked)
        other._changed = dict(self._changed)
        other._group_changed = dict(self._group_changed)
        return other

    def fork(self) -> State:
        """Return an independent state, for facts that hold in a part of the program only, or that
        may be discarded later.
        """
        other = self.copy()
        other.depth = self.depth
        other.witnesses = self.witnesses.fork()
        return other

    # -- invalidation of cached results

    def find(self, atom: Atom) -> Atom:
        """Return the representative of the symbols that facts link to this one."""
        parent = self._parent
        root = atom
        while root in parent:
            root = parent[root]
        while atom is not root:
            parent[atom], atom = root, parent[atom]
        return root

    def linked(self, atom: Atom) -> bool:
        """Return whether any fact links this symbol to another, or is about it."""
        return atom in self._parent or atom in self._linked or atom in self._changed

    def link(self, syms: Iterable[Atom]) -> None:
        """Record that facts about one of these symbols may improve results about the others."""
        syms = list(syms)
        self._stamps.clear()
        if len(syms) > 1:
            self._linked.update(syms)
        roots = sorted({self.find(s) for s in syms})
        for other in roots[1:]:
            self._parent[other] = roots[0]
            changed = self._group_changed.pop(other, 0)
            self._group_changed[roots[0]] = max(changed, self._group_changed.get(roots[0], 0))

    def touch(self, syms: Iterable[Atom]) -> None:
        """Record that a fact involves these symbols."""
        syms = list(syms)
        self.link(syms)
        if self.caps:  # another fact about a capped symbol may imply something about its bound
            self.caps = {p: a for p, a in self.caps.items() if a not in syms}
        self.epoch += 1
        self._linked.update(syms)
        if syms:
            self._group_changed[self.find(syms[0])] = self.epoch
            self._stamps.clear()

    def touch_only(self, sym: Atom) -> None:
        """Record that `sym` was defined: results about other symbols remain valid."""
        self.epoch += 1
        self._changed[sym] = self.epoch
        self._stamps.clear()

    def stamp(self, syms: frozenset[Atom]) -> int:
        """Return the epoch of the last fact that is relevant to these symbols."""
        found = self._stamps.get(syms)
        if found is None:
            changed, groups = self._changed, self._group_changed
            found = max(
                (max(changed.get(s, 0), groups.get(self.find(s), 0)) for s in syms), default=0
            )
            self._stamps[syms] = found
        return found

    def hit(self, law: str) -> None:
        """Count one use of a law."""
        self.hits[law] += 1
