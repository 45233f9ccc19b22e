"""Element rules of conversions and roundings, with fewer operations for quantized values.

A quantization is ``cast(clip(round(x / scale) + zero, least, most))``. The quotient is rounded
without a division. The limits, combined with those of a preceding activation, are applied to ``x``.
"""

from __future__ import annotations

import numpy as np

from tvm_disc.graph.nodes import BYTES, Node, before_bytes, rounded_quotient, scalar_of
from tvm_disc.schedules.math.remainder import clipped_byte, clipped_number, round_quotient
from tvm_disc.schedules.reader import ElementReader, Index
from tvm_disc.schedules.scalars import UNARY, cast
from tvm_disc.tir.builder import const, same_lanes
from tvm_disc.typing import Expr


def converted(low: ElementReader, node: Node, index: Index) -> Expr:
    """Return an element of a dtype conversion."""
    if node.dtype in BYTES:
        found = _byte(low, node, index)
    else:
        found = _before_bytes(low, node, index) if node.dtype == "float32" else None
    return cast(low.at(node.inputs[0], index), node.dtype) if found is None else found


def _byte(low: ElementReader, node: Node, index: Index) -> Expr | None:
    """Return an element quantized to a byte, or None if the node is not a quantization."""
    source = node.inputs[0]
    if source.op == "relax.astype" and source.dtype == "int32":
        source = source.inputs[0]
    parts, kind = rounded_quotient(source), np.iinfo(node.dtype)
    if parts is None or parts.least < kind.min or parts.most > kind.max:
        return None
    limits, ends = (parts.least, parts.most), (parts.low, parts.high)
    made = clipped_byte(low.at(parts.x, index), parts.divisor, parts.shift, limits, ends)
    return None if made is None else cast(made, node.dtype)


def _before_bytes(low: ElementReader, node: Node, index: Index) -> Expr | None:
    """Return the number that a byte of this kernel represents, without computing the byte.

    None if the node is another conversion.
    """
    found = before_bytes(node)
    if found is None:
        return None
    number, zero = found
    parts = rounded_quotient(number)
    if parts is not None and parts.shift == zero:
        limits, ends = (parts.least - zero, parts.most - zero), (parts.low, parts.high)
        made = clipped_number(low.at(parts.x, index), parts.divisor, limits, ends)
        if made is not None:
            return made
    value, origin = same_lanes(low.at(number, index), const(float(zero), node.dtype))
    return value - origin if zero else value


def rounded(low: ElementReader, node: Node, index: Index) -> Expr:
    """Return a rounded element; a quotient by a literal is rounded without a division."""
    source = node.inputs[0]
    if source.op == "relax.divide" and source.inputs[1].is_scalar_const:
        x, divisor = source.inputs
        value = low.at(x, low.broadcast(x, len(node.shape), index))
        found = round_quotient(value, scalar_of(divisor)) if x.dtype == "float32" else None
        if found is not None:
            return found
    (operand,) = same_lanes(low.at(source, low.broadcast(source, len(node.shape), index)))
    return UNARY["round"](operand)


__all__ = ["converted", "rounded"]
