"""Laws that bring divisions, minima, maxima and selections to normal form.

A law is a row: its name, and a function from the arguments to an equal polynomial, or None if
the law does not apply. The first row that applies is used, and its result is normalized again. The
name is printed by `Solver.why` and enumerated by tests. `x // 0` has no value: every law about
division first proves its requirements on the divisor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd, isqrt

from .bounds import lower, mono_lower, nonneg, positive, upper
from .state import State
from .terms import Atom, Cond, Mono, Poly, cond_not, mono_div, mono_gcd


@dataclass(frozen=True)
class Law:
    """A law: `name` states it, `apply` returns the right-hand side or None."""

    name: str
    apply: Callable[..., Poly | None]


def _div(st: State, num: Poly, den: Poly) -> Poly:
    return st.terms.poly("div", num, den)


def nonzero(st: State, p: Poly) -> bool:
    """Return whether `p != 0` is known, by sign, exclusion, remainder or factors."""
    value = p.as_const
    if value is not None:
        return value != 0
    if st.budget.left > 0 and st.witnesses.zero(p):
        return False
    _, mono, rest = p.without_content()
    bare = len(mono) == 1 and rest.as_const is not None
    if mono and not bare and all(nonzero(st, Poly.mono((a,))) for a in dict.fromkeys(mono)):
        st.hit("n != 0, m != 0: n*m != 0")
        return rest.as_const is not None or nonzero(st, rest)
    if p.constant % p.coefficient_gcd():
        st.hit("k | p - c, k does not divide c: p != 0")
        return True
    lo, hi = lower(st, p), upper(st, p)
    if (lo is not None and lo > 0) or (hi is not None and hi < 0):
        st.hit("p > 0 or p < 0: p != 0")
        return True
    if excluded(st, p):
        st.hit("p != 0 is a fact")
        return True
    return False


def excluded(st: State, p: Poly) -> bool:
    """Return whether a fact states `p != 0`."""
    if not st.nes:
        return False
    number = p.content()[0]
    p = p.divided(number)
    return (-p if p.terms[0][1] < 0 else p) in st.nes


def equal_squares(st: State, p: Poly) -> Poly | None:
    """Return `x - y` if `p` is `x*x - y*y` with `x, y >= 0`, else None.

    `p` is 0 if and only if `x - y` is 0.
    """
    if len(p.terms) != 2:
        return None
    (m1, c1), (m2, c2) = p.terms
    x, y = _root(st, m1, abs(c1)), _root(st, m2, abs(c2))
    if x is None or y is None or c1 * c2 > 0:
        return None
    st.hit("n*n == m*m: n == m")
    return x - y


def _root(st: State, mono: Mono, coeff: int) -> Poly | None:
    """Return `r >= 0` with `r*r == coeff*mono`, or None."""
    number, half = isqrt(coeff), mono[::2]
    if number * number != coeff or half != mono[1::2] or mono_lower(st, half) is None:
        return None
    return Poly.mono(half, number)


# -- floor division


def _div_constants(st: State, num: Poly, den: Poly) -> Poly | None:
    a, b = num.as_const, den.as_const
    return Poly.const(a // b) if a is not None and b else None


def _div_by_one(st: State, num: Poly, den: Poly) -> Poly | None:
    return num if den.as_const == 1 else None


def _div_negative(st: State, num: Poly, den: Poly) -> Poly | None:
    k = den.as_const
    return _div(st, -num, -den) if k is not None and k < 0 else None


def _div_zero_numerator(st: State, num: Poly, den: Poly) -> Poly | None:
    return num if not num and nonzero(st, den) else None


def _div_whole_part(st: State, num: Poly, den: Poly) -> Poly | None:
    k = den.as_const
    if k is not None:
        return _div_whole_constant(st, num, den, k) if k > 1 else None
    if not den or len(den.terms) > len(num.terms) + 1:
        return None
    whole, rest = num.divmod_poly(den)
    if not whole or not nonzero(st, den):
        return None
    return whole + _div(st, rest, den) if rest else whole


def _div_whole_constant(st: State, num: Poly, den: Poly, k: int) -> Poly | None:
    """Return the quotient with coefficients of ``num`` reduced to (-k/2, k/2] and the constant to
    [0, k); None if nothing changes.
    """
    whole: dict[Mono, int] = {}
    for mono, coeff in num.terms:
        rest = coeff % k
        if mono and 2 * rest > k:
            rest -= k
        if rest != coeff:
            whole[mono] = (coeff - rest) // k
    if not whole:
        return None
    taken = Poly.of(whole)
    return taken + _div(st, num - taken.scale(k), den)


def _div_common_factor(st: State, num: Poly, den: Poly) -> Poly | None:
    k = den.as_const
    if k is not None:
        number = gcd(num.coefficient_gcd(), k)
        if number <= 1:
            return None
        rest = num.constant
        inner = num.plus(-rest).divided(number).plus(rest // number)
        return _div(st, inner, Poly.const(k // number))
    num_k, num_m = num.content()
    den_k, den_m = den.content()
    common, number = mono_gcd(num_m, den_m), gcd(num_k, den_k)
    if common and not positive(st, Poly.mono(common)):
        common = ()
    if number == 1 and not common:
        return None
    return _div(st, _cancel(num, number, common), _cancel(den, number, common))


def _cancel(p: Poly, number: int, common: Mono) -> Poly:
    out = {}
    for mono, coeff in p.terms:
        rest = mono_div(mono, common)
        assert rest is not None
        out[rest] = coeff // number
    return Poly.of(out)


def _div_nested(st: State, num: Poly, den: Poly) -> Poly | None:
    for mono, coeff in num.terms:
        if coeff == 1 and len(mono) == 1 and mono[0].kind == "div":
            inner, k = mono[0].args
            if positive(st, den) and positive(st, k):
                rest = num - Poly.mono(mono)
                return _div(st, k * rest + inner, k * den)
    return None


def _div_ceiling(st: State, num: Poly, den: Poly) -> Poly | None:
    if not num.terms or num.terms[0][1] > 0 or not num.terms[0][0] or not positive(st, den):
        return None
    k = den.as_const
    if k is not None and k == 2:
        return None
    return -_div(st, (den - num).plus(-1), den)


def _div_in_range(st: State, num: Poly, den: Poly) -> Poly | None:
    if not positive(st, den):
        return None
    if st.budget.left > 0 and st.witnesses.vary(_div(st, num, den)):
        return None
    lo, hi = lower(st, num), upper(st, num)
    k = den.as_const
    if k is not None:
        if lo is None or hi is None or lo // k != hi // k:
            return None
        return Poly.const(lo // k)
    if lo is not None and lo >= 0 and nonneg(st, (den - num).plus(-1)):
        return Poly.const(0)
    if hi is not None and hi < 0 and nonneg(st, num + den):
        return Poly.const(-1)
    return None


DIV_LAWS = (
    Law("constants divide", _div_constants),
    Law("x // 1 -> x", _div_by_one),
    Law("x // -k -> -x // k", _div_negative),
    Law("0 // k -> 0", _div_zero_numerator),
    Law("(k*a + b) // k -> a + b // k", _div_whole_part),
    Law("(g*a + c) // (g*k) -> (a + c // g) // k", _div_common_factor),
    Law("(a + b // k) // l -> (k*a + b) // (k*l)", _div_nested),
    Law("-a // k -> -((a + k - 1) // k)", _div_ceiling),
    Law("c*k <= x < (c + 1)*k: x // k -> c", _div_in_range),
)


def _tdiv_is_floor(st: State, num: Poly, den: Poly) -> Poly | None:
    return _div(st, num, den) if nonneg(st, num) and positive(st, den) else None


TDIV_LAWS = (Law("0 <= a, 0 < k: truncdiv(a, k) -> a // k", _tdiv_is_floor),)


# -- minimum and maximum


def _flatten(st: State, kind: str, args: Sequence[Poly]) -> Poly | None:
    if not any((a := p.as_atom) is not None and a.kind == kind for p in args):
        return None
    flat: list[Poly] = []
    for p in args:
        atom = p.as_atom
        flat.extend(atom.args if atom is not None and atom.kind == kind else (p,))
    return make_minmax(st, kind, flat)


def make_minmax(st: State, kind: str, args: Sequence[Poly]) -> Poly:
    """Return the `min` or `max` of the arguments, which are sorted, each once."""
    distinct = sorted(set(args), key=lambda p: p.sort_key)
    return distinct[0] if len(distinct) == 1 else st.terms.poly(kind, *distinct)


def _dominated(st: State, kind: str, args: Sequence[Poly]) -> Poly | None:
    for i, a in enumerate(args):
        for j, b in enumerate(args):
            gap = a - b if kind == "min" else b - a
            if i != j and nonneg(st, gap):
                return make_minmax(st, kind, [p for p in args if p is not a])
    return None


def _common_part(args: Sequence[Poly]) -> Poly:
    """Return a polynomial with the least coefficient of each monomial among the arguments."""
    tables = [dict(p.terms) for p in args]
    monos = dict.fromkeys(m for t in tables for m in t)
    return Poly.of({m: min(t.get(m, 0) for t in tables) for m in monos})


def _common_term(st: State, kind: str, args: Sequence[Poly]) -> Poly | None:
    base = _common_part(args)
    if not base:
        return None
    return base + make_minmax(st, kind, [p - base for p in args])


def _common_multiple(st: State, args: Sequence[Poly]) -> tuple[int, Mono]:
    number, mono = 0, None
    for p in args:
        if p:
            k, m = p.content()
            number = gcd(number, k)
            mono = m if mono is None else mono_gcd(mono, m)
    return number, mono or ()


def _common_scale(st: State, kind: str, args: Sequence[Poly]) -> Poly | None:
    number, mono = _common_multiple(st, args)
    if mono and not nonneg(st, Poly.mono(mono)):
        mono = ()
    if number <= 1 and not mono:
        return None
    inner = make_minmax(st, kind, [_cancel(p, number, mono) for p in args])
    return inner * Poly.mono(mono, number)


MINMAX_LAWS = (
    Law("min(a, min(b, c)) -> min(a, b, c)", _flatten),
    Law("a <= b: min(a, b) -> a, max(a, b) -> b", _dominated),
    Law("min(a + c, b + c) -> min(a, b) + c", _common_term),
    Law("0 <= c: min(c*a, c*b) -> c*min(a, b)", _common_scale),
)


# -- selection: `sel(cond, a, b)`


def make_sel(st: State, cond: Cond, a: Poly, b: Poly) -> Poly:
    """Return the selection of `a` if `cond` holds, else `b`."""
    return st.terms.poly("sel", cond, a, b)


def _sel_decided(st: State, cond: Cond, a: Poly, b: Poly) -> Poly | None:
    return {"true": a, "false": b}.get(cond.op)


def _sel_same(st: State, cond: Cond, a: Poly, b: Poly) -> Poly | None:
    return a if a == b else None


def _sel_agrees(st: State, cond: Cond, a: Poly, b: Poly) -> Poly | None:
    if cond.op == "eq" and not (a - b).divmod_poly(cond.args[0])[1]:
        return b
    return None


def _sel_polarity(st: State, cond: Cond, a: Poly, b: Poly) -> Poly | None:
    swap = cond.op == "ne" or (cond.op == "ge" and cond.args[0].terms[0][1] < 0)
    return make_sel(st, cond_not(cond), b, a) if swap else None


def _sel_minmax(st: State, cond: Cond, a: Poly, b: Poly) -> Poly | None:
    if cond.op != "ge":
        return None
    gap: Poly = cond.args[0]  # gap >= 0
    for shift in (0, 1):
        if b - a == gap.plus(shift):
            return make_minmax(st, "min", [a, b])
        if a - b == gap.plus(shift):
            return make_minmax(st, "max", [a, b])
    return None


def _sel_common(st: State, cond: Cond, a: Poly, b: Poly) -> Poly | None:
    base = _common_part([a, b])
    if any(_partial(x) for x in base.mentions):
        # `n == 0 ? 0 : x // n` must not evaluate `x // n` outside of the selection.
        base = Poly.of({m: c for m, c in base.terms if not any(map(_partial, _inside(m)))})
    return base + make_sel(st, cond, a - base, b - base) if base else None


def _partial(atom: Atom) -> bool:
    return atom.kind in ("div", "tdiv") and atom.args[1].as_const is None


def _inside(mono: Mono) -> frozenset[Atom]:
    return Poly.mono(mono).mentions


SEL_LAWS: tuple[Law, ...] = (
    Law("a decided condition chooses", _sel_decided),
    Law("c ? a : a -> a", _sel_same),
    Law("d | a - b: d == 0 ? a : b -> b", _sel_agrees),
    Law("c ? a : b -> !c ? b : a", _sel_polarity),
    Law("a <= b ? a : b -> min(a, b)", _sel_minmax),
    Law("c ? a + d : b + d -> (c ? a : b) + d", _sel_common),
)


_LAWS_OF = {
    "div": DIV_LAWS, "tdiv": TDIV_LAWS, "min": MINMAX_LAWS, "max": MINMAX_LAWS, "sel": SEL_LAWS,
}  # fmt: skip


def apply_laws(st: State, kind: str, args: tuple[object, ...]) -> Poly | None:
    """Return the result of the first law that applies, or None for a normal atom."""
    if kind in ("min", "max"):
        args = (kind, args)
    table: tuple[Law, ...] = _LAWS_OF[kind]
    for law in table:
        result = law.apply(st, *args)
        if result is not None:
            st.hit(law.name)
            return result
    return None


COND_LAWS = (
    "equal by normal form",
    "decided by ranges",
    "the lower bound of p is at least 0: p >= 0",
    "n != 0, m != 0: n*m != 0",
    "k | p - c, k does not divide c: p != 0",
    "p > 0 or p < 0: p != 0",
    "p != 0 is a fact",
    "k | k*a",
)
"""Laws by which the normal form decides a condition."""

FACT_LAWS = (
    "k | e: e -> k*(e // k)",
    "n*a == n*b, n != 0: a == b",
    "a*x == k*y, gcd(a, k) == 1: k | x",
    "h*d == k: b*h*d -> b*k",
    "n*m == k > 0: n > 0, m > 0",
    "n*m <= k, m >= c > 0: n <= k // c",
    "n*n == m*m: n == m",
    "n*m >= 1: n >= 1, m >= 1",
    "n*m != 0: n != 0, m != 0",
    "c <= min(a, b): c <= a, c <= b",
    "x // k >= c: x >= k*c",
    "a + b >= 0, b <= c: a >= -c",
)
"""Laws that derive further facts from a fact."""
