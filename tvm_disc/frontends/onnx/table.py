"""The table of ONNX operators: by domain and name, what converts a node of which opsets.

A row is a function from a :class:`Node` to a Relay expression, or to one for each result. It holds
for the opsets from ``since`` up to the next row of the same operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

Convert: TypeAlias = Callable[[Any], Any]

MICROSOFT = "com.microsoft"
CLASSIC = "ai.onnx.ml"  # operators of classic machine learning


@dataclass(frozen=True)
class Row:
    """One converter.

    Attributes:
        since: the first opset that it holds for.
        until: the last one, None for the newest.
    """

    domain: str
    name: str
    since: int
    until: int | None
    convert: Convert


_ROWS: dict[tuple[str, str], list[Row]] = {}


def row(
    *names: str, since: int = 1, until: int | None = None, domain: str = ""
) -> Callable[[Convert], Convert]:
    """Decorator: a function converts these operators, from opset ``since`` to ``until``."""

    def register(convert: Convert) -> Convert:
        for name in names:
            add(name, convert, since=since, until=until, domain=domain)
        return convert

    return register


def add(
    name: str, convert: Convert, *, since: int = 1, until: int | None = None, domain: str = ""
) -> None:
    """One row more."""
    rows = _ROWS.setdefault((domain, name), [])
    assert all(r.since != since for r in rows), f"{name} has two rows since opset {since}"
    rows.append(Row(domain, name, since, until, convert))
    rows.sort(key=lambda r: r.since)


def find(domain: str, name: str, opset: int) -> Row | None:
    """The row for a node of an opset, if there is one."""
    found = None
    for r in _ROWS.get((normal(domain), name), ()):
        if r.since <= opset and (r.until is None or opset <= r.until):
            found = r
    return found


def every_row() -> Iterator[Row]:
    """Every row, by domain and name."""
    for key in sorted(_ROWS):
        yield from _ROWS[key]


def normal(domain: str) -> str:
    """A domain by its short name."""
    return "" if domain == "ai.onnx" else domain


__all__ = ["CLASSIC", "MICROSOFT", "Convert", "Row", "add", "every_row", "find", "normal", "row"]
