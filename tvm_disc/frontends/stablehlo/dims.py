"""Conversion of the symbolic dims of JAX inputs to Relay dims, and names of inputs."""

from __future__ import annotations

import ast as python
from collections.abc import Mapping, Sequence
from keyword import iskeyword

from tvm_disc.errors import BadInput
from tvm_disc.frontends.stablehlo.reader import DimText
from tvm_disc.relay import types as rt

_ARITHMETIC: Mapping[type, str] = {
    python.Add: "Add",
    python.Sub: "Sub",
    python.Mult: "Mul",
}
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
        if dim in self.plain:
            return rt.Any(dim)
        try:
            found = self._formula(python.parse(dim.replace("^", "**"), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError):
            found = None
        # If an expression has a symbol that is not in `plain`, inputs do not determine the symbol;
        # then the whole expression becomes a new symbol.
        return rt.Any() if found is None else found

    def _formula(self, tree: python.expr) -> rt.Dim | None:
        if isinstance(tree, python.Constant) and type(tree.value) is int:
            return tree.value if tree.value >= 0 else None
        if isinstance(tree, python.Name):
            return rt.Any(tree.id) if tree.id in self.plain else None
        if isinstance(tree, python.BinOp):
            if isinstance(tree.op, python.Pow):
                return self._power(tree)
            return self._pair(_ARITHMETIC.get(type(tree.op)), [tree.left, tree.right])
        if isinstance(tree, python.Call) and isinstance(tree.func, python.Name):
            return self._pair(_FUNCTIONS.get(tree.func.id), tree.args)
        return None

    def _pair(self, name: str | None, args: Sequence[python.expr]) -> rt.Dim | None:
        if name is None or name not in rt.DIM_OPS or len(args) != 2:
            return None
        a, b = (self._formula(x) for x in args)
        return None if a is None or b is None else rt.DimOp(name, a, b)

    def _power(self, tree: python.BinOp) -> rt.Dim | None:
        base = self._formula(tree.left)
        times = tree.right.value if isinstance(tree.right, python.Constant) else None
        if base is None or not isinstance(times, int) or not 1 <= times <= 8:
            return None
        found = base
        for _ in range(times - 1):
            found = rt.DimOp("Mul", found, base)
        return found


def is_name(text: str) -> bool:
    """Return whether constraints can refer to a dim by this name."""
    return text.isidentifier() and text.isascii() and not iskeyword(text)


def unique_names(names: Sequence[str]) -> list[str]:
    """Return distinct identifiers for input names; paths such as ``p['w'][0]`` become ``p_w_0``."""
    found: list[str] = []
    for k, name in enumerate(names):
        base = "".join(c if c.isalnum() and c.isascii() else "_" for c in name).strip("_")
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


__all__ = ["Dims", "is_name", "refuse_negative", "unique_names"]
