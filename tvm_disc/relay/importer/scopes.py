"""Scopes of the importer, and placeholders for values inside recursive functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm_disc.relay import expr as ast
from tvm_disc.relay.importer.kinds import Kind
from tvm_disc.relay.importer.tensor import Closure
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.visit import post_order


@dataclass(eq=False)
class Captured:
    """A value of an outer function that an inner function receives as an extra parameter."""

    original: Any
    owner: Frame
    inner: Any


@dataclass(eq=False)
class Frame:
    """A Relax function being built; the outer values that it reads become parameters.

    Attributes:
        captures: captured values by the identity of the outer value.
    """

    captures: dict[int, Captured] = field(default_factory=dict)


@dataclass(eq=False)
class Scope:
    """Visible variables and memoized values of one scope.

    Invariant: every value in ``variables`` and ``memo`` belongs to ``frame``.
    """

    parent: Scope | None
    frame: Frame
    variables: dict[ast.Var, Any] = field(default_factory=dict)
    memo: dict[int, object] = field(default_factory=dict)
    types: dict[str, Kind] = field(default_factory=dict)


class Bottom:
    """A value that is never produced.

    A call whose type is still being inferred returns it, and so does a match without a fitting
    clause.
    """


BOTTOM = Bottom()
FAILED = Bottom()  # result of a match without a fitting clause, which stops the program


@dataclass(eq=False)
class TailCall:
    """The result of a self-call, which may only be returned; its dims are unknown.

    Attributes:
        others: receives the value of the other branch, with which the loop ends.
    """

    var: Any
    others: list[object]


class TailUsed(Exception):
    """Raised if the result of a self-call is used: the function is not a loop."""


class NotALoop(Exception):
    """Raised if a function needs boxed values and cannot become a loop."""


def refuse_tail(value: object) -> None:
    """Raise TailUsed if ``value`` is the result of a self-call."""
    if isinstance(value, TailCall):
        raise TailUsed


def operands_of(node: ast.Expr) -> tuple[ast.Expr, ...]:
    """Return the operands that must be evaluated before a node, in the node's own scope."""
    if isinstance(node, ast.Call):
        plain = isinstance(node.op, ast.Op | ast.GlobalVar | ast.Constructor)
        callee = () if plain else (node.op,)
        return (*callee, *node.args)
    if isinstance(node, ast.Tuple):
        return node.fields
    if isinstance(node, ast.TupleGetItem):
        return (node.tuple_value,)
    if isinstance(node, ast.If):
        return (node.cond,)
    if isinstance(node, ast.Match):
        return (node.data,)
    if isinstance(node, ast.RefCreate):
        return (node.value,)
    if isinstance(node, ast.RefRead):
        return (node.ref,)
    if isinstance(node, ast.RefWrite):
        return (node.ref, node.value)
    return ()


def mentions(expr: ast.Expr, closure: Closure) -> bool:
    """Return whether an expression references the function that a closure is bound to."""
    if closure.recursive is not None:
        return any(e is closure.recursive for e in post_order(expr))
    if not closure.is_global:
        return False
    return any(
        isinstance(e, ast.GlobalVar) and e.name_hint == closure.name for e in post_order(expr)
    )


def is_loop(closure: Closure) -> bool:
    """Return whether a function is ``let ...; if (c) { f(next) } else { result }``, in either
    order.
    """
    body = _without_lets(closure.function.body, closure)
    if not isinstance(body, ast.If) or mentions(body.cond, closure):
        return False
    again = [b for b in (body.true_branch, body.false_branch) if mentions(b, closure)]
    if len(again) != 1:
        return False
    call = _without_lets(again[0], closure)
    if not isinstance(call, ast.Call) or any(mentions(a, closure) for a in call.args):
        return False
    return mentions(call.op, closure) and isinstance(call.op, ast.Var | ast.GlobalVar)


def _without_lets(expr: ast.Expr | None, closure: Closure) -> ast.Expr | None:
    while isinstance(expr, ast.Let):
        expr = None if mentions(expr.value, closure) else expr.body
    return expr


def recursive_globals(mod: IRModule) -> set[str]:
    """Return the names of the module's functions that call themselves, directly or not."""
    calls = {
        gv.name_hint: {e.name_hint for e in post_order(f.body) if isinstance(e, ast.GlobalVar)}
        for gv, f in mod.functions.items()
        if isinstance(f, ast.Function)
    }
    found = set()
    for name in calls:
        seen: set[str] = set()
        stack = list(calls[name])
        while stack:
            callee = stack.pop()
            if callee not in seen:
                seen.add(callee)
                stack.extend(calls.get(callee, ()))
        if name in seen:
            found.add(name)
    return found
