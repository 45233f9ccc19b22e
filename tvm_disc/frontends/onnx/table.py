"""The entry type of the table of ONNX operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

# Converts an `OnnxNode` to a Relay expression, or to one expression per result.
Convert: TypeAlias = Callable[[Any], Any]

MICROSOFT = "com.microsoft"
CLASSIC = "ai.onnx.ml"  # domain of ONNX's classic machine learning, such as TreeEnsemble


@dataclass(frozen=True)
class Row:
    """A converter of an operator, valid from opset ``since`` up to the operator's next entry.

    Attributes:
        name: the operator's name, or the names of several operators, separated by spaces.
        until: the last opset for which the converter is valid, or None.
    """

    name: str
    convert: Convert
    since: int = 1
    until: int | None = None
    domain: str = ""


def normal(domain: str) -> str:
    """Return the name of a domain, with "" for the default domain `ai.onnx`."""
    return "" if domain == "ai.onnx" else domain


__all__ = ["CLASSIC", "MICROSOFT", "Convert", "Row", "normal"]
