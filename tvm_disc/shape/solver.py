"""The solver: symbols, facts, three-valued queries, requirements.

`known_*` prove and add nothing: True and False are always correct, None means unknown. `require_*`
add a run-time guard for an unknown condition, which is a fact from then on. Every symbol is a dim,
hence at least 0 and possibly 0: `n*m == n*k` does not imply `m == k`.

The constraints follow the shape constraints of DISC (EuroMLSys'21) and BladeDISC (SIGMOD'24):
dimension equality, product equality and facts per symbol. The canonical polynomials and their
decision procedure follow JAX's `shape_poly`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import product as cartesian
from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_disc.errors import ShapeConflict
from tvm_disc.typing import Expr, Var

from .bounds import lower, upper
from .budget import Budget, query
from .constraints import Likely, parse_constraint
from .convert import Converter
from .explain import because, conflict, describe, reasons
from .facts import Fact, Guard, StatedCond, Wish, kind_of
from .normal import norm, norm_cond
from .printing import legible, plain, show, show_shape
from .products import Joins, broadcast, group_dims
from .prove import prove, prove_divides
from .scopes import FactStore
from .state import Contradiction, State
from .terms import (
    FALSE,
    TRUE,
    Atom,
    Cond,
    Poly,
    Terms,
    cond_all,
    cond_eq,
    cond_ge,
    cond_not,
    single_difference,
)
from .terms import product as poly_product

# Attributes that `mark` saves. It saves the facts with `FactStore.mark`.
_OF_ATTEMPTS = ("guards", "wishes", "unchecked", "notes", "joins", "definitions", "_likely")

# Maximum number of terms in the bound of a data-dependent size.
FEW_TERMS = 6

Dim = Any
"""A TVM integer expression, or a Python integer."""


class Solver:
    """Facts about the symbolic dims of one program, and queries about them."""

    def __init__(self) -> None:
        self._terms = Terms()
        self._convert = Converter(self._terms)
        # limit of the work per query
        self.budget = Budget()
        self._store = FactStore(self._fresh_state)
        self._names: dict[str, Var] = {}
        self._sources: dict[Atom, str] = {}
        self._likely: dict[Atom, tuple[int, ...]] = {}
        self._hard: dict[tuple[Cond, int], bool | None] = {}
        self.guards: list[Guard] = []
        self.wishes: list[Wish] = []
        # conditions of the source that the program does not check, each with the reason
        self.unchecked: list[str] = []
        # sentences of a front end about the source
        self.notes: list[str] = []
        self.origins: dict[str, str] = {}  # constraint -> who requires it, if not the caller
        self.joins = Joins()
        # symbol -> its value, an expression over earlier symbols
        self.definitions: dict[Expr, Expr] = {}

    @property
    def depth(self) -> int:
        """The number of open scopes."""
        return self._store.depth

    def _fresh_state(self) -> State:
        st = State(self._terms, self.budget)
        st.quotients = self._convert.quotients
        return st

    # -- symbols

    def symbol(self, name: str, source: str = "", depth: int | None = None) -> Var:
        """Return a new int64 symbol.

        Its printed name is `name`, changed to a unique identifier. `source` is the user's term for
        it, such as "input 'x' axis 0". The symbol belongs to the innermost open scope, or to the
        open scope that was opened when `Solver.depth` became `depth`; 0 is the whole program.
        """
        base = unique = legible(name)
        i = 0
        while unique in self._names:
            i += 1
            unique = f"{base}_{i}"
        var = tirx.Var(unique, "int64")
        self.declare(var, source, depth)
        return var

    def declare(self, var: Var, source: str = "", depth: int | None = None) -> None:
        """Register an existing variable."""
        atom = self._convert.symbol(var).as_atom
        assert atom is not None
        if atom not in self._sources:
            self._store.introduce(atom, depth)
        self._names.setdefault(str(var.name), var)
        if not self._sources.get(atom):  # keep the first source: equal dims may be one symbol
            self._sources[atom] = source

    def define(self, name: str, value: Dim, source: str) -> Var:
        """Return a new symbol for an expression; proofs use only the range of the expression."""
        symbol = self.symbol(name, source)
        self.definitions[symbol] = value
        lo, hi = self.range_of(value)
        if lo or hi is not None:
            self.assume_range(symbol, lo or None, hi, "definition")
        return symbol

    def resolve(self, name: str) -> Var | None:
        """Return the symbol with this name, for constraint strings, or None."""
        return self._names.get(name)

    def known_names(self) -> list[str]:
        """Return the names that constraint strings may use."""
        return sorted(self._names)

    # -- facts

    def assume(self, cond: object, why: str) -> None:
        """Add a fact, given as a condition or as the text of a constraint.

        Raises:
            ShapeConflict: it contradicts known facts; the message quotes both statements.
        """
        if isinstance(cond, str):
            parsed = parse_constraint(cond, self.resolve)
            if isinstance(parsed, Likely):
                self.likely(parsed.expr, parsed.values)
                return
            cond = parsed
        c = self._convert.cond(cond)
        self._add(kind_of(c), self._text(cond), why, c)

    def assume_eq(self, a: Dim, b: Dim, why: str) -> None:
        """Add the fact `a == b`."""
        self._add("eq", f"{show(a)} == {show(b)}", why, cond_eq(self._p(a) - self._p(b)))

    def assume_at_most(self, e: Dim, most: Dim, why: str) -> None:
        """Add the fact `e <= most` of a size that depends on data, unless `most` has many terms.

        Such a fact rarely decides anything, but every query about `e` would search through `most`.
        """
        bound = self._p(most)
        if len(bound.terms) <= FEW_TERMS:
            self._add("le", f"{show(e)} <= {show(most)}", why, cond_ge(bound - self._p(e)))

    def assume_range(self, e: Dim, lo: int | None, hi: int | None, why: str) -> None:
        """Add the fact `lo <= e <= hi`; None means no bound on that side."""
        p = self._p(e)
        conds = [] if lo is None else [cond_ge(p.plus(-lo))]
        conds += [] if hi is None else [cond_ge((-p).plus(hi))]
        text = f"{lo} <= " * (lo is not None) + show(e) + f" <= {hi}" * (hi is not None)
        self._add("range", text, why, cond_all(*conds))

    def assume_same_elements(
        self, shape_a: Sequence[Dim], shape_b: Sequence[Dim], why: str
    ) -> None:
        """Add the fact that both shapes have the same number of elements."""
        text = f"elements {show_shape(shape_a)} == {show_shape(shape_b)}"
        self._add("same_elements", text, why, self._same_elements(shape_a, shape_b))

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Discard every fact, guard and wish added in the context; symbols are kept."""
        undo = self.mark()
        try:
            yield
        finally:
            undo()

    def mark(self) -> Callable[[], None]:
        """Return a function that undoes later additions of facts, guards, wishes, definitions and
        notes. Symbols are kept.
        """
        saved = {name: copy(getattr(self, name)) for name in _OF_ATTEMPTS}
        forget = self._store.mark()

        def undo() -> None:
            forget()
            vars(self).update(saved, _hard={})

        return undo

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Open the scope of a branch or a function; see `scopes.py`.

        A requirement that mentions only symbols of the outer scope is checked in every call, so it
        is a fact of the outer scope, too.
        """
        first, joins = len(self.guards), copy(self.joins)
        close = self._store.open()
        try:
            yield
        finally:
            close()
            self.joins, self._hard = joins, {}
        added, self.guards = self.guards[first:], self.guards[:first]
        for guard in added:
            if self._store.home.keys().isdisjoint(self._convert.cond(guard.cond).syms):
                self.require(guard.cond, guard.context, guard.message)
            else:
                self.guards.append(guard)

    def likely(self, var: Dim, values: Sequence[int]) -> None:
        """Add likely values of `var`, a hint for kernel selection that proofs never use."""
        atom = self._p(var).as_atom
        if atom is None:
            raise ShapeConflict(f"likely values: expected a symbol, found {show(var)}")
        self._likely[atom] = tuple(sorted({*self._likely.get(atom, ()), *map(int, values)}))

    @query
    def likely_values(self, e: Dim) -> tuple[int, ...]:
        """Return the values of `e` for all likely values of its symbols; empty if a symbol has
        none, or if there are more than 256 combinations.
        """
        p = self.key(e)
        known = {a: self._likely_of(a) for a in sorted(p.syms)}
        total = 1
        for values in known.values():
            total *= len(values)
        if not 0 < total <= 256:
            return ()
        out = set()
        for choice in cartesian(*known.values()):
            st = self._at(p.syms).copy()
            st.witnesses.forget()
            for atom, value in zip(known, choice, strict=True):
                st.subst[atom] = Poly.const(value)
            st.epoch += 1
            value_of = norm(st, p).as_const
            if value_of is not None:
                out.add(value_of)
        return tuple(sorted(out))

    def _likely_of(self, atom: Atom) -> tuple[int, ...]:
        values = set(self._likely.get(atom, ()))
        for other, known in self._likely.items():
            p = self.norm(Poly.mono((other,)))
            rest = p - Poly.mono((atom,))
            if rest.as_const is not None:
                values |= {v - rest.constant for v in known}
            elif len(p.terms) <= 2 and (coeff := dict(p.terms).get((atom,))):
                values |= {
                    (v - p.constant) // coeff for v in known if (v - p.constant) % coeff == 0
                }
        return tuple(sorted(values))

    @query
    def _add(self, kind: str, text: str, why: str, c: Cond) -> None:
        state, facts = self._store.at(c.syms)
        fact = Fact(kind, text, why, c)
        if norm_cond(state, c).op == "true":
            # The fact is implied, but `describe` still shows what was declared.
            if c.op != "true":
                facts.append(fact)
            return
        try:
            self._store.add(fact)
        except Contradiction:
            others = self._store.at(c.syms)[1]
            raise ShapeConflict(conflict(fact, others, self._store.replayed)) from None

    def _at(self, syms: Iterable[Atom]) -> State:
        return self._store.at(syms)[0]

    # -- queries

    def known(self, cond: Any) -> bool | None:
        """Return True if a condition holds for all values that the facts allow, False if it holds
        for none, and None if neither is proved. The condition may be the text of a constraint.
        """
        if isinstance(cond, str):
            cond = parse_constraint(cond, self.resolve)
        return self._ask(self._convert.cond(cond))

    @query
    def known_hard(self, cond: Expr) -> bool | None:
        """Return `known`, or else the answer of Z3 (dims below 2**31; tens of milliseconds)."""
        if isinstance(cond, str):
            cond = parse_constraint(cond, self.resolve)
        c = self._convert.cond(cond)
        answer = self._ask(c)
        if answer is not None:
            return answer
        facts = self._store.at(c.syms)[1]
        key = (c, len(facts))
        if key not in self._hard:
            from .hard import ask_z3

            self._hard[key] = ask_z3(self._convert, facts, c)
        return self._hard[key]

    def known_eq(self, a: Dim, b: Dim) -> bool | None:
        """Return whether `a == b`; None if unknown."""
        return self._ask(cond_eq(self._p(a) - self._p(b)))

    def known_le(self, a: Dim, b: Dim) -> bool | None:
        """Return whether `a <= b`; None if unknown."""
        return self._ask(cond_ge(self._p(b) - self._p(a)))

    def known_lt(self, a: Dim, b: Dim) -> bool | None:
        """Return whether `a < b`; None if unknown."""
        return self._ask(cond_ge((self._p(b) - self._p(a)).plus(-1)))

    @query
    def known_divides(self, k: Dim, e: Dim) -> bool | None:
        """Return whether `e` is an integer multiple of `k`; None if unknown."""
        divisor, p = self._p(k), self._p(e)
        return prove_divides(self._at(divisor.syms | p.syms), divisor, p)

    def known_nonzero(self, e: Dim) -> bool | None:
        """Return whether `e != 0`; None if unknown."""
        return self._ask(cond_not(cond_eq(self._p(e))))

    def known_ne_one(self, e: Dim) -> bool | None:
        """Return whether `e != 1`, so that `e` is not broadcast; None if unknown."""
        return self._ask(cond_not(cond_eq(self._p(e).plus(-1))))

    def known_same_elements(self, shape_a: Sequence[Dim], shape_b: Sequence[Dim]) -> bool | None:
        """Return whether the shapes have the same number of elements; None if unknown."""
        return self._ask(self._same_elements(shape_a, shape_b))

    @query
    def known_same_shape(self, shape_a: Sequence[Dim], shape_b: Sequence[Dim]) -> bool | None:
        """Return whether rank and every dim are equal; None if unknown."""
        if len(shape_a) != len(shape_b):
            return False
        answers = [self.known_eq(a, b) for a, b in zip(shape_a, shape_b, strict=True)]
        if False in answers:
            return False
        return True if all(answers) else None

    @query
    def _ask(self, c: Cond) -> bool | None:
        return prove(self._at(c.syms), c)

    def simplify(self, e: Dim) -> Any:
        """Return the canonical expression; dims with equal normal forms give the same object."""
        return self._convert.expr(self.key(e))

    def key(self, e: Dim) -> Poly:
        """Return the normal form; dims with equal keys are proved equal."""
        return self.norm(self._p(e))

    @query
    def norm(self, p: Poly) -> Poly:
        """Return the normal form of a canonical polynomial under the facts."""
        return norm(self._at(p.syms), p)

    @query
    def range_of(self, e: Dim) -> tuple[int | None, int | None]:
        """Return the inclusive range of an expression; None means unbounded."""
        p = self.key(e)
        state = self._at(p.syms)
        return lower(state, p), upper(state, p)

    @query
    def const(self, e: Dim) -> int | None:
        """Return the value of an expression if only one value is possible, else None."""
        p = self.key(e)
        if p.as_const is None:
            state = self._at(p.syms)
            if state.witnesses.vary(p):
                return None
            lo, hi = lower(state, p), upper(state, p)
            return lo if lo is not None and lo == hi else None
        return p.as_const

    @query
    def why(self, claim: object) -> list[str]:
        """Return a minimal set of facts that proves or refutes the claim, then the laws used; empty
        if unknown.
        """
        if isinstance(claim, str):
            claim = parse_constraint(claim, self.resolve)
        c = self._convert.cond(claim)
        return reasons(self._store.at(c.syms)[1], c, self._ask(c), self._store.replayed)

    # -- requirements

    @query
    def require(self, cond: object, context: str, message: str = "") -> None:
        """Require a condition: nothing to do if proved, a guard and a new fact if unknown.

        A condition with an opaque expression, such as a float, becomes a guard, but not a fact.

        Raises:
            ShapeConflict: the condition is refuted.
        """
        if isinstance(cond, str):
            cond = parse_constraint(cond, self.resolve)
        c = self._convert.cond(cond)
        answer = self._ask(c)
        if answer:
            return
        text = message or self._words(c, self._text(cond))
        if answer is False:
            chain = self.why(self._convert.cond_expr(cond_not(c)))
            raise ShapeConflict(f"{context}: {text}, which is impossible{because(chain)}")
        symbols = tuple(self._convert.vars[a] for a in sorted(c.syms) if a in self._convert.vars)
        expr = self._convert.cond_expr(c)
        if c.computed:
            # Not a fact: a dim must not be rewritten to a floating-point expression.
            if not any(tvm_ffi.structural_equal(expr, g.cond) for g in self.guards):
                self.guards.append(Guard(expr, text, symbols, context))
            return
        self._add(kind_of(c), self._text(cond), f"guard of {context}", c)
        self.guards.append(Guard(expr, text, symbols, context))

    def require_text(self, cond: object, text: str, sizes: Mapping[str, int] | None = None) -> None:
        """Require a condition written as ``text``; `sizes` are its static dims, for messages.

        The message quotes the text if the condition contains an opaque expression, such as a float,
        or is always false.
        """
        c = self._convert.cond(cond)
        if c == FALSE:
            found = "".join(f"; {name} is {size}" for name, size in (sizes or {}).items())
            raise ShapeConflict(f"constraint {text!r} can never hold{found}")
        self.require(cond, f"constraint {text!r}", self._words(c, text) if c.computed else "")

    @query
    def require_eq(self, a: Dim, b: Dim, context: str) -> None:
        """Require `a == b`, simplified if one side is a minimum or selection that contains the
        other.
        """
        for x, y in ((a, b), (b, a)):
            if isinstance(x, tirx.Min) and self._is_operand(y, x):
                other = x.b if self._same(x.a, y) else x.a
                self.require_le(y, other, context)
                return
            if isinstance(x, tirx.Select) and self._same(x.false_value, y):
                skip = self._negated(x.condition)
                chosen = x.true_value
                must = f"{self.name_of(chosen)} must equal {self.name_of(y)}"
                sources = self._sources_of(self._convert.cond(x.condition).syms)
                text = f"if {plain(show(x.condition))}{sources}, {must}"
                cond = tirx.Or(skip, tirx.EQ(chosen, y))
                self.require(cond, context, text)
                return
        message = f"{self.name_of(a)} must equal {self.name_of(b)}"
        self.require(
            StatedCond(cond_eq(self._p(a) - self._p(b)), f"{show(a)} == {show(b)}"),
            context,
            message,
        )

    def _same(self, a: Dim, b: Dim) -> bool:
        return bool(self._p(a) == self._p(b))

    def _is_operand(self, x: Dim, choice: Any) -> bool:
        return self._same(x, choice.a) or self._same(x, choice.b)

    def _negated(self, cond: object) -> Expr:
        return self._convert.cond_expr(cond_not(self._convert.cond(cond)))

    def require_le(self, a: Dim, b: Dim, context: str) -> None:
        """Require `a <= b`."""
        message = f"{self.name_of(a)} must be at most {self.name_of(b)}"
        self.require(
            StatedCond(cond_ge(self._p(b) - self._p(a)), f"{show(a)} <= {show(b)}"),
            context,
            message,
        )

    @query
    def require_divides(self, k: Dim, e: Dim, context: str) -> None:
        """Require that `k` divides `e`."""
        if self.known_divides(k, e):
            return
        message = f"{self.name_of(e)} must be a multiple of {self.name_of(k)}"
        self.require(
            StatedCond(self._divides(k, e), f"{show(e)} % {show(k)} == 0"), context, message
        )

    def wish_eq(self, a: Dim, b: Dim, context: str) -> None:
        """Record the wish `a == b`, if it is equivalent to the equality of two input dims."""
        pair = single_difference(self.norm(self._p(a) - self._p(b)))
        if pair is None or not all(self._sources.get(x, "").startswith("input ") for x in pair):
            return
        one, other = sorted(pair, key=list(self._sources).index)
        names = [self._convert.vars[x].name for x in (one, other)]
        must = f"{self._sources[one]} equals {self._sources[other]}"
        wish = Wish(f"{names[0]} == {names[1]}", must, context)
        if all(w.text != wish.text for w in self.wishes):
            self.wishes.append(wish)

    @query
    def broadcast_dim(self, a: Dim, b: Dim, context: str) -> object:
        """Return the dim of broadcasting `a` against `b`, guarded if they may be incompatible."""
        return broadcast(self, a, b, context)

    @query
    def reshape_groups(
        self, src: Sequence[Dim], dst: Sequence[Dim]
    ) -> list[tuple[tuple[int, ...], tuple[int, ...]]] | None:
        """Return minimal contiguous groups of `src` and `dst` dims with equal products, in order.

        Returns None if the element counts cannot be proved equal.
        """
        return group_dims(self, src, dst)

    # -- text

    def facts(self) -> list[Fact]:
        """Return the facts in the order given, then those of closed scopes, then likely values."""
        hints = [
            Fact("likely", f"likely({self._convert.vars[a].name}, {list(v)})", "hint", TRUE)
            for a, v in self._likely.items()
        ]
        return self._store.facts + self._store.local + hints

    def equations(self, dims: Sequence[Dim]) -> list[Expr]:
        """Return the known equations whose only symbols are ``dims``."""
        known = {self._p(d).as_atom for d in dims}
        facts = [f for f in self.facts() if f.kind in ("eq", "same_elements")]
        conds = [f.cond for f in facts if f.cond.op == "eq" and f.cond.syms <= known]
        return [self._convert.cond_expr(c) for c in dict.fromkeys(conds)]

    def describe(self) -> str:
        """Return the text of symbols with source and range, facts with reasons, and guards."""
        return describe(self)

    def symbols(self) -> list[tuple[Any, str]]:
        """Return every symbol with its source, in order of declaration."""
        return [(var, self._sources.get(atom, "")) for atom, var in self._convert.vars.items()]

    def name_of(self, e: Dim) -> str:
        """Return an expression in terms of the user's inputs: "input 'x' axis 0 (n)"."""
        p = self._p(e)
        atom = p.as_atom
        if p.as_const is not None:
            return str(p.as_const)
        if atom is not None and self._sources.get(atom):
            return f"{self._sources[atom]} ({show(e)})"
        return f"{plain(show(e))}{self._sources_of(p.syms)}"

    def _words(self, c: Cond, text: str) -> str:
        return f"{plain(text)} must hold{self._sources_of(c.syms)}"

    def _sources_of(self, syms: Iterable[Atom]) -> str:
        """Return the sources of symbols in parentheses; "" if none is known."""
        known = [
            f"{self._convert.vars[a].name}: {self._sources[a]}"
            for a in sorted(syms)
            if self._sources.get(a)
        ]
        return f" ({', '.join(known)})" if known else ""

    @property
    def law_hits(self) -> dict[str, int]:
        """The number of uses of each law."""
        return dict(self._store.state.hits)

    @property
    def steps(self) -> int:
        """The number of proof steps so far, a machine-independent measure of work."""
        return self._store.state.steps

    def _p(self, e: Dim) -> Poly:
        return self._convert.poly(e)

    def _divides(self, k: Dim, e: Dim) -> Cond:
        num, den = self._p(e), self._p(k)
        return cond_eq(num - den * self._terms.poly("div", num, den))

    def _same_elements(self, a: Sequence[Dim], b: Sequence[Dim]) -> Cond:
        return cond_eq(poly_product(map(self._p, a)) - poly_product(map(self._p, b)))

    def _text(self, cond: object) -> str:
        return cond.text if isinstance(cond, StatedCond) else show(cond)


__all__ = ["Dim", "Solver"]
