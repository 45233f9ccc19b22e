"""What DISC's and BladeDISC's published constraints can prove, as a yardstick.

The model is generous: dims are symbols or constants, every expression that is not a product is
one opaque symbol per distinct text, equal dims are merged, product equalities are kept as pairs
and used both ways after substituting roots and cancelling factors known to be non-zero, and each
symbol has its booleans (not zero, not one). Ranges, orders, divisibility and arithmetic are absent.
"""

from __future__ import annotations

from collections import Counter

from tvm_disc.shape.convert import Converter
from tvm_disc.shape.terms import Atom, Cond, Poly, Terms

Product = tuple[int, tuple[Atom, ...]]


class DiscRules:
    """Equality of dims, equality of products, two booleans per symbol."""

    def __init__(self) -> None:
        self.terms = Terms()
        self.convert = Converter(self.terms)
        self.root: dict[Atom, Atom | int] = {}
        self.products: list[tuple[Product, Product]] = []
        self.nonzero: set[Atom] = set()
        self.nonone: set[Atom] = set()

    def find(self, atom: Atom) -> Atom | int:
        """The representative of a symbol: a symbol or a constant."""
        out: Atom | int = atom
        while isinstance(out, Atom) and out in self.root:
            out = self.root[out]
        return out

    def product(self, p: Poly) -> Product:
        """A polynomial as a product of symbols; a sum is one opaque symbol."""
        if len(p.terms) != 1:
            if p.as_const is not None:
                return p.as_const, ()
            p = self.terms.poly("opaque", p)
        mono, factor = p.terms[0]
        atoms = []
        for atom in mono:
            root = self.find(atom)
            if isinstance(root, int):
                factor *= root
            else:
                atoms.append(root)
        return factor, tuple(sorted(atoms))

    def assume(self, c: Cond) -> None:
        """An equality, or a boolean of one symbol; other facts have no form there."""
        for part in c.args if c.op == "and" else (c,):
            self._assume_one(part)

    def _assume_one(self, c: Cond) -> None:
        if c.op not in ("eq", "ne", "ge"):
            return
        sides = split(c.args[0])
        a, b = (self.product(p) for p in sides)
        if c.op == "eq":
            single = [x for x in (a, b) if x[0] == 1 and len(x[1]) == 1]
            if single:
                other = b if single[0] is a else a
                if not other[1]:
                    self.root[single[0][1][0]] = other[0]
                elif other[0] == 1 and len(other[1]) == 1 and other != single[0]:
                    self.root[single[0][1][0]] = other[1][0]
            self.products.append((a, b))
            return
        if len(a[1]) == 1 and not b[1]:
            if c.op == "ne":
                (self.nonone if b[0] == a[0] else self.nonzero if b[0] == 0 else set()).add(a[1][0])
            elif b[0] >= 1:
                self.nonzero.add(a[1][0])
                if b[0] > a[0]:
                    self.nonone.add(a[1][0])

    def proves(self, c: Cond) -> bool:
        """Whether the claim follows."""
        if c.op == "true":
            return True
        if c.op == "ne":
            a, b = (self.product(p) for p in split(c.args[0]))
            zero = b == (0, ()) and all(x in self.nonzero for x in a[1])
            one = b == (1, ()) and a[0] == 1 and len(a[1]) == 1 and a[1][0] in self.nonone
            return zero or one or (not a[1] and not b[1] and a[0] != b[0])
        if c.op != "eq":
            return False
        return self.equal(*(self.product(p) for p in split(c.args[0])))

    def equal(self, a: Product, b: Product) -> bool:
        """Product equality, through at most three known equalities."""
        seen = {a}
        frontier = [a]
        for _ in range(3):
            if b in seen:
                return True
            grown = [r for p in frontier for r in self._rewrites(p) if r not in seen]
            seen |= set(grown)
            frontier = grown
        if b in seen:
            return True
        return any(self._cancelled(p, b) for p in seen)

    def _rewrites(self, p: Product) -> list[Product]:
        out = []
        for pair in self.products:
            ends = [self.product(Poly.mono(x[1], x[0])) for x in pair]
            for old, new in (ends, ends[::-1]):
                rest = Counter(p[1])
                rest.subtract(Counter(old[1]))
                if old[0] and p[0] % old[0] == 0 and min(rest.values(), default=0) >= 0:
                    out.append(
                        (p[0] // old[0] * new[0], tuple(sorted([*rest.elements(), *new[1]])))
                    )
        return out

    def _cancelled(self, a: Product, b: Product) -> bool:
        """`n*a == n*b` is known and n is not zero."""
        for x, y in self.products:
            ends = [self.product(Poly.mono(e[1], e[0])) for e in (x, y)]
            common = Counter(ends[0][1]) & Counter(ends[1][1])
            if common and all(s in self.nonzero for s in common):
                cut = [(e[0], tuple(sorted((Counter(e[1]) - common).elements()))) for e in ends]
                if cut in ([a, b], [b, a]):
                    return True
        return False


def split(p: Poly) -> tuple[Poly, Poly]:
    """`p == 0` as the two sides of an equation."""
    plus = Poly.of({m: c for m, c in p.terms if c > 0})
    minus = Poly.of({m: -c for m, c in p.terms if c < 0})
    return plus, minus
