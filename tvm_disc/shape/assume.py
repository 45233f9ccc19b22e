"""Addition of facts: solve equalities, tighten ranges, propagate, detect contradictions."""

from __future__ import annotations

from math import gcd

from .bounds import atom_range, choices, lower, mono_lower, nonneg, positive, upper
from .laws import equal_squares, nonzero
from .normal import critical_pair, norm, norm_cond, reduce
from .state import Contradiction, State
from .terms import Atom, Cond, Mono, Poly, cond_any, cond_ge, mono_div, mono_mul

FUEL = 12
"""Maximum number of ranges that one fact may narrow successively."""
DISTRIBUTED = 4
"""Maximum number of minima and maxima in an inequality that is split into cases."""
HUGE = 1 << 48
"""Bounds beyond this are not propagated: `n*n < m < n` would otherwise square them forever."""
COMPLETION = 24
"""Maximum number of critical pairs that one new product equality may add."""


def assume(st: State, c: Cond) -> None:
    """Add a condition that is known to hold.

    Raises:
        Contradiction: the condition conflicts with the known facts.
    """
    st.fuel = FUEL
    st.witnesses.add(c)
    _assume(st, c)


def _given_up(st: State) -> bool:
    """Return whether the state is a hypothesis and its search budget is used up."""
    return st.depth > 0 and st.budget.left <= 0


def _assume(st: State, c: Cond) -> None:
    if c.op == "and":
        for part in c.args:
            _assume(st, part)
    elif c.op == "or":
        _assume_any(st, c)
    elif c.op == "eq":
        _assume_eq(st, c.args[0])
    elif c.op == "ne":
        _assume_ne(st, norm(st, c.args[0]))
    elif c.op == "ge":
        assume_ge(st, norm(st, c.args[0]))
    elif c.op == "false":
        raise Contradiction


def _assume_any(st: State, c: Cond) -> None:
    n = norm_cond(st, c)
    if n.op == "or":
        st.ors.append(n)
        st.touch(n.syms)
    else:
        _assume(st, n)


def quotient_pattern(p: Poly) -> tuple[Poly, Poly] | None:
    """Return `(e, k)` if `p == 0` states that k divides e, else None.

    `p` is then `e - k*(e // k)`, or, with a constant divisor, `a - k*(a // k) - c` with `e = a - c`
    and `0 <= c < k`.
    """
    for atom in p.atoms():
        if atom.kind == "div":
            num, den = atom.args
            rest = num - den * Poly.mono((atom,))
            number = rest.content()[0]
            if rest and p in (rest.divided(number), -rest.divided(number)):
                return num, den
            k = den.as_const
            c = next((d for d in ((rest - p).as_const, (rest + p).as_const) if d is not None), None)
            if k is not None and c is not None and 0 <= c < k:
                return num.plus(-c), den
    return None


def _assume_eq(st: State, p: Poly) -> None:
    pattern = quotient_pattern(p)
    if pattern is not None:
        e, k = norm(st, pattern[0]), norm(st, pattern[1])
        if not norm(st, p):
            return
        if nonzero(st, k):
            st.hit("k | e: e -> k*(e // k)")
            _solve(st, e - k * quotient(st, pattern[0], k))
            return
    _solve(st, norm(st, p))


def quotient(st: State, e: Poly, k: Poly) -> Poly:
    """Return the exact quotient `e / k` as an atom, for a divisibility that is known or assumed."""
    atom = st.terms.atom("quo", e, k)
    if atom not in st.quotients:
        st.quotients[atom] = (e, k)
    if atom not in st.lo and atom not in st.subst and nonneg(st, norm(st, e)) and positive(st, k):
        st.lo[atom] = 0
        st.touch_only(atom)
        st.link([atom, *e.syms, *k.syms])
    return Poly.mono((atom,))


