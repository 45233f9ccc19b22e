"""The entry type of the table of ONNX operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

# Converts a `Node` to a Relay expression, or to one expression per result.
Convert: TypeAlias = Callable[[Any], Any]

MICROSOFT = "com.microsoft"
CLASSIC = "ai.onnx.ml"  # domain of the operators of classic machine learning


@dataclass(frozen=True)
class Row:
    """A converter of an operator, valid from opset ``since`` up to the operator's next entry.

    Attributes:
        name: the operator, or several with one converter, separated by spaces.
        until: the last opset, or None for no limit.
    """

    name: str
    convert: Convert
    since: int = 1
    until: int | None = None
    domain: str = ""


def normal(domain: str) -> str:
    """Return the normalized name of a domain: "" for the default domain."""
    return "" if domain == "ai.onnx" else domain


__all__ = ["CLASSIC", "MICROSOFT", "Convert", "Row", "normal"]
