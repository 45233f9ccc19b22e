"""Claims about shape arithmetic: `facts => claim`, most of them from real models.

One line of `claims.txt` is one claim. Facts are separated by `;`; `x := e` gives a name to an
expression. What is true is never written down: `truth` evaluates every combination of small
values. A claim that holds for all of them is True, for none False, and otherwise open, and then
only None is right.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

CLAIMS = (Path(__file__).parent / "claims.txt").read_text()


class Claim(NamedTuple):
    """One line of the table."""

    section: str
    lets: tuple[tuple[str, str], ...]
    facts: tuple[str, ...]
    claim: str

    def __str__(self) -> str:
        given = [f"{n} := {e}" for n, e in self.lets] + list(self.facts)
        return f"{'; '.join(given)} => {self.claim}".strip()


def _parse(text: str) -> list[Claim]:
    out, section = [], ""
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("#"):
            section = line[1:].strip()
            continue
        given, _, claim = line.partition("=>")
        parts = [p.strip() for p in given.split(";") if p.strip()]
        lets = tuple(
            (n.strip(), e.strip()) for n, _, e in (p.partition(":=") for p in parts if ":=" in p)
        )
        facts = tuple(p for p in parts if ":=" not in p)
        out.append(Claim(section, lets, facts, claim.strip()))
    return out


TABLE = _parse(CLAIMS)

_NAME = re.compile(r"[a-z]\w*")
_RELATION = re.compile(r"(==|!=|<=|>=|<|>)")


def free_names(claim: Claim) -> list[str]:
    """The symbols whose values are enumerated."""
    texts = [e for _, e in claim.lets] + [*claim.facts, claim.claim]
    names = dict.fromkeys(n for t in texts for n in _NAME.findall(t))
    return [n for n in names if n not in ("min", "max") and n not in dict(claim.lets)]


class Column:
    """Values with a mask of where they are defined."""

    def __init__(self, v: np.ndarray, ok: np.ndarray) -> None:
        self.v, self.ok = v, ok

    def join(self, other: object, f: object) -> Column:
        """`f` of two columns."""
        o = other if isinstance(other, Column) else Column(np.asarray(other), np.asarray(True))
        return Column(f(self.v, o.v), self.ok & o.ok)  # type: ignore[operator]

    def __add__(self, o: object) -> Column:
        return self.join(o, np.add)

    def __radd__(self, o: object) -> Column:
        return self.join(o, np.add)

    def __sub__(self, o: object) -> Column:
        return self.join(o, np.subtract)

    def __rsub__(self, o: object) -> Column:
        return self.join(o, lambda a, b: b - a)

    def __mul__(self, o: object) -> Column:
        return self.join(o, np.multiply)

    __rmul__ = __mul__

    def __neg__(self) -> Column:
        return Column(-self.v, self.ok)

    def __floordiv__(self, o: object) -> Column:
        d = o if isinstance(o, Column) else Column(np.asarray(o), np.asarray(True))
        safe = np.where(d.v == 0, 1, d.v)
        return Column(np.floor_divide(self.v, safe), self.ok & d.ok & (d.v != 0))

    def __mod__(self, o: object) -> Column:
        return self - (self // o) * o


def _extreme(f: object) -> object:
    def call(a: object, b: object) -> object:
        if isinstance(a, Column):
            return a.join(b, f)
        return b.join(a, f) if isinstance(b, Column) else f(a, b)  # type: ignore[operator]

    return call


def _relation(text: str, scope: dict[str, object]) -> tuple[np.ndarray, np.ndarray]:
    parts = _RELATION.split(text)
    size = scope["_one"]
    assert isinstance(size, Column)
    truth, ok = np.ones_like(size.ok), size.ok
    tests = {
        "==": np.equal, "!=": np.not_equal, "<=": np.less_equal, "<": np.less,
        ">=": np.greater_equal, ">": np.greater,
    }  # fmt: skip
    sides = [size * 0 + eval(p, {}, scope) for p in parts[::2]]
    for a, op, b in zip(sides, parts[1::2], sides[1:], strict=False):
        truth = truth & tests[op](a.v, b.v)
        ok = ok & a.ok & b.ok
    return truth, ok


def truth(claim: Claim) -> tuple[bool | None, bool]:
    """`(t, total)`: t is True, False, or None where it depends on the values; `total` is False
    where the facts allow a division by zero, which has no value: then the solver need not answer.
    """
    names = free_names(claim)
    values = {1: range(200), 2: range(66), 3: range(20), 4: range(9)}.get(
        len(names), (0, 1, 2, 3, 5, 8)
    )
    extra = {1: (512, 768, 1023, 1024, 1025), 2: (512, 768), 3: (63, 64, 65, 768), 4: (12, 64, 768)}
    points = sorted({*values, *extra.get(len(names), (12,))})
    rows = np.array(list(itertools.product(points, repeat=len(names))), dtype=np.int64)
    yes = np.ones(len(rows), bool)
    scope: dict[str, object] = {n: Column(rows[:, i], yes) for i, n in enumerate(names)}
    scope |= {"_one": Column(np.ones(len(rows), np.int64), yes)}
    scope |= {"min": _extreme(np.minimum), "max": _extreme(np.maximum)}
    alive = yes
    for name, text in claim.lets:
        scope[name] = eval(text, {}, scope)
    for fact in claim.facts:
        held, ok = _relation(fact, scope)
        alive = alive & held & ok
    held, ok = _relation(claim.claim, scope)
    where = alive & ok
    assert where.any(), f"no values satisfy the facts of: {claim}"
    total = not (alive & ~ok).any()
    if held[where].all():
        return True, total
    return (None if held[where].any() else False), total
