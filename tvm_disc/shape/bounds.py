"""Lower bounds of polynomials: interval arithmetic, then elimination by known inequalities.

To bound `p` from below, a negative term is cancelled with a multiple of some `f >= 0` that has
the same term: `p = (1/k) * (r + l*f*q)` with `l, q >= 0` gives `p >= r / k`. That is one step of
Fourier-Motzkin elimination, as in JAX's `shape_poly_decision`. Here an inequality may also be
multiplied by a nonnegative cofactor, so that `s <= t` gives `b*s <= b*t`.
"""

from __future__ import annotations

from collections.abc import Iterator

from .state import State
from .terms import Atom, Mono, Poly, mono_div

Bound = int | None
"""None means unbounded."""

DEPTH = 3
BUDGET = 64
LONG = 24
"""Number of terms above which a search stops descending: each step processes all terms."""


def lower(st: State, p: Poly, depth: int = DEPTH) -> Bound:
    """Return the greatest known lower bound of a normal polynomial."""
    value = p.as_const
    if value is not None:
        return value
    found = st.bound_cache.get((p, depth))
    if found is not None and found[0] >= st.stamp(p.syms):
        return found[1]
    if st.budget.left <= 0:
        return _quick(st, p)
    result = _Search(st).lower(p, depth)
    if st.budget.left > 0:
        st.bound_cache[p, depth] = (st.epoch, result)
    return result


def _quick(st: State, p: Poly) -> Bound:
    """Return a lower bound from the recorded ranges of atoms alone, without any search."""
    total = 0
    for mono, coeff in p.terms:
        if not mono:
            total += coeff
        elif len(mono) > 1 or coeff < 0:
            symbols = all(a.kind == "sym" for a in mono)
            if coeff > 0 and symbols:
                continue
            hi = st.hi.get(mono[0]) if len(mono) == 1 else None
            if coeff > 0 or hi is None:
                return None
            total += coeff * hi
        else:
            lo = st.lo.get(mono[0], 0 if mono[0].kind == "sym" else None)
            if lo is None:
                return None
            total += coeff * lo
    return total


def upper(st: State, p: Poly, depth: int = DEPTH) -> Bound:
    """Return the least known upper bound."""
    value = lower(st, -p, depth)
    return None if value is None else -value


def positive(st: State, p: Poly) -> bool:
    """Return whether `p >= 1` is known."""
    if p.as_const is None and st.budget.left > 0 and st.witnesses.below(p, 1):
        return False
    value = lower(st, p)
    return value is not None and value >= 1


def nonneg(st: State, p: Poly) -> bool:
    """Return whether `p >= 0` is known."""
    if p.as_const is None and st.budget.left > 0 and st.witnesses.below(p, 0):
        return False
    value = lower(st, p)
    return value is not None and value >= 0


def mono_lower(st: State, mono: Mono) -> Bound:
    """Return a lower bound of a product of atoms, or None if a factor may be negative."""
    out = 1
    for atom in mono:
        lo = atom_range(st, atom)[0]
        if lo is None or lo < 0:
            return None
        out *= lo
    return out


def atom_range(st: State, atom: Atom) -> tuple[Bound, Bound]:
    """Return the interval of one atom, from its definition and from facts about it."""
    lo, hi = (0, None) if atom.kind == "sym" else _known_range(st, atom)
    given_lo, given_hi = st.lo.get(atom), st.hi.get(atom)
    if given_lo is not None and (lo is None or given_lo > lo):
        lo = given_lo
    if given_hi is not None and (hi is None or given_hi < hi):
        hi = given_hi
    return lo, hi


def _known_range(st: State, atom: Atom) -> tuple[Bound, Bound]:
    """Return :func:`_defined_range`, cached."""
    key = atom, st.inside_atom
    found = st.range_cache.get(key)
    if found is not None and found[0] >= st.stamp(atom.syms):
        return found[1]
    result = _defined_range(st, atom)
    if st.budget.left > 0:
        st.range_cache[key] = st.epoch, result
    return result


