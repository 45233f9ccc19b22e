"""Witnesses: values of all symbols that satisfy every fact, which quickly show "not provable".

Most queries about unrelated dims have no answer, and a prover that splits cases finds this out only
when its budget is spent. If a claim is false for one witness and true for another, neither the
claim nor its negation can be proved; finding this out takes only two evaluations of the claim.
Likewise a bound ``p >= 0`` cannot be proved if a witness has ``p < 0``. A witness is a
counterexample, like a model of an SMT solver, so nothing provable is lost.

A new fact removes the witnesses for which it is false, or repairs them by local search (WalkSAT:
Selman, Kautz and Cohen, 1994): a symbol of a false fact is set to a value that makes the fact true,
until all facts hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random

from .budget import Budget
from .terms import Atom, Cond, Poly, cond_not

POINTS = 12
"""Number of witnesses."""
FOUND = 12
"""Number of further witnesses, found for single queries; the oldest is evicted first."""
MOVES = 64
"""Maximum number of symbols that a search for a witness may set."""
TRIES = 3
"""Number of witnesses from which a search for another one starts."""
NUDGES = (0, 1, 2, 7)
"""Values of one symbol that are tried before a walk over several symbols."""
LARGEST = 1 << 40
"""Maximum value of a symbol: values that multiply from step to step would grow without bound."""
PALETTE = (0, 1, 2, 3, 5, 7, 8, 12, 16, 31, 64, 128)


class Undefined(ArithmeticError):
    """Raised for a division by zero or an inexact quotient: the witness gives no information."""


class Witness:
    """A value for every symbol: those in `values`, and for others the result of `fresh`."""

    __slots__ = ("_known", "_users", "fresh", "values")

    def __init__(self, fresh: Callable[[int], int], values: dict[Atom, int]) -> None:
        self.fresh = fresh
        self.values = values
        # values of compound atoms, and the compound atoms that use each symbol
        self._known: dict[Atom, int] = {}
        self._users: dict[Atom, list[Atom]] = {}

    def copy(self) -> Witness:
        """Return an independent copy."""
        return Witness(self.fresh, dict(self.values))

    def set(self, symbol: Atom, value: int) -> None:
        """Set the value of a symbol."""
        self.values[symbol] = value
        for user in self._users.pop(symbol, ()):
            self._known.pop(user, None)

    def of(self, atom: Atom) -> int:
        """Return the value of an atom.

        Raises:
            Undefined: the atom has no value.
        """
        if atom.kind in ("sym", "opaque"):
            given = self.values.get(atom)
            return self.fresh(atom.uid) if given is None else given
        found = self._known.get(atom)
        if found is None:
            found = self._known[atom] = self._compute(atom)
            for symbol in _leaves(atom.syms):
                self._users.setdefault(symbol, []).append(atom)
        return found

    def _compute(self, atom: Atom) -> int:
        kind, args = atom.kind, atom.args
        if kind == "sel":
            return self.at(args[1] if self.holds(args[0]) else args[2])
        numbers = [self.at(p) for p in args]
        if kind in ("min", "max"):
            return min(numbers) if kind == "min" else max(numbers)
        num, den = numbers
        if not den or (kind == "quo" and num % den):
            raise Undefined
        if kind == "tdiv":
            return abs(num) // abs(den) * (1 if (num < 0) == (den < 0) else -1)
        return num // den

    def at(self, p: Poly) -> int:
        """Return the value of a polynomial.

        Raises:
            Undefined: the polynomial has no value.
        """
        total = 0
        for mono, coeff in p.terms:
            for atom in mono:
                coeff *= self.of(atom)
            total += coeff
        return total

    def holds(self, c: Cond) -> bool:
        """Return whether a condition holds.

        Raises:
            Undefined: the condition has no value.
        """
        if c.op == "eq":
            return self.at(c.args[0]) == 0
        if c.op == "ge":
            return self.at(c.args[0]) >= 0
        if c.op == "ne":
            return self.at(c.args[0]) != 0
        if c.op == "and":
            return all(self.holds(x) for x in c.args)
        if c.op == "or":
            return any(self.holds(x) for x in c.args)
        if c.op == "not":
            return not self.holds(c.args[0])
        if c.op in ("true", "false"):
            return c.op == "true"
        raise Undefined

    def satisfies(self, c: Cond) -> bool:
        """Return whether a condition is defined and holds."""
        try:
            return self.holds(c)
        except Undefined:
            return False


def _scattered(uid: int) -> int:
    return (uid * 2654435761 + 12345 >> 7) & 0xFFFF


def _seeds() -> list[Witness]:
    """Return the initial witnesses: all dims distinct, all equal, all 1, all 0, and mixtures."""
    rules: list[Callable[[int], int]] = [
        lambda uid: 11 + 6 * (uid % 997),
        lambda _: 1,
        lambda _: 0,
        lambda _: 2,
        lambda _: 24,
        lambda uid: (1, 6)[_scattered(uid) & 1],
        lambda uid: _scattered(uid + 7) % 4,
        lambda uid: (1, 1, 5, 32)[_scattered(uid + 99) % 4],
        *(lambda uid, k=k: PALETTE[_scattered(uid + k) % len(PALETTE)] for k in (17, 1013, 4099)),
        lambda uid: 64 * (1 + _scattered(uid) % 3),
    ]
    return [Witness(rule, {}) for rule in rules[:POINTS]]


class Witnesses:
    """The witnesses of a state."""

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        self._points = _seeds()
        self._found: list[Witness] = []
        self._new: list[Cond] = []
        self._facts_of: dict[Atom, list[Cond]] = {}
        self._random = Random(0)
        # under a hypothesis, witnesses are only removed and never repaired
        self._hypothetical = False

    def copy(self) -> Witnesses:
        """Return the witnesses for a state under a hypothesis."""
        self._settle()
        other = Witnesses.__new__(Witnesses)
        other._budget = self._budget
        other._points, other._found, other._new = list(self._points), list(self._found), []
        other._facts_of, other._random = self._facts_of, self._random
        other._hypothetical = True
        return other

    def fork(self) -> Witnesses:
        """Return independent witnesses, to which facts can be added and which are then repaired."""
        other = self.copy()
        other._hypothetical = self._hypothetical
        other._points = [w.copy() for w in self._points]
        other._found = [w.copy() for w in self._found]
        other._facts_of = {a: list(facts) for a, facts in self._facts_of.items()}
        other._random = Random(0)
        return other

    def forget(self) -> None:
        """Remove all witnesses."""
        self._points, self._found, self._hypothetical = [], [], True

    def add(self, fact: Cond) -> None:
        """Add a fact that every witness must satisfy."""
        if self._hypothetical:
            self._points = [w for w in self._points if w.satisfies(fact)]
            self._found = [w for w in self._found if w.satisfies(fact)]
        else:
            self._new.append(fact)

    def refute(self, doubt: Callable[[Witness], bool], size: int = 1) -> bool:
        """Return whether a predicate holds for some witness; `size` is the number of terms it
        evaluates.
        """
        for points in (self._points, self._found) if not self._new else self._settled():
            for i, witness in enumerate(points):
                self._budget.left -= 1 + size // 4
                try:
                    if doubt(witness):
                        if i:  # a witness that refutes one query often refutes the next
                            points.insert(0, points.pop(i))
                        return True
                except Undefined:
                    continue
        return False

    def below(self, p: Poly, least: int) -> bool:
        """Return whether ``p < least`` for some witness, so that ``p >= least`` has no proof."""
        return self.refute(lambda w: w.at(p) < least, len(p.terms))

    def zero(self, p: Poly) -> bool:
        """Return whether a polynomial is 0 for some witness."""
        return self.refute(lambda w: w.at(p) == 0, len(p.terms))

    def vary(self, p: Poly) -> bool:
        """Return whether two witnesses give a polynomial different values."""
        values: set[int] = set()

        def another(witness: Witness) -> bool:
            values.add(witness.at(p))
            return len(values) > 1

        return self.refute(another, len(p.terms))

    def undecided(self, c: Cond) -> bool:
        """Return whether a condition holds for one witness and not for another."""
        size = len(c.syms)
        return self.refute(lambda w: not w.holds(c), size) and self.refute(
            lambda w: w.holds(c), size
        )

    def search(self, c: Cond) -> bool:
        """Return :meth:`undecided` after a search for the missing witness."""
        if self._hypothetical or self._budget.left <= 0:
            return False
        holds = self.refute(lambda w: w.holds(c), len(c.syms))
        missing = cond_not(c) if holds else c
        points = self._found + self._points
        for change, starts in ((self._nudge, points), (self._mend, points[:TRIES])):
            for witness in starts:
                found = witness.copy()
                if change(found, missing):
                    self._found = [found, *self._found[: FOUND - 1]]
                    return self.undecided(c)
        return False

    # -- repair

    def _settled(self) -> tuple[list[Witness], list[Witness]]:
        self._settle()
        return self._points, self._found

    def _settle(self) -> None:
        """Apply the facts that were added since the last query."""
        new, self._new = self._new, []
        for fact in new:
            for symbol in _leaves(fact.syms):
                self._facts_of.setdefault(symbol, []).append(fact)
        for fact in new:
            self._found = [w for w in self._found if w.satisfies(fact)]
            self._points = list(self._kept(fact))

    def _kept(self, fact: Cond) -> Iterator[Witness]:
        return (w for w in self._points if w.satisfies(fact) or self._mend(w, fact))

    def _mend(self, witness: Witness, goal: Cond) -> bool:
        """Change a witness until it satisfies the goal and all facts.

        Returns False, with the witness restored, if the search fails.
        """
        if self._nudge(witness, goal):
            return True
        before: list[tuple[Atom, int]] = []
        wanted = [goal]
        for _ in range(MOVES):
            if self._budget.left < self._budget.limit // 4:
                break  # leave the rest of the budget to proofs
            while wanted and witness.satisfies(wanted[-1]):
                wanted.pop()
            if not wanted:
                return True
            move = self._move(witness, wanted[-1])
            if move is None:
                break
            before.append((move[0], witness.of(move[0])))
            witness.set(*move)
            facts = self._facts_of.get(move[0], ())
            # The evaluation of a fact about a long broadcast takes time linear in its symbols.
            self._budget.left -= 4 + sum(2 + len(f.syms) for f in facts)
            wanted += [f for f in facts if not witness.satisfies(f)]
        for symbol, value in reversed(before):
            witness.set(symbol, value)
        return False

    def _nudge(self, witness: Witness, goal: Cond) -> bool:
        """Change one symbol that few facts mention, so that the goal and those facts hold.

        For a new dim of a long broadcast, which has no facts yet, one change suffices; a random
        walk over the other dims would violate the facts about them. Returns False, with the witness
        unchanged, if no tried value suffices.
        """
        facts_of = self._facts_of
        symbols = sorted(_leaves(goal.syms), key=lambda s: (len(facts_of.get(s, ())), s))
        for symbol in symbols[:1]:
            facts = facts_of.get(symbol, ())
            before = witness.of(symbol)
            for value in NUDGES:
                if self._budget.left < self._budget.limit // 4:
                    break
                self._budget.left -= 2 + len(facts)
                witness.set(symbol, value)
                if witness.satisfies(goal) and all(witness.satisfies(f) for f in facts):
                    return True
            witness.set(symbol, before)
        return False

    def _move(self, witness: Witness, c: Cond) -> tuple[Atom, int] | None:
        """Return a symbol of a false condition, and a value that may make the condition true,
        or None.
        """
        if c.op in ("and", "or"):
            parts = [x for x in c.args if not witness.satisfies(x)]
            return self._move(witness, self._random.choice(parts))
        exact = [] if c.op not in ("eq", "ge") else list(_solutions(witness, c))
        if exact and self._random.random() < 0.9:
            return self._random.choice(exact)
        symbols = sorted(_leaves(c.syms))
        if not symbols:
            return None
        others = [witness.of(s) for s in symbols]
        return self._random.choice(symbols), self._random.choice((*PALETTE, *others))


def _leaves(syms: Iterable[Atom]) -> set[Atom]:
    """Return the symbols that have values: for an exact quotient those of its definition."""
    out: set[Atom] = set()
    for atom in syms:
        if atom.kind == "quo":
            for arg in atom.args:
                out |= _leaves(arg.syms)
        else:
            out.add(atom)
    return out


def _solutions(witness: Witness, c: Cond) -> Iterator[tuple[Atom, int]]:
    """Yield (symbol, value) pairs that may make the condition `c`, which is `p == 0` or `p >= 0`,
    true.
    """
    return _aims(witness, c.args[0], 0, c.op == "eq")


def _aims(witness: Witness, p: Poly, target: int, exactly: bool) -> Iterator[tuple[Atom, int]]:
    """Yield (symbol, value) pairs for which a polynomial equals a target or, unless `exactly`, is
    at least the target.
    """
    try:
        missing = target - witness.at(p)
        for mono, coeff in p.terms:
            for k, atom in enumerate(mono):
                factor = coeff * witness.at(Poly.mono(mono[:k] + mono[k + 1 :]))
                if factor and (not exactly or missing % factor == 0):
                    step = -(-missing // factor) if factor > 0 else missing // factor
                    if step:
                        yield from _aims_of(witness, atom, witness.of(atom) + step)
    except Undefined:
        return


def _aims_of(witness: Witness, atom: Atom, target: int) -> Iterator[tuple[Atom, int]]:
    """Yield (symbol, value) pairs for which an atom reaches a target, through its arguments."""
    kind, args = atom.kind, atom.args
    if abs(target) > LARGEST:
        return
    if kind == "opaque" or (kind == "sym" and target >= 0):
        yield atom, target
    elif kind == "sel":
        chosen = args[1] if witness.holds(args[0]) else args[2]
        yield from _aims(witness, chosen, target, True)
    elif kind in ("min", "max"):
        now = witness.of(atom)
        for p in args:
            if witness.at(p) == now:
                yield from _aims(witness, p, target, True)
    elif kind in ("div", "tdiv", "quo"):
        yield from _aims(witness, args[0], target * witness.at(args[1]), True)


__all__ = ["Undefined", "Witness", "Witnesses"]
