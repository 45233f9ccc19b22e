"""Functions that are called instead of inlined: specialization by arguments, and run-time closures.

A function is specialized once for each combination of argument kinds and closure arguments, so that
polymorphic and higher-order functions become first-order ones. The result kind is declared, or
found by importing the body until it no longer changes. A call of a function whose result kind is
unknown returns BOTTOM; where branches merge, the kind of the other branch is used. If an import of
a body is discarded, its guards and facts are discarded too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax

from tvm_disc.errors import TypeMismatch, Unsupported, counted
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.importer.context import i64
from tvm_disc.relay.importer.forms import Forms
from tvm_disc.relay.importer.inputs import identifier
from tvm_disc.relay.importer.kinds import (
    FuncKind,
    Hole,
    Kind,
    TensorKind,
    TupleKind,
    joined,
    key,
    parts,
    resolve,
)
from tvm_disc.relay.importer.scopes import BOTTOM, Bottom, Frame, Scope, TailCall
from tvm_disc.relay.importer.tensor import Boxed, Closure, Tensor
from tvm_disc.relay.importer.walk import Evaluator, ModuleWalk
from tvm_disc.relay.object_ops import GENERAL
from tvm_disc.typing import Expr, Var

MAX_DEPTH = 48  # limit of nested specializations and inlined calls, far above what programs need
MAX_VARIANTS = 64  # limit of specializations of one function


@dataclass(eq=False)
class Specialization:
    """One specialization of a function in the Relax module.

    Attributes:
        args: kinds, closures and tuples of them for which the function is specialized.
        result: its result kind, None while unknown.
        asked: whether a call was imported before the result kind was known.
    """

    closure: Closure
    args: list[Any]
    gv: Any
    frame: Frame = field(default_factory=Frame)
    result: Kind | None = None
    asked: bool = False
    active: bool = True


class Widened(Exception):
    """Raised if a function is called with different literal dims while its body is imported: the
    body must be imported again, without these literals.
    """

    def __init__(self, entry: Specialization, args: list[object]) -> None:
        super().__init__("a function must be wider")
        self.entry, self.wanted = entry, args


def check_arguments(walk: ModuleWalk, closure: Closure, args: Sequence[object], call: Expr) -> None:
    """Check the number of arguments of a call.

    Raises:
        TypeMismatch: the number differs; the message has the source location of the call.
    """
    wanted = len(closure.function.params)
    if len(args) != wanted:
        text = f"{closure.name}: expected {counted(wanted, 'argument')}, found {len(args)}"
        raise TypeMismatch(walk.at(call, text))


class Functions:
    """Specialization and calls of functions that are not inlined."""

    def __init__(self, walk: ModuleWalk, forms: Forms, evaluator: Evaluator) -> None:
        self.walk, self.forms, self._evaluator = walk, forms, evaluator
        self.ctx, self.kinds = walk.ctx, walk.kinds
        self.entries: list[Specialization] = walk.entries
        self.depth = 0

    # -- calls ---------------------------------------------------------------------------------

    def call_function(self, closure: Closure, args: Sequence[object], node: object) -> Any:
        """Return the result of a call of a function that is not inlined."""
        for a in args:
            if isinstance(a, Bottom):
                return a
        wanted = self._specialised_args(closure, args, node)
        entry = self._entry(closure, wanted, node)
        if entry.result is None:
            entry.asked = True
            return BOTTOM
        exprs: list[Any] = []
        for value, want in zip(args, entry.args, strict=True):
            exprs += self._passed(value, want, self.walk.at(node, f"a call of {closure.name}"))
        exprs += self.forms.captured_exprs(entry.frame)
        call = tvm.ir.Call(entry.gv, exprs)
        return self.forms.opened(
            self.ctx.bind(call, self.forms.relax_type(entry.result)), entry.result
        )

    def _passed(self, value: Any, want: Any, what: str) -> list[Expr]:
        if isinstance(want, Closure):
            return []
        if isinstance(want, tuple):
            pairs = zip(value, want, strict=True)
            return [e for v, w in pairs for e in self._passed(v, w, what)]
        return self.forms.flat(self.forms.converted(value, want, what))

    def _specialised_args(self, closure: Closure, args: Sequence[Any], node: Any) -> list[Any]:
        func = closure.function
        check_arguments(self.walk, closure, args, node)
        scope = self.typed_scope(closure, node)
        found = []
        for p, value in zip(func.params, args, strict=True):
            declared = self.forms.annotated(p.type_annotation, scope, p)
            what = self.walk.at(node, f"argument '%{p.name_hint}' of {closure.name}")
            found.append(self._specialised(value, declared, what))
        return found

    def _specialised(self, value: object, declared: Kind, what: str) -> Any:
        """Return the kind, closure or tuple of them that specializes a parameter.

        A dim declared as ``?`` is unknown in the kind.
        """
        declared = resolve(declared)
        if isinstance(value, TailCall):
            raise Unsupported(f"{what}: expected a value, found the result of a recursive call")
        if isinstance(value, tuple):
            inner = declared.fields if isinstance(declared, TupleKind) else [Hole()] * len(value)
            if len(inner) != len(value):
                raise TypeMismatch(
                    f"{what}: expected {declared}, found {self.forms.kind_of(value)}"
                )
            return tuple(self._specialised(v, d, what) for v, d in zip(value, inner, strict=True))
        if isinstance(value, Closure):
            if isinstance(declared, FuncKind):
                self._match_signature(value, declared, what)
            return value
        found = self.forms.kind_of(value)
        if isinstance(declared, TensorKind):
            if not isinstance(found, TensorKind) or found.dtype != declared.dtype:
                raise TypeMismatch(f"{what}: expected {declared}, found {found}")
            return declared
        self.kinds.unify(declared, found, what)
        return resolve(found)

    def _match_signature(self, closure: Closure, declared: FuncKind, what: str) -> None:
        """Unify the type variables of a parameter of function type with the annotations of the
        closure that is passed for it.
        """
        own = self.forms.signature(closure)
        if len(own.params) != len(declared.params):
            raise TypeMismatch(f"{what}: expected {declared}, found {own}")
        if not closure.function.type_params:
            pairs = zip((*declared.params, declared.result), (*own.params, own.result), strict=True)
            for a, b in pairs:
                if isinstance(resolve(a), Hole) or not isinstance(resolve(b), Hole | TensorKind):
                    self.kinds.unify(a, b, what)

    def typed_scope(self, closure: Closure, node: object) -> Scope:
        """Return a scope for a function's body in which its type parameters are unbound."""
        types: dict[str, Kind] = {v.name: Hole(id(node)) for v in closure.function.type_params}
        return Scope(closure.scope, self.walk.frame, types=types)

    # -- specialization ------------------------------------------------------------------------

    def _entry(self, closure: Closure, args: list[object], node: object) -> Specialization:
        same = [e for e in self.entries if e.closure.identity == closure.identity]
        for entry in same:
            if _args_key(entry.args) == _args_key(args):
                return entry
        for entry in same:
            if entry.active and _args_key(entry.args, False) == _args_key(args, False):
                wider = _wider_args(entry.args, args)
                if _args_key(wider) == _args_key(entry.args):
                    return entry
                raise Widened(entry, wider)
        if len(same) >= MAX_VARIANTS or self.depth >= MAX_DEPTH:
            raise Unsupported(
                self.walk.at(
                    node,
                    f"function {closure.name} needs more than {MAX_VARIANTS} specializations, or "
                    f"its calls are nested more than {MAX_DEPTH} deep; annotate its parameters so "
                    "that one specialization serves every call",
                )
            )
        gv = relax.GlobalVar(self.walk.function_name(closure))
        entry = Specialization(closure, args, gv, result=self._declared_result(closure, args, node))
        self.entries.append(entry)
        self._make(entry, node)
        return entry

    def _declared_result(self, closure: Closure, args: list[object], node: object) -> Kind | None:
        ret = closure.function.ret_type
        if ret is None or isinstance(ret, rt.IncompleteType):
            return None
        scope = self.typed_scope(closure, node)
        for p, want in zip(closure.function.params, args, strict=True):
            self._settle_type(p, want, scope)
        kind = resolve(self.forms.annotated(ret, scope, closure.function))
        return None if _open_at_top(kind) else kind

    def _make(self, entry: Specialization, node: object) -> None:
        """Import the body until its result kind and its captures no longer change."""
        self.depth += 1
        try:
            while True:
                captures, undo = len(entry.frame.captures), self.walk.mark()
                result, entry.asked = entry.result, False
                try:
                    found = self._body(entry, node)
                except Widened as wider:
                    undo()
                    if wider.entry is not entry:
                        raise
                    entry.args, entry.result = wider.wanted, None
                    entry.result = self._declared_result(entry.closure, entry.args, node)
                    continue
                if found is None:
                    undo()
                    self.entries.remove(entry)
                    break
                entry.result = found if result is None else _wider_kind(result, found)
                settled = result is not None and key(entry.result) == key(result)
                if settled and captures == len(entry.frame.captures):
                    break
                undo()
        finally:
            self.depth -= 1
            entry.active = False

    def _body(self, entry: Specialization, node: object) -> Kind | None:
        """Import the body once and return its result kind, or None if every path calls an
        unfinished function.
        """
        params: list[Any] = []
        with self.walk.making(entry.frame, entry.frame.captures.values()) as bindings:
            scope = self.typed_scope(entry.closure, node)
            for p, want in zip(entry.closure.function.params, entry.args, strict=True):
                name = identifier(p.name_hint)
                scope.variables[p] = self._parameter_value(want, name, params)
                self._settle_type(p, want, scope)
            value = self._evaluator.evaluate(entry.closure.function.body, scope)
            if isinstance(value, Bottom):
                if entry.asked or entry.result is None:
                    return self._no_result(entry, value, node)
                kind = entry.result
                out = self._never(kind)
            else:
                kind, out = self._returned(entry, value, node)
        params += [c.inner.expr for c in entry.frame.captures.values()]
        body = relax.SeqExpr([relax.BindingBlock(bindings)], out)
        func = relax.Function(params, body, self.forms.relax_type(kind), True)
        name = str(entry.gv.name_hint)
        func = func.with_attr("global_symbol", name).with_attr(GENERAL, 1)
        self.walk.functions[entry.gv] = func
        return kind

    def _returned(
        self, entry: Specialization, value: tuple[Tensor, Boxed] | Boxed | Tensor, node: object
    ) -> tuple[Kind, Expr]:
        """Return the kind of a function's result, and a variable that holds the result."""
        kind = entry.result if entry.result is not None else self.forms.kind_of(value)
        what = f"the result of {entry.closure.name}"
        value = self.forms.converted(value, self._widest(kind, value), self.walk.at(node, what))
        kind = self._widest(kind, value)
        return kind, self.forms.tied(value, kind)

    def _no_result(self, entry: Specialization, value: Bottom, node: object) -> Kind | None:
        others = any(e.active and e.result is None and e is not entry for e in self.entries)
        if value is BOTTOM and others:
            return None
        raise Unsupported(self.walk.at(node, f"function {entry.closure.name} never returns"))

    def _never(self, kind: Kind) -> Expr:
        from_text = tvm.ir.StringImm("a function that cannot return")
        return self.forms.object("fail", self.forms.relax_type(kind), from_text)

    def _widest(self, kind: Kind, value: Any) -> Kind:
        """Return ``kind`` without each literal dim that differs from the dim of ``value``."""
        kind = resolve(kind)
        if isinstance(kind, TensorKind) and not isinstance(value, Boxed | tuple | Closure):
            dims = [self.ctx.literal(d) for d in value.dims]
            if len(dims) != len(kind.dims):
                return kind
            return TensorKind(joined(kind.dims, dims), kind.dtype)
        whole = isinstance(kind, TupleKind) and isinstance(value, tuple)
        if isinstance(kind, TupleKind) and whole and len(kind.fields) == len(value):
            pairs = zip(kind.fields, value, strict=True)
            return TupleKind(tuple(self._widest(k, v) for k, v in pairs))
        return kind

    def _parameter_value(self, want: Any, name: str, params: list[Var]) -> Any:
        if isinstance(want, Closure):
            return want
        if isinstance(want, tuple):
            return tuple(self._parameter_value(w, name, params) for w in want)
        if isinstance(want, TupleKind):
            return tuple(self._parameter_value(w, name, params) for w in want.fields)
        if not isinstance(want, TensorKind):
            params.append(relax.Var(name, relax.ObjectType()))
            return Boxed(want, params[-1])
        dims = [self.walk.fresh(name) if d is None else i64(d) for d in want.dims]
        params.append(relax.Var(name, relax.TensorType(dims, want.dtype)))
        return Tensor(tuple(dims), want.dtype, params[-1])

    def _settle_type(self, param: ast.Var, want: Any, scope: Scope) -> None:
        """Bind the type variables of a function's body to the kinds that it is specialized for."""
        declared = self.forms.annotated(param.type_annotation, scope, param)
        if isinstance(want, tuple) or isinstance(resolve(declared), TensorKind):
            return
        if not isinstance(want, Closure):
            self.kinds.unify(declared, want, param.name_hint)
        else:
            found = resolve(declared)
            if isinstance(found, FuncKind):
                self._match_signature(want, found, param.name_hint)

    # -- run-time closures ---------------------------------------------------------------------

    def reified(self, closure: Closure, kind: Kind) -> Boxed:
        """Return a closure as a run-time value: a function with its captured values.

        Raises:
            Unsupported: the type of a parameter or of the result is not known.
        """
        func, what = closure.function, f"function {closure.name}"
        wanted = resolve(kind)
        if isinstance(wanted, Hole):
            wanted = self.forms.signature(closure)
            self.kinds.unify(kind, wanted, what)
        if not isinstance(wanted, FuncKind):
            raise TypeMismatch(self.walk.at(func, f"{what}: expected {wanted}, found a function"))
        if not func.type_params:
            self.kinds.unify(wanted, self.forms.signature(closure), self.walk.at(func, what))
        wanted = resolve(wanted)
        assert isinstance(wanted, FuncKind)
        for p, k in zip(func.params, wanted.params, strict=True):
            if _has_hole(k):
                raise Unsupported(
                    self.walk.at(
                        func,
                        f"{what} is used as a run-time value, and the type of its parameter "
                        f"'%{p.name_hint}' is unknown; annotate it",
                    )
                )
        entry = self._entry(closure, list(wanted.params), func)
        if entry.result is None:
            raise Unsupported(
                self.walk.at(
                    func, f"{what} is stored before its result type is known; annotate the result"
                )
            )
        self.kinds.unify(wanted.result, entry.result, self.walk.at(func, what))
        exprs = self.forms.captured_exprs(entry.frame)
        var = self.forms.object("closure", relax.ObjectType(), entry.gv, *exprs)
        return Boxed(wanted, var)

    def apply_boxed(self, callee: Boxed, args: Sequence[Tensor], node: object) -> Any:
        """Return the result of a call of a run-time closure."""
        for a in args:
            if isinstance(a, Bottom):
                return a
        kind = resolve(callee.kind)
        if isinstance(kind, Hole):
            kind = FuncKind(tuple(Hole(id(node)) for _ in args), Hole(id(node)))
            self.kinds.unify(callee.kind, kind, self.walk.at(node, "a call"))
        if not isinstance(kind, FuncKind) or len(kind.params) != len(args):
            raise TypeMismatch(
                self.walk.at(
                    node, f"expected a function of {counted(len(args), 'parameter')}, found {kind}"
                )
            )
        exprs: list[Any] = []
        for k, (a, p) in enumerate(zip(args, kind.params, strict=True)):
            exprs += self.forms.flat(
                self.forms.converted(a, p, self.walk.at(node, f"argument {k} of a call"))
            )
        result = resolve(kind.result)
        if isinstance(result, Hole):
            raise Unsupported(
                self.walk.at(node, "the result type of a run-time function is unknown; annotate it")
            )
        var = self.forms.object("apply", self.forms.relax_type(result), callee.expr, *exprs)
        return self.forms.opened(var, result)


