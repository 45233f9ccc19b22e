"""Scopes of the importer, and what a value inside a recursive function may be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.relay import expr as ast
from tvm_disc.relay.importer.tensor import Closure, Tensor
from tvm_disc.relay.visit import post_order


@dataclass(eq=False)
class Scope:
    """Variables in reach and values already computed, innermost last.

    A scope with ``captures`` belongs to a function of its own in the Relax module: what it reads
    from outside must become a parameter.
    """

    parent: Scope | None
    variables: dict[ast.Var, Any] = field(default_factory=dict)
    memo: dict[int, Any] = field(default_factory=dict)
    is_function: bool = False
    captures: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)


class Bottom:
    """The value of a self-call while a function's result type is still being found."""


BOTTOM = Bottom()


@dataclass(eq=False)
class Tail:
    """The result of a self-call, which may only be returned: nobody may ask for its dims."""

    var: Any


def refuse_tail(value: Any) -> None:
    """Raise unless ``value`` may be computed with."""
    if isinstance(value, Tail):
        raise Unsupported("the result of a recursive call is used: only tail recursion is compiled")


def operands_of(node: ast.Expr) -> tuple[ast.Expr, ...]:
    """What must be evaluated before a node, in the node's own scope."""
    if isinstance(node, ast.Call):
        callee = () if isinstance(node.op, ast.Op | ast.GlobalVar) else (node.op,)
        return (*callee, *node.args)
    if isinstance(node, ast.Tuple):
        return node.fields
    if isinstance(node, ast.TupleGetItem):
        return (node.tuple_value,)
    if isinstance(node, ast.If):
        return (node.cond,)
    return ()


def calls_itself(closure: Closure) -> bool:
    """Whether a function's body mentions the variable it is bound to."""
    if closure.recursive is None:
        return (
            any(
                isinstance(e, ast.GlobalVar) and e.name_hint == closure.name
                for e in post_order(closure.function.body)
            )
            if closure.scope is None
            else False
        )
    return any(e is closure.recursive for e in post_order(closure.function.body))
