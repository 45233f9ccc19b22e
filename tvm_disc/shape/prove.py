"""Decide conditions: each row of `PROOF_LAWS` returns True, False or None (unknown)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .assume import assume
from .bounds import choices, mono_lower, nonneg
from .laws import nonzero
from .normal import norm, norm_cond
from .state import Contradiction, State
from .terms import TRUE, Atom, Cond, Poly, cond_all, cond_eq, cond_ge, cond_not, mono_div

MAX_SPLITS = 2
"""Maximum nesting of hypotheses."""
BUDGET = 16
"""Maximum number of hypotheses per query."""
MAX_RESIDUE = 8
"""Largest divisor whose remainders are enumerated."""


@dataclass(frozen=True)
class ProofLaw:
    """A proof law: `name` states it, `decide` takes a normal condition."""

    name: str
    decide: Callable[[State, Cond], bool | None]


def prove(st: State, c: Cond) -> bool | None:
    """Return True if a condition holds for all values that the facts allow, False if for none.

    None means unknown.
    """
    if c.op in ("true", "false"):
        return c.op == "true"
    key = (c, st.depth)
    found = st.proof_cache.get(key)
    if found is not None and found[0] >= st.stamp(c.syms):
        return found[1]
    if st.budget.left <= 0:
        return None
    st.steps += 1
    if not st.depth and not st.splits[0]:
        st.splits[0] = BUDGET
        answer = _prove(st, c)
        st.splits[0] = 0
    else:
        answer = _prove(st, c)
    # "Unknown" due to an exhausted budget is cached only for the outermost query, which costs the
    # whole budget.
    if st.budget.left > 0 or answer is not None or (not st.depth and st.budget.outermost):
        st.proof_cache[key] = (st.epoch, answer)
    return answer


def _prove(st: State, c: Cond) -> bool | None:
    n = norm_cond(st, c)
    if n.op in ("true", "false"):
        st.hit("equal by normal form" if n == TRUE and c.op == "eq" else "decided by ranges")
        return n.op == "true"
    if st.witnesses.undecided(n):
        return None
    answer = _by(DIRECT_LAWS, st, n)
    if answer is None and not st.witnesses.search(n):
        answer = _by(CASE_LAWS, st, n)
    return answer


def _by(laws: tuple[ProofLaw, ...], st: State, c: Cond) -> bool | None:
    """Return the answer of the first law that decides the condition; None if no law does."""
    for law in laws:
        answer = law.decide(st, c)
        if answer is not None:
            st.hit(law.name)
            return answer
    return None


def _eq_poly(c: Cond) -> Poly | None:
    p: Poly | None = c.args[0] if c.op in ("eq", "ne") else None
    return p


def _answer(c: Cond, equal: bool | None) -> bool | None:
    return None if equal is None else equal == (c.op == "eq")


def _factors(st: State, c: Cond) -> bool | None:
    p = _eq_poly(c)
    if p is None:
        return None
    _, mono, rest = p.without_content()
    if not mono:
        return None
    if nonzero(st, p):
        return _answer(c, False)
    return _answer(c, True) if prove(st, cond_eq(rest)) else None


def _squeezed(st: State, c: Cond) -> bool | None:
    p = _eq_poly(c)
    return _answer(c, True) if p is not None and nonneg(st, p) and nonneg(st, -p) else None


def _scaled(st: State, c: Cond) -> bool | None:
    """Decide `p >= 0` by `k*p > -k` for a symbolic divisor `k` in `p`; None if undecided."""
    if c.op != "ge":
        return None
    p = c.args[0]
    for atom in p.atoms():
        if atom.kind == "div" and atom.args[1].as_const is None:
            k = atom.args[1]
            if lower_is(st, k.plus(-1)):
                for sign, answer in ((p, True), ((-p).plus(-1), False)):
                    if nonneg(st, norm(st, (k * sign + k).plus(-1))):
                        return answer
    return None


def _undivided(st: State, c: Cond) -> bool | None:
    """Decide an inequality with a division by a constant by multiplying it out; None if
    undecided.
    """
    if c.op != "ge":
        return None
    p: Poly = c.args[0]
    for mono, coeff in p.terms:
        if len(mono) != 1 or abs(coeff) != 1 or mono[0].kind != "div":
            continue
        num, den = mono[0].args
        k = den.as_const
        if k is None or k < 2:
            continue
        rest = (p - Poly.mono(mono, coeff)).scale(k)
        return prove(st, cond_ge(rest + num if coeff == 1 else (rest - num).plus(k - 1)))
    return None


def _square(st: State, c: Cond) -> bool | None:
    """Return True if `p >= 0` follows from `p - x*(a - q*b)**2 >= 0`, for a square `a*a` in `p`;
    otherwise None.
    """
    if c.op != "ge":
        return None
    p: Poly = c.args[0]
    squares = {m[0]: x for m, x in p.terms if len(m) == 2 and m[0] is m[1] and x > 0}
    for mono, coeff in p.terms:
        for a in dict.fromkeys(mono):
            x = squares.get(a, 0)
            b = mono_div(mono, (a,))
            if coeff >= 0 or not x or b is None:
                continue
            q = (x - coeff) // (2 * x)
            root = Poly.mono((a,)) - Poly.mono(b, q)
            if lower_is(st, p - (root * root).scale(x)):
                return True
    return None


def lower_is(st: State, p: Poly) -> bool:
    """Return whether a polynomial in any form is known to be at least 0."""
    return nonneg(st, norm(st, p))


def _zero_or(st: State, c: Cond) -> bool | None:
    """Return True if `m*r >= 0` or `m*r == 0` follows from the same for `r`; otherwise None.

    A factor of `m >= 0` that is 0 makes the product 0, so `r` is decided under `m >= 1`.
    """
    if c.op not in ("ge", "eq") or st.depth >= MAX_SPLITS:
        return None
    _, mono, rest = c.args[0].without_content()
    if not mono or rest.as_const is not None or mono_lower(st, mono) is None:
        return None
    alive = [cond_ge(Poly.mono((a,)).plus(-1)) for a in dict.fromkeys(mono)]
    inner = cond_ge(rest) if c.op == "ge" else cond_eq(rest)
    answer = _under(st, cond_all(*alive), inner, vacuous=True)
    return True if answer in ("yes", "impossible") else None


def _all(st: State, c: Cond) -> bool | None:
    if c.op != "and":
        return None
    answers = [prove(st, x) for x in c.args]
    if False in answers:
        return False
    return True if all(answers) else None


def _recorded(st: State, c: Cond) -> bool | None:
    """Return True for a disjunction that is itself a fact, such as an earlier guard; otherwise
    None.
    """
    return True if c.op == "or" and c in st.ors else None


def _any(st: State, c: Cond) -> bool | None:
    if c.op != "or":
        return None
    answers = [prove(st, x) for x in c.args]
    if True in answers:
        return True
    if all(a is False for a in answers):
        return False
    if st.depth >= MAX_SPLITS:
        return None
    negated = [cond_not(x) for x in c.args]
    for i, part in enumerate(c.args):
        if _under(st, cond_all(*negated[:i], *negated[i + 1 :]), part):
            return True
    return None


def _cases(st: State, c: Cond) -> bool | None:
    """Decide by the cases of a minimum, maximum or selection; None if undecided."""
    if st.depth >= MAX_SPLITS:
        return None
    for atom in _split_atoms(c):
        if atom.kind == "sel":
            return _each(st, c, [atom.args[0], cond_not(atom.args[0])])
        args = choices(atom)
        sign = 1 if atom.kind == "min" else -1
        cases = [
            cond_all(*(cond_ge((b - a).scale(sign)) for b in args if b is not a)) for a in args
        ]
        return _each(st, c, cases)
    return None


def _split_atoms(c: Cond) -> list[Atom]:
    atoms = {a for a in c.mentions if choices(a)}
    return sorted(atoms, key=lambda a: (len(a.mentions), a.uid))


def _alternatives(st: State, c: Cond) -> bool | None:
    """Decide a condition by a known disjunction that shares a symbol with it.

    Returns the answer if it is the same under each disjunct, else None.
    """
    if st.depth >= MAX_SPLITS:
        return None
    for fact in st.ors:
        if not fact.syms.isdisjoint(c.syms):
            answer = _each(st, c, list(fact.args))
            if answer is not None:
                return answer
    return None


def _residues(st: State, c: Cond) -> bool | None:
    """Decide by all remainders of a symbol modulo a small divisor; None if undecided."""
    if st.depth >= 1:
        return None
    for atom in sorted(c.mentions):
        if atom.kind != "div":
            continue
        num, den = atom.args
        k = den.as_const
        if k is None or not 2 <= k <= MAX_RESIDUE:
            continue
        symbol = next((m[0] for m, x in num.terms if len(m) == 1 and abs(x) == 1), None)
        symbol = symbol or next((m[0] for m, _ in num.terms if m and m[0].kind == "sym"), None)
        if symbol is None:
            continue
        x = Poly.mono((symbol,))
        cases = []
        for r in range(k):
            shifted = x.plus(-r)
            q = st.terms.poly("div", shifted, den)
            cases.append(cond_eq(shifted - q.scale(k)))
        answer = _each(st, c, cases)
        if answer is not None:
            return answer
    return None


def _each(st: State, c: Cond, cases: list[Cond]) -> bool | None:
    """Return the answer if it is the same in all possible cases, else None."""
    answers = []
    for case in cases:
        answer = _under(st, case, c, vacuous=True)
        if answer is None:
            return None
        answers.append(answer)
    kinds = {a for a in answers if a != "impossible"}
    if len(kinds) == 1:
        return kinds == {"yes"}
    return None


def _under(st: State, hypothesis: Cond, c: Cond, vacuous: bool = False) -> str | bool | None:
    """Return the answer under a hypothesis.

    With `vacuous` it is 'yes', 'no', 'impossible' or None; otherwise True, False or None, where a
    contradictory hypothesis gives True.
    """
    if st.splits[0] <= 1 or st.budget.left <= 0:
        return None
    st.splits[0] -= 1
    child = st.copy()
    try:
        assume(child, hypothesis)
    except Contradiction:
        return "impossible" if vacuous else True
    answer = prove(child, c)
    st.steps += child.steps
    if not vacuous:
        return answer
    return None if answer is None else "yes" if answer else "no"


DIRECT_LAWS = (
    ProofLaw("n*p == 0 where n == 0 or p == 0", _factors),
    ProofLaw("p >= 0 and p <= 0: p == 0", _squeezed),
    ProofLaw("k > 0, k*p > -k: p >= 0", _scaled),
    ProofLaw("x + k*p >= 0: x // k + p >= 0", _undivided),
    ProofLaw("p - (a - q*b)**2 >= 0: p >= 0", _square),
    ProofLaw("each of a conjunction", _all),
    ProofLaw("a disjunction known to hold", _recorded),
)
CASE_LAWS = (
    ProofLaw("n == 0 or p >= 0: n*p >= 0", _zero_or),
    ProofLaw("one of a disjunction", _any),
    ProofLaw("cases of min, max and choice", _cases),
    ProofLaw("cases of a disjunction known to hold", _alternatives),
    ProofLaw("all remainders of x by k", _residues),
)
PROOF_LAWS = DIRECT_LAWS + CASE_LAWS
"""Laws that use hypotheses come last, because each hypothesis copies the state."""


def prove_divides(st: State, k: Poly, e: Poly) -> bool | None:
    """Return whether `e == k*q` for some integer q; None if unknown."""
    k, e = norm(st, k), norm(st, e)
    if not e:
        return True
    if not k:
        return prove(st, cond_eq(e))
    _, rest = e.divmod_poly(k)
    if not rest:
        st.hit("k | k*a")
        return True
    if not nonzero(st, k):
        return None
    atom = rest.as_atom
    if atom is not None and atom.kind == "sym" and not any(atom in f.syms for f in st.ors):
        # If k were known to divide the symbol, the normal form would have replaced it by `k*q`.
        return None
    return prove(st, cond_eq(rest - k * st.terms.poly("div", rest, k)))


__all__ = ["PROOF_LAWS", "ProofLaw", "prove", "prove_divides"]
