"""Conversion of the symbolic dims of JAX inputs to Relay dims, and names of inputs."""

from __future__ import annotations

import ast as python
from collections.abc import Sequence

from tvm_disc.errors import BadInput
from tvm_disc.frontends.dims import OPERATORS, dim_formula, identifier, is_name
from tvm_disc.frontends.stablehlo.reader import DimText
from tvm_disc.relay import types as rt

_OPERATORS = {**OPERATORS, python.Pow: "Pow"}
_FUNCTIONS = {"floordiv": "FloorDiv", "mod": "FloorMod", "max": "Max", "min": "Min"}


class Dims:
    """Converts the text of JAX's symbolic dims to Relay dims.

    Attributes:
        plain: the symbols that are the size of an axis of an input.
    """

    def __init__(self, shapes: Sequence[Sequence[DimText]]) -> None:
        texts = {d for shape in shapes for d in shape if isinstance(d, str)}
        self.plain = {t for t in texts if is_name(t)}

    def of(self, dim: DimText) -> rt.Dim:
        """Return the Relay dim of a number or text; None becomes a new symbol."""
        if isinstance(dim, int):
            return dim
        if dim is None:
            return rt.Any()
        found = dim_formula(dim.replace("^", "**"), self.plain, _OPERATORS, _FUNCTIONS)
        # If an expression has a symbol that is not in `plain`, inputs do not determine the symbol;
        # then the whole expression becomes a new symbol.
        return rt.Any() if found is None else found


def unique_names(names: Sequence[str]) -> list[str]:
    """Return distinct identifiers for input names; paths such as ``p['w'][0]`` become ``p_w_0``."""
    found: list[str] = []
    for k, name in enumerate(names):
        base = identifier(name)
        while "__" in base:
            base = base.replace("__", "_")
        base = base if is_name(base) else f"arg{k}"
        made, number = base, 1
        while made in found:
            made, number = f"{base}_{number}", number + 1
        found.append(made)
    return found


def refuse_negative(dims: Sequence[DimText], name: str) -> None:
    """Raise BadInput if a dim of an input is a negative number."""
    for axis, d in enumerate(dims):
        if isinstance(d, int) and d < 0:
            raise BadInput(f"input {name!r}, axis {axis}: expected a size of at least 0, found {d}")


__all__ = ["Dims", "refuse_negative", "unique_names"]