def _solve(st: State, p: Poly) -> None:
    """Add `p == 0` for a normal polynomial."""
    if _given_up(st):
        return
    value = p.as_const
    if value is not None:
        if value:
            raise Contradiction
        return
    number, mono, rest = p.without_content()
    if mono and not _bare(mono, rest):
        live = tuple(a for a in mono if not nonzero(st, Poly.mono((a,))))
        if len(live) < len(mono):
            st.hit("n*a == n*b, n != 0: a == b")
            _solve(st, rest * Poly.mono(live))
            return
        if len(set(live)) == 1 and (rest.as_const is not None or nonzero(st, rest)):
            _solve(st, Poly.mono(live[:1]))
            return
        if rest.as_const is None and nonzero(st, rest):
            _solve(st, Poly.mono(live))
            return
    p = p.divided(number)
    if p.constant % p.coefficient_gcd() or nonzero(st, p):
        raise Contradiction
    roots = equal_squares(st, p)
    if roots is not None:
        _solve(st, norm(st, roots))
        return
    target = _solvable(st, p)
    if target is not None:
        _substitute(st, target, p)
        return
    if _split_divisor(st, p):
        _solve(st, norm(st, p))
        return
    _add_rule(st, -p if p.terms[0][1] < 0 else p)


def _bare(mono: Mono, rest: Poly) -> bool:
    return len(mono) == 1 and rest.as_const is not None


def _solvable(st: State, p: Poly) -> Atom | None:
    """Return the newest symbol that occurs once, alone, with coefficient 1 or -1, or None."""
    best: Atom | None = None
    for mono, coeff in p.terms:
        if len(mono) != 1 or abs(coeff) != 1 or mono[0].kind not in ("sym", "quo"):
            continue
        atom = mono[0]
        uses = sum(1 for m, _ in p.terms if any(atom in a.mentions for a in m))
        if uses == 1 and (best is None or (atom.kind == "sym", atom) > (best.kind == "sym", best)):
            best = atom
    if best is None and len(p.terms) <= 2:
        # `min(n, 4) == 2` fixes the value of a compound atom
        mono, coeff = p.terms[0]
        if len(mono) == 1 and abs(coeff) == 1 and (len(p.terms) == 1 or not p.terms[1][0]):
            return mono[0]
    return best


def _substitute(st: State, atom: Atom, p: Poly) -> None:
    coeff = dict(p.terms)[(atom,)]
    value = Poly.mono((atom,)) - p.scale(coeff)
    lo, hi = atom_range(st, atom)
    st.subst[atom] = value
    fresh = st.find(atom) is atom and not any(atom is st.find(s) for s in value.syms - {atom})
    simple = fresh and atom.kind == "sym" and nonneg(st, value) and not _used(st, atom)
    if simple:
        st.touch_only(atom)
        st.link([*atom.syms, *value.syms])
    else:
        st.touch([*atom.syms, *value.syms])
    if value.as_const is not None:
        _pinned(st, atom, value)
    if lo is not None:
        assume_ge(st, norm(st, value.plus(-lo)))
    if hi is not None:
        assume_ge(st, norm(st, (-value).plus(hi)))
    if not simple:
        _refresh(st, atom)


def _pinned(st: State, atom: Atom, value: Poly) -> None:
    """Derive bounds from a known value: `min(a, b) == v` bounds both arguments, `x // k == v`
    bounds x.
    """
    if atom.kind in ("min", "max"):
        sign = 1 if atom.kind == "min" else -1
        for arg in atom.args:
            assume_ge(st, norm(st, (arg - value).scale(sign)))
    if atom.kind == "div" and positive(st, norm(st, atom.args[1])):
        num, den = atom.args
        assume_ge(st, norm(st, num - den * value))
        assume_ge(st, norm(st, (den * value + den - num).plus(-1)))


def _used(st: State, atom: Atom) -> bool:
    facts = (*st.rules, *st.ineqs, *st.nes)
    return any(atom in f.mentions for f in facts) or any(atom in c.mentions for c in st.ors)


def _refresh(st: State, atom: Atom) -> None:
    """Normalize again all facts that mention `atom`."""
    syms = atom.syms
    rules = [r for r in st.rules if not syms.isdisjoint(r.syms)]
    ineqs = [f for f in st.ineqs if not syms.isdisjoint(f.syms)]
    nes = [f for f in st.nes if not syms.isdisjoint(f.syms)]
    ors = [c for c in st.ors if not syms.isdisjoint(c.syms)]
    compound = [a for a in (*st.subst, *st.lo, *st.hi) if a.kind not in ("sym", "quo", "opaque")]
    stale = [a for a in dict.fromkeys(compound) if not syms.isdisjoint(a.syms) and a is not atom]
    st.rules = [r for r in st.rules if syms.isdisjoint(r.syms)]
    st.ineqs = [f for f in st.ineqs if syms.isdisjoint(f.syms)]
    st.ors = [c for c in st.ors if syms.isdisjoint(c.syms)]
    for r in rules:
        _solve(st, norm(st, r))
    for f in ineqs:
        assume_ge(st, norm(st, f))
    for f in sorted(nes, key=lambda f: f.sort_key):
        st.nes.discard(f)
        _assume_ne(st, norm(st, f))
    for c in ors:
        _assume_any(st, c)
    for a in stale:
        _restate(st, a)


