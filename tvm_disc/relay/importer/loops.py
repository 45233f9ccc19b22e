"""Tail-recursive functions of tensors: the form of Relay's ``while_loop``.

They become loops whose state is in registers and reused buffers, without boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.importer.context import i64
from tvm_disc.relay.importer.forms import Forms
from tvm_disc.relay.importer.inputs import identifier
from tvm_disc.relay.importer.invariants import Invariants
from tvm_disc.relay.importer.scopes import (
    BOTTOM,
    Bottom,
    Frame,
    NotALoop,
    TailCall,
    TailUsed,
    is_loop,
)
from tvm_disc.relay.importer.tensor import Boxed, Closure, Tensor
from tvm_disc.relay.importer.walk import Evaluator, ModuleWalk
from tvm_disc.typing import TVMType


@dataclass(eq=False)
class _Open:
    """A loop whose body is being imported; ``result`` is None during the import that infers it.

    Attributes:
        after: the arguments of the recursive calls.
        ends: the values with which the loop ends.
    """

    closure: Closure
    gv: Any
    state: list[Tensor]
    frame: Frame
    result: Any
    after: list[Sequence[Tensor]] = field(default_factory=list)
    ends: list[Any] = field(default_factory=list)


class Loops:
    """Converts tail-recursive functions to loops."""

    def __init__(self, walk: ModuleWalk, forms: Forms, evaluator: Evaluator) -> None:
        self.walk, self.forms, self._evaluator, self.ctx = walk, forms, evaluator, walk.ctx
        self.looping: list[_Open] = []
        self.no_loops: set[int] = set()

    def try_loop(self, closure: Closure, args: Sequence[Any]) -> Any:
        """Return the result of a call compiled as a loop, or None if the function is not a loop."""
        if id(closure.function) in self.no_loops or not is_loop(closure):
            return None
        if len(args) != len(closure.function.params):
            return None  # the general call reports the error
        if closure.function.type_params or not all(isinstance(a, Tensor) for a in args):
            return None
        undo, objects = self.walk.mark(), self.walk.object_ops
        try:
            result = self._call_loop(closure, args)
            if self.walk.object_ops != objects:
                raise NotALoop
        except (NotALoop, TailUsed):
            undo()
            self.no_loops.add(id(closure.function))
            return None
        return result

    def _call_loop(self, closure: Closure, args: Sequence[Tensor]) -> Any:
        name = self.walk.function_name(closure)
        undo = self.walk.mark()
        found = self._define(closure, args, name, None, Frame())
        undo()
        while True:
            known = len(found.frame.captures)
            undo = self.walk.mark()
            found = self._define(closure, args, name, found.result, found.frame)
            if len(found.frame.captures) == known:
                break
            undo()
        self._require_named(closure.function, args)
        exprs = [self.ctx.expr(a) for a in args] + self.forms.captured_exprs(found.frame)
        var = self.ctx.bind(tvm.ir.Call(found.gv, exprs), found.result)
        proved = Invariants(self.ctx, closure.function, args, found.state, found.after)
        dims = proved.dims(found.ends[0]) if len(found.ends) == 1 else None
        return self.forms.reopened(var, found.result, None, dims)

    def _define(
        self,
        closure: Closure,
        args: Sequence[Tensor],
        name: str,
        result: TVMType | None,
        before: Frame,
    ) -> _Open:
        """Import the body as a Relax function; without ``result``, only infer the result type."""
        func = closure.function
        frame = Frame()
        gv = relax.GlobalVar(name)
        with self.walk.making(frame, before.captures.values()) as bindings:
            scope = self.walk.scope(closure.scope)
            named: dict[str, Any] = {}
            pairs = zip(func.params, args, strict=True)
            state = [self._parameter(p, a, named, closure) for p, a in pairs]
            scope.variables.update(zip(func.params, state, strict=True))
            params: list[Any] = [s.expr for s in state]
            made = _Open(closure, gv, state, frame, result)
            self.looping.append(made)
            try:
                value = self._evaluator.evaluate(func.body, scope)
            finally:
                self.looping.pop()
            if isinstance(value, Bottom):
                raise Unsupported(f"function '{closure.name}' never returns")
            found = self.forms.erased(value)
            out = self.forms.tied_result(value)
        if any(isinstance(c.inner, Boxed) for c in frame.captures.values()):
            raise NotALoop
        params += [c.inner.stored for c in frame.captures.values()]
        if result is not None:
            body = relax.SeqExpr([relax.BindingBlock(bindings)], out)
            relax_func = relax.Function(params, body, result, True)
            self.walk.functions[gv] = relax_func.with_attr("global_symbol", name)
        made.result = found if result is None else result
        return made

    def _parameter(
        self, param: ast.Var, arg: Tensor, named: dict[str, Any], closure: Closure
    ) -> Tensor:
        """Return a parameter; dims of the same name share one symbol."""
        ty = param.type_annotation
        if isinstance(ty, rt.TensorType):
            dims = []
            for axis, d in enumerate(ty.shape):
                made = (
                    i64(d) if isinstance(d, int) else self.walk.fresh(f"{param.name_hint}_{axis}")
                )
                if isinstance(d, rt.Any) and d.name is not None:
                    made = named.setdefault(d.name, made)
                dims.append(made)
        else:
            dims = [
                i64(k) if k is not None else self.walk.fresh(f"{param.name_hint}_{axis}")
                for axis, k in enumerate(map(self.ctx.literal, arg.dims))
            ]
        dtype = str(ty.dtype) if isinstance(ty, rt.TensorType) else arg.dtype
        var = relax.Var(identifier(param.name_hint), relax.TensorType(dims, dtype))
        state = Tensor(tuple(dims), dtype, var)
        self._require_kind(param, state, arg, closure)
        return state

    def _require_kind(self, param: ast.Var, state: Tensor, value: Tensor, closure: Closure) -> None:
        if (value.rank, value.dtype) != (state.rank, state.dtype):
            wanted, found = self.forms.kind_of(state), self.forms.kind_of(value)
            where = f"argument '%{param.name_hint}' of {closure.name}"
            raise TypeMismatch(f"{where}: expected {wanted}, found {found}")

    def _require_named(self, func: ast.Function, args: Sequence[Tensor]) -> None:
        """Require equal sizes of arguments whose parameters' dims have the same name."""
        found: dict[str, Any] = {}
        for p, a in zip(func.params, args, strict=True):
            ty = p.type_annotation
            dims = ty.shape if isinstance(ty, rt.TensorType) else ()
            for axis, (d, have) in enumerate(zip(dims, a.dims, strict=False)):
                if isinstance(d, rt.Any) and d.name is not None:
                    known = found.setdefault(d.name, have)
                    self.ctx.require_eq(known, have, f"'%{p.name_hint}' axis {axis}")

    def again(self, func: ast.Function, args: Sequence[Any]) -> Bottom | TailCall | None:
        """Return the result of a recursive call in a loop body, or None for other functions."""
        for made in self.looping:
            if made.closure.function is not func:
                continue
            if made.frame is not self.walk.frame:
                raise NotALoop
            if made.result is None or any(isinstance(a, Bottom) for a in args):
                return BOTTOM
            if len(args) != len(func.params) or not all(isinstance(a, Tensor) for a in args):
                raise NotALoop
            self._require_named(func, args)
            for param, value, old in zip(func.params, args, made.state, strict=True):
                self._require_kind(param, old, value, made.closure)
            made.after.append(args)
            values = [self._next(a, s) for a, s in zip(args, made.state, strict=True)]
            captured = [c.inner.expr for c in made.frame.captures.values()]
            again = self.ctx.bind(tvm.ir.Call(made.gv, [*values, *captured]), made.result)
            return TailCall(again, made.ends)
        return None

    def _next(self, value: Tensor, state: Tensor) -> Any:
        """Return the next value of a loop variable, checked against the variable's known dims."""
        pairs = list(zip(state.dims, value.dims, strict=True))
        dims = [d if self.ctx.literal(k) is None else k for k, d in pairs]
        if all(self.ctx.same(a, b) for a, b in zip(dims, value.dims, strict=True)):
            return self.ctx.expr(value)
        return self.ctx.match(self.ctx.expr(value), relax.TensorType(dims, value.dtype))
