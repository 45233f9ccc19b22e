"""Refusals of fusions and rewrites, of which equal ones are listed once with a count."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tvm_disc.errors import counted

SHOWN = 2  # maximum number of places that are listed for refusals with equal reasons
WIDTH = 96
_PAIR = re.compile(r" (into|with) ")
_NAMED = re.compile(r"^(\S+)(?: '[^']*')? of shape \(.*\)$")
_PLACE = re.compile(r" \(((?:[^()]|\([^()]*\))*)\)")
# In parentheses: a shape. A place, such as Add 'node_1' or a.py:3:1, has a quote or a colon.
_SIZES = re.compile(r"[^':]*$")


@dataclass(frozen=True)
class Refusals:
    """Refusals that differ only in the places of the operators.

    Attributes:
        text: the refusal without places, or the whole text of a single refusal.
        places: the places of the operators, one entry per refusal; empty for a single refusal.
    """

    text: str
    places: tuple[str, ...] = ()

    def place_text(self, most: int | None = SHOWN) -> str:
        """Return the first ``most`` places and the number of the others; None lists all."""
        shown = self.places[:most]
        others = len(self.places) - len(shown)
        return "; ".join([*shown, *([f"and {others} more"] if others else [])])


def grouped(refused: Sequence[str]) -> list[Refusals]:
    """Return the refusals in the order of their first occurrences."""
    found: dict[str, list[str]] = {}
    for text in refused:
        found.setdefault(_without_places(text), []).append(text)
    return [
        Refusals(text, tuple(map(_places, whole))) if len(whole) > 1 else Refusals(whole[0])
        for text, whole in found.items()
    ]


def refusal_lines(refused: Sequence[str], full: bool = False) -> Iterable[str]:
    """Yield the lines of ``explain``; ``full`` lists the places of all refusals."""
    for group in grouped(refused):
        if not group.places:
            yield f"  {group.text}"
            continue
        yield f"  {group.text} ({counted(len(group.places), 'time')})"
        places = group.place_text(None if full else SHOWN)
        yield from textwrap.wrap(
            places, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6, break_on_hyphens=False
        )


def _without_places(text: str) -> str:
    """Return a refusal without the places of operators, which are in parentheses after a name."""
    subject, colon, reason = text.partition(": ")
    named = [_NAMED.sub(r"\1", part) for part in _PAIR.split(subject)]
    short = _PLACE.sub(lambda m: m[0] if _SIZES.match(m[1]) else "", reason)
    return _PLACE.sub("", " ".join(named)) + colon + short


def _places(text: str) -> str:
    """Return the places of the operators: ``Add 'a' into Gemm 'b'``."""
    first, *rest = (_place(part) for part in _PAIR.split(text.partition(": ")[0]))
    return first if rest[1:] == [first] else " ".join([first, *rest])


def _place(label: str) -> str:
    inner = label.partition(" (")[2]
    return inner.removesuffix(")") if inner and " of shape (" not in label else label
