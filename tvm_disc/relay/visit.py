"""Walks over expressions.  Nothing here recurses: programs have chains of 10,000 nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from .expr import (
    Call,
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
    """The expressions directly inside ``expr``, in evaluation order (binders included)."""
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
    """Every node reachable from ``roots`` once, operands before users; O(nodes + edges)."""
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


def pattern_vars(pattern: Pattern) -> Iterator[Var]:
    """The variables that ``pattern`` binds, left to right."""
    stack = [pattern]
    while stack:
        top = stack.pop()
        if isinstance(top, PatternVar):
            yield top.var
        elif isinstance(top, (PatternConstructor, PatternTuple)):
            stack.extend(reversed(top.patterns))


def binders(expr: Expr) -> Iterable[Var]:
    """The variables that ``expr`` itself binds."""
    if isinstance(expr, Function):
        return expr.params
    if isinstance(expr, Let):
        return (expr.var,)
    if isinstance(expr, Match):
        return [v for clause in expr.clauses for v in pattern_vars(clause.lhs)]
    return ()


def free_vars(expr: Expr) -> list[Var]:
    """Variables used in ``expr`` but bound nowhere inside it, in order of first use.

    A variable object is bound at one place only (as in Relay's own well-formedness rule), so it
    is enough to subtract what is bound anywhere.
    """
    order = post_order(expr)
    bound = {id(var) for node in order for var in binders(node)}
    return [n for n in order if isinstance(n, Var) and id(n) not in bound]
