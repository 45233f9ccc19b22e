"""``relay.frontend.common``: helpers with which converters inspect expressions."""

from __future__ import annotations

from typing import Any

from tvm_disc.errors import BadNode
from tvm_disc.relay.builder import var
from tvm_disc.relay.expr import Expr, Var, as_expr
from tvm_disc.relay.inference.infer import infer_type as typed
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.types import TensorType


def infer_type(node: object, mod: IRModule | None = None) -> Expr:
    """Return the expression with inferred types."""
    return typed(as_expr(node), mod)


def infer_shape(inputs: object, mod: IRModule | None = None) -> tuple[object, ...]:
    """Return the dims of a tensor.

    Raises:
        BadNode: the expression is not a tensor.
    """
    found = infer_type(inputs, mod).checked_type
    if not isinstance(found, TensorType):
        raise BadNode(f"infer_shape: expected a tensor, found {found}")
    return tuple(found.shape)


def infer_channels(inputs: object, transpose: bool = False) -> object:
    """Return the number of output channels of a weight; ``transpose`` swaps its first dims."""
    return infer_shape(inputs)[1 if transpose else 0]


def fold_constant(node: object, mod: IRModule | None = None) -> Expr:
    """Return the expression with constant subexpressions evaluated."""
    from tvm_disc.relay_api.transform.fold_constant import fold_constant as folded

    return folded(as_expr(node))


def new_var(
    name_hint: str, type_annotation: Any = None, shape: Any = None, dtype: str = "float32"
) -> Var:
    """Return a variable."""
    return var(name_hint, type_annotation, shape, dtype)


__all__ = ["fold_constant", "infer_channels", "infer_shape", "infer_type", "new_var"]
