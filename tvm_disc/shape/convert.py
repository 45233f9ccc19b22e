"""Conversion between TVM expressions and canonical terms, independent of facts.

Each TVM expression is read once: results are cached by the identity of the object, which the
cache keeps alive. A polynomial is always written as the same object, so that equal dims from
`Solver.simplify` are pointer-equal.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tvm import tirx

from tvm_disc.typing import Expr

from .chains import joined
from .terms import (
    FALSE,
    TRUE,
    ZERO,
    Atom,
    Cond,
    Mono,
    Poly,
    Terms,
    cond_all,
    cond_any,
    cond_eq,
    cond_ge,
    cond_not,
    mono_div,
    mono_mul,
)

_COMPARE: dict[str, Callable[[Poly, Poly], Cond]] = {
    "EQ": lambda a, b: cond_eq(a - b),
    "NE": lambda a, b: cond_not(cond_eq(a - b)),
    "LE": lambda a, b: cond_ge(b - a),
    "LT": lambda a, b: cond_ge((b - a).plus(-1)),
    "GE": lambda a, b: cond_ge(a - b),
    "GT": lambda a, b: cond_ge((a - b).plus(-1)),
}


class Converter:
    """Reads and writes expressions for one solver."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.vars: dict[Atom, Expr] = {}
        self._sym: dict[int, Poly] = {}
        self._read: dict[int, tuple[object, Poly]] = {}
        self._read_cond: dict[int, tuple[object, Cond]] = {}
        self._written: dict[Poly, Expr] = {}
        self._atoms_written: dict[Atom, Expr] = {}
        # quotient atom -> its definition `(e, k)`: e == k * atom
        self.quotients: dict[Atom, tuple[Poly, Poly]] = {}

    # -- reading

    def poly(self, e: Expr) -> Poly:
        """Return the polynomial of an integer expression, Python integer or polynomial."""
        if isinstance(e, int):
            return Poly.const(int(e))
        if isinstance(e, Poly):
            return e
        key = _address(e)
        found = self._read.get(key)
        if found is None:
            found = self._read[key] = (e, self._poly(e))
        return found[1]

    def cond(self, e: Any) -> Cond:
        """Return the canonical condition of a boolean expression."""
        if isinstance(e, bool):
            return TRUE if e else FALSE
        if isinstance(e, Cond):
            return e
        if hasattr(e, "asobject"):  # `a == b` of TVM's Python operators is deferred
            e = e.asobject()
        key = _address(e)
        found = self._read_cond.get(key)
        if found is None:
            found = self._read_cond[key] = (e, self._cond(e))
        return found[1]

    def _poly(self, e: Expr) -> Poly:
        kind = type(e).__name__
        if hasattr(e, "ty") and str(e.ty.dtype).startswith("float"):
            return self._opaque(e)
        if kind.endswith("Var") and hasattr(e, "name"):
            return self.symbol(e)
        if kind == "IntImm":
            return Poly.const(int(e.value))
        if kind in ("Add", "Sub"):
            return self._sum(e)
        if kind == "Mul":
            return self.poly(e.a) * self.poly(e.b)
        if kind in ("FloorDiv", "FloorMod", "Div", "Mod"):
            a, b = self.poly(e.a), self.poly(e.b)
            q = self.terms.poly("div" if kind.startswith("Floor") else "tdiv", a, b)
            return q if kind.endswith("Div") else a - b * q
        if kind in ("Min", "Max"):
            args = sorted({self.poly(e.a), self.poly(e.b)}, key=lambda p: p.sort_key)
            return args[0] if len(args) == 1 else self.terms.poly(kind.lower(), *args)
        if kind == "Select":
            return self._choice(e.condition, e.true_value, e.false_value)
        if kind == "Cast":
            return self._cast(e)
        if kind == "Call":
            return self._call(e)
        if kind in ("LShift", "RShift"):
            return self._shift(e, e.a, e.b, left=kind == "LShift")
        if kind in ("LT", "LE", "GT", "GE", "EQ", "NE", "And", "Or", "Not"):
            return self._choice(e, 1, 0)
        if hasattr(e, "asobject"):
            return self._choice(e.asobject(), 1, 0)
        return self._opaque(e)

    def _sum(self, e: Expr) -> Poly:
        """Return a sum, without recursion along its left side, which may be very deep."""
        terms = []
        while type(e).__name__ in ("Add", "Sub"):
            terms.append((type(e).__name__, e.b))
            e = e.a
        found = self.poly(e)
        for kind, term in reversed(terms):
            found = found + self.poly(term) if kind == "Add" else found - self.poly(term)
        return found

    def symbol(self, var: Expr) -> Poly:
        """Return the polynomial of a variable."""
        key = _address(var)
        found = self._sym.get(key)
        if found is None:
            atom = self.terms.atom("sym", len(self.vars))
            self.vars[atom] = var
            found = self._sym[key] = Poly.mono((atom,))
        return found

    def _choice(self, cond: Expr, a: Any, b: Any) -> Poly:
        return self.terms.poly("sel", self.cond(cond), self.poly(a), self.poly(b))

    def _cast(self, e: Expr) -> Poly:
        source = str(e.value.ty.dtype)
        if source == "bool":
            return self._choice(e.value, 1, 0)
        if source.startswith(("int", "uint")) and str(e.ty.dtype) in ("int32", "int64"):
            return self.poly(e.value)
        return self._opaque(e)

    def _call(self, e: Expr) -> Poly:
        name = str(getattr(e.op, "name", "")).rsplit(".", 1)[-1]
        if name == "if_then_else":
            return self._choice(*e.args)
        if name == "likely":
            return self.poly(e.args[0])
        if name in ("shift_left", "shift_right"):
            return self._shift(e, e.args[0], e.args[1], left=name == "shift_left")
        return self._opaque(e)

    def _shift(self, e: Expr, value: Expr, by: Expr, left: bool) -> Poly:
        k = self.poly(by).as_const
        if k is None or not 0 <= k < 62:
            return self._opaque(e)
        a = self.poly(value)
        return a.scale(1 << k) if left else self.terms.poly("div", a, Poly.const(1 << k))

    def _opaque(self, e: Expr) -> Poly:
        """Return an opaque atom for an expression, with the symbols that it reads."""
        read = [self.symbol(v) for v in tirx.analysis.undefined_vars(e)]
        atom = self.terms.atom("opaque", str(e), _address(e), *read)
        boolean = str(e.ty.dtype) == "bool"
        self._atoms_written[atom] = tirx.Cast("int64", e) if boolean else e
        return Poly.mono((atom,))

    def _cond(self, e: Expr) -> Cond:
        kind = type(e).__name__
        if kind in _COMPARE and str(e.a.ty.dtype).startswith("float"):
            return cond_not(cond_eq(self._opaque(e)))
        if kind in _COMPARE:
            return _COMPARE[kind](self.poly(e.a), self.poly(e.b))
        if kind in ("And", "Or"):
            return (cond_all if kind == "And" else cond_any)(self.cond(e.a), self.cond(e.b))
        if kind == "Not":
            return cond_not(self.cond(e.a))
        if kind == "IntImm":
            return TRUE if int(e.value) else FALSE
        if kind == "Call" and str(getattr(e.op, "name", "")).endswith("likely"):
            return self.cond(e.args[0])
        return cond_not(cond_eq(self._opaque(e)))

    # -- writing

    def expr(self, p: Poly) -> Expr:
        """Return the int64 expression of a polynomial, the same object each time."""
        found = self._written.get(p)
        if found is None:
            found = self._written[p] = self._expr(p)
        return found

    def _expr(self, p: Poly) -> Expr:
        p = self._without_quotients(self._as_remainders(p))
        plus = [t for t in reversed(p.terms) if t[0] and t[1] > 0]
        minus = [t for t in reversed(p.terms) if t[0] and t[1] < 0]
        constant = p.constant
        if not plus:
            total, constant = _int(constant), 0
        else:
            total = joined([self._term(mono, coeff) for mono, coeff in plus], operator.add)
        for mono, coeff in minus:
            total = total - self._term(mono, -coeff)
        if constant:
            total = total + _int(constant) if constant > 0 else total - _int(-constant)
        return total

    def _term(self, mono: Mono, coeff: int) -> Expr:
        out = None
        for atom in reversed(mono):
            factor = self.atom_expr(atom)
            out = factor if out is None else out * factor
        if out is None:
            return _int(coeff)
        return out if coeff == 1 else out * _int(coeff)

    def _as_remainders(self, p: Poly) -> Poly:
        """Replace `x - k*(x // k)` by a remainder where this shortens the sum."""
        for atom in p.atoms():
            if atom.kind != "div":
                continue
            num, den = atom.args
            q = Poly.mono((atom,))
            coeff = dict((den * q).terms)
            for mono, c in p.terms:
                if c < 0 and mono in coeff and c % coeff[mono] == 0:
                    times = -c // coeff[mono]
                    whole = (num - den * q).scale(times)
                    shorter = p - whole
                    if len(shorter.terms) < len(p.terms) - 1 or not shorter:
                        rem = self.terms.atom("rem", num, den)
                        return self._as_remainders(shorter) + Poly.mono((rem,), times)
        return p

    def _without_quotients(self, p: Poly) -> Poly:
        """Replace `k * (e // k)` by `e` for exact quotients."""
        for _ in range(16):
            for mono, coeff in p.terms:
                changed = self._expand_quotient(mono, coeff)
                if changed is not None:
                    p = p - Poly.mono(mono, coeff) + changed
                    break
            else:
                return p
        return p

    def _expand_quotient(self, mono: Mono, coeff: int) -> Poly | None:
        for atom in mono:
            if atom in self.quotients:
                e, k = self.quotients[atom]
                if len(k.terms) == 1:
                    k_mono, k_coeff = k.terms[0]
                    rest = mono_div(mono, mono_mul(k_mono, (atom,)))
                    if rest is not None and coeff % k_coeff == 0:
                        return e * Poly.mono(rest, coeff // k_coeff)
        return None

    def atom_expr(self, atom: Atom) -> Expr:
        """Return the expression of one atom."""
        if atom.kind == "sym":
            return self.vars[atom]
        found = self._atoms_written.get(atom)
        if found is None:
            found = self._atoms_written[atom] = self._atom_expr(atom)
        return found

    def _atom_expr(self, atom: Atom) -> Any:
        if atom.kind == "quo":
            e, k = self.quotients[atom]
            return tirx.FloorDiv(self.expr(e), self.expr(k))
        if atom.kind == "sel":
            cond, a, b = atom.args
            test = self.cond_expr(cond)
            if isinstance(test, tirx.IntImm):
                return self.expr(a) if int(test.value) else self.expr(b)
            return tirx.Select(test, self.expr(a), self.expr(b))
        parts = sorted(atom.args, key=lambda p: p.as_const is not None)
        args = [self.expr(p) for p in (parts if atom.kind in ("min", "max") else atom.args)]
        if atom.kind in ("min", "max"):
            join = tirx.min if atom.kind == "min" else tirx.max
            out = args[0]
            for arg in args[1:]:
                out = join(out, arg)
            return out
        # Use node constructors: the folding functions raise on `x // 0`.
        write = {"div": tirx.FloorDiv, "rem": tirx.FloorMod, "tdiv": tirx.Div}[atom.kind]
        return write(args[0], args[1])

    def cond_expr(self, c: Cond) -> Expr:
        """Return the boolean expression of a condition."""
        if c.op in ("true", "false"):
            return tirx.IntImm("bool", int(c.op == "true"))
        if c.op in ("and", "or"):
            join = tirx.And if c.op == "and" else tirx.Or
            out = self.cond_expr(c.args[0])
            for arg in c.args[1:]:
                out = join(out, self.cond_expr(arg))
            return out
        p: Poly = c.args[0]
        plus = Poly.of({m: k for m, k in p.terms if k > 0 and m})
        minus = Poly.of({m: -k for m, k in p.terms if k < 0 and m})
        if p.constant > 0:
            plus = plus.plus(p.constant)
        else:
            minus = minus.plus(-p.constant)
        a, b = self.expr(plus), self.expr(minus)
        if c.op == "ge":
            return tirx.LE(b, a) if plus != ZERO else tirx.LE(b, _int(0))
        return tirx.EQ(a, b) if c.op == "eq" else tirx.NE(a, b)


def _address(e: Expr) -> int:
    return int(e.__chandle__())


def _int(value: int) -> Expr:
    return tirx.IntImm("int64", value)
