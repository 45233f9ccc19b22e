"""Predicates of a program's form (well-formed, basic block normal form, constant), and its
features.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from tvm_disc.errors import TypeMismatch
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
    as_expr,
)
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.visit import children, pattern_vars, post_order

_ATOMS = (Var, GlobalVar, Constant, Op, Constructor)


def well_formed(expr: Expr | IRModule) -> bool:
    """Return whether every variable is bound once and used only in the scope of its binding.

    Free variables are allowed.
    """
    roots = expr.functions.values() if isinstance(expr, IRModule) else (as_expr(expr),)
    check = _Names()
    return all(check.run(root) for root in roots)


class _Names:
    """Variables in scope, variables bound anywhere, and free variables."""

    def __init__(self) -> None:
        self.current: set[int] = set()
        self.bound: set[int] = set()
        self.free: set[int] = set()
        self.seen: set[int] = set()
        self.fits = True

    def run(self, root: Expr) -> bool:
        stack = [self._visit(root)]
        while stack and self.fits:
            child = next(stack[-1], None)
            if child is None:
                stack.pop()
            elif isinstance(child, Var):
                self._use(child)
            elif id(child) not in self.seen:
                stack.append(self._visit(child))
        return self.fits

    def _use(self, var: Var) -> None:
        if id(var) not in self.current:
            self.fits = self.fits and id(var) not in self.bound
            self.free.add(id(var))

    def _bind(self, var: Var) -> None:
        self.fits = self.fits and id(var) not in self.bound | self.free
        self.bound.add(id(var))
        self.current.add(id(var))

    def _visit(self, node: Expr) -> Iterator[Expr]:
        self.seen.add(id(node))
        outer = set(self.current) if isinstance(node, Function | Let | Match) else None
        if isinstance(node, Var):
            self._use(node)
        elif isinstance(node, Function):
            for p in node.params:
                self._bind(p)
            yield node.body
        elif isinstance(node, Let):
            # A chain of lets is one scope and is walked in a loop, which keeps the stack flat.
            rest: Expr = node
            while isinstance(rest, Let):
                self._bind(rest.var)
                yield rest.value
                rest = rest.body
            yield rest
        elif isinstance(node, Match):
            yield node.data
            for clause in node.clauses:
                before = set(self.current)
                for v in pattern_vars(clause.lhs):
                    self._bind(v)
                yield clause.rhs
                self.current = before
        else:
            yield from children(node)
        if outer is not None:
            self.current = outer


def check_basic_block_normal_form(expr: Expr) -> bool:
    """Return True if every computed value is used in one block only.

    A block is the body of a function, a branch, a clause, or a chain of lets. A value used by
    several blocks must be bound before them.

    Raises:
        TypeMismatch: with the first expression whose scope should be lifted.
    """
    scopes: dict[int, int] = {}
    blocks = 0
    stack: list[tuple[Expr, int]] = [(as_expr(expr), 0)]
    while stack:
        node, scope = stack.pop()
        if isinstance(node, _ATOMS) or scopes.get(id(node)) == scope:
            continue
        if id(node) in scopes:
            raise TypeMismatch(
                "the expression below violates the basic block normal form in that its scope "
                f"should be lifted:\n{node.astext(show_meta_data=False)}"
            )
        scopes[id(node)] = scope
        for block in _blocks(node):
            blocks += 1
            stack.extend((part, blocks) for part in block)
        stack.extend((part, scope) for part in _inside(node))
    return True


def _blocks(node: Expr) -> list[tuple[Expr, ...]]:
    """Return the blocks that a node opens, each as the expressions evaluated in it."""
    if isinstance(node, If):
        return [(node.true_branch,), (node.false_branch,)]
    if isinstance(node, Match):
        return [(c.rhs,) for c in node.clauses]
    if isinstance(node, Function):
        return [(node.body,)]
    if not isinstance(node, Let):
        return []
    parts: list[Expr] = []  # a chain of lets is one block
    rest: Expr = node
    while isinstance(rest, Let):
        parts.append(rest.value)
        rest = rest.body
    return [(*parts, rest)]


def _inside(node: Expr) -> tuple[Expr, ...]:
    """Return the operands that a node evaluates in its own block."""
    if isinstance(node, If):
        return (node.cond,)
    if isinstance(node, Match):
        return (node.data,)
    return () if isinstance(node, Function | Let) else children(node)


def check_constant(expr: Expr) -> bool:
    """Return whether an expression is a constant, or a tuple of constants only."""
    stack = [as_expr(expr)]
    while stack:
        top = stack.pop()
        if isinstance(top, Tuple):
            stack.extend(top.fields)
        elif not isinstance(top, Constant):
            return False
    return True


class Feature(IntEnum):
    """Feature of a program, numbered as in Relay."""

    fVar = 0
    fGlobalVar = 1
    fConstant = 2
    fTuple = 3
    fTupleGetItem = 4
    fFunction = 5
    fOp = 6
    fCall = 7
    fLet = 8
    fIf = 9
    fRefCreate = 10
    fRefRead = 11
    fRefWrite = 12
    fConstructor = 13
    fMatch = 14
    fGraph = 15
    fLetRec = 16


_KINDS = (Var, GlobalVar, Constant, Tuple, TupleGetItem, Function, Op, Call, Let, If, RefCreate)
_FEATURES: dict[type, Feature] = {
    kind: Feature(k) for k, kind in enumerate((*_KINDS, RefRead, RefWrite, Constructor, Match))
}


def detect_feature(a: Expr | IRModule, b: Expr | IRModule | None = None) -> set[Feature]:
    """Return the features that occur in ``a`` or ``b``."""
    found: set[Feature] = set()
    for given in (a, b):
        if given is None:
            continue
        roots = given.functions.values() if isinstance(given, IRModule) else (as_expr(given),)
        for root in roots:
            found |= _features(root)
    return found


def _features(root: Expr) -> set[Feature]:
    order = post_order(root)
    found = {_FEATURES[type(node)] for node in order}
    uses: dict[int, int] = {}
    for node in order:
        for child in children(node):
            if not isinstance(child, _ATOMS):
                uses[id(child)] = uses.get(id(child), 0) + 1
        if isinstance(node, Let) and any(e is node.var for e in post_order(node.value)):
            found.add(Feature.fLetRec)
    if any(count > 1 for count in uses.values()):
        found.add(Feature.fGraph)
    return found


__all__ = [
    "Feature",
    "check_basic_block_normal_form",
    "check_constant",
    "detect_feature",
    "well_formed",
]
