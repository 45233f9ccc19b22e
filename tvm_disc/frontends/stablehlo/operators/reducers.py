"""Recognition of the functions that reductions, windows and scatters combine elements with."""

from __future__ import annotations

from typing import Any

from tvm_disc.frontends.calc import Expr, greatest_of, least_of
from tvm_disc.frontends.stablehlo.node import StableHLONode, short_name
from tvm_disc.relay.ops.algebra import Number

# Relay's element-wise operator, and its reduction, by StableHLO's operator.
MONOIDS = {
    "add": ("add", "sum"),
    "multiply": ("multiply", "prod"),
    "maximum": ("maximum", "max"),
    "minimum": ("minimum", "min"),
    "and": ("logical_and", "all"),
    "or": ("logical_or", "any"),
}


def monoid(block: Any) -> str | None:
    """Return the operator that a block on two elements applies; None for any other block."""
    ops = [op.operation for op in block.operations]
    if len(ops) != 2 or len(block.arguments) != 2 or len(ops[1].operands) != 1:
        return None
    name = short_name(ops[0])
    if name not in MONOIDS or ops[1].operands[0] != ops[0].results[0]:
        return None
    return name if set(ops[0].operands) == set(block.arguments) else None


def is_second(block: Any) -> bool:
    """Return whether a block returns its second element, as a scatter that overwrites does."""
    ops = [op.operation for op in block.operations]
    return len(ops) == 1 and list(ops[0].operands) == [block.arguments[1]]


def outline(block: Any) -> tuple[Any, ...]:
    """Return operators, operands and directions of a block in order, for comparison.

    Constants are left out; as operands they are -1.
    """
    numbers = {value: k for k, value in enumerate(block.arguments)}
    found = []
    for view in block.operations:
        op = view.operation
        if short_name(op) == "constant":
            continue
        for value in op.results:
            numbers[value] = len(numbers)
        name = short_name(op)
        if name == "compare":
            name += "." + str(op.attributes["comparison_direction"]).split()[-1].rstrip(">")
        found.append((name, *(numbers.get(v, -1) for v in op.operands)))
    return tuple(found)


def _arg_outline(sign: str) -> tuple[Any, ...]:
    """Return the outline of JAX's argmax (GT) or argmin (LT); a NaN is the extreme element."""
    return (
        (f"compare.{sign}", 0, 2),
        ("compare.NE", 0, 0),
        ("or", 4, 5),
        ("compare.EQ", 0, 2),
        ("compare.LT", 1, 3),
        ("and", 7, 8),
        ("or", 6, 9),
        ("select", 6, 0, 2),
        ("select", 10, 1, 3),
        ("return", 11, 12),
    )


_ARGS = {_arg_outline("GT"): "argmax", _arg_outline("LT"): "argmin"}


def arg_reduction(block: Any) -> str | None:
    """Return argmax or argmin for the block with which JAX computes it."""
    return _ARGS.get(outline(block)) if len(block.arguments) == 4 else None


def is_neutral(n: StableHLONode, init: Expr, name: str) -> bool:
    """Return whether an initial value does not change the result of a reduction."""
    known = n.known(init)
    if known is None:
        return False
    return bool((known == neutral(n.dtype(init), name)).all())


def neutral(dtype: str, name: str) -> Number:
    """Return the value that does not change the result of a reduction."""
    if name in ("maximum", "minimum"):
        return least_of(dtype) if name == "maximum" else greatest_of(dtype)
    return {"add": 0, "multiply": 1, "and": True, "or": False}[name]


__all__ = ["MONOIDS", "arg_reduction", "is_neutral", "is_second", "monoid", "neutral", "outline"]
