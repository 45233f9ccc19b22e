"""Tail-recursive functions of tensors: the form of Relay's ``while_loop``.

They become loops whose state is in registers and reused buffers, without boxes. A dim of the result
is known if no iteration changes it, or if it grows by a constant and the loop has a counter:

    loop(t, n, x[b, 8], rows[r, 8]) = if t < n { loop(t + 1, n, f(x), concatenate(rows, g(x))) }
                                      else { (x, rows) }

By induction, b of the result is that of the initial x. If g returns one row, r of the result is the
initial r plus ``max(n - t, 0)`` for the initial t.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.forms import Forms
from tvm_disc.relay.importer.inputs import identifier
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
from tvm_disc.relay.importer.values import as_expr, value_of
from tvm_disc.relay.importer.walk import Evaluator, ModuleWalk
from tvm_disc.typing import Expr, TVMType, Var


@dataclass(eq=False)
class _Open:
    """A loop whose body is being imported; ``result`` is None while the result type is inferred.

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
    ends: list[object] = field(default_factory=list)


class Loops:
    """Import of tail-recursive functions as loops."""

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
        self, param: ast.Var, arg: Tensor, named: dict[str, Expr], closure: Closure
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


class Invariants:
    """Facts that are proved about the dims of a loop.

    Args:
        func: the function in tail-recursive form.
        args: the initial values of its parameters.
        state: the parameters, with a symbol for each dim that is not a literal.
        after: the arguments of every recursive call.
    """

    def __init__(
        self,
        ctx: Emitter,
        func: ast.Function,
        args: Sequence[Tensor],
        state: Sequence[Tensor],
        after: Sequence[Sequence[Tensor]],
    ) -> None:
        self.ctx, self.func, self.args, self.state, self.after = ctx, func, args, state, after
        self.final: dict[Expr, Expr] = {}
        places = self._places()
        for symbol, found in places.items():
            if all(self.ctx.same(d, symbol) for at in found for d in self._next(at)):
                self.final[symbol] = self._initial(found[0])
        kept, trips = list(self.final), self.trips()
        for symbol, found in places.items():
            step = None if trips is None or symbol in self.final else self._step(found, kept)
            if trips is not None and step is not None:
                grown = self._initial(found[0]) + self._first(step) * trips
                self.final[symbol] = self.ctx.simplify(grown)

    def dims(self, value: object) -> object:
        """Return the known dims of a result, None for others; tuples as tuples."""
        if isinstance(value, tuple):
            return tuple(self.dims(v) for v in value)
        if not isinstance(value, Tensor):
            return None
        return [self._known(d) for d in value.dims]

    def _known(self, dim: Expr) -> Expr | None:
        if any(symbol not in self.final for symbol in tirx.analysis.undefined_vars(dim)):
            return None
        known: Expr = self.ctx.simplify(self._first(dim))
        return known

    def _first(self, expr: Expr) -> Expr:
        """Return an expression with symbols replaced by their values after the loop."""

        def one(v: Var) -> Expr:
            return self.final.get(v, v)

        mapped: Expr = tvm_ffi.structural_map(expr, (tvm.ir.Var, one), order="post")
        return mapped

    def _places(self) -> Mapping[Var, list[tuple[int, int]]]:
        """Return, by symbol, the (parameter, axis) pairs whose dim is the symbol."""
        found: dict[Var, list[tuple[int, int]]] = {}
        for k, x in enumerate(self.state):
            for axis, d in enumerate(x.dims):
                if isinstance(d, tirx.Var):
                    found.setdefault(d, []).append((k, axis))
        return found

    def _initial(self, at: tuple[int, int]) -> Expr:
        dim: Expr = self.args[at[0]].dims[at[1]]
        return dim

    def _next(self, at: tuple[int, int]) -> list[Expr]:
        return [values[at[0]].dims[at[1]] for values in self.after]

    def _step(self, places: Sequence[tuple[int, int]], kept: Sequence[Expr]) -> Expr | None:
        """Return the growth of a dim in each iteration; None if unknown."""
        if len(places) != 1 or len(self.after) != 1:
            return None
        [(k, axis)] = places
        [dim] = self._next(places[0])
        step = self.ctx.simplify(dim - self.state[k].dims[axis])
        return step if all(s in kept for s in tirx.analysis.undefined_vars(step)) else None

    def trips(self) -> Expr | None:
        """Return the number of iterations, None if the loop does not count from a known number to
        a known limit.
        """
        body = self.func.body
        if not isinstance(body, ast.If):
            return None
        cond, again = body.cond, body.true_branch
        if not isinstance(cond, ast.Call) or not _is_call(cond, "less"):
            return None
        if not isinstance(again, ast.Call):
            return None
        number, limit = (self._place(x) for x in cond.args)
        if number is None or limit is None or len(again.args) != len(self.args):
            return None
        if self._place(again.args[limit]) != limit or not self._counts(again.args[number], number):
            return None
        first, last = (value_of(self.args[k]) for k in (number, limit))
        if first is None or last is None or first.size != 1 or last.size != 1:
            return None
        trips = as_expr(last.reshape(-1)[0]) - as_expr(first.reshape(-1)[0])
        known: Expr = self.ctx.simplify(tirx.max(trips, i64(0)))
        return known

    def _place(self, expr: ast.Expr) -> int | None:
        """Return the index of a parameter; None for other expressions."""
        return next((k for k, p in enumerate(self.func.params) if p is expr), None)

    def _counts(self, expr: ast.Expr, number: int) -> bool:
        """Return whether an expression is parameter ``number`` plus one."""
        if not isinstance(expr, ast.Call) or not _is_call(expr, "add"):
            return False
        a, b = expr.args
        one = b if self._place(a) == number else a
        return (
            number in (self._place(a), self._place(b))
            and isinstance(one, ast.Constant)
            and one.data.size == 1
            and one.data.reshape(-1)[0] == 1
        )


def _is_call(expr: ast.Expr, name: str) -> bool:
    return isinstance(expr, ast.Call) and getattr(expr.op, "name", "") == name
