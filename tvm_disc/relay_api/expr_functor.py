"""``ExprFunctor``, ``ExprVisitor`` and ``ExprMutator``: base classes of walks over expressions.

A subclass overrides methods such as ``visit_call``; every node is visited once. The methods call
each other, so a deep program needs a deep stack: :func:`deep_walk` provides it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tvm_disc.relay.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from tvm_disc.relay.visit import children, post_order, with_children
from tvm_disc.relay_api.type_functor import method_for

T = TypeVar("T")

# Programs deeper than SHALLOW are walked in a new thread: the main thread's stack size is fixed.
SHALLOW = 100
FRAMES_PER_NODE = 16
BYTES_PER_NODE = 32 << 10
LARGEST_STACK = 1 << 30

_METHODS: dict[type, str] = {
    Function: "visit_function",
    Call: "visit_call",
    Let: "visit_let",
    Var: "visit_var",
    GlobalVar: "visit_global_var",
    If: "visit_if",
    Tuple: "visit_tuple",
    TupleGetItem: "visit_tuple_getitem",
    Constant: "visit_constant",
    Op: "visit_op",
    RefCreate: "visit_ref_create",
    RefRead: "visit_ref_read",
    RefWrite: "visit_ref_write",
    Constructor: "visit_constructor",
    Match: "visit_match",
}


def _depth(root: Expr) -> int:
    """Return the number of nodes on the longest path below ``root``."""
    depth: dict[int, int] = {}
    for node in post_order(root):
        depth[id(node)] = 1 + max((depth.get(id(c), 0) for c in children(node)), default=0)
    return depth[id(root)]


def deep_walk(root: Expr, walk: Callable[[], T]) -> T:
    """Return ``walk()``, which recurses over the nodes below ``root``, run with a large enough
    stack.
    """
    depth = _depth(root)
    if depth <= SHALLOW:
        return walk()
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(walk())
        except BaseException as error:
            failed.append(error)

    limit, stack = sys.getrecursionlimit(), threading.stack_size()
    sys.setrecursionlimit(max(limit, limit + depth * FRAMES_PER_NODE))
    try:
        threading.stack_size(min(LARGEST_STACK, (64 << 20) + depth * BYTES_PER_NODE))
        thread = threading.Thread(target=run, name="tvm_disc walk")
        thread.start()
        thread.join()
    finally:
        threading.stack_size(stack)
        sys.setrecursionlimit(limit)
    if failed:
        raise failed[0]
    return done[0]


class ExprFunctor:
    """Dispatch by node class; results are cached in ``memo_map`` by identity.

    A subclass defines ``visit_call``, ``visit_var`` ... for every class of node that can occur.
    """

    _walking = False

    def __init__(self) -> None:
        self.memo_map: dict[object, object] = {}

    def visit(self, expr: object) -> Any:
        """Return the result for ``expr``; computed once per node."""
        if expr in self.memo_map:
            return self.memo_map[expr]
        if self._walking or not isinstance(expr, Expr):
            return self._visit_once(expr)
        self._walking = True
        try:
            return deep_walk(expr, lambda: self._visit_once(expr))
        finally:
            self._walking = False

    def _visit_once(self, expr: object) -> object:
        found = method_for(self, _METHODS, "expression", expr)(expr)
        self.memo_map[expr] = found
        return found


class ExprVisitor(ExprFunctor):
    """Visitor of every node below an expression, once each, operands in order."""

    def visit_tuple(self, tup: Tuple) -> None:
        for x in tup.fields:
            self.visit(x)

    def visit_call(self, call: Call) -> None:
        self.visit(call.op)
        for arg in call.args:
            self.visit(arg)

    def visit_var(self, var: Var) -> None:
        pass

    def visit_let(self, let: Let) -> None:
        self.visit(let.var)
        self.visit(let.value)
        self.visit(let.body)

    def visit_function(self, fn: Function) -> None:
        for x in fn.params:
            self.visit(x)
        self.visit(fn.body)

    def visit_if(self, if_: If) -> None:
        self.visit(if_.cond)
        self.visit(if_.true_branch)
        self.visit(if_.false_branch)

    def visit_global_var(self, gvar: GlobalVar) -> None:
        pass

    def visit_constructor(self, con: Constructor) -> None:
        pass

    def visit_op(self, op: Op) -> None:
        pass

    def visit_constant(self, const: Constant) -> None:
        pass

    def visit_ref_create(self, ref: RefCreate) -> None:
        self.visit(ref.value)

    def visit_ref_read(self, read: RefRead) -> None:
        self.visit(read.ref)

    def visit_ref_write(self, write: RefWrite) -> None:
        self.visit(write.ref)
        self.visit(write.value)

    def visit_tuple_getitem(self, item: TupleGetItem) -> None:
        self.visit(item.tuple_value)

    def visit_match(self, match: Match) -> None:
        self.visit(match.data)
        for clause in match.clauses:
            self.visit(clause.rhs)


def _same(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    return all(x is y for x, y in zip(a, b, strict=True))


def rewrite_post_order(
    root: Expr,
    leave: Callable[[Expr, Expr], Expr] = lambda _, made: made,
    known: Mapping[Expr, Expr] | None = None,
    done: dict[Expr, Expr] | None = None,
) -> Expr:
    """Return ``root`` with every node replaced by ``leave(node, node with replaced operands)``.

    Operands are processed before users, each node once, without recursion. A node in ``known`` is
    replaced by its value there and not visited. ``done`` receives the replacement of every node.
    """
    done = {} if done is None else done
    done.update(known or {})
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        parts = children(node)
        if not ready and parts:
            stack.append((node, True))
            stack.extend((c, False) for c in reversed(parts) if c not in done)
            continue
        made = with_children(node, tuple(done[c] for c in parts)) if parts else node
        done[node] = leave(node, made)
    return done[root]


class ExprMutator(ExprFunctor):
    """Visitor that rebuilds an expression; sharing is kept and unchanged nodes are reused."""

    def visit_function(self, fn: Function) -> object:
        return self._visit_parts(fn)

    def visit_let(self, let: Let) -> object:
        return self._visit_parts(let)

    def visit_call(self, call: Call) -> object:
        return self._visit_parts(call)

    def visit_var(self, var: Var) -> object:
        return var

    def visit_global_id(self, global_var: GlobalVar) -> object:
        """Return a global variable, under the method name that earlier releases of Relay used."""
        return global_var

    def visit_if(self, if_: If) -> object:
        return self._visit_parts(if_)

    def visit_tuple(self, tup: Tuple) -> object:
        return self._visit_parts(tup)

    def visit_tuple_getitem(self, item: TupleGetItem) -> object:
        return self._visit_parts(item)

    def visit_global_var(self, gvar: GlobalVar) -> object:
        return gvar

    def visit_op(self, op: Op) -> object:
        return op

    def visit_constant(self, const: Constant) -> object:
        return const

    def visit_constructor(self, con: Constructor) -> object:
        return con

    def visit_match(self, match: Match) -> object:
        return self._visit_parts(match)

    def visit_ref_create(self, ref: RefCreate) -> object:
        return self._visit_parts(ref)

    def visit_ref_write(self, write: RefWrite) -> object:
        return self._visit_parts(write)

    def visit_ref_read(self, read: RefRead) -> object:
        return self._visit_parts(read)

    def _visit_parts(self, node: Expr) -> Expr:
        return with_children(node, tuple([self.visit(part) for part in children(node)]))


__all__ = [
    "ExprFunctor",
    "ExprMutator",
    "ExprVisitor",
    "deep_walk",
    "rewrite_post_order",
]