def _restate(st: State, atom: Atom) -> None:
    """Add the facts about a compound atom again if its normal form has changed."""
    args = tuple(norm_cond(st, a) if isinstance(a, Cond) else norm(st, a) for a in atom.args)
    if args == atom.args:
        return
    now = norm(st, st.terms.poly(atom.kind, *args))
    lo, hi, value = st.lo.get(atom), st.hi.get(atom), st.subst.get(atom)
    if value is not None:
        _solve(st, norm(st, now - value))
    if lo is not None:
        assume_ge(st, now.plus(-lo))
    if hi is not None:
        assume_ge(st, (-now).plus(hi))


def _split_divisor(st: State, p: Poly) -> bool:
    """Solve an equality such as `2*n == 3*m` by an exact quotient: 3 divides n.

    Returns False if no term allows this.
    """
    for mono, coeff in p.terms:
        if len(mono) != 1 or mono[0].kind not in ("sym", "quo"):
            continue
        if sum(1 for m, _ in p.terms if any(mono[0] in a.mentions for a in m)) != 1:
            continue
        others = 0
        for m, c in p.terms:
            if m != mono:
                others = gcd(others, c)
        if others > 1 and gcd(others, coeff) == 1:
            x = Poly.mono(mono)
            st.hit("a*x == k*y, gcd(a, k) == 1: k | x")
            _solve(st, x - quotient(st, x, Poly.const(others)).scale(others))
            return True
    return False


def _add_rule(st: State, p: Poly) -> None:
    """Add `p == 0` as a rewrite rule, and the consequences of its overlaps with other rules."""
    p = reduce(st, p)
    if p.as_const is not None or p in st.rules:
        if p.as_const:
            raise Contradiction
        return
    if p.terms[0][1] < 0:
        p = -p
    st.rules.append(p)
    st.touch(p.syms)
    _factors_of_nonzero(st, p)
    if p not in st.rules:
        return
    budget = COMPLETION
    for other in list(st.rules):
        if other is p or budget <= 0 or st.budget.left <= 0:
            continue
        pair = critical_pair(p, other)
        if pair is not None:
            budget -= 1
            rest = norm(st, pair)
            if rest and len(st.rules) < COMPLETION and len(rest.terms) <= 4:
                _solve(st, rest)


