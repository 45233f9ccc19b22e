"""Structural hashes, which agree with ``structural_equal``."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

from tvm_disc.errors import refusing
from tvm_disc.relay import types as ty
from tvm_disc.relay.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    Op,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Tuple,
    TupleGetItem,
    Var,
)
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.visit import children
from tvm_disc.relay_api.structural import as_float32


@refusing
def structural_hash(node: object, map_free_vars: bool = False) -> int:
    """Return a number that is the same for structurally equal objects.

    Free variables are hashed by identity, or by their order of use if ``map_free_vars`` is set.
    """
    writer = _Writer(map_free_vars)
    writer.whole(node)
    return int.from_bytes(writer.digest.digest()[:8], "little", signed=True)


class _Writer:
    """Writer of a program's structure into a digest; bound names are written as numbers."""

    def __init__(self, map_free: bool) -> None:
        self.map_free = map_free
        self.digest = hashlib.blake2b()
        self.vars: dict[int, int] = {}
        self.nodes: dict[int, int] = {}
        self.type_vars: dict[ty.TypeVar, int] = {}
        self.known: set[str] = set()  # names that the module defines
        self.todo: list[object] = []

    def put(self, *values: object) -> None:
        self.digest.update(repr(values).encode())

    def whole(self, node: object) -> None:
        if isinstance(node, IRModule):
            self._module(node)
        elif isinstance(node, ty.Type):
            self.type(node)
        elif isinstance(node, Expr | Clause | Pattern):
            self._run(node)
        else:
            self.put(_plain(node))

    def _module(self, mod: IRModule) -> None:
        functions = {g.name_hint: f for g, f in mod.functions.items()}
        self.known = {*functions, *mod.type_definitions}
        for name in sorted(mod.type_definitions):
            self.put(name)
            self._data(mod.type_definitions[name])
        for name in sorted(functions):
            self.put(name)
            self._run(functions[name])

    def _run(self, root: object) -> None:
        self.todo.append(root)
        while self.todo:
            self._step(self.todo.pop())

    def _later(self, parts: Iterable[object]) -> None:
        self.todo.extend(reversed(list(parts)))

    def _step(self, node: Any) -> None:
        if isinstance(node, Clause):
            self._pattern(node.lhs)
            self._later([node.rhs])
            return
        if isinstance(node, Pattern):
            self._pattern(node)
            return
        leaf = _LEAVES.get(type(node))
        if leaf is not None:
            leaf(self, node)
            return
        # an empty tuple is a constant in Relay, so its sharing is ignored
        if isinstance(node, Tuple) and not node.fields:
            self.put("unit")
            return
        if not isinstance(node, TupleGetItem):
            if id(node) in self.nodes:
                self.put("again", self.nodes[id(node)])
                return
            self.nodes[id(node)] = len(self.nodes)
        self.put(type(node).__name__)
        self._inner(node)

    def _inner(self, node: Expr) -> None:
        if isinstance(node, Function):
            self._bind_types(node.type_params)
            for p in node.params:
                self._bind(p)
            self._type_or_none(node.ret_type)
            self.put(_plain(node.attrs))
            self._later([node.body])
        elif isinstance(node, Let):
            self._bind(node.var)
            self._later([node.value, node.body])
        elif isinstance(node, Match):
            self.put(node.complete, len(node.clauses))
            self._later([node.data, *node.clauses])
        else:
            parts = children(node)
            self.put(len(parts))
            if isinstance(node, Call):
                self.put(_plain(node.attrs))
                for t in () if isinstance(node.op, Op) else node.given_type_args:
                    self.type(t)
            if isinstance(node, TupleGetItem):
                self.put(node.index)
            self._later(parts)

    # -- names

    def _bind(self, var: Var) -> None:
        self.vars.setdefault(id(var), len(self.vars))
        self.put("bind", self.vars[id(var)])
        self._type_or_none(var.type_annotation)

    def var(self, var: Var) -> None:
        if id(var) in self.vars:
            self.put("var", self.vars[id(var)])
        elif self.map_free:
            self._bind(var)
        else:
            self.put("free", id(var))

    def global_var(self, var: GlobalVar) -> None:
        own = self.map_free or var.name_hint in self.known
        self.put("global", var.name_hint if own else id(var))

    def constant(self, node: Constant) -> None:
        self.put(node.data.shape, str(node.data.dtype))
        self.digest.update(node.data.tobytes())

    def constructor(self, node: Constructor) -> None:
        self.put("constructor", node.name_hint, node.belong_to)

    def _pattern(self, pattern: Pattern) -> None:
        stack = [pattern]
        while stack:
            top = stack.pop()
            self.put(type(top).__name__)
            if isinstance(top, PatternVar):
                self._bind(top.var)
            elif isinstance(top, PatternConstructor | PatternTuple):
                if isinstance(top, PatternConstructor):
                    self.constructor(top.constructor)
                self.put(len(top.patterns))
                stack.extend(reversed(top.patterns))

    # -- types

    def _type_or_none(self, value: ty.Type | None) -> None:
        if value is None:
            self.put(None)
        else:
            self.type(value)

    def _bind_types(self, names: Iterable[ty.TypeVar]) -> None:
        for v in names:
            self.type_vars[v] = len(self.type_vars)
            self.put("bind", self.type_vars[v])

    def type(self, value: ty.Type) -> None:
        """Write a type; the names that it binds are written as numbers."""
        self.put(type(value).__name__)
        if isinstance(value, ty.TensorType):
            self.put(ty.type_text(value))
        elif isinstance(value, ty.TypeVar):
            if value not in self.type_vars and self.map_free:
                self.type_vars[value] = len(self.type_vars)
            self.put(int(value.kind), self.type_vars.get(value, value.name))
        elif isinstance(value, ty.GlobalTypeVar):
            self.put(value.name)
        elif isinstance(value, ty.TypeData):
            self._data(value)
        else:
            if isinstance(value, ty.FuncType):
                self._bind_types(value.type_params)
            if isinstance(value, ty.TypeCall):
                self.type(value.func)
            parts = ty.type_children(value)
            self.put(len(parts))
            for part in parts:
                self.type(part)

    def _data(self, data: ty.TypeData) -> None:
        self.put(data.header.name, len(data.type_vars))
        self._bind_types(data.type_vars)
        for ctor in data.constructors:
            self.put(ctor.name, len(ctor.inputs))
            for t in ctor.inputs:
                self.type(t)


def _plain(value: object) -> object:
    """Return an attribute's value in a normal form: sorted dicts, tuples for lists, float32."""
    if isinstance(value, float):
        return as_float32(value)
    if isinstance(value, dict):
        return sorted((k, _plain(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return value


_LEAVES: dict[type, Callable[[_Writer, Any], None]] = {
    Var: _Writer.var,
    GlobalVar: _Writer.global_var,
    Constant: _Writer.constant,
    Constructor: _Writer.constructor,
    Op: lambda w, node: w.put("op", node.name),
}
