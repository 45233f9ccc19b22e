"""Walks over expressions. They do not recurse: programs have chains of 10,000 nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence

from .expr import (
    Call,
    Clause,
    Expr,
    Function,
    If,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the expressions directly inside ``expr``, in evaluation order, binders included."""
    handler = _CHILDREN.get(type(expr))
    return handler(expr) if handler else ()


_CHILDREN: dict[type, Callable[..., tuple[Expr, ...]]] = {
    Call: lambda e: (e.op, *e.args),
    Function: lambda e: (*e.params, e.body),
    Let: lambda e: (e.var, e.value, e.body),
    If: lambda e: (e.cond, e.true_branch, e.false_branch),
    Tuple: lambda e: e.fields,
    TupleGetItem: lambda e: (e.tuple_value,),
    RefCreate: lambda e: (e.value,),
    RefRead: lambda e: (e.ref,),
    RefWrite: lambda e: (e.ref, e.value),
    Match: lambda e: (e.data, *(c.rhs for c in e.clauses)),
}


def post_order(*roots: Expr) -> list[Expr]:
    """Return every node reachable from ``roots`` once, operands before users; O(nodes + edges)."""
    order: list[Expr] = []
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        stack.append((node, True))
        stack.extend((c, False) for c in reversed(children(node)) if id(c) not in seen)
    return order


def with_children(expr: Expr, parts: Sequence[Expr]) -> Expr:
    """Return ``expr`` with other direct operands, in the order of ``children``.

    Returns ``expr`` itself if the operands are the same objects.

    Raises:
        BadNode: a bound variable is replaced by an expression that is not a variable.
    """
    if all(map(operator.is_, children(expr), parts)):
        return expr
    handler = _WITH_CHILDREN.get(type(expr))
    made = handler(expr, *parts) if handler else expr
    assert isinstance(made, Expr)
    return made


_WITH_CHILDREN: dict[type, Callable[..., Expr]] = {
    Call: lambda e, op, *args: Call(op, args, e.attrs, e.given_type_args, e.span),
    Function: lambda e, *parts: Function(
        parts[:-1], parts[-1], e.ret_type, e.type_params, e.attrs, e.span
    ),
    Let: lambda e, var, value, body: Let(var, value, body, e.span),
    If: lambda e, cond, yes, no: If(cond, yes, no, e.span),
    Tuple: lambda e, *fields: Tuple(fields, e.span),
    TupleGetItem: lambda e, whole: TupleGetItem(whole, e.index, e.span),
    RefCreate: lambda e, value: RefCreate(value, e.span),
    RefRead: lambda e, ref: RefRead(ref, e.span),
    RefWrite: lambda e, ref, value: RefWrite(ref, value, e.span),
    Match: lambda e, data, *rhs: Match(
        data,
        tuple(Clause(c.lhs, r) for c, r in zip(e.clauses, rhs, strict=True)),
        e.complete,
        e.span,
    ),
}


def rebuilt(
    roots: Iterable[Expr], change: Callable[[Expr, Sequence[Expr]], Expr | None]
) -> dict[int, Expr]:
    """Return the replacement of every expression below ``roots``, by identity.

    ``change(node, new operands)`` is called for each node, operands before users. If it returns
    None, the node keeps its class with the new operands. Unchanged nodes are not copied.
    """
    made: dict[int, Expr] = {}
    for node in post_order(*roots):
        before = children(node)
        after = [made[id(c)] for c in before]
        new = change(node, after)
        if new is None:
            new = with_children(node, after)
        made[id(node)] = new
    return made


def pattern_vars(pattern: Pattern) -> Iterator[Var]:
    """Yield the variables that ``pattern`` binds, left to right."""
    stack = [pattern]
    while stack:
        top = stack.pop()
        if isinstance(top, PatternVar):
            yield top.var
        elif isinstance(top, (PatternConstructor, PatternTuple)):
            stack.extend(reversed(top.patterns))


def binders(expr: Expr) -> Iterable[Var]:
    """Return the variables that ``expr`` itself binds."""
    if isinstance(expr, Function):
        return expr.params
    if isinstance(expr, Let):
        return (expr.var,)
    if isinstance(expr, Match):
        return [v for clause in expr.clauses for v in pattern_vars(clause.lhs)]
    return ()


def free_vars(expr: Expr) -> list[Var]:
    """Return the variables used in ``expr`` but not bound inside it, in order of first use.

    A variable object is bound in one place only (Relay's own well-formedness rule), so it suffices
    to exclude variables that are bound anywhere inside ``expr``.
    """
    order = post_order(expr)
    bound = {id(var) for node in order for var in binders(node)}
    return [n for n in order if isinstance(n, Var) and id(n) not in bound]
