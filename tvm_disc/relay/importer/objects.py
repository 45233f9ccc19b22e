"""Boxed values in the importer: captures, conversions, data types, ``match`` and references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tvm
from tvm import relax, tirx

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.importer.context import i64
from tvm_disc.relay.importer.inputs import Inputs
from tvm_disc.relay.importer.kinds import (
    DataKind,
    FuncKind,
    Hole,
    Kind,
    Kinds,
    RefKind,
    TensorKind,
    TupleKind,
    from_type,
    resolve,
)
from tvm_disc.relay.importer.scopes import FAILED, Bottom, Captured, Frame, Scope, Tail
from tvm_disc.relay.importer.tensor import Boxed, Closure, Tensor
from tvm_disc.relay.importer.values import value_of
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.object_ops import object_call

Expr: TypeAlias = Any


class Objects(Inputs):
    """What the importer does with values whose structure only the run time knows.

    Attributes:
        frame: the function being made.
        object_ops: how many operations on boxed values were made.
    """

    source: IRModule
    kinds: Kinds
    frame: Frame
    object_ops: int = 0

    def reified(self, closure: Closure, kind: Kind) -> Boxed:
        """A closure as a run-time value."""
        raise NotImplementedError

    # -- scopes and captures -------------------------------------------------------------------

    def _scope(self, parent: Scope | None) -> Scope:
        return Scope(parent, self.frame)

    def seen_from_here(self, value: Any, owner: Frame) -> Any:
        """A value of another function: it becomes an extra parameter of this one."""
        if owner is self.frame or isinstance(value, Closure | Bottom | Tail):
            return value
        if isinstance(value, tuple):
            return tuple(self.seen_from_here(v, owner) for v in value)
        if isinstance(value, Tensor) and _is_literal(value):
            return value
        known = self.frame.captures.get(id(value))
        if known is None:
            known = Captured(value, owner, self._parameter_like(value))
            self.frame.captures[id(value)] = known
        return known.inner

    def _parameter_like(self, value: Any) -> Any:
        name = f"captured_{len(self.frame.captures)}"
        if isinstance(value, Boxed):
            return Boxed(value.kind, relax.Var(name, relax.ObjectType()))
        dims = tuple(d if isinstance(d, tirx.IntImm) else self._fresh("c") for d in value.dims)
        var = relax.Var(name, relax.TensorType(list(dims), value.dtype))
        return Tensor(dims, value.dtype, var)

    def _fresh(self, name: str) -> Any:
        return self.solver.symbol(name, "a dim inside a local function")

    # -- kinds ---------------------------------------------------------------------------------

    def at(self, node: Any, text: str) -> str:
        """``text`` with the place of ``node`` in the source."""
        span = getattr(node, "span", None) or self.ctx.span
        return f"{text} at {span}" if span is not None else text

    def kind_of(self, value: Any) -> Kind:
        """The kind of a value; of a function, what its annotations tell."""
        if isinstance(value, Tensor):
            dims = tuple(self.ctx.literal(d) for d in value.dims)
            return TensorKind(dims, value.dtype)
        if isinstance(value, tuple):
            return TupleKind(tuple(self.kind_of(v) for v in value))
        if isinstance(value, Boxed):
            return resolve(value.kind)
        if isinstance(value, Closure):
            return self.signature(value)
        raise Unsupported("the result of a call whose type is not known yet is stored")

    def signature(self, closure: Closure) -> FuncKind:
        """The kind of a function from its annotations."""
        func = closure.function
        types: dict[str, Kind] = {v.name: Hole(id(func)) for v in func.type_params}
        scope = Scope(closure.scope, self.frame, types=types)
        params = tuple(self.annotated(p.type_annotation, scope, p) for p in func.params)
        return FuncKind(params, self.annotated(func.ret_type, scope, func))

    def annotated(self, ty: rt.Type | None, scope: Scope | None, node: Any) -> Kind:
        """The kind of an annotation, its type variables as they are in this scope."""

        def variable(v: rt.TypeVar) -> Kind:
            current = scope
            while current is not None:
                if v.name in current.types:
                    return current.types[v.name]
                current = current.parent
            return Hole(id(node))

        return from_type(ty, variable, id(node))

    def relax_type(self, kind: Kind) -> Any:
        """The Relax type of a value of this kind outside of any box."""
        kind = resolve(kind)
        if isinstance(kind, TensorKind):
            if any(d is None for d in kind.dims):
                return relax.TensorType(None, kind.dtype, ndim=len(kind.dims))
            return relax.TensorType([i64(d) for d in kind.dims if d is not None], kind.dtype)
        if isinstance(kind, TupleKind):
            return relax.TupleType([self.relax_type(k) for k in kind.fields])
        return relax.ObjectType()

    # -- conversions ---------------------------------------------------------------------------

    def converted(self, value: Any, kind: Kind, what: str) -> Any:
        """``value`` as one of ``kind``: closures get a run-time form, literal dims are checked."""
        if isinstance(value, Bottom | Tail):
            return value
        kind = resolve(kind)
        if isinstance(kind, Hole):
            if isinstance(value, Closure):
                value = self.reified(value, kind)
            self.kinds.unify(kind, self.kind_of(value), what)
            return self.converted(value, kind, what)
        if isinstance(kind, TensorKind) and isinstance(value, Tensor):
            return self._fitting(value, kind, what)
        if isinstance(kind, TupleKind) and isinstance(value, tuple):
            if len(kind.fields) == len(value):
                pairs = zip(value, kind.fields, strict=True)
                return tuple(self.converted(v, k, what) for v, k in pairs)
        elif isinstance(kind, FuncKind) and isinstance(value, Closure):
            return self.reified(value, kind)
        elif isinstance(value, Boxed):
            self.kinds.unify(kind, value.kind, what)
            return value
        raise TypeMismatch(f"{what}: expected {kind}, found {self.kind_of(value)}")

    def _fitting(self, value: Tensor, kind: TensorKind, what: str) -> Tensor:
        if value.dtype != kind.dtype or value.rank != len(kind.dims):
            raise TypeMismatch(f"{what}: expected {kind}, found {self.kind_of(value)}")
        for axis, (dim, want) in enumerate(zip(value.dims, kind.dims, strict=True)):
            if want is not None:
                self.ctx.require_eq(dim, i64(want), f"{what} axis {axis}")
        return value

    def flat(self, value: Any) -> list[Expr]:
        """The Relax expressions of a converted value, tuples taken apart."""
        if isinstance(value, tuple):
            return [e for v in value for e in self.flat(v)]
        return [value.expr if isinstance(value, Boxed) else self.ctx.expr(value)]

    def _boxed(self, value: Any) -> Expr:
        """One Relax expression of a converted value, for the field of a node."""
        if isinstance(value, tuple):
            return self.object("construct", relax.ObjectType(), 0, *map(self._boxed, value))
        return value.expr if isinstance(value, Boxed) else self.ctx.expr(value)

    def object(self, name: str, ty: Any, *args: Any) -> Any:
        """Bind an operation on boxed values to a variable of Relax type ``ty``."""
        self.object_ops += 1
        operands = [i64(a) if isinstance(a, int) else a for a in args]
        return self.ctx.bind(object_call(name, *operands), ty)

    def opened(self, var: Expr, kind: Kind) -> Any:
        """The value behind a variable of type ``relax_type(kind)``."""
        kind = resolve(kind)
        if isinstance(kind, TupleKind):
            return tuple(
                self.opened(self.ctx.bind(relax.TupleGetItem(var, k), self.relax_type(f)), f)
                for k, f in enumerate(kind.fields)
            )
        if not isinstance(kind, TensorKind):
            return Boxed(kind, var)
        dims = tuple(self._fresh("d") if d is None else i64(d) for d in kind.dims)
        if any(d is None for d in kind.dims):
            var = self.ctx.match(var, relax.TensorType(list(dims), kind.dtype))
        return Tensor(dims, kind.dtype, var)

    def field(self, source: Expr, k: int, kind: Kind) -> Any:
        """Field ``k`` of a node."""
        kind = resolve(kind)
        if isinstance(kind, TupleKind):
            node = self.object("field", relax.ObjectType(), k, source)
            return tuple(self.field(node, i, f) for i, f in enumerate(kind.fields))
        return self.opened(self.object("field", self.relax_type(kind), k, source), kind)

    # -- data types ----------------------------------------------------------------------------

    def fields_of(self, ctor: ast.Constructor, args: Sequence[Kind], node: Any) -> list[Kind]:
        """The kinds of a constructor's fields for the type's arguments."""
        data = self.source.type_definitions.get(ctor.belong_to)
        if data is None:
            raise TypeMismatch(self.at(node, f"{ctor.name_hint}: no type {ctor.belong_to}"))
        names = [v.name for v in data.type_vars]
        found = dict(zip(names, args, strict=True))
        return [from_type(t, lambda v: found[v.name], id(node)) for t in ctor.inputs]

    def construct(self, ctor: ast.Constructor, values: Sequence[Any], node: Any) -> Any:
        """``ctor(values)``."""
        if any(isinstance(v, Bottom) for v in values):
            return next(v for v in values if isinstance(v, Bottom))
        data = self.source.type_definitions.get(ctor.belong_to)
        args = tuple(Hole(id(node)) for _ in (data.type_vars if data is not None else ()))
        fields = self.fields_of(ctor, args, node)
        if len(fields) != len(values):
            raise TypeMismatch(
                self.at(
                    node,
                    f"{ctor.name_hint}: expected {len(fields)} fields, found {len(values)}",
                )
            )
        exprs = []
        for k, (value, kind) in enumerate(zip(values, fields, strict=True)):
            what = self.at(node, f"field {k} of {ctor.name_hint}")
            exprs.append(self._boxed(self.converted(value, kind, what)))
        kind = DataKind(ctor.belong_to, args)
        return Boxed(kind, self.object("construct", relax.ObjectType(), ctor.tag, *exprs))

    def match(self, node: ast.Match, data: Any, scope: Scope) -> Any:
        """A match as a tree of tests: no field is read and no test made twice on any path."""
        if isinstance(data, Bottom):
            return data
        rows = [_Row([(data, c.lhs)], [], c.rhs) for c in node.clauses]
        return self._match_rows(rows, node, scope)

    def _match_rows(self, rows: Sequence[_Row], node: ast.Match, scope: Scope) -> Any:
        rows = [self._settled(r, node) for r in rows]
        if not rows:
            return FAILED
        first = rows[0]
        if not first.tests:
            inner = self._scope(scope)
            inner.variables.update(first.bound)
            return self.evaluate(first.body, inner)
        source, pattern = first.tests[0]
        assert isinstance(pattern, ast.PatternConstructor)
        return self._test(source, pattern.constructor, rows, node, scope)

    def _settled(self, row: _Row, node: ast.Match) -> _Row:
        """A row without wildcards, variables and tuples."""
        tests: list[tuple[Any, ast.Pattern]] = []
        bound = list(row.bound)
        stack = list(reversed(row.tests))
        while stack:
            value, pattern = stack.pop()
            if isinstance(pattern, ast.PatternWildcard):
                continue
            if isinstance(value, _Field):
                value = value.read(self)
            if isinstance(pattern, ast.PatternVar):
                bound.append((pattern.var, value))
            elif isinstance(pattern, ast.PatternTuple):
                if not isinstance(value, tuple) or len(value) != len(pattern.patterns):
                    raise TypeMismatch(self.at(node, "match: a tuple pattern on no such tuple"))
                stack.extend(reversed(list(zip(value, pattern.patterns, strict=True))))
            else:
                tests.append((value, pattern))
        return _Row(tests, bound, row.body, row.ruled_out)

    def _test(
        self,
        source: Any,
        ctor: ast.Constructor,
        rows: Sequence[_Row],
        node: ast.Match,
        scope: Scope,
    ) -> Any:
        kind = resolve(source.kind) if isinstance(source, Boxed) else None
        args = [Hole(id(node)) for _ in self.source.type_definitions[ctor.belong_to].type_vars]
        if kind is None:
            raise TypeMismatch(
                self.at(
                    node,
                    f"match: {ctor.name_hint} is a constructor of {ctor.belong_to}, "
                    f"found {self.kind_of(source)}",
                )
            )
        self.kinds.unify(DataKind(ctor.belong_to, tuple(args)), kind, self.at(node, "match"))
        kinds = self.fields_of(ctor, args, node)
        siblings = self.source.type_definitions[ctor.belong_to].constructors
        excluded = rows[0].excluded(source)
        if len(excluded) + 1 == len(siblings):
            fields = [_Field(source.expr, k, f) for k, f in enumerate(kinds)]
            return self._match_rows(_with(rows, source, ctor, fields), node, scope)
        plain = int(not ctor.inputs)
        cond = self.object("has_tag", relax.TensorType([], "bool"), ctor.tag, plain, source.expr)

        def then() -> Any:
            fields = [_Field(source.expr, k, f) for k, f in enumerate(kinds)]
            return self._match_rows(_with(rows, source, ctor, fields), node, scope)

        def otherwise() -> Any:
            return self._match_rows(_without(rows, source, ctor), node, scope)

        return self.choose(cond, then, otherwise, self.at(node, "no clause of the match fits"))

    def evaluate(self, expr: ast.Expr, scope: Scope) -> Any:
        """The value of an expression."""
        raise NotImplementedError

    def choose(
        self, cond: Expr, then: Callable[[], Any], otherwise: Callable[[], Any], failure: str
    ) -> Any:
        """One of two values, by a condition in memory."""
        raise NotImplementedError

    # -- references ----------------------------------------------------------------------------

    def reference(self, node: ast.Expr, operands: Sequence[Any]) -> Any:
        """``ref``, ``ref_read`` and ``ref_write``."""
        for value in operands:
            if isinstance(value, Bottom):
                return value
        if isinstance(node, ast.RefCreate):
            inner = Hole(id(node))
            content = self._boxed(self.converted(operands[0], inner, self.at(node, "ref")))
            return Boxed(RefKind(inner), self.object("ref", relax.ObjectType(), content))
        cell = operands[0]
        inner = Hole(id(node))
        if not isinstance(cell, Boxed):
            found = self.kind_of(cell)
            raise TypeMismatch(self.at(node, f"expected a reference, found {found}"))
        self.kinds.unify(RefKind(inner), cell.kind, self.at(node, "a reference"))
        if isinstance(node, ast.RefWrite):
            content = self._boxed(self.converted(operands[1], inner, self.at(node, "ref_write")))
            self.object("write", relax.TupleType([]), cell.expr, content)
            return ()
        kind = resolve(inner)
        if not isinstance(kind, TupleKind):
            return self.opened(self.object("read", self.relax_type(kind), cell.expr), kind)
        held = self.object("read", relax.ObjectType(), cell.expr)
        return tuple(self.field(held, k, f) for k, f in enumerate(kind.fields))


class _Field:
    """A field of a node, read when a pattern asks for it."""

    def __init__(self, source: Expr, k: int, kind: Kind) -> None:
        self.source, self.k, self.kind = source, k, kind
        self.value: Any = None

    def read(self, importer: Objects) -> Any:
        if self.value is None:
            self.value = importer.field(self.source, self.k, self.kind)
        return self.value


class _Row:
    """A clause: what it still has to test, what it has bound, constructors known not to be."""

    def __init__(
        self,
        tests: list[tuple[Any, ast.Pattern]],
        bound: list[tuple[ast.Var, Any]],
        body: ast.Expr,
        ruled_out: tuple[tuple[int, str], ...] = (),
    ) -> None:
        self.tests, self.bound, self.body, self.ruled_out = tests, bound, body, ruled_out

    def excluded(self, source: Any) -> set[str]:
        return {name for key, name in self.ruled_out if key == id(source)}


def _with(
    rows: Sequence[_Row], source: Any, ctor: ast.Constructor, fields: Sequence[_Field]
) -> list[_Row]:
    """The rows that may fit where ``source`` is made by ``ctor``."""
    kept = []
    for row in rows:
        tests: list[tuple[Any, ast.Pattern]] = []
        fits = True
        for value, pattern in row.tests:
            if value is source and isinstance(pattern, ast.PatternConstructor):
                fits = fits and pattern.constructor.name_hint == ctor.name_hint
                tests += zip(fields, pattern.patterns, strict=True) if fits else []
            else:
                tests.append((value, pattern))
        if fits:
            kept.append(_Row(tests, row.bound, row.body, row.ruled_out))
    return kept


def _without(rows: Sequence[_Row], source: Any, ctor: ast.Constructor) -> list[_Row]:
    """The rows that may fit where ``source`` is not made by ``ctor``."""

    def tested(row: _Row) -> bool:
        return any(
            value is source
            and isinstance(pattern, ast.PatternConstructor)
            and pattern.constructor.name_hint == ctor.name_hint
            for value, pattern in row.tests
        )

    out = (id(source), ctor.name_hint)
    return [_Row(r.tests, r.bound, r.body, (*r.ruled_out, out)) for r in rows if not tested(r)]


def _is_literal(value: Tensor) -> bool:
    if value.constant is not None:
        return True
    literal = value_of(value)
    return literal is not None and all(not isinstance(x, tvm.ir.Expr) for x in literal.flat)
