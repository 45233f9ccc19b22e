"""``DFPatternCallback``: a rewrite that a user writes as a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_disc.errors import BadNode, shown

from ..expr import Expr
from ..module import IRModule
from .patterns import DFPattern
from .rewriter import rewrite_expr


class DFPatternCallback:
    """Set ``self.pattern`` in ``__init__`` and write ``callback``.

    Args:
        require_type: the types of matched expressions are inferred before the callback runs.
        rewrite_once: one pass over the program, also where the result matches again.
    """

    def __init__(self, require_type: bool = False, rewrite_once: bool = False) -> None:
        self.pattern: Any = None
        self.require_type = require_type
        self.rewrite_once = rewrite_once

    def rewrite(self, expr: Expr) -> Expr:
        """``expr`` rewritten by this callback."""
        return rewrite(self, expr)

    def callback(self, pre: Expr, post: Expr, node_map: Mapping[Any, Sequence[Expr]]) -> Expr:
        """What replaces ``post``; ``node_map[p][0]`` is what the pattern ``p`` stands for.

        ``pre`` is the match as it was, ``post`` the same with its operands rewritten.
        """
        raise BadNode(f"{type(self).__name__} has no callback(pre, post, node_map); write one")


def rewrite(
    callbacks: DFPatternCallback | Sequence[DFPatternCallback],
    expr: Expr,
    mod: IRModule | None = None,
) -> Expr:
    """``expr`` rewritten by all callbacks, until nothing changes any more."""
    if isinstance(callbacks, DFPatternCallback):
        callbacks = [callbacks]
    if not isinstance(callbacks, Sequence):
        raise BadNode(f"rewrite: expected a DFPatternCallback or several, found {shown(callbacks)}")
    for callback in callbacks:
        _check(callback)
    if not isinstance(expr, Expr):
        raise BadNode(f"rewrite: expected a Relay expression, found {shown(expr)}")
    return rewrite_expr(callbacks, expr)


def _check(callback: object) -> None:
    if not isinstance(callback, DFPatternCallback):
        raise BadNode(f"rewrite: expected a DFPatternCallback, found {shown(callback)}")
    if not isinstance(callback.pattern, DFPattern):
        raise BadNode(
            f"{type(callback).__name__}.pattern: expected a pattern such as wildcard(), found "
            f"{callback.pattern!r}; set it in __init__"
        )


__all__ = ["DFPatternCallback", "rewrite"]