def _open_at_top(kind: Kind) -> bool:
    if isinstance(kind, TupleKind):
        return any(_open_at_top(k) for k in kind.fields)
    return isinstance(kind, Hole)


def _has_hole(kind: Kind) -> bool:
    kind = resolve(kind)
    return isinstance(kind, Hole) or any(_has_hole(k) for k in parts(kind))


def _args_key(args: Any, exact: bool = True) -> Any:
    if isinstance(args, list | tuple):
        return tuple(_args_key(a, exact) for a in args)
    if isinstance(args, Closure):
        return args.identity
    if not exact and isinstance(args, TensorKind):
        return ("tensor", len(args.dims), args.dtype)
    return key(args)


def _wider_args(a: Any, b: Any) -> Any:
    if isinstance(a, list | tuple):
        return type(a)(_wider_args(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, TensorKind):
        return TensorKind(joined(a.dims, b.dims), a.dtype)
    return a


def _wider_kind(a: Kind, b: Kind) -> Kind:
    """Return a kind that both results have: literal dims that differ become None.

    Boxed kinds are equal, because they were unified before.
    """
    a, b = resolve(a), resolve(b)
    if isinstance(a, TensorKind) and isinstance(b, TensorKind):
        return TensorKind(joined(a.dims, b.dims), a.dtype)
    if isinstance(a, TupleKind) and isinstance(b, TupleKind):
        return TupleKind(tuple(_wider_kind(x, y) for x, y in zip(a.fields, b.fields, strict=True)))
    return a


__all__ = ["Functions", "Specialization", "Widened"]
