"""Types, inferred on access, of expressions that were parsed without type inference."""

from __future__ import annotations

from contextlib import suppress

from tvm_disc.errors import DiscError
from tvm_disc.relay.expr import Expr
from tvm_disc.relay.inference.infer import infer_type
from tvm_disc.relay.types import Type
from tvm_disc.relay.visit import post_order


def type_on_access(expr: Expr) -> Type:
    """Return the type of an expression that was parsed.

    Inference sets the types of annotated variables in place. They are moved to an attribute that
    printing does not read, so that the text of the program does not change.

    Raises:
        ValueError: ``expr`` was not parsed, or does not determine its type alone.
    """
    found = None
    if expr.span is not None and expr.span.implied:
        bare = [node for node in post_order(expr) if node._checked_type is None]
        with suppress(DiscError):  # a call of a function of the module
            found = infer_type(expr)._checked_type
        for node in bare:
            node._type_on_access, node._checked_type = node._checked_type, None
    if found is None:
        raise ValueError(
            "the type of this expression has not been inferred; run "
            "relay.transform.InferType() over its module and take it from the result"
        )
    expr._type_on_access = found
    return found


__all__ = ["type_on_access"]
