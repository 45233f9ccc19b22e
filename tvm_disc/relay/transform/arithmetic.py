"""Rewrites of single operators: faster arithmetic, canonical forms."""

from __future__ import annotations

from ..expr import Call, Expr, Function
from .rules import Rule, Site, apply_rules, op_call, row_of

_FAST = {"exp": "fast_exp", "tanh": "fast_tanh", "erf": "fast_erf"}


def _faster(name: str) -> Rule:
    return lambda site: op_call(name, *site.args)


FAST_RULES: dict[str, Rule] = {
    **{name: _faster(fast) for name, fast in _FAST.items()},
    "nn.softmax": lambda site: op_call("nn.fast_softmax", *site.args, **site.attrs),
}


def fast_math(func: Function) -> Function:
    """exp, tanh, erf and softmax become their approximations."""
    return apply_rules(func, FAST_RULES)


def _bias_add(site: Site) -> Expr | None:
    """An addition whose second operand is stretched over the axes behind it."""
    rank = site.rank(0)
    if rank is None:
        return None
    behind = rank - site.attrs["axis"] % rank - 1
    data, bias = site.args
    wide = op_call("expand_dims", bias, axis=1, num_newaxis=behind) if behind else bias
    return op_call("add", data, wide)


def canonicalize_ops(func: Function) -> Function:
    """``bias_add`` becomes ``expand_dims`` and ``add``."""
    return apply_rules(func, {"nn.bias_add": _bias_add})


def is_call_of(expr: Expr, name: str) -> bool:
    """Whether ``expr`` calls the operator of that name."""
    row = row_of(expr)
    return isinstance(expr, Call) and row is not None and row.name == name


__all__ = ["canonicalize_ops", "fast_math", "is_call_of"]
