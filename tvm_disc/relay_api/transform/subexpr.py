"""Elimination of common subexpressions and of dead bindings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tvm_disc.relay.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Op,
    RefRead,
    RefWrite,
    TupleGetItem,
    Var,
)
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.visit import children, free_vars, post_order
from tvm_disc.relay_api.expr_functor import rewrite_post_order
from tvm_disc.relay_api.transform.rules import row_of
from tvm_disc.relay_api.transform.substitute import substituted


def eliminate_common_subexpr(func: Function, fskip: Callable[[Expr], bool] | None) -> Expr:
    """Merge equal operator calls, and equal projections of tuples."""
    seen: dict[object, Expr] = {}

    def leave(_before: Expr, made: Expr) -> Expr:
        key = _key(made)
        if key is None or (fskip is not None and fskip(made)):
            return made
        return seen.setdefault(key, made)

    return rewrite_post_order(func, leave)


def _key(
    expr: Expr,
) -> tuple[Expr, int] | tuple[str, tuple[tuple[str, bytes] | Expr, ...], str] | None:
    """Return a key that is equal for expressions that can be merged; None for other expressions."""
    if isinstance(expr, TupleGetItem):
        return (expr.tuple_value, expr.index)
    row = row_of(expr)
    if row is None or not isinstance(expr, Call):
        return None
    return (row.name, tuple(map(_operand, expr.args)), repr(sorted(expr.attrs.items())))


def _operand(arg: Expr) -> tuple[str, bytes] | Expr:
    if isinstance(arg, Constant) and arg.data.ndim == 0:
        return (str(arg.data.dtype), arg.data.tobytes())
    return arg


class Purity:
    """Purity of expressions: an expression is impure if it reads or writes a reference or calls an
    unknown function.
    """

    def __init__(self, mod: IRModule, func: Expr, ignore_impurity: bool) -> None:
        self.functions: dict[Any, Function] = {**mod.functions}
        self.ignore = ignore_impurity
        for node in post_order(func, *mod.functions.values()):
            if isinstance(node, Let) and isinstance(node.value, Function):
                self.functions[node.var] = node.value

    def is_pure(self, expr: Expr) -> bool:
        """Return whether evaluating ``expr`` has no side effects."""
        todo, seen = [expr], set()
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, (RefWrite, RefRead)):
                return self.ignore
            if isinstance(node, Call) and not isinstance(node.op, (Op, Constructor)):
                called = node.op if isinstance(node.op, Function) else self._callee(node.op)
                if called is None:
                    return self.ignore
                todo.append(called.body)
            todo.extend(c for c in children(node) if not isinstance(c, Function))
        return True

    def _callee(self, op: Expr) -> Function | None:
        return self.functions.get(op) if isinstance(op, (Var, GlobalVar)) else None


def eliminate_dead_code(
    mod: IRModule, func: Function, inline_once: bool, ignore_impurity: bool
) -> Expr:
    """Remove unused bindings; with ``inline_once`` inline bindings that are used once."""
    purity = Purity(mod, func, ignore_impurity)
    lets = [n for n in post_order(func) if isinstance(n, Let)]
    free = {n for n in lets if isinstance(n.value, Function) or purity.is_pure(n.value)}
    reached, uses = _reached(func, free)

    def leave(node: Expr, made: Expr) -> Expr:
        gone = isinstance(node, Let) and node in free and node.var not in reached
        return made.body if gone and isinstance(made, Let) else made

    result = rewrite_post_order(func, leave)
    if not inline_once:
        return result
    captured = _captured(func)
    once = [n for n in lets if n in free and uses.get(n.var) == 1 and n.var not in captured]
    return _inlined(result, [n for n in once if not _names(n.value, n.var)])


def _captured(func: Function) -> set[Expr]:
    """Return the variables that nested functions of ``func`` capture."""
    inner = [n for n in post_order(func) if isinstance(n, Function) and n is not func]
    return {var for f in inner for var in free_vars(f)}


def _reached(func: Expr, free: set[Let]) -> tuple[set[Expr], dict[Expr, int]]:
    """Return the nodes that the result depends on, and the number of uses of each node."""
    values = {let.var: let.value for let in free}
    reached: set[Expr] = set()
    uses: dict[Expr, int] = {}
    todo: list[Expr] = [func]
    while todo:
        node = todo.pop()
        if node in reached:
            continue
        reached.add(node)
        if isinstance(node, Let):
            parts: tuple[Expr, ...] = (node.body,) if node in free else (node.value, node.body)
        else:
            parts = (values[node],) if isinstance(node, Var) and node in values else children(node)
        for part in parts:
            uses[part] = uses.get(part, 0) + 1
        todo.extend(parts)
    return reached, uses


def _names(expr: Expr, var: Var) -> bool:
    return any(node is var for node in post_order(expr))


def _inlined(expr: Expr, lets: Iterable[Let]) -> Expr:
    """Return ``expr`` with the variables of ``lets`` replaced by their values.

    A value may use other variables of ``lets``.
    """
    names = {let.var for let in lets}
    for let in [n for n in post_order(expr) if isinstance(n, Let) and n.var in names]:
        known = {n.var: n.value for n in post_order(expr) if isinstance(n, Let)}
        expr = substituted(expr, {let.var: known[let.var]})
    return expr


__all__ = ["eliminate_common_subexpr", "eliminate_dead_code"]