def _defined_range(st: State, atom: Atom) -> tuple[Bound, Bound]:
    if atom.kind in ("quo", "opaque"):
        return None, None
    if atom.kind == "div":
        return _div_range(st, *atom.args)
    if atom.kind == "tdiv":
        return None, None
    args = atom.args[1:] if atom.kind == "sel" else atom.args
    los, his = zip(*(_interval(st, p) for p in args), strict=True)
    low = min((x for x in los if x is not None), default=None) if None not in los else None
    high = max((x for x in his if x is not None), default=None) if None not in his else None
    if atom.kind == "min":
        high = min((x for x in his if x is not None), default=None)
    if atom.kind == "max":
        low = max((x for x in los if x is not None), default=None)
    return low, high


def _interval(st: State, p: Poly) -> tuple[Bound, Bound]:
    """Return the range of an atom's argument.

    The range is found by one step of elimination. A nested call takes no step, because a fact about
    the argument may mention the atom itself and would lead to an infinite recursion.
    """
    if st.inside_atom:
        return lower(st, p, 0), upper(st, p, 0)
    st.inside_atom = True
    try:
        return lower(st, p, 1), upper(st, p, 1)
    finally:
        st.inside_atom = False


def _div_range(st: State, num: Poly, den: Poly) -> tuple[Bound, Bound]:
    den_lo, den_hi = _interval(st, den)
    if den_lo is None or den_lo < 1:
        return None, None
    if den_hi is not None and den_hi < den_lo:
        return None, None  # only if the facts are contradictory
    lo, hi = _interval(st, num)
    if lo is not None and lo >= 0:
        lo = 0 if den_hi is None else lo // den_hi
    elif lo is not None:
        lo = lo // den_lo
    if hi is not None and hi >= 0:
        hi = hi // den_lo
    elif hi is not None:
        hi = -1 if den_hi is None else hi // den_hi
    return lo, hi


def definition_facts(st: State, atom: Atom) -> tuple[Poly, ...]:
    """Return polynomials `f >= 0` that follow from the definition of the atom."""
    if atom.kind == "div" and (lower(st, atom.args[1], 0) or 0) < 1:
        return ()
    if atom.definition is None:
        atom.definition = _definition(atom)
    return atom.definition


def _definition(atom: Atom) -> tuple[Poly, ...]:
    me = Poly.mono((atom,))
    if atom.kind == "div":
        num, den = atom.args
        rem = num - den * me
        return (rem, (den - rem).plus(-1))
    if atom.kind == "min":
        return tuple(p - me for p in atom.args)
    if atom.kind == "max":
        return tuple(me - p for p in atom.args)
    return ()


def choices(atom: Atom) -> tuple[Poly, ...]:
    """Return polynomials such that the atom always equals one of them."""
    if atom.kind in ("min", "max"):
        return atom.args
    if atom.kind == "sel":
        return atom.args[1:]
    return ()


