"""Substitution of variables and functions, and copies with fresh variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_disc.relay.expr import Expr, Function, Let, Match, Var
from tvm_disc.relay.visit import binders, children, post_order, with_children
from tvm_disc.relay_api.expr_functor import rewrite_post_order


def substituted(expr: Expr, values: Mapping[Any, Expr]) -> Expr:
    """Return ``expr`` with variables replaced; a let that binds one of them is removed."""
    done: dict[Expr, Expr] = {**values}
    stack = [(expr, False)]
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        gone = isinstance(node, Let) and node.var in values
        parts = (node.body,) if gone and isinstance(node, Let) else children(node)
        if ready or not parts:
            new = tuple(done[p] for p in parts)
            done[node] = new[0] if gone else with_children(node, new) if parts else node
        else:
            stack.append((node, True))
            stack.extend((part, False) for part in reversed(parts))
    return done[expr]


def fresh(expr: Expr) -> Expr:
    """Return a copy of ``expr`` with new bound variables: a program binds a variable only once."""
    order = post_order(expr)
    bound = {v for n in order for v in binders(n) if not isinstance(n, Match)}
    return rewrite_post_order(
        expr, known={v: Var(v.name_hint, v.type_annotation, v.span) for v in bound}
    )


def applied(func: Function, args: tuple[Expr, ...]) -> Expr:
    """Return the body of ``func`` with its parameters replaced by arguments."""
    return substituted(func.body, dict(zip(func.params, args, strict=True)))


__all__ = ["applied", "fresh", "substituted"]
