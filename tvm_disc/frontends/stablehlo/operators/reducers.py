"""Recognizes the functions by which reductions, windows and scatters combine elements."""

from __future__ import annotations

from typing import Any

from tvm_disc.frontends.calc import Expr, greatest_of, least_of
from tvm_disc.frontends.stablehlo.blocks import results_of
from tvm_disc.frontends.stablehlo.node import StableHLONode, owner, short_name
from tvm_disc.relay.ops.algebra import Number

# For each StableHLO operator, Relay's element-wise operator and Relay's reduction.
MONOIDS = {
    "add": ("add", "sum"),
    "multiply": ("multiply", "prod"),
    "maximum": ("maximum", "max"),
    "minimum": ("minimum", "min"),
    "and": ("logical_and", "all"),
    "or": ("logical_or", "any"),
}


def monoid(block: Any) -> str | None:
    """Return the operator if a block only applies one of ``MONOIDS`` to its two arguments."""
    ops = [op.operation for op in block.operations]
    if len(ops) != 2 or len(block.arguments) != 2 or len(ops[1].operands) != 1:
        return None
    name = short_name(ops[0])
    if name not in MONOIDS or ops[1].operands[0] != ops[0].results[0]:
        return None
    return name if set(ops[0].operands) == set(block.arguments) else None


def combiners(block: Any) -> list[str | None]:
    """Return, for each operand of a scatter, the operator that combines an element and an update.

    "update" means that the update replaces the element; None means any other function.
    """
    count = len(block.arguments) // 2
    found: list[str | None] = []
    for k, value in enumerate(results_of(block)):
        mine = {block.arguments[k], block.arguments[count + k]}
        made = owner(value)
        if value == block.arguments[count + k]:
            found.append("update")
        elif made is not None and short_name(made) in MONOIDS and set(made.operands) == mine:
            found.append(short_name(made))
        else:
            found.append(None)
    return found


def is_neutral(n: StableHLONode, init: Expr, name: str) -> bool:
    """Return whether the initial value is known to be the neutral element of ``name``."""
    known = n.known(init)
    if known is None:
        return False
    return bool((known == neutral(n.dtype(init), name)).all())


def neutral(dtype: str, name: str) -> Number:
    """Return the neutral element of the operator ``name`` for a dtype."""
    if name in ("maximum", "minimum"):
        return least_of(dtype) if name == "maximum" else greatest_of(dtype)
    return {"add": 0, "multiply": 1, "and": True, "or": False}[name]


__all__ = ["MONOIDS", "combiners", "is_neutral", "monoid", "neutral"]
