"""Converters of sorts."""

from __future__ import annotations

from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Expr, is_float, op
from tvm_disc.frontends.stablehlo.blocks import results_of
from tvm_disc.frontends.stablehlo.node import StableHLONode, direction, owner, short_name
from tvm_disc.frontends.stablehlo.operators.elementwise import ordered
from tvm_disc.frontends.stablehlo.table import OperationRow


def _sort(n: StableHLONode) -> list[Expr]:
    """Convert a sort by one or several keys, as one stable sort per key, from the last key on."""
    axis = int(n.attr("dimension", -1)) % n.rank(n[0])
    keys = sort_keys(n.block())
    order: Expr | None = None
    for k, ascending in reversed(keys):
        key = comparable(n, n[k])
        key = key if order is None else op("gather", key, order, axis=axis)
        found = op("argsort", key, axis=axis, is_ascend=ascending, dtype="int64")
        order = found if order is None else op("gather", order, found, axis=axis)
    assert order is not None
    return [op("gather", x, order, axis=axis) for x in n.inputs]


def comparable(n: StableHLONode, x: Expr) -> Expr:
    """Return a key that sorts like ``x``, with all zeros equal, and all NaNs equal and last.

    Integers and bfloat16 are returned unchanged.
    """
    if not is_float(n.dtype(x)) or n.dtype(x) == "bfloat16":
        return x
    zero, nan = n.like(0, x), n.like(float("nan"), x)
    plain = n.where(n.equal(x, zero), zero, n.where(n.isnan(x), nan, x))
    return ordered(n, plain)


def sort_keys(block: Any) -> list[tuple[int, bool]]:
    """Return (operand, whether ascending) of each key of a sort's comparator, in order.

    JAX's comparators are ``a0 < b0 or (a0 == b0 and (a1 < b1 or ...))``, on normalized floats.

    Raises:
        Unsupported: the comparator has another form.
    """
    found = _lexicographic(results_of(block)[0], list(block.arguments))
    if not found:
        raise Unsupported("expected a comparator that compares keys by < or > one after another")
    return found


def _lexicographic(value: object, arguments: list[object]) -> list[tuple[int, bool]]:
    op_ = owner(value)
    if op_ is None:
        return []
    name = short_name(op_)
    if name == "compare":
        key = _compared(op_, arguments)
        return [key] if key is not None else []
    if name == "or":
        first = _lexicographic(op_.operands[0], arguments)
        rest = owner(op_.operands[1])
        if len(first) != 1 or rest is None or short_name(rest) != "and":
            return []
        return first + _lexicographic(rest.operands[1], arguments)
    if name == "select":  # select(a0 == b0, rest, a0 < b0)
        first = _lexicographic(op_.operands[2], arguments)
        rest_keys = _lexicographic(op_.operands[1], arguments)
        return first + rest_keys if len(first) == 1 and rest_keys else []
    return []


def _compared(op_: Any, arguments: list[object]) -> tuple[int, bool] | None:
    """Return (operand, whether ascending) if a comparison compares two elements of one operand."""
    sign = direction(op_)
    a, b = (_source(v, arguments) for v in op_.operands)
    if a is None or b is None or a // 2 != b // 2 or a == b or sign in ("EQ", "NE"):
        return None
    ascending = sign in ("LT", "LE")
    return a // 2, ascending if a < b else not ascending


def _source(value: object, arguments: list[object]) -> int | None:
    """Return the number of the argument that a value is, possibly normalized, or None."""
    if value in arguments:
        return int(arguments.index(value))
    op_ = owner(value)
    if op_ is None or short_name(op_) not in ("select", "convert", "bitcast_convert"):
        return None
    return _source(op_.operands[-1], arguments)


ROWS: tuple[OperationRow, ...] = (OperationRow("sort", _sort),)

__all__ = ["ROWS", "comparable", "sort_keys"]
