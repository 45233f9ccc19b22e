"""Canonical integer polynomials over atoms: the solver's working form of a dim.

A dim `b*s*64 + (h - 1) // 2` is a sum of integer multiples of monomials. A monomial is a product of
atoms. An atom is a symbol, or a floor division, minimum, maximum or selection of polynomials.
`a % k` has no atom: it is `a - k*(a // k)`, so that division and remainder are always consistent.
Equal polynomials are equal values (`==`). This follows JAX's `shape_poly` and its classes for
factors, terms and expressions. Monomials are ordered by their compound atoms, deepest first, then
by degree, then by age. An equality rewrites its leading monomial, and the replacement never
contains that monomial.

Arithmetic is exact: dims are mathematical integers, and int64 overflow is out of scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import gcd
from typing import Any

Mono = tuple["Atom", ...]
"""A product of atoms, newest first, repeated for powers; `()` is 1."""


class Atom:
    """An indivisible factor, created only by `Terms` so that identity is equality.

    kind   args
    sym    (name,)               a symbol
    quo    (e, k)                the exact quotient e // k of a known divisibility k | e
    div    (num, den)            floor division
    min    (p, q, ...)           sorted
    max    (p, q, ...)           sorted
    sel    (cond, p, q)          p if cond holds, else q
    tdiv   (num, den)            division that truncates towards zero
    rem    (num, den)            num % den, only in expressions that are written
    opaque (text, address, s...) any other expression, equal only to itself; it reads symbols s...
    """

    __slots__ = ("args", "definition", "kind", "mentions", "rank", "syms", "uid")

    def __init__(self, uid: int, kind: str, args: tuple[Any, ...], inner: frozenset[Atom]) -> None:
        self.uid = uid
        self.kind = kind
        self.args = args
        # polynomials that are at least 0 by the atom's definition, once they are computed
        self.definition: tuple[Poly, ...] | None = None
        # this atom and every atom inside it
        self.mentions: frozenset[Atom] = inner | {self}
        depth = 1 + max((a.rank[0] for a in inner), default=-1)
        # position in the order of atoms; leaves have depth 0
        self.rank: tuple[int, int] = (depth, uid)
        # the leaves inside: symbols, exact quotients and opaque expressions
        self.syms: frozenset[Atom] = frozenset(
            a for a in self.mentions if a.kind in ("sym", "quo", "opaque")
        )

    def __lt__(self, other: Atom) -> bool:
        return self.rank < other.rank

    def __repr__(self) -> str:
        return f"{self.kind}#{self.uid}"


def mono_mul(a: Mono, b: Mono) -> Mono:
    """Return the product of two monomials."""
    if not a:
        return b
    if not b:
        return a
    return tuple(sorted(a + b, reverse=True))


def mono_div(a: Mono, b: Mono) -> Mono | None:
    """Return `a / b`, or None if b does not divide a."""
    if not b:
        return a
    rest = list(a)
    for atom in b:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def mono_gcd(a: Mono, b: Mono) -> Mono:
    """Return the greatest common monomial."""
    rest, common = list(b), []
    for atom in a:
        if atom in rest:
            rest.remove(atom)
            common.append(atom)
    return tuple(common)


_Order = tuple[tuple[tuple[int, int], ...], int, tuple[int, ...]]


def _order(term: tuple[Mono, int]) -> _Order:
    return _mono_order(term[0])


# The cache is small because an entry keeps the atoms of its solver alive; a module has some
# hundreds of atoms.
@lru_cache(maxsize=1 << 11)
def _mono_order(mono: Mono) -> _Order:
    ranks = [a.rank for a in mono]
    leaves = tuple(r[1] for r in ranks if not r[0])
    return (tuple(r for r in ranks if r[0]), len(leaves), leaves)


class Poly:
    """A polynomial: terms `(monomial, coefficient)`, leading one first, without zero
    coefficients.
    """

    __slots__ = ("_atoms", "_hash", "_mentions", "_negated", "_syms", "terms")

    def __init__(self, terms: tuple[tuple[Mono, int], ...]) -> None:
        self.terms = terms
        self._hash = hash(terms)
        self._syms: frozenset[Atom] | None = None
        self._mentions: frozenset[Atom] | None = None
        self._atoms: tuple[Atom, ...] | None = None
        self._negated: Poly | None = None

    @staticmethod
    def of(terms: Mapping[Mono, int]) -> Poly:
        """Return the polynomial with these coefficients."""
        kept = [(m, c) for m, c in terms.items() if c]
        if len(kept) > 1:
            kept.sort(key=_order, reverse=True)
        return Poly(tuple(kept))

    @staticmethod
    def const(value: int) -> Poly:
        """Return the constant `value`."""
        return Poly((((), value),)) if value else ZERO

    @staticmethod
    def mono(mono: Mono, coeff: int = 1) -> Poly:
        """Return `coeff * mono`."""
        return Poly(((mono, coeff),)) if coeff else ZERO

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Poly) and self._hash == other._hash and self.terms == other.terms
        )

    def __iter__(self) -> Iterator[tuple[Mono, int]]:
        return iter(self.terms)

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __repr__(self) -> str:
        return " + ".join(f"{c}*{m}" for m, c in self.terms) or "0"

    @property
    def as_const(self) -> int | None:
        """The value, if this is a constant."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    @property
    def constant(self) -> int:
        """The constant term."""
        if self.terms and not self.terms[-1][0]:
            return self.terms[-1][1]
        return 0

    @property
    def as_atom(self) -> Atom | None:
        """The atom, if the polynomial is a single atom with coefficient 1."""
        if len(self.terms) == 1:
            mono, coeff = self.terms[0]
            if coeff == 1 and len(mono) == 1:
                return mono[0]
        return None

    @property
    def syms(self) -> frozenset[Atom]:
        """All symbols inside, at any depth."""
        if self._syms is None:
            self._syms = frozenset().union(*(a.syms for m, _ in self.terms for a in m))
        return self._syms

    @property
    def mentions(self) -> frozenset[Atom]:
        """All atoms inside, at any depth."""
        if self._mentions is None:
            self._mentions = frozenset().union(*(a.mentions for m, _ in self.terms for a in m))
        return self._mentions

    @property
    def sort_key(self) -> tuple[tuple[_Order, int], ...]:
        """The key of a total order that does not depend on hashes."""
        return tuple((_order(t), t[1]) for t in self.terms)

    def atoms(self) -> tuple[Atom, ...]:
        """Return the atoms at the top level, newest first, each once."""
        if self._atoms is None:
            found = {a for m, _ in self.terms for a in m}
            self._atoms = tuple(sorted(found, reverse=True) if len(found) > 1 else found)
        return self._atoms

    def __add__(self, other: Poly) -> Poly:
        if not other.terms:
            return self
        if not self.terms:
            return other
        out = dict(self.terms)
        for mono, coeff in other.terms:
            out[mono] = out.get(mono, 0) + coeff
        return Poly.of(out)

    def __neg__(self) -> Poly:
        found = self._negated
        if found is None:
            found = self._negated = Poly(tuple((m, -c) for m, c in self.terms))
            found._negated = self
        return found

    def __sub__(self, other: Poly) -> Poly:
        if self is other:
            return ZERO
        return self + (-other)

    def plus(self, value: int) -> Poly:
        """Return `self + value`."""
        return self + Poly.const(value)

    def scale(self, k: int) -> Poly:
        """Return `self * k`."""
        if k == 1:
            return self
        return Poly(tuple((m, c * k) for m, c in self.terms)) if k else ZERO

    def __mul__(self, other: Poly) -> Poly:
        a, b = (self, other) if len(self.terms) <= len(other.terms) else (other, self)
        if not a.terms:
            return ZERO
        if len(a.terms) == 1:
            mono, coeff = a.terms[0]
            if not mono:
                return b.scale(coeff)
        out: dict[Mono, int] = {}
        for m1, c1 in a.terms:
            for m2, c2 in b.terms:
                mono = mono_mul(m1, m2)
                out[mono] = out.get(mono, 0) + c1 * c2
        return Poly.of(out)

    def content(self) -> tuple[int, Mono]:
        """Return the greatest integer and monomial that divide every term."""
        if not self.terms:
            return 1, ()
        number, common = 0, self.terms[0][0]
        for mono, coeff in self.terms:
            number = gcd(number, coeff)
            if common:
                common = mono_gcd(common, mono)
        return number, common

    def without_content(self) -> tuple[int, Mono, Poly]:
        """Return `(k, m, rest)` with `self == k * m * rest`, k > 0."""
        number, common = self.content()
        if number == 1 and not common:
            return 1, (), self
        rest = {}
        for mono, coeff in self.terms:
            quotient = mono_div(mono, common)
            assert quotient is not None
            rest[quotient] = coeff // number
        return number, common, Poly.of(rest)

    def coefficient_gcd(self) -> int:
        """Return the gcd of all coefficients except the constant term."""
        number = 0
        for mono, coeff in self.terms:
            if mono:
                number = gcd(number, coeff)
        return number

    def divided(self, number: int) -> Poly:
        """Return `self / number`, which must be exact."""
        return Poly(tuple((m, c // number) for m, c in self.terms))

    def replace(self, atom: Atom, value: Poly) -> Poly:
        """Return the polynomial with a top-level atom replaced by `value`."""
        out: dict[Mono, int] = {}
        for mono, coeff in self.terms:
            part = Poly(((mono, coeff),))
            if atom in mono:
                part = Poly.mono(tuple(a for a in mono if a is not atom), coeff)
                for _ in range(mono.count(atom)):
                    part = part * value
            part.add_to(out)
        return Poly.of(out)

    def add_to(self, total: dict[Mono, int]) -> None:
        """Add every term to `total`, which maps monomials to coefficients as `Poly.of` requires."""
        for mono, coeff in self.terms:
            total[mono] = total.get(mono, 0) + coeff

    def divmod_poly(self, den: Poly) -> tuple[Poly, Poly]:
        """Return `(q, r)` with `self == q*den + r`.

        The terms that the leading term of `den` divides exactly are divided, in at most 64 steps.
        """
        lead, coeff = den.terms[0]
        quotient: dict[Mono, int] = {}
        rest, done = self, ZERO
        for _ in range(64):
            if not rest.terms:
                break
            mono, c = rest.terms[0]
            q = mono_div(mono, lead)
            if q is None or c % coeff:
                head = Poly((rest.terms[0],))
                done, rest = done + head, rest - head
                continue
            quotient[q] = quotient.get(q, 0) + c // coeff
            rest = rest - den * Poly.mono(q, c // coeff)
        return Poly.of(quotient), done + rest


ZERO = Poly(())
ONE = Poly((((), 1),))


def single_difference(p: Poly) -> tuple[Atom, Atom] | None:
    """Return (x, y) if `p` is a multiple of `x - y`, so that x == y makes it 0, else None."""
    rest = p.without_content()[2]
    plain = [m[0] for m, c in rest.terms if len(m) == 1 and abs(c) == 1 and m[0].kind == "sym"]
    opposite = sum(c for _, c in rest.terms) == 0
    return (plain[0], plain[1]) if len(plain) == len(rest.terms) == 2 and opposite else None


def product(factors: Iterable[Poly]) -> Poly:
    """Return the product; 1 for no factors."""
    out = ONE
    for factor in factors:
        out = out * factor
    return out


class Cond:
    """A condition in canonical form.

    op   args
    eq   (p,)            p == 0, leading coefficient positive, no integer content
    ne   (p,)            p != 0, likewise
    ge   (p,)            p >= 0, integer content divided out
    and  (c, c, ...)
    or   (c, c, ...)
    not  (c,)            the negation of a condition that has no other form
    true, false ()
    """

    __slots__ = ("_hash", "args", "op")

    def __init__(self, op: str, args: tuple[Any, ...]) -> None:
        self.op = op
        self.args = args
        self._hash = hash((op, args))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cond) and self.op == other.op and self.args == other.args

    def __repr__(self) -> str:
        return f"{self.op}{self.args}"

    @property
    def polys(self) -> list[Poly]:
        """Every polynomial inside."""
        if self.op in ("eq", "ne", "ge"):
            return [self.args[0]]
        if self.op in ("and", "or"):
            return [p for c in self.args for p in c.polys]
        return []

    @property
    def syms(self) -> frozenset[Atom]:
        """Every symbol inside."""
        return frozenset().union(*(p.syms for p in self.polys))

    @property
    def mentions(self) -> frozenset[Atom]:
        """Every atom inside."""
        return frozenset().union(*(p.mentions for p in self.polys))

    @property
    def computed(self) -> bool:
        """Whether the condition contains an opaque expression over symbols, such as a float."""
        return any(a.kind == "opaque" and len(a.args) > 2 for a in self.mentions)


TRUE = Cond("true", ())
FALSE = Cond("false", ())


def cond_eq(p: Poly) -> Cond:
    """Return the condition `p == 0`."""
    value = p.as_const
    if value is not None:
        return FALSE if value else TRUE
    number = p.content()[0]
    p = p.divided(number)
    if p.constant % p.coefficient_gcd():
        return FALSE
    return Cond("eq", (-p if p.terms[0][1] < 0 else p,))


def cond_ge(p: Poly) -> Cond:
    """Return the condition `p >= 0`; `g*x + c >= 0` is tightened to `x + c // g >= 0`."""
    value = p.as_const
    if value is not None:
        return TRUE if value >= 0 else FALSE
    number = p.coefficient_gcd()
    if number > 1:
        rest = p.constant
        p = p.plus(-rest).divided(number).plus(rest // number)
    return Cond("ge", (p,))


def cond_not(c: Cond) -> Cond:
    """Return the negation."""
    if c.op == "true":
        return FALSE
    if c.op == "false":
        return TRUE
    if c.op == "eq":
        return Cond("ne", c.args)
    if c.op == "ne":
        return Cond("eq", c.args)
    if c.op == "ge":
        return cond_ge((-c.args[0]).plus(-1))
    if c.op == "and":
        return cond_any(*(cond_not(x) for x in c.args))
    if c.op == "or":
        return cond_all(*(cond_not(x) for x in c.args))
    if c.op == "not":
        inner: Cond = c.args[0]
        return inner
    return Cond("not", (c,))


def cond_all(*conds: Cond) -> Cond:
    """Return the conjunction."""
    return _join("and", FALSE, TRUE, conds)


def cond_any(*conds: Cond) -> Cond:
    """Return the disjunction."""
    return _join("or", TRUE, FALSE, conds)


def _join(op: str, dominant: Cond, neutral: Cond, conds: Iterable[Cond]) -> Cond:
    flat: list[Cond] = []
    for cond in conds:
        for c in cond.args if cond.op == op else (cond,):
            if c == dominant:
                return dominant
            if c != neutral and c not in flat:
                flat.append(c)
    if not flat:
        return neutral
    return flat[0] if len(flat) == 1 else Cond(op, tuple(flat))


class Terms:
    """The atoms of one solver, each created once."""

    def __init__(self) -> None:
        self.table: dict[tuple[object, ...], Atom] = {}

    def atom(self, kind: str, *args: object) -> Atom:
        """Return the atom `kind(*args)`."""
        key = (kind, args)
        found = self.table.get(key)
        if found is None:
            inner: frozenset[Atom] = frozenset()
            # An exact quotient is a leaf: its definition is only used for printing.
            for arg in () if kind == "quo" else args:
                if isinstance(arg, (Poly, Cond)):
                    inner = inner | arg.mentions
            found = Atom(len(self.table), kind, args, inner)
            self.table[key] = found
        return found

    def poly(self, kind: str, *args: object) -> Poly:
        """Return the atom as a polynomial."""
        return Poly((((self.atom(kind, *args),), 1),))
