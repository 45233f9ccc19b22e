"""Normal form of a polynomial under the facts of a state.

Atoms are rebuilt bottom-up: symbols by their substitutions, compound atoms by the laws. Products
are then rewritten by the equality rules, that is, modulo the ideal of the known equalities, which
lets the solver combine product equalities with symbolic factors. Dims that are equal modulo this
ideal have the same normal form.
"""

from __future__ import annotations

from typing import Any

from .bounds import nonneg
from .laws import apply_laws, nonzero
from .state import State
from .terms import (
    FALSE,
    TRUE,
    Atom,
    Cond,
    Mono,
    Poly,
    cond_all,
    cond_any,
    cond_eq,
    cond_ge,
    cond_not,
    mono_div,
)

REWRITES = 200


def norm(st: State, p: Poly) -> Poly:
    """Return the normal form of `p`."""
    if not p.terms or (len(p.terms) == 1 and not p.terms[0][0]):
        return p
    found = st.norm_cache.get(p)
    if found is not None and found[0] >= st.stamp(p.syms):
        return found[1]
    weak = st.weak_cache.get(p)
    if weak is not None and weak[0] == st.budget.query and weak[1] >= st.stamp(p.syms):
        return weak[2]
    st.steps += 1
    st.budget.left -= 1 + len(p.terms)
    out = reduce(st, _rebuild(st, p))
    if st.budget.left > 0:
        st.norm_cache[p] = (st.epoch, out)
    else:
        st.weak_cache[p] = (st.budget.query, st.epoch, out)
    return out


def _rebuild(st: State, p: Poly) -> Poly:
    values = {a: norm_atom(st, a) for a in p.atoms()}
    if all(v.as_atom is a for a, v in values.items()):
        return p
    out: dict[Mono, int] = {}
    for mono, coeff in p.terms:
        part = Poly.const(coeff)
        for atom in mono:
            part = part * values[atom]
        part.add_to(out)
    return Poly.of(out)


def norm_atom(st: State, atom: Atom) -> Poly:
    """Return the normal form of an atom."""
    known = st.subst.get(atom)
    if known is not None:
        return norm(st, known)
    if atom.kind in ("sym", "quo", "opaque"):
        return Poly.mono((atom,))
    found = st.atom_cache.get(atom)
    if found is not None and found[0] >= st.stamp(atom.syms):
        return found[1]
    weak = st.weak_cache.get(atom)
    if weak is not None and weak[0] == st.budget.query and weak[1] >= st.stamp(atom.syms):
        return weak[2]
    if atom in st.active:
        return Poly.mono((atom,))
    st.active.add(atom)
    try:
        out = _norm_compound(st, atom)
    finally:
        st.active.discard(atom)
    if st.budget.left > 0:
        st.atom_cache[atom] = (st.epoch, out)
    else:
        st.weak_cache[atom] = (st.budget.query, st.epoch, out)
    return out


def _norm_compound(st: State, atom: Atom) -> Poly:
    args: tuple[Any, ...] = tuple(
        norm_cond(st, a) if isinstance(a, Cond) else norm(st, a) for a in atom.args
    )
    if atom.kind in ("min", "max"):
        args = tuple(sorted(set(args), key=lambda p: p.sort_key))
    if atom.kind in ("min", "max") and len(args) == 1:
        out: Poly | None = args[0]
    else:
        out = apply_laws(st, atom.kind, args)
        if out is not None:
            out = norm(st, out)
    if out is None:
        rebuilt = st.terms.atom(atom.kind, *args)
        again = st.subst.get(rebuilt)
        out = Poly.mono((rebuilt,)) if again is None else norm(st, again)
    return out


def reduce(st: State, p: Poly, skip: Poly | None = None) -> Poly:
    """Subtract multiples of rules from a polynomial, in at most ``REWRITES`` steps.

    A step rewrites a term that the leading monomial of a rule divides, if its coefficient is at
    least as large as that of the rule. The rule ``skip`` is not used.
    """
    if not st.rules:
        return p
    for _ in range(REWRITES):
        step = _reduce_once(st, p, skip)
        if step is None:
            return p
        p = step
        st.budget.left -= len(p.terms)
        st.hit("h*d == k: b*h*d -> b*k")
    return p


def _reduce_once(st: State, p: Poly, skip: Poly | None) -> Poly | None:
    for rule in st.rules:
        if rule is skip:
            continue
        lead, k = rule.terms[0]
        for mono, coeff in p.terms:
            if abs(coeff) < abs(k):
                continue
            rest = mono_div(mono, lead)
            if rest is not None:
                times = int(coeff / k) if abs(coeff) < 1 << 50 else coeff // k
                return p - (rule * Poly.mono(rest)).scale(times)
    return None


def critical_pair(a: Poly, b: Poly) -> Poly | None:
    """Return the consequence of two rules with overlapping leading monomials, or None."""
    (la, ca), (lb, cb) = a.terms[0], b.terms[0]
    rest_b: Mono = la
    common: list[Atom] = []
    left = list(lb)
    for atom in rest_b:
        if atom in left:
            left.remove(atom)
            common.append(atom)
    if not common:
        return None
    ma = mono_div(lb, tuple(common))
    mb = mono_div(la, tuple(common))
    assert ma is not None and mb is not None
    return a * Poly.mono(ma, cb) - b * Poly.mono(mb, ca)


def norm_cond(st: State, c: Cond) -> Cond:
    """Return the normal form of a condition: true or false if ranges or exclusions decide it."""
    if c.op in ("and", "or"):
        parts = [norm_cond(st, x) for x in c.args]
        return (cond_all if c.op == "and" else cond_any)(*parts)
    if c.op not in ("eq", "ne", "ge"):
        return c
    p = norm(st, c.args[0])
    if c.op == "ge":
        out = cond_ge(p)
        if out.op != "ge":
            return out
        if nonneg(st, out.args[0]):
            st.hit("the lower bound of p is at least 0: p >= 0")
            return TRUE
        return FALSE if nonneg(st, (-out.args[0]).plus(-1)) else out
    equal = cond_eq(p)
    if equal.op == "eq" and nonzero(st, equal.args[0]):
        equal = FALSE
    elif equal == FALSE and p.as_const is None:
        st.hit("k | p - c, k does not divide c: p != 0")
    return equal if c.op == "eq" else cond_not(equal)
