"""Kinds of values and their representation in Relax: types, conversions, boxes and fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import tvm
from tvm import relax

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay import types as rt
from tvm_disc.relay.importer.context import i64
from tvm_disc.relay.importer.kinds import (
    FuncKind,
    Hole,
    Kind,
    TensorKind,
    TupleKind,
    from_type,
    resolve,
)
from tvm_disc.relay.importer.scopes import Bottom, Frame, NotALoop, Scope, TailCall
from tvm_disc.relay.importer.tensor import Boxed, Closure, Tensor
from tvm_disc.relay.importer.walk import ModuleWalk
from tvm_disc.relay.object_ops import object_call
from tvm_disc.typing import Expr, TVMType


class Reifier(Protocol):
    """Creates run-time closures."""

    def reified(self, closure: Closure, kind: Kind) -> Boxed:
        """Return a closure as a run-time value."""


class Forms:
    """The kinds of values, and conversions of values between their Relax representations."""

    def __init__(self, walk: ModuleWalk, reifier: Reifier) -> None:
        self.walk, self._reifier = walk, reifier
        self.ctx, self.kinds = walk.ctx, walk.kinds

    # -- kinds ---------------------------------------------------------------------------------

    def kind_of(self, value: object) -> Kind:
        """Return the kind of a value; the kind of a function comes from its annotations."""
        if isinstance(value, Tensor):
            dims = tuple(self.ctx.literal(d) for d in value.dims)
            return TensorKind(dims, value.dtype)
        if isinstance(value, tuple):
            return TupleKind(tuple(self.kind_of(v) for v in value))
        if isinstance(value, Boxed):
            return resolve(value.kind)
        if isinstance(value, Closure):
            return self.signature(value)
        raise Unsupported(
            "the result of a recursive call is used before its type is known; annotate the result"
        )

    def signature(self, closure: Closure) -> FuncKind:
        """Return the kind of a function from its annotations."""
        func = closure.function
        types: dict[str, Kind] = {v.name: Hole(id(func)) for v in func.type_params}
        scope = Scope(closure.scope, self.walk.frame, types=types)
        params = tuple(self.annotated(p.type_annotation, scope, p) for p in func.params)
        return FuncKind(params, self.annotated(func.ret_type, scope, func))

    def annotated(self, ty: rt.Type | None, scope: Scope | None, node: object) -> Kind:
        """Return the kind of an annotation, with type variables resolved in ``scope``."""

        def variable(v: rt.TypeVar) -> Kind:
            current = scope
            while current is not None:
                if v.name in current.types:
                    return current.types[v.name]
                current = current.parent
            return Hole(id(node))

        return from_type(ty, variable, id(node))

    def relax_type(self, kind: Kind) -> Any:
        """Return the Relax type of a value of this kind; the object type for boxed kinds."""
        kind = resolve(kind)
        if isinstance(kind, TensorKind):
            if any(d is None for d in kind.dims):
                return relax.TensorType(None, kind.dtype, ndim=len(kind.dims))
            return relax.TensorType([i64(d) for d in kind.dims if d is not None], kind.dtype)
        if isinstance(kind, TupleKind):
            return relax.TupleType([self.relax_type(k) for k in kind.fields])
        return relax.ObjectType()

    def type_of(self, value: Any, hidden: Callable[[object], bool] = lambda dim: False) -> Any:
        """Return the Relax type of a value; a shape that contains a ``hidden`` dim is omitted."""
        if isinstance(value, tuple):
            return relax.TupleType([self.type_of(v, hidden) for v in value])
        if isinstance(value, Boxed | Closure):
            return relax.ObjectType()
        if any(hidden(d) for d in value.dims):
            return relax.TensorType(None, value.dtype, ndim=value.rank)
        return relax.TensorType(list(value.dims), value.dtype)

    def erased(self, value: tuple[Tensor, ...] | Tensor) -> TVMType:
        """Return the type that callers of a function see for its result: without symbolic dims.

        Raises:
            NotALoop: the result contains a boxed value or a function.
        """
        if isinstance(value, tuple):
            return relax.TupleType([self.erased(v) for v in value])
        if not isinstance(value, Tensor):
            raise NotALoop
        dims = [self.ctx.literal(d) for d in value.dims]
        if any(d is None for d in dims):
            return relax.TensorType(None, value.dtype, ndim=value.rank)
        return relax.TensorType([i64(d) for d in dims if d is not None], value.dtype)

    # -- conversions ---------------------------------------------------------------------------

    def converted(self, value: object, kind: Kind, what: str) -> Any:
        """Return ``value`` converted to ``kind``: closures become run-time values, and literal dims
        are checked.

        Raises:
            TypeMismatch: the value does not have this kind.
        """
        if isinstance(value, Bottom | TailCall):
            return value
        kind = resolve(kind)
        if isinstance(kind, Hole):
            if isinstance(value, Closure):
                value = self._reifier.reified(value, kind)
            self.kinds.unify(kind, self.kind_of(value), what)
            # An element of a list that is always empty: its type stays unknown.
            if isinstance(resolve(kind), Hole):
                return value
            return self.converted(value, kind, what)
        if isinstance(kind, TensorKind) and isinstance(value, Tensor):
            return self._fitting(value, kind, what)
        if isinstance(kind, TupleKind) and isinstance(value, tuple):
            if len(kind.fields) == len(value):
                pairs = zip(value, kind.fields, strict=True)
                return tuple(self.converted(v, k, what) for v, k in pairs)
        elif isinstance(kind, FuncKind) and isinstance(value, Closure):
            return self._reifier.reified(value, kind)
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
        """Return the Relax expressions of a converted value, with tuples flattened."""
        if isinstance(value, tuple):
            return [e for v in value for e in self.flat(v)]
        return [value.expr if isinstance(value, Boxed) else self.ctx.expr(value)]

    def boxed(self, value: Boxed | Tensor) -> Expr:
        """Return one Relax expression of a converted value, for use as a field of a node."""
        if isinstance(value, tuple):
            return self.object("construct", relax.ObjectType(), 0, *map(self.boxed, value))
        return value.expr if isinstance(value, Boxed) else self.ctx.expr(value)

    def captured_exprs(self, frame: Frame) -> list[Expr]:
        """Return the expressions of a function's captured values in the current function."""
        found: list[Any] = []
        for c in list(frame.captures.values()):
            found += self.flat(self.walk.seen_from_here(c.original, c.owner))
        return found

    def tied(self, value: tuple[Tensor, Boxed] | Boxed | Tensor, kind: Kind) -> Expr:
        """Return a variable of type ``relax_type(kind)`` that holds ``value``."""
        expr = self.tied_expr(value)
        return expr if isinstance(expr, tvm.ir.Var) else self.ctx.bind(expr, self.relax_type(kind))

    def tied_expr(self, value: Any) -> Any:
        """Return one Relax expression of a value, with tuples as Relax tuples."""
        if isinstance(value, TailCall):
            return value.var
        if isinstance(value, tuple):
            return relax.Tuple([self.tied_expr(v) for v in value])
        if isinstance(value, Closure):
            return self._reifier.reified(value, self.signature(value)).expr
        return value.expr if isinstance(value, Boxed) else self.ctx.expr(value)

    def tied_result(self, value: object) -> Expr:
        """Return a variable that holds a value, with tuples as Relax tuples."""
        expr = self.tied_expr(value)
        if isinstance(expr, tvm.ir.Var):
            return expr
        return self.ctx.bind(expr, self.type_of(value))

    # -- boxes ---------------------------------------------------------------------------------

    def object(self, name: str, ty: TVMType, *args: Any) -> Expr:
        """Bind an operation on boxed values to a variable of Relax type ``ty``."""
        self.walk.object_ops += 1
        operands = [i64(a) if isinstance(a, int) else a for a in args]
        return self.ctx.bind(object_call(name, *operands), ty)

    def opened(self, var: Expr, kind: Kind) -> Any:
        """Return the importer's value for a Relax variable of type ``relax_type(kind)``."""
        kind = resolve(kind)
        if isinstance(kind, TupleKind):
            return tuple(
                self.opened(self.ctx.bind(relax.TupleGetItem(var, k), self.relax_type(f)), f)
                for k, f in enumerate(kind.fields)
            )
        if not isinstance(kind, TensorKind):
            return Boxed(kind, var)
        dims = tuple(self.walk.fresh("d") if d is None else i64(d) for d in kind.dims)
        if any(d is None for d in kind.dims):
            var = self.ctx.match(var, relax.TensorType(list(dims), kind.dtype))
        return Tensor(dims, kind.dtype, var)

    def reopened(
        self,
        expr: Expr,
        ty: TVMType,
        like: tuple[Boxed | Tensor, ...] | Boxed | Tensor | None,
        known: Any = None,
    ) -> Any:
        """Return a value of erased type with fresh symbols for its unknown dims.

        ``known`` has the dims of each tensor that are proved, None for the others.
        """
        if isinstance(like, Closure):
            return like
        if isinstance(ty, relax.TupleType):
            return tuple(
                self.reopened(
                    self.ctx.bind(relax.TupleGetItem(expr, k), t),
                    t,
                    like[k] if isinstance(like, tuple) else None,
                    known[k] if isinstance(known, tuple) else None,
                )
                for k, t in enumerate(ty.fields)
            )
        if isinstance(like, Boxed):
            return Boxed(like.kind, expr)
        if ty.shape is not None:
            return Tensor(tuple(ty.shape.values), str(ty.dtype), expr)
        proved: Sequence[Expr | None] = known or [None] * int(ty.ndim)
        dims = [self.walk.fresh("d") if d is None else d for d in proved]
        var = self.ctx.match(expr, relax.TensorType(dims, str(ty.dtype)))
        return Tensor(tuple(dims), str(ty.dtype), var)

    def field(self, source: Expr, k: int, kind: Kind) -> Any:
        """Return field ``k`` of a node."""
        kind = resolve(kind)
        if isinstance(kind, TupleKind):
            node = self.object("field", relax.ObjectType(), k, source)
            return tuple(self.field(node, i, f) for i, f in enumerate(kind.fields))
        return self.opened(self.object("field", self.relax_type(kind), k, source), kind)