class _Search:
    """One search with a limited number of polynomials, counted by `budget`."""

    def __init__(self, st: State) -> None:
        self.st = st
        self.budget = BUDGET

    def lower(self, p: Poly, depth: int) -> Bound:
        value = p.as_const
        if value is not None:
            return value
        self.budget -= 1
        self.st.steps += 1
        self.st.budget.left -= 3 + 2 * len(p.terms)
        if self.st.budget.left <= 0:
            return _quick(self.st, p)
        number, mono, rest = p.without_content()
        if mono and len(rest.terms) > 1:
            best = self._factored(mono, rest, depth)
            if best is not None:
                return number * best
        if number > 1:
            inner = self.lower(p.divided(number), depth)
            return None if inner is None else number * inner
        return self._search(p, depth)

    def _factored(self, mono: Mono, rest: Poly, depth: int) -> Bound:
        """Return a bound of `m * r` from the bounds of `m >= 0` and `r`."""
        small = mono_lower(self.st, mono)
        if small is None:
            return None
        inner = self.lower(rest, depth)
        if inner is None:
            return None
        if inner >= 0:
            return small * inner
        large = _product_hi(self.st, mono)
        return None if large is None else large * inner

    def _search(self, p: Poly, depth: int) -> Bound:
        best = self.base(p)
        if depth <= 0 or self.budget <= 0:
            return best
        for relaxed, scale in self._relaxations(p):
            if self.budget <= 0:
                return best
            value = self.lower(relaxed, depth - 1 if len(relaxed.terms) <= LONG else 0)
            if value is not None:
                value = -(-value // scale)
                best = value if best is None else max(best, value)
        split = self._split(p, depth)
        if split is not None:
            best = split if best is None else max(best, split)
        return best

    def _split(self, p: Poly, depth: int) -> Bound:
        """Return a bound by cases: `min`, `max` and selections equal one of their arguments."""
        for atom in p.atoms():
            values = choices(atom)
            if values:
                bounds = [self.lower(p.replace(atom, v), depth - 1) for v in values]
                known = [b for b in bounds if b is not None]
                return min(known) if len(known) == len(bounds) else None
        return None

    def _relaxations(self, p: Poly) -> Iterator[tuple[Poly, int]]:
        """Yield pairs `(r, k)` with `k * p >= r`."""
        targets: dict[Atom, list[tuple[Mono, int]]] = {}
        for target, c in p.terms:
            for atom in dict.fromkeys(target) if c < 0 else ():
                targets.setdefault(atom, []).append((target, c))
        for f in self._inequalities(p):
            self.st.budget.left -= len(f.terms) // 4
            for mono, coeff in f.terms:
                if coeff >= 0 or not mono:
                    continue
                for target, c in targets.get(mono[0], ()):
                    cofactor = mono_div(target, mono)
                    if cofactor is None or (cofactor and mono_lower(self.st, cofactor) is None):
                        continue
                    # k*p - l*f*q with k*c == l*coeff
                    yield p.scale(-coeff) - (f * Poly.mono(cofactor)).scale(-c), -coeff

    def _inequalities(self, p: Poly) -> Iterator[Poly]:
        for atom in p.atoms():
            yield from definition_facts(self.st, atom)
        top = set(p.atoms())
        self.st.budget.left -= (len(self.st.ineqs) + len(self.st.rules)) // 8
        for f in self.st.ineqs:
            if not top.isdisjoint(f.atoms()):
                cap = self.st.caps.get(f)
                if cap is None or cap in top:
                    yield f
        for f in self.st.rules:
            if not top.isdisjoint(f.atoms()):
                yield f
                yield -f

    def base(self, p: Poly) -> Bound:
        """Return a lower bound, by interval arithmetic after shifting each atom by its lower bound.

        With `n, m >= 1`, `n*m - n - m + 1` becomes `n'*m'`.
        """
        ranges: dict[Atom, tuple[Bound, Bound]] = {}
        for atom in p.atoms():
            lo, hi = atom_range(self.st, atom)
            if lo:
                p = p.replace(atom, Poly.mono((atom,)).plus(lo))
                hi = None if hi is None else hi - lo
                lo = 0
            ranges[atom] = (lo, hi)
        total = 0
        for mono, coeff in p.terms:
            lo, hi = 1, 1
            for atom in mono:
                lo, hi = _times((lo, hi), ranges[atom])
            bound = lo if coeff > 0 else hi
            if bound is None:
                return None
            total += coeff * bound
        return total


def _times(a: tuple[Bound, Bound], b: tuple[Bound, Bound]) -> tuple[Bound, Bound]:
    if a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0:
        zero = a[1] == 0 or b[1] == 0
        hi = 0 if zero else None if a[1] is None or b[1] is None else a[1] * b[1]
        return a[0] * b[0], hi
    if None in a or None in b:
        return None, None
    corners = [x * y for x in a for y in b if x is not None and y is not None]
    return min(corners), max(corners)


def _product_hi(st: State, mono: Mono) -> Bound:
    out: tuple[Bound, Bound] = (1, 1)
    for atom in mono:
        out = _times(out, atom_range(st, atom))
    return out[1]
