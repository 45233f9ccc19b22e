"""Relay modules become Relax modules: ``?`` becomes a symbol, local functions are specialised.

Every anonymous ``?`` of an input is its own symbol. Requirements that operators put on dims are
proved or become guards, and what a guard ensures is known afterwards: the module is therefore
walked twice with one solver, so that facts found late simplify shapes met early.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import relax, tirx

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.importer.context import i64
from tvm_disc.relay.importer.inputs import Inputs, declare, identifier
from tvm_disc.relay.importer.positions import counted
from tvm_disc.relay.importer.scopes import (
    BOTTOM,
    Bottom,
    Scope,
    Tail,
    calls_itself,
    operands_of,
    refuse_tail,
)
from tvm_disc.relay.importer.spans import decided, ranged
from tvm_disc.relay.importer.tensor import Closure, Tensor
from tvm_disc.relay.importer.values import value_of
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.ops.table import OPS
from tvm_disc.shape import Solver, Wish

Expr: TypeAlias = Any


@dataclass
class Imported:
    """A Relax module and what is known of its symbols; ``premises`` must hold to run it."""

    mod: Any
    solver: Solver
    premises: tuple[Wish, ...] = ()


def import_module(
    mod: IRModule,
    params: Mapping[str, np.ndarray] | None = None,
    constraints: Sequence[str] = (),
    premises: Sequence[str] = (),
) -> Imported:
    """Import ``mod["main"]`` and what it calls.

    Args:
        params: inputs of ``main``, by name, to be turned into constants.
        constraints: facts about the dims of inputs, in the constraint language.
        premises: as constraints, but the caller sees to it that they hold.

    Raises:
        Unsupported: an operator or construct without an import rule; the message names it and
            its place in the source.
        TypeMismatch: operands that do not fit.
        ShapeConflict: dims that can never agree.
    """
    main = mod["main"]
    if not isinstance(main, ast.Function):
        raise Unsupported("the module's 'main' is not a function")
    unknown = set(params or {}) - {p.name_hint for p in main.params}
    if unknown:
        raise TypeMismatch(f"params name inputs that main does not have: {sorted(unknown)}")
    solver = Solver()
    symbols: dict[Any, Any] = {}
    declare(main, params or {}, constraints, premises, solver, symbols)
    _Importer(mod, solver, symbols).run(main, params or {})
    return Imported(_Importer(mod, solver, symbols).run(main, params or {}), solver)


class _Importer(Inputs):
    def __init__(self, mod: IRModule, solver: Solver, symbols: dict[Any, Any]) -> None:
        super().__init__(solver, symbols)
        self.source = mod
        self.functions: dict[Any, Any] = {}
        self.active: list[tuple[ast.Function, Any, Any]] = []  # function, global var, result type
        self.counter = 0

    def run(self, main: ast.Function, params: Mapping[str, np.ndarray]) -> Any:
        scope = Scope(None, is_function=True)
        inputs = []
        for p in main.params:
            if p.name_hint in params:
                scope.variables[p] = self.bound(p, params[p.name_hint])
            else:
                tensor = self.input(p)
                scope.variables[p] = tensor
                inputs.append(tensor.expr)
        value = self._eval(main.body, scope)
        out = self._result(value)
        body = relax.SeqExpr([relax.BindingBlock(self.ctx.sequences.pop())], out)
        func = relax.Function(inputs, body, self._seen_outside(value, inputs), True)
        func = func.with_attr("global_symbol", "main")
        return tvm.IRModule({relax.GlobalVar("main"): func, **self.functions})

    # -- results -------------------------------------------------------------------------------

    def _result(self, value: Any) -> Expr:
        """A variable holding a value, tuples bound as tuples."""
        expr = self._materialized(value)
        if isinstance(expr, tvm.ir.Var):
            return expr
        return self.ctx.bind(expr, self._type(value))

    def _materialized(self, value: Any) -> Expr:
        if isinstance(value, Tail):
            return value.var
        if isinstance(value, tuple):
            return relax.Tuple([self._materialized(v) for v in value])
        if isinstance(value, Closure):
            raise Unsupported("a function cannot be returned from compiled code")
        return self.ctx.expr(value)

    def _type(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return relax.TupleType([self._type(v) for v in value])
        return relax.TensorType(list(value.dims), value.dtype)

    # -- evaluation ----------------------------------------------------------------------------

    def _eval(self, expr: ast.Expr, scope: Scope) -> Any:
        """The value of an expression; chains of calls and lets do not deepen the stack."""
        while isinstance(expr, ast.Let):
            self._let(expr, scope)
            expr = expr.body
        stack: list[tuple[ast.Expr, bool]] = [(expr, False)]
        while stack:
            node, ready = stack.pop()
            if self._lookup(node, scope) is not None:
                continue
            operands = operands_of(node)
            if operands and not ready:
                stack.append((node, True))
                stack.extend((x, False) for x in reversed(operands))
                continue
            scope.memo[id(node)] = self._node(node, scope)
        return self._lookup(expr, scope)

    def _lookup(self, node: ast.Expr, scope: Scope) -> Any:
        current: Scope | None = scope
        crossed: list[Scope] = []
        while current is not None:
            table: dict[Any, Any] = current.memo
            key: Any = id(node)
            if isinstance(node, ast.Var):
                table, key = current.variables, node
            if key in table:
                return self._capture(table[key], crossed)
            if current.is_function:
                crossed.append(current)
            current = current.parent
        return None

    def _capture(self, value: Any, crossed: Sequence[Scope]) -> Any:
        """A value seen from inside functions: tensors become extra parameters on the way in."""
        for function in reversed(crossed):
            value = self._captured(value, function)
        return value

    def _captured(self, value: Any, function: Scope) -> Any:
        if isinstance(value, tuple):
            return tuple(self._captured(v, function) for v in value)
        if not isinstance(value, Tensor) or value.constant is not None:
            return value
        literal = value_of(value)
        if literal is not None and all(not isinstance(x, tvm.ir.Expr) for x in literal.flat):
            return value
        known = function.captures.get(id(value))
        if known is None:
            dims = [d if isinstance(d, tirx.IntImm) else self._fresh("c") for d in value.dims]
            name = f"captured_{len(function.captures)}"
            var = relax.Var(name, relax.TensorType(dims, value.dtype))
            known = (value, Tensor(tuple(dims), value.dtype, var))
            function.captures[id(value)] = known
        return known[1]

    def _fresh(self, name: str) -> Any:
        return self.solver.symbol(name, "a dim inside a local function")

    def _let(self, let: ast.Let, scope: Scope) -> None:
        value = let.value
        if isinstance(value, ast.Function):
            closure = Closure(value, scope, let.var.name_hint, let.var)
            scope.variables[let.var] = closure
        else:
            scope.variables[let.var] = self._eval(value, Scope(scope))

    def _node(self, node: ast.Expr, scope: Scope) -> Any:
        if isinstance(node, ast.Constant):
            return self.ctx.constant(np.asarray(node.data))
        if isinstance(node, ast.Tuple):
            return tuple(self._lookup(f, scope) for f in node.fields)
        if isinstance(node, ast.TupleGetItem):
            return self._field(self._lookup(node.tuple_value, scope), node.index)
        if isinstance(node, ast.Call):
            return self._call(node, scope)
        if isinstance(node, ast.If):
            return self._if(node, scope)
        if isinstance(node, ast.Function):
            return Closure(node, scope)
        if isinstance(node, ast.Let):
            return self._eval(node, Scope(scope))
        if isinstance(node, ast.GlobalVar):
            return self._global(node)
        if isinstance(node, ast.Var):
            raise TypeMismatch(f"variable '%{node.name_hint}' is not bound")
        raise Unsupported(f"{type(node).__name__} is not compiled in this release")

    def _field(self, value: Any, index: int) -> Any:
        if value is BOTTOM:
            return BOTTOM
        refuse_tail(value)
        if not isinstance(value, tuple) or not 0 <= index < len(value):
            raise TypeMismatch(f"field {index} of something that is no tuple of that size")
        return value[index]

    def _global(self, node: ast.GlobalVar) -> Closure:
        func = self.source[node.name_hint]
        if not isinstance(func, ast.Function):
            raise Unsupported(f"@{node.name_hint} is not a function")
        return Closure(func, None, node.name_hint)

    # -- calls ---------------------------------------------------------------------------------

    def _call(self, call: ast.Call, scope: Scope) -> Any:
        args = [self._lookup(a, scope) for a in call.args]
        if isinstance(call.op, ast.Op):
            return self._operator(call, args)
        callee = self._eval(call.op, scope)
        if not isinstance(callee, Closure):
            raise Unsupported(f"a call of {type(call.op).__name__} is not compiled")
        return self._apply(callee, args, scope)

    def _operator(self, call: ast.Call, args: list[Any]) -> Any:
        assert isinstance(call.op, ast.Op)
        name = call.op.name
        if any(a is BOTTOM for a in args):
            return BOTTOM
        for a in args:
            refuse_tail(a)
        row = OPS.get(name)
        self.ctx.span, self.ctx.operator = call.span or self.ctx.span, name
        if row is None:
            raise Unsupported(self.ctx.where("unknown operator"))
        if row.value is not None:
            value = row.value(self.ctx, args, call.attrs)
            if value is not None:
                dims = tuple(i64(int(d)) for d in value.shape)
                return Tensor(dims, self._value_dtype(name, args, call.attrs), value=value)
        if row.lower is None:
            raise Unsupported(self.ctx.where("this operator has no import rule yet"))
        known = decided(self.ctx, name, args)
        if known is not None:
            return known
        result = row.lower(self.ctx, args, call.attrs)
        return counted(self.ctx, name, args, ranged(self.ctx, name, args, result))

    def _value_dtype(self, name: str, args: list[Any], attrs: Mapping[str, Any]) -> str:
        if OPS[name].compares:
            return "bool"
        if attrs.get("dtype"):
            return str(attrs["dtype"])
        if name in ("shape_of", "ndarray_size"):
            return "int32"
        first = args[1] if name == "where" else args[0]
        first = first[0] if isinstance(first, tuple) else first
        return str(first.dtype)

    def _apply(self, closure: Closure, args: list[Any], scope: Scope) -> Any:
        for function, gv, result in self.active:
            if function is closure.function:
                return self._recursive_call(gv, result, args, scope)
        if not calls_itself(closure):
            inner = Scope(closure.scope)
            for p, a in zip(closure.function.params, args, strict=True):
                inner.variables[p] = self._annotated(p, a)
            return self._eval(closure.function.body, inner)
        return self._call_recursive_function(closure, args, scope)

    def _annotated(self, param: ast.Var, value: Any) -> Any:
        """An argument under the static dims its parameter declares."""
        ty = param.type_annotation
        if not isinstance(value, Tensor) or not isinstance(ty, rt.TensorType):
            return value
        if ty.dtype != value.dtype or len(ty.shape) != value.rank:
            raise TypeMismatch(
                f"argument '%{param.name_hint}': expected {ty}, "
                f"found {value.dtype} of rank {value.rank}"
            )
        for axis, (declared, dim) in enumerate(zip(ty.shape, value.dims, strict=True)):
            if isinstance(declared, int):
                self.ctx.require_eq(dim, i64(declared), f"'%{param.name_hint}' axis {axis}")
        return value

    # -- control flow --------------------------------------------------------------------------

    def _branch(self, expr: ast.Expr, scope: Scope) -> tuple[list[Any], Any]:
        self.ctx.sequences.append([])
        try:
            value = self._eval(expr, Scope(scope))
        finally:
            bindings = self.ctx.sequences.pop()
        return bindings, value

    def _if(self, node: ast.If, scope: Scope) -> Any:
        cond = self._eval(node.cond, scope)
        literal = value_of(cond)
        if literal is not None and isinstance(literal.item(), bool):
            return self._eval(node.true_branch if literal.item() else node.false_branch, scope)
        outer = Scope(scope)
        cond_expr = self.ctx.expr(cond)
        then_bindings, then_value = self._branch(node.true_branch, outer)
        else_bindings, else_value = self._branch(node.false_branch, outer)
        values = [v for v in (then_value, else_value) if not isinstance(v, Bottom | Tail)]
        if not values:
            return BOTTOM
        known, other = values[0], values[-1]
        recurs = any(isinstance(v, Tail) for v in (then_value, else_value))
        # The dims of a recursive result are those of some later round.
        erased = self._erase(known) if recurs else self._joined(known, other)
        branches = []
        for bindings, value in ((then_bindings, then_value), (else_bindings, else_value)):
            self.ctx.sequences.append(bindings)
            out = self._result(known if value is BOTTOM else value)
            branches.append(relax.SeqExpr([relax.BindingBlock(self.ctx.sequences.pop())], out))
        var = self.ctx.bind(relax.If(cond_expr, *branches), erased)
        return self._reopened(var, erased)

    def _joined(self, a: Any, b: Any) -> Any:
        """The type of either value: dims that may differ are erased."""
        if isinstance(a, tuple):
            return relax.TupleType([self._joined(x, y) for x, y in zip(a, b, strict=True)])
        if a.dtype != b.dtype or a.rank != b.rank:
            raise TypeMismatch(
                f"the branches of an if give {a.dtype} of rank {a.rank} and "
                f"{b.dtype} of rank {b.rank}"
            )
        same = all(self.ctx.same(x, y) for x, y in zip(a.dims, b.dims, strict=True))
        if same and all(isinstance(d, tirx.IntImm) for d in a.dims):
            return relax.TensorType(list(a.dims), a.dtype)
        if same:
            return relax.TensorType([self.solver.simplify(d) for d in a.dims], a.dtype)
        return relax.TensorType(None, a.dtype, ndim=a.rank)

    def _reopened(self, expr: Expr, ty: Any) -> Any:
        """A value of erased type, its unknown dims under fresh symbols."""
        if isinstance(ty, relax.TupleType):
            return tuple(
                self._reopened(self.ctx.bind(relax.TupleGetItem(expr, k), t), t)
                for k, t in enumerate(ty.fields)
            )
        if ty.shape is not None:
            return Tensor(tuple(ty.shape.values), str(ty.dtype), expr)
        dims = [self._fresh("d") for _ in range(int(ty.ndim))]
        var = self.ctx.match(expr, relax.TensorType(dims, str(ty.dtype)))
        return Tensor(tuple(dims), str(ty.dtype), var)

    # -- recursive functions -------------------------------------------------------------------

    def _call_recursive_function(self, closure: Closure, args: list[Any], scope: Scope) -> Any:
        """Define the function once for these arguments, then call it."""
        self.counter += 1
        name = f"{identifier(closure.name)}_{self.counter}"
        probe = self._define(closure, args, name, None)
        gv, captured, result = self._define(closure, args, name, probe[2])
        exprs = [self.ctx.expr(a) for a in (*args, *(outer for outer, _ in captured))]
        var = self.ctx.bind(tvm.ir.Call(gv, exprs), result)
        return self._reopened(var, result)

    def _define(
        self, closure: Closure, args: list[Any], name: str, result: Any
    ) -> tuple[Any, list[tuple[Tensor, Tensor]], Any]:
        """Import the body as a Relax function; without ``result`` only to find that type."""
        func = closure.function
        inner = Scope(closure.scope, is_function=True)
        params = []
        for p, a in zip(func.params, args, strict=True):
            tensor = self._parameter(p, a)
            inner.variables[p] = tensor
            params.append(tensor.expr)
        gv = relax.GlobalVar(name)
        saved = self.ctx.sequences
        self.ctx.sequences = [[]]
        self.active.append((func, (gv, inner), result))
        try:
            value = self._eval(func.body, inner)
            if value is BOTTOM:
                raise Unsupported(f"function '{closure.name}' never returns")
            out = self._result(value)
            bindings = self.ctx.sequences.pop()
        finally:
            self.active.pop()
            self.ctx.sequences = saved
        captured = list(inner.captures.values())
        params += [t.expr for _, t in captured]
        found = self._erase(value)
        if result is not None:
            body = relax.SeqExpr([relax.BindingBlock(bindings)], out)
            relax_func = relax.Function(params, body, result, True)
            relax.expr._update_type(gv, relax_func.ty)
            self.functions[gv] = relax_func.with_attr("global_symbol", name)
        return gv, captured, found if result is None else result

    def _parameter(self, param: ast.Var, arg: Any) -> Tensor:
        ty = param.type_annotation
        if not isinstance(arg, Tensor):
            raise Unsupported(f"'%{param.name_hint}': a recursive function takes tensors only")
        if isinstance(ty, rt.TensorType):
            dims = [
                i64(d) if isinstance(d, int) else self._fresh(f"{param.name_hint}_{axis}")
                for axis, d in enumerate(ty.shape)
            ]
        else:
            dims = [
                d if isinstance(d, tirx.IntImm) else self._fresh(f"{param.name_hint}_{axis}")
                for axis, d in enumerate(arg.dims)
            ]
        var = relax.Var(identifier(param.name_hint), relax.TensorType(dims, arg.dtype))
        return Tensor(tuple(dims), arg.dtype, var)

    def _erase(self, value: Any) -> Any:
        """The type of a value seen from outside the function that computes it."""
        return self._typed_without(value, lambda dim: not isinstance(dim, tirx.IntImm))

    def _seen_outside(self, value: Any, params: Sequence[Any]) -> Any:
        """A result type may only mention symbols of the parameters."""
        own = {d for p in params for d in p.ty.shape.values if isinstance(d, tirx.Var)}

        def foreign(dim: Any) -> bool:
            if isinstance(dim, tirx.IntImm):
                return False
            names = [dim] if isinstance(dim, tirx.Var) else tirx.analysis.undefined_vars(dim)
            return any(v not in own for v in names)

        return self._typed_without(value, foreign)

    def _typed_without(self, value: Any, hidden: Callable[[Any], bool]) -> Any:
        if isinstance(value, tuple):
            return relax.TupleType([self._typed_without(v, hidden) for v in value])
        if any(hidden(d) for d in value.dims):
            return relax.TensorType(None, value.dtype, ndim=value.rank)
        return relax.TensorType(list(value.dims), value.dtype)

    def _recursive_call(self, target: Any, result: Any, args: list[Any], scope: Scope) -> Any:
        if result is None or any(a is BOTTOM for a in args):
            return BOTTOM
        gv, function_scope = target
        captured = [t.expr for _, t in function_scope.captures.values()]
        exprs = [self.ctx.expr(a) for a in args] + captured
        return Tail(self.ctx.bind(tvm.ir.Call(gv, exprs), result))