def _factors_of_nonzero(st: State, p: Poly) -> None:
    """Derive from `n*m == k > 0` that each factor is at least 1 and at most k."""
    for mono, coeff in (p.terms[0], p.terms[-1]):
        if len(mono) < 2 or mono_lower(st, mono) is None:
            continue
        rest = Poly.mono(mono, coeff) - p
        if coeff < 0:
            rest = -rest
        if positive(st, rest):
            st.hit("n*m == k > 0: n > 0, m > 0")
            top = upper(st, rest)
            for atom in dict.fromkeys(mono):
                assume_ge(st, norm(st, Poly.mono((atom,)).plus(-1)))
            if top is not None:
                _narrow_factors(st, mono, top // abs(coeff))


def _narrow_factors(st: State, mono: Mono, top: int) -> None:
    """Derive an upper bound of `n` from `n*m <= top` where `m >= c > 0`."""
    for atom in dict.fromkeys(mono):
        others = mono_lower(st, mono_div(mono, (atom,)) or ())
        high = atom_range(st, atom)[1]
        if others and (high is None or top // others < high):
            st.hit("n*m <= k, m >= c > 0: n <= k // c")
            assume_ge(st, norm(st, Poly.mono((atom,), -1).plus(top // others)))


def _assume_ne(st: State, p: Poly) -> None:
    """Add `p != 0`."""
    value = p.as_const
    if value is not None:
        if not value:
            raise Contradiction
        return
    number, mono, rest = p.without_content()
    if mono and not _bare(mono, rest):
        st.hit("n*m != 0: n != 0, m != 0")
        for atom in dict.fromkeys(mono):
            _assume_ne(st, Poly.mono((atom,)))
        if rest.as_const is None:
            _assume_ne(st, norm(st, rest))
        return
    p = p.divided(number)
    if p.constant % p.coefficient_gcd():
        return
    p = -p if p.terms[0][1] < 0 else p
    if p in st.nes:
        return
    st.nes.add(p)
    st.touch(p.syms)
    lo, hi = lower(st, p), upper(st, p)
    if lo == 0:
        assume_ge(st, p.plus(-1))
    if hi == 0:
        assume_ge(st, (-p).plus(-1))
    _saturate(st, p.syms)


def assume_ge(st: State, p: Poly) -> None:
    """Add `p >= 0` for a normal polynomial."""
    if _given_up(st):
        return
    c = cond_ge(p)
    if c.op != "ge":
        if c.op == "false":
            raise Contradiction
        return
    p = c.args[0]
    if nonneg(st, p):
        return
    if nonneg(st, (-p).plus(-1)):
        raise Contradiction
    _, mono, rest = p.without_content()
    if mono and rest.as_const is None and all(positive(st, Poly.mono((a,))) for a in mono):
        assume_ge(st, rest)
        return
    if _distribute(st, p):
        return
    variable = p.plus(-p.constant)
    target = variable.as_atom or (-variable).as_atom
    if target is not None:
        _tighten(st, target, p)
    elif _cap_new_symbol(st, p):
        return
    else:
        st.ineqs.append(p)
        st.touch(p.syms)
        _factors_at_least_one(st, p)
        _propagate(st, p)
    if nonneg(st, -p):
        _solve(st, norm(st, p))


def _cap_new_symbol(st: State, p: Poly) -> bool:
    """Record `n <= e`, given as `p = e - n`, for a symbol `n` without facts.

    Returns False if `p` does not have this form. For every `e >= 0` there is a valid `n`, so the
    fact implies nothing about the symbols of `e` except `e >= 0`. Therefore cached results about
    these symbols remain valid, and searches that do not mention `n` skip the fact.
    """
    for mono, coeff in p.terms:
        if len(mono) == 1 and coeff < 0 and mono[0].kind == "sym":
            atom, rest = mono[0], p - Poly.mono(mono, coeff)
            if atom in rest.mentions or atom in st.lo or atom in st.hi or st.linked(atom):
                continue
            if rest not in st.ineqs:
                st.hit("a + b >= 0, b <= c: a >= -c")
                assume_ge(st, rest)
            st.ineqs.append(p)
            _propagate(st, p, only=atom)
            st.touch_only(atom)
            st.link(p.syms)
            st.caps[p] = atom
            return True
    return False


def _propagate(st: State, p: Poly, only: Atom | None = None) -> None:
    """Derive the range of each symbol from the ranges of the others: `n < m` gives `m >= 1`."""
    for mono, coeff in p.terms:
        if st.budget.left <= 0:
            return
        if only is not None and mono != (only,):
            continue
        if not mono or st.fuel <= 0 or any(a.kind not in ("sym", "quo") for a in mono):
            continue
        rest = upper(st, p - Poly.mono(mono, coeff), 0)
        if rest is None or abs(rest) > HUGE or any(a in st.subst for a in mono):
            continue
        if len(mono) > 1:
            if coeff < 0 and rest >= 0:
                _narrow_factors(st, mono, rest // -coeff)
            continue
        atom = mono[0]
        lo, hi = atom_range(st, atom)
        if coeff > 0 and (lo is None or -(rest // coeff) > lo):
            st.hit("a + b >= 0, b <= c: a >= -c")
            assume_ge(st, Poly.mono(mono).plus(rest // coeff))
        elif coeff < 0 and (hi is None or rest // -coeff < hi):
            st.hit("a + b >= 0, b <= c: a >= -c")
            assume_ge(st, Poly.mono(mono, -1).plus(rest // -coeff))


def _distribute(st: State, p: Poly) -> bool:
    """Split `min(a, b) >= c` into `a >= c` and `b >= c`; `max(a, b) <= c` likewise.

    A sum of k minima has 2**k cases, so an inequality with many of them is not split.
    """
    wide = sum(1 for m, _ in p.terms if len(m) == 1 and m[0].kind in ("min", "max"))
    if wide > DISTRIBUTED or st.budget.left <= 0:
        return False
    for mono, coeff in p.terms:
        if len(mono) == 1 and (mono[0].kind, coeff > 0) in (("min", True), ("max", False)):
            if sum(1 for m, _ in p.terms if mono[0] in m) > 1:
                continue
            st.hit("c <= min(a, b): c <= a, c <= b")
            for arg in choices(mono[0]):
                assume_ge(st, norm(st, p.replace(mono[0], arg)))
            return True
    return False


def _tighten(st: State, atom: Atom, p: Poly) -> None:
    """Record a bound of one atom: `p` is `atom - lo` or `hi - atom`."""
    if dict(p.terms)[(atom,)] > 0:
        st.lo[atom] = max(-p.constant, st.lo.get(atom, -p.constant))
    else:
        st.hi[atom] = min(p.constant, st.hi.get(atom, p.constant))
    st.touch(atom.syms)
    _skip_excluded(st, atom)
    lo, hi = atom_range(st, atom)
    if lo is not None and hi is not None:
        if lo > hi:
            raise Contradiction
        if lo == hi and atom not in st.subst:
            _substitute(st, atom, Poly.mono((atom,)).plus(-lo))
            return
    st.fuel -= 1
    if st.fuel > 0:
        if atom.kind == "div":
            _bound_numerator(st, atom, p)
        _saturate(st, atom.syms)


def _skip_excluded(st: State, atom: Atom) -> None:
    """Combine a bound with exclusions: `n >= 1` and `n != 1` give `n >= 2`."""
    for _ in range(8):
        lo, hi = atom_range(st, atom)
        if lo is not None and Poly.mono((atom,)).plus(-lo) in st.nes:
            st.lo[atom] = lo + 1
        elif hi is not None and Poly.mono((atom,)).plus(-hi) in st.nes:
            st.hi[atom] = hi - 1
        else:
            return


def _bound_numerator(st: State, atom: Atom, p: Poly) -> None:
    """Derive `x >= k*c` from `x // k >= c`, and `x <= k*c + k - 1` from `x // k <= c`."""
    num, den = atom.args
    if not positive(st, den):
        return
    st.hit("x // k >= c: x >= k*c")
    if dict(p.terms)[(atom,)] > 0:
        assume_ge(st, norm(st, num - den.scale(st.lo[atom])))
    else:
        assume_ge(st, norm(st, den.scale(st.hi[atom] + 1).plus(-1) - num))


def _factors_at_least_one(st: State, p: Poly) -> None:
    """Derive from `n*m >= 1` that both factors are at least 1."""
    if len(p.terms) == 2 and p.constant < 0 and p.terms[0][1] > 0:
        mono = p.terms[0][0]
        if mono_lower(st, mono) is not None:
            st.hit("n*m >= 1: n >= 1, m >= 1")
            for atom in dict.fromkeys(mono):
                assume_ge(st, norm(st, Poly.mono((atom,)).plus(-1)))


def _saturate(st: State, syms: frozenset[Atom]) -> None:
    """Use what is now known about ``syms`` in the facts that mention them.

    Factors that are nonzero are cancelled, disjunctions are normalized, and ranges are propagated.
    """
    st.steps += 1
    if st.budget.left <= 0:
        return
    for rule in list(st.rules):
        if rule in st.rules and not syms.isdisjoint(rule.syms):
            _, mono, rest = rule.without_content()
            loose = any(nonzero(st, Poly.mono((a,))) for a in mono)
            if loose or (mono and rest.as_const is None and nonzero(st, rest)):
                st.rules.remove(rule)
                _solve(st, norm(st, rule))
            else:
                _factors_of_nonzero(st, rule)
    for c in list(st.ors):
        if c in st.ors and not syms.isdisjoint(c.syms):
            now = norm_cond(st, c)
            if now != c:
                st.ors.remove(c)
                _assume_any(st, now if now.op == "or" else cond_any(now))
    for f in list(st.ineqs):
        if f in st.ineqs and not syms.isdisjoint(f.syms):
            _, mono, rest = f.without_content()
            if mono and rest.as_const is None and mono_positive(st, mono):
                st.ineqs.remove(f)
                assume_ge(st, norm(st, rest))
            else:
                _propagate(st, f)


def mono_positive(st: State, mono: Mono) -> bool:
    """Return whether a product of atoms is known to be at least 1."""
    low = mono_lower(st, mono)
    return low is not None and low >= 1


__all__ = ["assume", "assume_ge", "mono_mul", "mono_positive", "quotient", "quotient_pattern"]
