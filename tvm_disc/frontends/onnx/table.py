"""Table of ONNX operators: converters by domain, name and opset.

A converter is a function from a :class:`Node` to a Relay expression, or to one expression per
result. A row is valid for the opsets from ``since`` up to the next row of the same operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

Convert: TypeAlias = Callable[[Any], Any]

MICROSOFT = "com.microsoft"
CLASSIC = "ai.onnx.ml"  # domain of the operators of classic machine learning


@dataclass(frozen=True)
class Row:
    """A converter and the range of opsets for which it is valid.

    Attributes:
        since: the first opset.
        until: the last opset, or None for no limit.
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
    """Return a decorator that registers a converter for operators of opset ``since`` to
    ``until``.
    """

    def register(convert: Convert) -> Convert:
        for name in names:
            add(name, convert, since=since, until=until, domain=domain)
        return convert

    return register


def add(
    name: str, convert: Convert, *, since: int = 1, until: int | None = None, domain: str = ""
) -> None:
    """Add a row to the table."""
    rows = _ROWS.setdefault((domain, name), [])
    assert all(r.since != since for r in rows), f"{name} has two rows since opset {since}"
    rows.append(Row(domain, name, since, until, convert))
    rows.sort(key=lambda r: r.since)


def find(domain: str, name: str, opset: int) -> Row | None:
    """Return the row for a node of an opset, or None if there is none."""
    found = None
    for r in _ROWS.get((normal(domain), name), ()):
        if r.since <= opset and (r.until is None or opset <= r.until):
            found = r
    return found


def every_row() -> Iterator[Row]:
    """Yield every row, sorted by domain and name."""
    for key in sorted(_ROWS):
        yield from _ROWS[key]


def normal(domain: str) -> str:
    """Return the normalized name of a domain: "" for the default domain."""
    return "" if domain == "ai.onnx" else domain


__all__ = ["CLASSIC", "MICROSOFT", "Convert", "Row", "add", "every_row", "find", "normal", "row"]
