"""Rewrites of single operators: faster arithmetic, canonical forms."""

from __future__ import annotations

import re

import numpy as np

from tvm_disc.relay.expr import Call, Constant, Expr, Function
from tvm_disc.relay.ops.row import FusionClass
from tvm_disc.relay_api.dataflow_pattern.known_types import KnownTypes
from tvm_disc.relay_api.dataflow_pattern.matcher import UserGraph
from tvm_disc.relay_api.expr_functor import rewrite_post_order
from tvm_disc.relay_api.transform.rules import (
    Rule,
    Site,
    apply_rules,
    op_call,
    op_name,
    row_of,
    scalar,
)

_FAST = {"exp": "fast_exp", "tanh": "fast_tanh", "erf": "fast_erf"}


def _faster(name: str) -> Rule:
    return lambda site: op_call(name, *site.args)


FAST_RULES: dict[str, Rule] = {
    **{name: _faster(fast) for name, fast in _FAST.items()},
    "nn.softmax": lambda site: op_call("nn.fast_softmax", *site.args, **site.attrs),
}


def fast_math(func: Function) -> Function:
    """Replace exp, tanh, erf and softmax by their fast approximations."""
    return apply_rules(func, FAST_RULES)


def _bias_add(site: Site) -> Expr | None:
    """Return ``data + bias``, the bias expanded by a dim of 1 for each axis after the bias axis.

    Returns None if the rank is unknown.
    """
    rank = site.rank(0)
    if rank is None:
        return None
    behind = rank - site.attrs["axis"] % rank - 1
    data, bias = site.args
    wide = op_call("expand_dims", bias, axis=1, num_newaxis=behind) if behind else bias
    return op_call("add", data, wide)


def canonicalize_ops(func: Function) -> Function:
    """Replace ``bias_add`` by ``expand_dims`` and ``add``."""
    return apply_rules(func, {"nn.bias_add": _bias_add})


def _reciprocal(site: Site) -> Expr | None:
    """Return the product with the reciprocal of a constant float divisor; None for other
    divisions.
    """
    dividend, divisor = site.args
    if not isinstance(divisor, Constant) or divisor.data.dtype.kind != "f":
        return None
    if divisor.data.size == 0 or not divisor.data.all():
        return None  # division by zero cannot be expressed as a product
    return op_call("multiply", dividend, Constant(np.reciprocal(divisor.data)))


def div_to_mul(func: Function) -> Function:
    """Replace divisions by constants with multiplications."""
    return apply_rules(func, {"divide": _reciprocal})


def canonicalize_cast(func: Function) -> Expr:
    """Duplicate a widening cast for each of the element-wise calls that read it."""
    graph, types = UserGraph(func), KnownTypes(func)
    casts: set[Expr] = {
        node
        for node in graph.order
        if op_name(node) == "cast" and _widens(node, types) and _is_read_apart(graph, node)
    }

    def leave(_before: Expr, made: Expr) -> Expr:
        row = row_of(made)
        if not isinstance(made, Call) or row is None or row.pattern > FusionClass.BROADCAST:
            return made
        args = [_copy(a) if a in casts else a for a in made.args]
        return made if not any(a in casts for a in made.args) else Call(made.op, args, made.attrs)

    return rewrite_post_order(func, leave)


def _widens(cast: Expr, types: KnownTypes) -> bool:
    """Return whether the operand is narrower than the result, so that duplicating the cast is
    cheaper.
    """
    assert isinstance(cast, Call)
    dtypes = (types.dtype(cast.args[0]), types.dtype(cast))
    bits = [int(match[0]) if d and (match := re.search("[0-9]+", d)) else 0 for d in dtypes]
    return 0 < bits[0] < bits[1]


def _is_read_apart(graph: UserGraph, cast: Expr) -> bool:
    users = graph.users[cast]
    rows = [row_of(user) for user in users]
    return len(set(users)) > 1 and all(
        r is not None and r.pattern <= FusionClass.BROADCAST for r in rows
    )


def _copy(cast: Expr) -> Expr:
    assert isinstance(cast, Call)
    return Call(cast.op, cast.args, cast.attrs, (), cast.span)


def _number(expr: Expr) -> float | None:
    """Return the value of a scalar constant, or None."""
    if isinstance(expr, Constant) and expr.data.ndim == 0:
        return float(expr.data)
    return None


