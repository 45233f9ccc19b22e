"""``SimplifyExpr``: remove operators that have no effect and pairs that undo each other.

A rule receives one call whose operands are already rewritten. Rules run until none applies.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_disc.relay.expr import Call, Constant, Expr, Function
from tvm_disc.relay.types import TensorType
from tvm_disc.relay_api.dataflow_pattern.known_types import KnownTypes
from tvm_disc.relay_api.expr_functor import rewrite_post_order
from tvm_disc.relay_api.transform.arithmetic import binomial, doubled, multiply_before_add
from tvm_disc.relay_api.transform.rules import attrs_of, op_call, op_name

Rule = Callable[[Call, KnownTypes], Expr | None]
_PLAIN_LAYOUT = re.compile("[A-Z]+")
_AXIS = re.compile(r"\d*[A-Za-z]")
_DTYPE = re.compile(r"(uint|int|float)(\d+)")


def _keeps_all(before: str, after: str) -> bool:
    """Return whether a cast is lossless."""
    a, b = _DTYPE.fullmatch(before), _DTYPE.fullmatch(after)
    if a is None or b is None:
        return False
    wider = int(b[2]) > int(a[2])
    return (a[1] == b[1] and int(b[2]) >= int(a[2])) or ((a[1], b[1]) == ("uint", "int") and wider)


def _cast(call: Call, types: KnownTypes) -> Expr | None:
    (data,) = call.args
    dtype = attrs_of(call)["dtype"]
    if types.dtype(data) == dtype:
        return data
    if op_name(data) != "cast" or not isinstance(data, Call):
        return None
    source, between = data.args[0], attrs_of(data)["dtype"]
    first = types.dtype(source)
    if first is None:
        return None
    if not _keeps_all(first, between) and not _clipped_into(source, first, between, dtype):
        return None
    return op_call("cast", source, dtype=dtype)


def _bounds(dtype: str) -> tuple[int, int] | None:
    """Return the least and the largest value of an integer type; None for other types."""
    found = _DTYPE.fullmatch(dtype)
    if found is None or found[1] == "float":
        return None
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _holds(dtype: str, low: float, high: float) -> bool:
    """Return whether an integer type has every integer between ``low`` and ``high``."""
    bounds = _bounds(dtype)
    return bounds is not None and bounds[0] <= low and high <= bounds[1]


def _clipped_into(clip: Expr, first: str, between: str, last: str) -> bool:
    """Return whether a cast of ``clip`` to ``between`` can be omitted before a cast to ``last``.

    ``between`` must hold all values within the limits of the clip. If the clip computes floats,
    ``last`` must be an integer type, since the cast to integers truncates.
    """
    if op_name(clip) != "clip" or not isinstance(clip, Call):
        return False
    limits = attrs_of(clip)["a_min"], attrs_of(clip)["a_max"]
    if not _holds(between, *limits):
        return False
    return _bounds(first) is not None or _holds(last, *limits)


def _clip(call: Call, types: KnownTypes) -> Expr | None:
    """Return the operand of a clip if every value of its integer type is within the limits, else
    None.
    """
    bounds = _bounds(types.dtype(call.args[0]) or "")
    attrs = attrs_of(call)
    if bounds is None or attrs["a_min"] > bounds[0] or attrs["a_max"] < bounds[1]:
        return None
    return call.args[0]


_RESHAPES = ("reshape", "contrib_reverse_reshape")


def _reshape(call: Call, types: KnownTypes) -> Expr | None:
    (data,) = call.args
    shape = types.shape(call)
    if op_name(data) not in _RESHAPES or not isinstance(data, Call) or shape is None:
        return None
    return op_call("reshape", data.args[0], newshape=shape)


def _order(expr: Expr, rank: int | None) -> tuple[int, ...] | None:
    """Return the operand axis of each result axis of a permutation; None for other calls."""
    if not isinstance(expr, Call) or rank is None:
        return None
    attrs = attrs_of(expr)
    if op_name(expr) == "transpose":
        axes = attrs["axes"]
        return tuple(reversed(range(rank))) if not axes else tuple(a % rank for a in axes)
    if op_name(expr) != "layout_transform":
        return None
    source, target = attrs["src_layout"], attrs["dst_layout"]
    plain = _PLAIN_LAYOUT.fullmatch(source) and sorted(source) == sorted(target)
    return tuple(source.index(letter) for letter in target) if plain else None


def _permutation(call: Call, types: KnownTypes) -> Expr | None:
    data = call.args[0]
    rank = types.rank(data)
    order = _order(call, rank)
    if order is None:
        return _relayout(call, types)
    if order == tuple(range(len(order))):
        return data
    before = _order(data, rank)
    if before is None or not isinstance(data, Call):
        return _relayout(call, types)
    both = tuple(before[axis] for axis in order)
    source = data.args[0]
    return source if both == tuple(range(len(both))) else op_call("transpose", source, axes=both)


def _layouts(expr: Expr, below: list[str] | None, above: list[str] | None) -> Any:
    """Return the names of the axes before and after a layout change, as two lists.

    A transpose names no axes. The caller passes the axes of its operand (``below``) or of its
    result (``above``).
    """
    if not isinstance(expr, Call):
        return None
    attrs = attrs_of(expr)
    if op_name(expr) == "layout_transform":
        return tuple(_AXIS.findall(attrs[key]) for key in ("src_layout", "dst_layout"))
    known = below or above
    order = None if known is None else _order(expr, len(known))
    if op_name(expr) != "transpose" or order is None or known is None or len(order) != len(known):
        return None
    if below is not None:
        return below, [below[axis] for axis in order]
    return [known[order.index(axis)] for axis in range(len(order))], known


def _relayout(call: Call, types: KnownTypes) -> Expr | None:
    """Return two layout changes as one, or the operand if the second undoes the first.

    The length of a split axis must be a multiple of the block. The rule requires static shapes,
    for which this is already checked; otherwise the program would lose the guard for it.
    """
    data = call.args[0]
    if not isinstance(data, Call):
        return None
    inner = _layouts(data, None, None)
    outer = _layouts(call, inner and inner[1], None)
    inner = inner or _layouts(data, None, outer and outer[0])
    if not inner or not outer or inner[1] != outer[0]:
        return None
    if any(types.shape(e) is None for e in (data.args[0], data, call)):
        return None
    if inner[0] == outer[1]:
        return data.args[0]
    source, target = "".join(inner[0]), "".join(outer[1])
    return op_call("layout_transform", data.args[0], src_layout=source, dst_layout=target)


def _like(name: str, *kept: int) -> Rule:
    """Return the rule that replaces a ``_like`` operator by ``name`` with a static shape.

    ``kept`` are the positions of the operands that ``name`` reads.
    """

    def rule(call: Call, types: KnownTypes) -> Expr | None:
        found = types.of(call)
        if not isinstance(found, TensorType) or types.shape(call) is None:
            return None
        if name == "collapse_sum_to":  # reads its shape from an operand
            shape = Constant(np.asarray(types.shape(call), "int32"))
            return op_call(name, call.args[0], shape)
        attrs: dict[str, Any] = {"newshape" if name == "reshape" else "shape": found.shape}
        if name in ("zeros", "ones", "full"):
            attrs["dtype"] = found.dtype
        return op_call(name, *(call.args[i] for i in kept), **attrs)

    return rule


def _cast_like(call: Call, types: KnownTypes) -> Expr | None:
    dtype = types.dtype(call.args[1])
    return None if dtype is None else op_call("cast", call.args[0], dtype=dtype)


def _filled_with(expr: Expr) -> Expr | None:
    """Return the scalar that all elements of ``expr`` equal; None if unknown."""
    if isinstance(expr, Constant):
        return expr if expr.data.ndim == 0 else None
    if not isinstance(expr, Call):
        return None
    if op_name(expr) == "full":
        return expr.args[0]
    ones = {"zeros": 0, "ones": 1}.get(op_name(expr))
    return None if ones is None else Constant(np.asarray(ones, attrs_of(expr)["dtype"]))


# Operator -> (identity element, whether it may also be the left operand).
_NEUTRAL = {"add": (0, True), "subtract": (0, False), "multiply": (1, True), "divide": (1, False)}
_JOINED = {"add": np.add, "multiply": np.multiply}


def _arithmetic(call: Call, types: KnownTypes) -> Expr | None:
    """Return a simpler form of an arithmetic operator, or None.

    An identity element is removed, a filled tensor becomes a scalar, successive constants are
    merged.
    """
    name = op_name(call)
    neutral, commutes = _NEUTRAL[name]
    for position in (1, 0):
        other, value = call.args[1 - position], _filled_with(call.args[position])
        if value is None or not _same_type(other, call, types):
            continue
        number = value.data.item() if isinstance(value, Constant) else None
        if number == neutral and (position == 1 or commutes):
            return other
        if value is not call.args[position]:
            args = (other, value) if position == 1 else (value, other)
            return op_call(name, *args)
    if name not in _JOINED:
        return _reciprocal_root(call)
    return _joined(call, types) or _reordered(call, types)


def _reordered(call: Call, types: KnownTypes) -> Expr | None:
    """Return a sum or product with fewer multiplications, or None."""
    if op_name(call) == "multiply":
        return multiply_before_add(call)
    return doubled(call, types) or binomial(call, types)


def _same_type(a: Expr, b: Expr, types: KnownTypes) -> bool:
    left, right = types.tensor(a), types.tensor(b)
    if left is None or right is None or left.dtype != right.dtype:
        return False
    return left.shape == right.shape or types.same_dims(a, b)


def _joined(call: Call, types: KnownTypes) -> Expr | None:
    """Return ``x + 3`` for ``(x + 1) + 2``, likewise for products; None for other calls."""
    inner, last = call.args
    if isinstance(inner, Constant):
        inner, last = last, inner
    if not isinstance(last, Constant) or op_name(inner) != op_name(call):
        return None
    assert isinstance(inner, Call)
    for x, first in (inner.args, inner.args[::-1]):
        if isinstance(first, Constant) and not isinstance(x, Constant):
            value = _JOINED[op_name(call)](first.data, last.data)
            made = Constant(np.asarray(value, first.data.dtype))
            return op_call(op_name(call), x, made)
    return None


def _order_of_quantized(call: Call, types: KnownTypes) -> Expr | None:
    """Return ``argmax(x)`` for ``argmax(dequantize(x))``: a positive scale keeps the order."""
    data = call.args[0]
    if op_name(data) != "qnn.dequantize" or not isinstance(data, Call):
        return None
    scale = data.args[1]
    if not isinstance(scale, Constant) or scale.data.size != 1 or scale.data.item() <= 0:
        return None
    return op_call(op_name(call), data.args[0], **attrs_of(call))


def _reciprocal_root(call: Call) -> Expr | None:
    """Return ``x * rsqrt(y)`` for ``x / sqrt(y)``; None for other calls."""
    dividend, divisor = call.args
    if op_name(call) != "divide" or op_name(divisor) != "sqrt" or not isinstance(divisor, Call):
        return None
    root = op_call("rsqrt", *divisor.args)
    one = isinstance(dividend, Constant) and dividend.data.ndim == 0 and dividend.data.item() == 1
    return root if one else op_call("multiply", dividend, root)


RULES: dict[str, Rule] = {
    "cast": _cast,
    "clip": _clip,
    "cast_like": _cast_like,
    **dict.fromkeys(_RESHAPES, _reshape),
    "transpose": _permutation,
    "layout_transform": _permutation,
    "zeros_like": _like("zeros"),
    "ones_like": _like("ones"),
    "full_like": _like("full", 1),
    "reshape_like": _like("reshape", 0),
    "broadcast_to_like": _like("broadcast_to", 0),
    "collapse_sum_like": _like("collapse_sum_to", 0),
    **dict.fromkeys(("argmax", "argmin", "argsort"), _order_of_quantized),
    **dict.fromkeys(_NEUTRAL, _arithmetic),
}


def simplify_expr(func: Function) -> Function:
    """Apply all rules until none applies."""
    types = KnownTypes(func)

    def leave(_before: Expr, made: Expr) -> Expr:
        while isinstance(made, Call) and op_name(made) in RULES:
            found = RULES[op_name(made)](made, types)
            if found is None:
                break
            made = found
        return made

    result = rewrite_post_order(func, leave)
    assert isinstance(result, Function)
    return result


__all__ = ["simplify_expr"]
