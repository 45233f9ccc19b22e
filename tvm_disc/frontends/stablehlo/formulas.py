"""Recognizes small functions that JAX emits, by their results as formulas of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_disc.frontends.stablehlo.attributes import constant, is_complex
from tvm_disc.frontends.stablehlo.blocks import results_of, symbol_of
from tvm_disc.frontends.stablehlo.node import direction, owner, short_name

MOST = 64  # maximum number of operators in a formula
Functions = Callable[[str], Any]  # function of the module by name


class _NoFormula(Exception):
    """Raised for a formula of more than ``MOST`` operators, of complex numbers, or of a value from
    outside of the block.
    """


def formulas(block: Any, names: Sequence[str], function: Functions) -> list[str] | None:
    """Return a formula, such as ``add(a, multiply(a, 2))``, for each result of a block.

    ``names`` are the names of its parameters. Calls are replaced by the formulas of the callee.
    Returns None if the formulas have more than ``MOST`` operators, complex numbers, or values from
    outside of the block.
    """
    reader = _Reader(function)
    try:
        return reader.results(block, dict(zip(block.arguments, names, strict=True)))
    except _NoFormula:
        return None


class _Reader:
    def __init__(self, function: Functions) -> None:
        self.function, self.left = function, MOST

    def results(self, block: object, names: Mapping[object, str]) -> list[str]:
        """Return the formulas of the results of a block."""
        return [self.of(v, names) for v in results_of(block)]

    def of(self, value: Any, names: Mapping[Any, str]) -> str:
        """Return the formula of a value; ``names`` are the formulas of the block's parameters."""
        if value in names:
            return names[value]
        self.left -= 1
        op = owner(value)
        if op is None or self.left < 0:
            raise _NoFormula
        name = short_name(op)
        if name == "constant":
            if is_complex(op.results[0].type):
                raise _NoFormula
            found = constant(op).reshape(-1)
            return str(found[0]) if found.size == 1 else repr(found)
        given = [self.of(v, names) for v in op.operands]
        if name in ("call", "func.call"):
            block = self.function(symbol_of(op.attributes["callee"])).regions[0].blocks[0]
            results = self.results(block, dict(zip(block.arguments, given, strict=True)))
            return results[list(op.results).index(value)]
        if name == "compare":
            name = direction(op)
        return f"{name}({', '.join(given)})"


# -- functions that JAX emits ----------------------------------------------------------------------

_M = "select(EQ(b, 0), 1, b)"
_R = f"remainder(a, {_M})"
# The formulas of Python's integer division and remainder, as JAX computes them.
DIVISIONS: Mapping[str, str] = {
    "select(and(NE(sign(a), sign(b)), NE(remainder(a, b), 0)), subtract(divide(a, b), 1), "
    "divide(a, b))": "floor_divide",
    f"select(and(NE(LT({_R}, 0), LT({_M}, 0)), NE({_R}, 0)), add({_R}, {_M}), {_R})": "floor_mod",
}


def division(function: Any, functions: Functions) -> str | None:
    """Return "floor_divide" or "floor_mod" if a function computes it from its last two parameters.

    Returns None for any other function.
    """
    block = function.regions[0].blocks[0]
    count = len(block.arguments)
    if count < 2:
        return None
    names = [*(f"d{k}" for k in range(count - 2)), "a", "b"]
    found = formulas(block, names, functions)
    return DIVISIONS.get(found[0]) if found is not None and len(found) == 1 else None


def arg_reduction(block: Any, functions: Functions) -> str | None:
    """Return "argmax" or "argmin" if a block combines (element, index) pairs as in JAX's function.

    JAX's functions select a NaN if there is one, and the first of equal elements. Returns None for
    any other block.
    """
    if len(block.arguments) != 4:
        return None
    found = formulas(block, ["a", "i", "b", "j"], functions)
    for sign, name in (("GT", "argmax"), ("LT", "argmin")):
        first = f"or({sign}(a, b), NE(a, a))"
        earlier = f"or({first}, and(EQ(a, b), LT(i, j)))"
        if found == [f"select({first}, a, b)", f"select({earlier}, i, j)"]:
            return name
    return None


__all__ = ["Functions", "arg_reduction", "division", "formulas"]
