"""Substitution of variables in expressions, and of function parameters by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_disc.errors import BadNode, shown
from tvm_disc.relay.expr import Constant, Expr, Function, Var, as_expr
from tvm_disc.relay.visit import free_vars, rebuilt
from tvm_disc.typing import Array


def bind(expr: Expr, binds: Mapping[Var, object]) -> Expr:
    """Return ``expr`` with variables replaced by expressions.

    Bound parameters of a function are removed. Free variables of the substituted expressions become
    parameters.
    """
    if not isinstance(binds, Mapping):
        raise BadNode(
            f"bind: expected a mapping from relay.Var to expressions, found {shown(binds)}"
        )
    made: dict[int, Expr] = {}
    for var, value in binds.items():
        if not isinstance(var, Var):
            raise BadNode(f"bind: expected a relay.Var as the key, found {shown(var)}")
        made[id(var)] = as_expr(value)
    if not isinstance(expr, Function):
        return rebuilt([as_expr(expr)], lambda e, _: made.get(id(e)))[id(as_expr(expr))]
    body = rebuilt([expr.body], lambda e, _: made.get(id(e)))[id(expr.body)]
    params = [p for p in expr.params if id(p) not in made]
    outside = {id(v) for v in free_vars(expr)}
    known = {id(p) for p in params} | outside
    params += [v for v in free_vars(body) if id(v) not in known]
    return Function(params, body, expr.ret_type, expr.type_params, expr.attrs, expr.span)


def bind_params_by_name(func: Function, params: Mapping[str, Expr | Array]) -> Function:
    """Return the function with the named parameters bound to constants; other names are ignored.

    Raises:
        BadNode: several parameters have one of the names.
    """
    binds: dict[Var, object] = {}
    names = [p.name_hint for p in func.params]
    for param in func.params:
        value = params.get(param.name_hint)
        if value is None:
            continue
        if names.count(param.name_hint) > 1:
            raise BadNode(f"several parameters have the name {param.name_hint!r}; rename them")
        binds[param] = value if isinstance(value, Expr) else Constant(_array(value))
    made = bind(func, binds)
    assert isinstance(made, Function)
    return made


def _array(value: object) -> np.ndarray[Any, Any]:
    plain = value.numpy() if hasattr(value, "numpy") else value
    return np.asarray(plain)


__all__ = ["bind", "bind_params_by_name"]
