"""``DFPatternCallback``: a rewrite that a user defines as a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_disc.errors import BadNode, shown
from tvm_disc.relay.expr import Expr
from tvm_disc.relay.module import IRModule
from tvm_disc.relay_api.dataflow_pattern.patterns import DFPattern
from tvm_disc.relay_api.dataflow_pattern.rewriter import rewrite_expr


class DFPatternCallback:
    """Base class of rewrites: set ``self.pattern`` in ``__init__`` and define ``callback``.

    Args:
        require_type: infer the types of matched expressions before the callback runs.
        rewrite_once: rewrite the program in one pass, even if the result matches again.
    """

    def __init__(self, require_type: bool = False, rewrite_once: bool = False) -> None:
        self.pattern: Any = None
        self.require_type = require_type
        self.rewrite_once = rewrite_once

    def rewrite(self, expr: Expr) -> Expr:
        """Return ``expr`` rewritten by this callback."""
        return rewrite(self, expr)

    def callback(self, pre: Expr, post: Expr, node_map: Mapping[Any, Sequence[Expr]]) -> Expr:
        """Return the replacement of ``post``; ``node_map[p][0]`` is the expression that ``p``
        matched.

        ``pre`` is the original match, ``post`` the match with rewritten operands.
        """
        raise BadNode(
            f"{type(self).__name__}: expected a method callback(pre, post, node_map); define it"
        )


def rewrite(
    callbacks: DFPatternCallback | Sequence[DFPatternCallback],
    expr: Expr,
    mod: IRModule | None = None,
) -> Expr:
    """Return ``expr`` rewritten by all callbacks until it no longer changes.

    ``mod`` has the functions and data types that ``expr`` uses, for callbacks with
    ``require_type``.
    """
    if isinstance(callbacks, DFPatternCallback):
        callbacks = [callbacks]
    if not isinstance(callbacks, Sequence):
        raise BadNode(
            f"rewrite: expected a DFPatternCallback or a sequence of them, found {shown(callbacks)}"
        )
    for callback in callbacks:
        _check(callback)
    if not isinstance(expr, Expr):
        raise BadNode(f"rewrite: expected a Relay expression, found {shown(expr)}")
    return rewrite_expr(callbacks, expr, mod)


def _check(callback: object) -> None:
    if not isinstance(callback, DFPatternCallback):
        raise BadNode(f"rewrite: expected a DFPatternCallback, found {shown(callback)}")
    if not isinstance(callback.pattern, DFPattern):
        raise BadNode(
            f"{type(callback).__name__}.pattern: expected a pattern such as wildcard(), found "
            f"{callback.pattern!r}; set it in __init__"
        )


__all__ = ["DFPatternCallback", "rewrite"]
