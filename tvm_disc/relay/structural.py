"""Structural equality of types, expressions and modules, up to the names of bound variables."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import types as ty
from .expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Op,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from .module import IRModule

Pair = tuple[Any, Any]


def structural_equal(a: object, b: object, rel_tol: float = 0.0) -> bool:
    """True if ``a`` and ``b`` mean the same program.

    Bound variables may have different names; anonymous dimensions equal each other, as in Relay;
    the sharing of computed nodes must agree.  ``rel_tol`` is allowed between floating-point
    numbers (Relay's own printer keeps six digits only).
    """
    if isinstance(a, IRModule) and isinstance(b, IRModule):
        return _equal_modules(a, b, rel_tol)
    if isinstance(a, ty.Type) and isinstance(b, ty.Type):
        return _Comparer(rel_tol).types(a, b)
    if isinstance(a, Expr) and isinstance(b, Expr):
        return _Comparer(rel_tol).run(a, b)
    return False


def _equal_modules(a: IRModule, b: IRModule, rel_tol: float) -> bool:
    if {g.name_hint for g in a.functions} != {g.name_hint for g in b.functions}:
        return False
    if set(a.type_definitions) != set(b.type_definitions):
        return False
    for name, data in a.type_definitions.items():
        if data != b.type_definitions[name]:
            return False
    return all(_Comparer(rel_tol).run(f, b[g.name_hint]) for g, f in a.functions.items())


class _Comparer:
    """One comparison; ``todo`` holds pairs still to be compared, so nothing recurses deeply."""

    def __init__(self, rel_tol: float) -> None:
        self.rel_tol = rel_tol
        self.vars: dict[int, int] = {}
        self.vars_back: dict[int, int] = {}
        self.type_vars: dict[ty.TypeVar, ty.TypeVar] = {}
        self.nodes: dict[int, int] = {}
        self.nodes_back: dict[int, int] = {}
        self.todo: list[Pair] = []

    def run(self, a: Expr, b: Expr) -> bool:
        self.todo.append((a, b))
        while self.todo:
            if not self.step(*self.todo.pop()):
                return False
        return True

    def step(self, a: Expr, b: Expr) -> bool:
        if type(a) is not type(b):
            return False
        leaf = _LEAVES.get(type(a))
        if leaf:
            return leaf(self, a, b)
        if id(a) in self.nodes or id(b) in self.nodes_back:
            return self.nodes.get(id(a)) == id(b) and self.nodes_back.get(id(b)) == id(a)
        self.nodes[id(a)] = id(b)
        self.nodes_back[id(b)] = id(a)
        return _INNER[type(a)](self, a, b)

    def push(self, *pairs: Pair) -> bool:
        self.todo.extend(reversed(pairs))
        return True

    def push_all(self, left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
        return len(left) == len(right) and self.push(*zip(left, right, strict=False))

    # -- leaves

    def bind(self, a: Var, b: Var) -> bool:
        if id(a) in self.vars or id(b) in self.vars_back:
            return self.vars.get(id(a)) == id(b)
        self.vars[id(a)] = id(b)
        self.vars_back[id(b)] = id(a)
        return self.types(a.type_annotation, b.type_annotation)

    def var(self, a: Var, b: Var) -> bool:
        # A variable met before its binder is free: free variables match one to one by name.
        known = id(a) in self.vars or id(b) in self.vars_back
        return self.bind(a, b) if known else a.name_hint == b.name_hint and self.bind(a, b)

    def constant(self, a: Constant, b: Constant) -> bool:
        x, y = a.data, b.data
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        if self.rel_tol and x.dtype.kind == "f":
            return bool(np.allclose(x, y, rtol=self.rel_tol, atol=0.0, equal_nan=True))
        return x.tobytes() == y.tobytes()

    # -- inner nodes

    def call(self, a: Call, b: Call) -> bool:
        same = self.values(a.attrs, b.attrs)
        return same and self.push((a.op, b.op)) and self.push_all(a.args, b.args)

    def function(self, a: Function, b: Function) -> bool:
        if len(a.type_params) != len(b.type_params) or len(a.params) != len(b.params):
            return False
        self.type_vars.update(zip(a.type_params, b.type_params, strict=False))
        if not all(self.bind(p, q) for p, q in zip(a.params, b.params, strict=False)):
            return False
        same = self.types(a.ret_type, b.ret_type) and self.values(a.attrs, b.attrs)
        return same and self.push((a.body, b.body))

    def let(self, a: Let, b: Let) -> bool:
        return self.bind(a.var, b.var) and self.push((a.value, b.value), (a.body, b.body))

    def match(self, a: Match, b: Match) -> bool:
        if a.complete != b.complete or len(a.clauses) != len(b.clauses):
            return False
        same = all(self.clause(x, y) for x, y in zip(a.clauses, b.clauses, strict=False))
        return same and self.push((a.data, b.data))

    def clause(self, a: Clause, b: Clause) -> bool:
        return self.pattern(a.lhs, b.lhs) and self.push((a.rhs, b.rhs))

    def pattern(self, a: Pattern, b: Pattern) -> bool:
        if isinstance(a, PatternWildcard):
            return isinstance(b, PatternWildcard)
        if isinstance(a, PatternVar):
            return isinstance(b, PatternVar) and self.bind(a.var, b.var)
        if isinstance(a, PatternConstructor):
            same = isinstance(b, PatternConstructor) and _same_ctor(a.constructor, b.constructor)
        else:
            same = isinstance(b, PatternTuple)
        assert isinstance(a, (PatternConstructor, PatternTuple))
        if not same or not isinstance(b, (PatternConstructor, PatternTuple)):
            return False
        if len(a.patterns) != len(b.patterns):
            return False
        return all(self.pattern(p, q) for p, q in zip(a.patterns, b.patterns, strict=False))

    # -- types and attribute values (both shallow)

    def types(self, a: ty.Type | None, b: ty.Type | None) -> bool:
        if a is None or b is None:
            return a is b
        return ty.same_type(a, b, self.type_vars)

    def values(self, a: Any, b: Any) -> bool:
        if isinstance(a, float) and isinstance(b, float):
            return a == b or math.isclose(a, b, rel_tol=self.rel_tol) or (a != a and b != b)
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(self.values(v, b[k]) for k, v in a.items())
        if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
            return len(a) == len(b) and all(map(self.values, a, b))
        return type(a) is type(b) and bool(a == b)


def _same_ctor(a: Constructor, b: Constructor) -> bool:
    return a.name_hint == b.name_hint and a.belong_to == b.belong_to


_LEAVES: dict[type, Callable[..., bool]] = {
    Var: _Comparer.var,
    GlobalVar: lambda _, a, b: a.name_hint == b.name_hint,
    Op: lambda _, a, b: a.name == b.name,
    Constructor: lambda _, a, b: _same_ctor(a, b),
    Constant: _Comparer.constant,
}

_INNER: dict[type, Callable[..., bool]] = {
    Call: _Comparer.call,
    Function: _Comparer.function,
    Let: _Comparer.let,
    Match: _Comparer.match,
    If: lambda c, a, b: c.push(
        (a.cond, b.cond), (a.true_branch, b.true_branch), (a.false_branch, b.false_branch)
    ),
    Tuple: lambda c, a, b: c.push_all(a.fields, b.fields),
    TupleGetItem: lambda c, a, b: a.index == b.index and c.push((a.tuple_value, b.tuple_value)),
    RefCreate: lambda c, a, b: c.push((a.value, b.value)),
    RefRead: lambda c, a, b: c.push((a.ref, b.ref)),
    RefWrite: lambda c, a, b: c.push((a.ref, b.ref), (a.value, b.value)),
}
