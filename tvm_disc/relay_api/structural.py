"""Structural equality of types, expressions and modules, up to the names of bound variables."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_disc.errors import NotEqual, refusing
from tvm_disc.relay import types as ty
from tvm_disc.relay.expr import (
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
from tvm_disc.relay.module import IRModule

Pair = tuple[Any, Any]


@refusing
def structural_equal(
    lhs: object, rhs: object, map_free_vars: bool = False, rel_tol: float = 0.0
) -> bool:
    """Return whether two programs, types or parts of programs have the same structure.

    As in Relay: bound variables may have different names; ``?`` equals ``?``; the sharing of
    computed nodes must agree. A free variable is equal only to itself, unless ``map_free_vars`` is
    set: then free variables are equal if they correspond one to one. Floating-point numbers may
    differ by ``rel_tol`` (Relay's own printer keeps six digits only).
    """
    return _compared(lhs, rhs, map_free_vars, rel_tol) is None


@refusing
def assert_structural_equal(lhs: object, rhs: object, map_free_vars: bool = False) -> None:
    """Raise an error unless :func:`structural_equal` holds.

    Raises:
        NotEqual: a ``ValueError`` with the first parts that differ.
    """
    found = _compared(lhs, rhs, map_free_vars, 0.0)
    if found is not None:
        raise NotEqual(f"expected equal structures; they differ in {found[0]} and {found[1]}")


def _compared(a: object, b: object, map_free: bool, rel_tol: float) -> Pair | None:
    """Return the first parts that differ; None if there are none."""
    comparer = _Comparer(rel_tol, map_free)
    if isinstance(a, IRModule) and isinstance(b, IRModule):
        return _compared_modules(a, b, comparer)
    if isinstance(a, ty.Type) and isinstance(b, ty.Type):
        return None if comparer.types(a, b) else (a, b)
    if isinstance(a, Expr) and isinstance(b, Expr):
        return comparer.run(a, b)
    if isinstance(a, Pattern) and isinstance(b, Pattern):
        return None if comparer.pattern(a, b) else (a, b)
    if isinstance(a, Clause) and isinstance(b, Clause):
        return comparer.finish() if comparer.clause(a, b) else (a, b)
    return None if comparer.values(a, b) else (a, b)


def _compared_modules(a: IRModule, b: IRModule, comparer: _Comparer) -> Pair | None:
    for left, right in (
        ({g.name_hint for g in a.functions}, {g.name_hint for g in b.functions}),
        (set(a.type_definitions), set(b.type_definitions)),
    ):
        if left != right:
            return sorted(left), sorted(right)
    comparer.functions = {g.name_hint for g in a.functions}
    comparer.data_types = set(a.type_definitions)
    for name, data in a.type_definitions.items():
        if not comparer.types(data, b.type_definitions[name]):
            return data, b.type_definitions[name]
    for gv, func in a.functions.items():
        found = comparer.run(func, b[gv.name_hint])
        if found is not None:
            return found
    return None


def as_float32(value: float) -> float:
    """Return ``value`` rounded to float32, in which attributes are compared and hashed.

    A parameter that was read from a float32 constant then equals the same number in a script.
    """
    with np.errstate(over="ignore"):
        return float(np.float32(value))


class _Comparer:
    """State of one comparison. ``todo`` is a stack of pairs, so comparison does not recurse."""

    def __init__(self, rel_tol: float, map_free: bool) -> None:
        self.rel_tol, self.map_free = rel_tol, map_free
        self.vars: dict[int, int] = {}
        self.vars_back: dict[int, int] = {}
        self.type_vars: dict[ty.TypeVar, ty.TypeVar] = {}
        self.nodes: dict[int, int] = {}
        self.nodes_back: dict[int, int] = {}
        self.functions: set[str] = set()  # names that both modules define
        self.data_types: set[str] = set()
        self.todo: list[Pair] = []

    def run(self, a: Expr, b: Expr) -> Pair | None:
        """Return the first pair of different parts of two expressions; None if they are equal."""
        self.todo.append((a, b))
        return self.finish()

    def finish(self) -> Pair | None:
        """Compare the remaining pairs; return the first that differs, or None."""
        while self.todo:
            pair = self.todo.pop()
            if not self.step(*pair):
                return pair
        return None

    def step(self, a: Expr, b: Expr) -> bool:
        if type(a) is not type(b):
            return False
        leaf = _LEAVES.get(type(a))
        if leaf:
            return leaf(self, a, b)
        # an empty tuple is a constant in Relay, so its sharing is ignored
        if isinstance(a, Tuple) and not a.fields:
            return isinstance(b, Tuple) and not b.fields
        if not isinstance(a, TupleGetItem):  # Relay ignores the sharing of this node
            if id(a) in self.nodes or id(b) in self.nodes_back:
                return self.nodes.get(id(a)) == id(b) and self.nodes_back.get(id(b)) == id(a)
            self.nodes[id(a)] = id(b)
            self.nodes_back[id(b)] = id(a)
        return _INNER[type(a)](self, a, b)

    def push(self, *pairs: Pair) -> bool:
        self.todo.extend(reversed(pairs))
        return True

    def push_all(self, left: tuple[object, ...], right: tuple[object, ...]) -> bool:
        return len(left) == len(right) and self.push(*zip(left, right, strict=False))

    # -- leaves

    def bind(self, a: Var, b: Var) -> bool:
        if id(a) in self.vars or id(b) in self.vars_back:
            return self.vars.get(id(a)) == id(b)
        self.vars[id(a)] = id(b)
        self.vars_back[id(b)] = id(a)
        return self.types(a.type_annotation, b.type_annotation)

    def var(self, a: Var, b: Var) -> bool:
        if id(a) in self.vars or id(b) in self.vars_back or self.map_free:
            return self.bind(a, b)
        return a is b

    def global_var(self, a: GlobalVar, b: GlobalVar) -> bool:
        if a.name_hint != b.name_hint:
            return False
        return a is b or self.map_free or a.name_hint in self.functions

    def free_type(self, a: ty.Type, b: ty.Type) -> bool:
        """Return whether two free type variables, or names of data types, are equal."""
        if isinstance(a, ty.GlobalTypeVar) and isinstance(b, ty.GlobalTypeVar):
            return a.name == b.name and (self.map_free or a.name in self.data_types)
        if isinstance(a, ty.TypeVar) and isinstance(b, ty.TypeVar) and self.map_free:
            self.type_vars[a] = b
            return a.kind == b.kind
        return self.map_free

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
        if not isinstance(a.op, Op):  # an operator's type arguments follow from its operands
            same = same and len(a.type_args) == len(b.type_args)
            same = same and all(map(self.types, a.type_args, b.type_args))
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
        return ty.same_type(a, b, self.type_vars, self.free_type)

    def values(self, a: object, b: object) -> bool:
        if isinstance(a, float) and isinstance(b, float):
            near = as_float32(a) == as_float32(b) or math.isclose(a, b, rel_tol=self.rel_tol)
            return near or (a != a and b != b)
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(self.values(v, b[k]) for k, v in a.items())
        if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
            return len(a) == len(b) and all(map(self.values, a, b))
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            return a.dtype == b.dtype and np.array_equal(a, b)
        return type(a) is type(b) and bool(a == b)


def _same_ctor(a: Constructor, b: Constructor) -> bool:
    return a.name_hint == b.name_hint and a.belong_to == b.belong_to


_LEAVES: dict[type, Callable[..., bool]] = {
    Var: _Comparer.var,
    GlobalVar: _Comparer.global_var,
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
