"""The entry type of the table of StableHLO operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

# Converts a `StableHLONode` to a Relay expression, or to one expression for each result.
Convert: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True)
class OperationRow:
    """A converter of an operator.

    Attributes:
        name: the operator's name without ``stablehlo.``, or several names, separated by spaces.
    """

    name: str
    convert: Convert


__all__ = ["Convert", "OperationRow"]
