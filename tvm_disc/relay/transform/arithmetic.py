"""Rewrites of single operators: faster arithmetic, canonical forms."""

from __future__ import annotations

import re

import numpy as np

from ..dataflow_pattern.known_types import KnownTypes
from ..dataflow_pattern.matcher import Graph
from ..expr import Call, Constant, Expr, Function
from ..expr_functor import rewrite_post_order
from ..ops.row import Pattern
from .rules import Rule, Site, apply_rules, op_call, op_name, row_of

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
    """Return an addition with the bias expanded over the axes after its own."""
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
    """Replace divisions by constants by products."""
    return apply_rules(func, {"divide": _reciprocal})


def canonicalize_cast(func: Function) -> Expr:
    """Duplicate a widening cast for each of the element-wise calls that read it."""
    graph, types = Graph(func), KnownTypes(func)
    casts: set[Expr] = {
        node
        for node in graph.order
        if op_name(node) == "cast" and _widens(node, types) and _is_read_apart(graph, node)
    }

    def leave(_before: Expr, made: Expr) -> Expr:
        row = row_of(made)
        if not isinstance(made, Call) or row is None or row.pattern > Pattern.BROADCAST:
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


def _is_read_apart(graph: Graph, cast: Expr) -> bool:
    users = graph.users[cast]
    rows = [row_of(user) for user in users]
    return len(set(users)) > 1 and all(
        r is not None and r.pattern <= Pattern.BROADCAST for r in rows
    )


def _copy(cast: Expr) -> Expr:
    assert isinstance(cast, Call)
    return Call(cast.op, cast.args, cast.attrs, (), cast.span)


__all__ = ["canonicalize_cast", "canonicalize_ops", "div_to_mul", "fast_math"]