def _const_and_other(call: Expr, name: str) -> tuple[Constant, Expr] | None:
    """Return (constant operand, other operand) of a call of the binary operator ``name``; None for
    other expressions, or if not exactly one operand is constant.
    """
    if op_name(call) != name or not isinstance(call, Call):
        return None
    for one, other in (call.args, call.args[::-1]):
        if isinstance(one, Constant) and not isinstance(other, Constant):
            return one, other
    return None


def multiply_before_add(call: Call) -> Expr | None:
    """Return ``x * c2 + c1 * c2`` for ``(x + c1) * c2``, or None."""
    outer = _const_and_other(call, "multiply")
    inner = outer and _const_and_other(outer[1], "add")
    if not outer or not inner or inner[0].data.dtype.kind not in "fiu":
        return None
    with np.errstate(all="ignore"):
        moved = np.asarray(inner[0].data * outer[0].data, inner[0].data.dtype)
    if not np.all(np.isfinite(moved)):  # inf - inf would be NaN
        return None
    scaled = op_call("multiply", inner[1], outer[0])
    before = _const_and_other(inner[1], "multiply")
    if before:  # merge two successive constant factors
        factor = Constant(np.asarray(before[0].data * outer[0].data, before[0].data.dtype))
        scaled = op_call("multiply", before[1], factor)
    return op_call("add", scaled, Constant(moved))


def doubled(call: Call, types: KnownTypes) -> Expr | None:
    """Return ``x * 2`` for ``x + x``, or None."""
    dtype = types.dtype(call)
    if call.args[0] is not call.args[1] or dtype is None or isinstance(call.args[0], Constant):
        return None
    if not dtype.startswith(("float", "bfloat", "int", "uint")):
        return None
    return op_call("multiply", call.args[0], scalar(2, dtype))


def _monomial(expr: Expr) -> tuple[float, tuple[Expr, ...]]:
    """Return the constant factor and the other factors of a product."""
    factor, todo = 1.0, [expr]
    rest: list[Expr] = []
    while todo:
        node = todo.pop()
        value = _number(node)
        if value is not None:
            factor *= value
        elif op_name(node) == "multiply" and isinstance(node, Call) and len(rest) < 3:
            todo.extend(node.args)
        else:
            rest.append(node)
    return factor, tuple(rest)


def _three_terms(call: Call) -> list[Expr] | None:
    """Return the three terms of ``(a + b) + c``, or None for other expressions."""
    for both, last in (call.args, call.args[::-1]):
        if op_name(both) == "add" and isinstance(both, Call):
            return [*both.args, last]
    return None


def binomial(call: Call, types: KnownTypes) -> Expr | None:
    """Return ``(x + p * y) * (x + q * y)`` for ``a * x * x + b * x * y + c * y * y``, or None.

    ``a`` or ``c`` must be 1, and the element type must represent ``p`` and ``q``.
    """
    terms, dtype = _three_terms(call), types.dtype(call)
    if terms is None or dtype not in ("float32", "float64", "int8", "int16", "int32", "int64"):
        return None
    squares: dict[Expr, float] = {}
    mixed: list[tuple[float, frozenset[Expr]]] = []
    for factor, rest in map(_monomial, terms):
        if len(rest) != 2:
            return None
        if rest[0] is rest[1] and rest[0] not in squares:
            squares[rest[0]] = factor
        else:
            mixed.append((factor, frozenset(rest)))
    if len(squares) != 2 or mixed[0][1] != frozenset(squares):
        return None
    (x, a), (y, c) = squares.items()
    if a != 1:
        x, y, a, c = y, x, c, a
    return _factors(x, y, mixed[0][0], c, dtype) if a == 1 else None


def _factors(x: Expr, y: Expr, b: float, c: float, dtype: str) -> Expr | None:
    """Return ``x * x + b * x * y + c * y * y`` as a product, or None if no real one exists."""
    under = b * b - 4 * c
    if under < 0:
        return None
    found = [(b + under**0.5) / 2, (b - under**0.5) / 2]
    if dtype.startswith("int") and not all(root.is_integer() for root in found):
        return None
    made = {
        root: op_call("add", x, y if root == 1 else op_call("multiply", y, scalar(root, dtype)))
        for root in found
    }
    return op_call("multiply", made[found[0]], made[found[1]])


__all__ = [
    "binomial",
    "canonicalize_cast",
    "canonicalize_ops",
    "div_to_mul",
    "doubled",
    "fast_math",
    "multiply_before_add",
]
