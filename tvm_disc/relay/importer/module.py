"""Relay modules become Relax modules: ``?`` becomes a symbol, local functions are specialised.

Every anonymous ``?`` of an input is its own symbol. Requirements that operators put on dims are
proved or become guards, and what a guard ensures is known afterwards: the module is therefore
walked twice with one solver, so that facts found late simplify shapes met early.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import relax, tirx

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.importer.context import i64
from tvm_disc.relay.importer.inputs import Inputs, declare, identifier
from tvm_disc.relay.importer.spans import decided, ranged
from tvm_disc.relay.importer.tensor import Closure, Tensor
from tvm_disc.relay.importer.values import value_of
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.ops.table import OPS
from tvm_disc.relay.visit import post_order
from tvm_disc.shape import Solver

Expr: TypeAlias = Any


@dataclass
class Imported:
    """A Relax module and what is known of its symbols."""

    mod: Any
    solver: Solver


def import_module(
    mod: IRModule,
    params: Mapping[str, np.ndarray] | None = None,
    constraints: Sequence[str] = (),
) -> Imported:
    """Import ``mod["main"]`` and what it calls.

    Args:
        params: inputs of ``main``, by name, to be turned into constants.
        constraints: facts about the dims of inputs, in the constraint language.

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
    declare(main, params or {}, constraints, solver, symbols)
    _Importer(mod, solver, symbols).run(main, params or {})
    return Imported(_Importer(mod, solver, symbols).run(main, params or {}), solver)


@dataclass(eq=False)
class _Scope:
    """Variables in reach and values already computed, innermost last.

    A scope with ``captures`` belongs to a function of its own in the Relax module: what it reads
    from outside must become a parameter.
    """

    parent: _Scope | None
    variables: dict[ast.Var, Any] = field(default_factory=dict)
    memo: dict[int, Any] = field(default_factory=dict)
    is_function: bool = False
    captures: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)


class _Bottom:
    """The value of a self-call while a function's result type is still being found."""


BOTTOM = _Bottom()


class _Importer(Inputs):
    def __init__(self, mod: IRModule, solver: Solver, symbols: dict[Any, Any]) -> None:
        super().__init__(solver, symbols)
        self.source = mod
        self.functions: dict[Any, Any] = {}
        self.active: list[tuple[ast.Function, Any, Any]] = []  # function, global var, result type
        self.counter = 0

    def run(self, main: ast.Function, params: Mapping[str, np.ndarray]) -> Any:
        scope = _Scope(None, is_function=True)
        inputs = []
        for p in main.params:
            if p.name_hint in params:
                scope.variables[p] = self.bound(p, params[p.name_hint])
            else:
                tensor = self.input(p)
                scope.variables[p] = tensor
                inputs.append(tensor.expr)
        out = self._result(self._eval(main.body, scope))
        body = relax.SeqExpr([relax.BindingBlock(self.ctx.sequences.pop())], out)
        func = relax.Function(inputs, body, body.body.ty, True)
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

    def _eval(self, expr: ast.Expr, scope: _Scope) -> Any:
        """The value of an expression; chains of calls and lets do not deepen the stack."""
        while isinstance(expr, ast.Let):
            self._let(expr, scope)
            expr = expr.body
        stack: list[tuple[ast.Expr, bool]] = [(expr, False)]
        while stack:
            node, ready = stack.pop()
            if self._lookup(node, scope) is not None:
                continue
            operands = _operands(node)
            if operands and not ready:
                stack.append((node, True))
                stack.extend((x, False) for x in reversed(operands))
                continue
            scope.memo[id(node)] = self._node(node, scope)
        return self._lookup(expr, scope)

    def _lookup(self, node: ast.Expr, scope: _Scope) -> Any:
        current: _Scope | None = scope
        crossed: list[_Scope] = []
        while current is not None:
            table = current.variables if isinstance(node, ast.Var) else current.memo
            key = node if isinstance(node, ast.Var) else id(node)
            if key in table:
                return self._capture(table[key], crossed)  # type: ignore[index]
            if current.is_function:
                crossed.append(current)
            current = current.parent
        return None

    def _capture(self, value: Any, crossed: Sequence[_Scope]) -> Any:
        """A value seen from inside functions: tensors become extra parameters on the way in."""
        for function in reversed(crossed):
            value = self._captured(value, function)
        return value

    def _captured(self, value: Any, function: _Scope) -> Any:
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

    def _let(self, let: ast.Let, scope: _Scope) -> None:
        value = let.value
        if isinstance(value, ast.Function):
            closure = Closure(value, scope, let.var.name_hint, let.var)
            scope.variables[let.var] = closure
        else:
            scope.variables[let.var] = self._eval(value, _Scope(scope))

    def _node(self, node: ast.Expr, scope: _Scope) -> Any:
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
            return self._eval(node, _Scope(scope))
        if isinstance(node, ast.GlobalVar):
            return self._global(node)
        if isinstance(node, ast.Var):
            raise TypeMismatch(f"variable '%{node.name_hint}' is not bound")
        raise Unsupported(f"{type(node).__name__} is not compiled in this release")

    def _field(self, value: Any, index: int) -> Any:
        if value is BOTTOM:
            return BOTTOM
        if not isinstance(value, tuple) or not 0 <= index < len(value):
            raise TypeMismatch(f"field {index} of something that is no tuple of that size")
        return value[index]

    def _global(self, node: ast.GlobalVar) -> Closure:
        func = self.source[node.name_hint]
        if not isinstance(func, ast.Function):
            raise Unsupported(f"@{node.name_hint} is not a function")
        return Closure(func, None, node.name_hint)

    # -- calls ---------------------------------------------------------------------------------

    def _call(self, call: ast.Call, scope: _Scope) -> Any:
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
        return ranged(self.ctx, name, args, row.lower(self.ctx, args, call.attrs))

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

    def _apply(self, closure: Closure, args: list[Any], scope: _Scope) -> Any:
        for function, gv, result in self.active:
            if function is closure.function:
                return self._recursive_call(gv, result, args, scope)
        if not _calls_itself(closure):
            inner = _Scope(closure.scope)
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

    def _branch(self, expr: ast.Expr, scope: _Scope) -> tuple[list[Any], Any]:
        self.ctx.sequences.append([])
        try:
            value = self._eval(expr, _Scope(scope))
        finally:
            bindings = self.ctx.sequences.pop()
        return bindings, value

    def _if(self, node: ast.If, scope: _Scope) -> Any:
        cond = self._eval(node.cond, scope)
        literal = value_of(cond)
        if literal is not None and isinstance(literal.item(), bool):
            return self._eval(node.true_branch if literal.item() else node.false_branch, scope)
        outer = _Scope(scope)
        cond_expr = self.ctx.expr(cond)
        then_bindings, then_value = self._branch(node.true_branch, outer)
        else_bindings, else_value = self._branch(node.false_branch, outer)
        known = else_value if then_value is BOTTOM else then_value
        if known is BOTTOM:
            return BOTTOM
        other = known if BOTTOM in (then_value, else_value) else else_value
        erased = self._joined(known, other)
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

    def _call_recursive_function(self, closure: Closure, args: list[Any], scope: _Scope) -> Any:
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
        inner = _Scope(closure.scope, is_function=True)
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
        own = {d for p in params for d in p.ty.shape.values if isinstance(d, tirx.Var)}
        found = self._erase(value, own)
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

    def _erase(self, value: Any, own: set[Any]) -> Any:
        """The type of a value seen from outside the function that computes it."""
        if isinstance(value, tuple):
            return relax.TupleType([self._erase(v, own) for v in value])
        if all(isinstance(d, tirx.IntImm) for d in value.dims):
            return relax.TensorType(list(value.dims), value.dtype)
        return relax.TensorType(None, value.dtype, ndim=value.rank)

    def _recursive_call(self, target: Any, result: Any, args: list[Any], scope: _Scope) -> Any:
        if result is None or any(a is BOTTOM for a in args):
            return BOTTOM
        gv, function_scope = target
        captured = [t.expr for _, t in function_scope.captures.values()]
        exprs = [self.ctx.expr(a) for a in args] + captured
        var = self.ctx.bind(tvm.ir.Call(gv, exprs), result)
        if isinstance(result, relax.TupleType):
            return tuple(
                self._unopened(relax.TupleGetItem(var, k), t) for k, t in enumerate(result.fields)
            )
        return self._unopened(var, result)

    def _unopened(self, expr: Expr, ty: Any) -> Tensor:
        """The result of a tail call, whose dims nobody may ask for."""
        dims = (
            tuple(ty.shape.values)
            if ty.shape is not None
            else (tuple(self._fresh("t") for _ in range(int(ty.ndim))))
        )
        return Tensor(dims, str(ty.dtype), expr)


def _operands(node: ast.Expr) -> tuple[ast.Expr, ...]:
    """What must be evaluated before a node, in the node's own scope."""
    if isinstance(node, ast.Call):
        callee = () if isinstance(node.op, ast.Op | ast.GlobalVar) else (node.op,)
        return (*callee, *node.args)
    if isinstance(node, ast.Tuple):
        return node.fields
    if isinstance(node, ast.TupleGetItem):
        return (node.tuple_value,)
    if isinstance(node, ast.If):
        return (node.cond,)
    return ()


def _calls_itself(closure: Closure) -> bool:
    """Whether a function's body mentions the variable it is bound to."""
    if closure.recursive is None:
        return (
            any(
                isinstance(e, ast.GlobalVar) and e.name_hint == closure.name
                for e in post_order(closure.function.body)
            )
            if closure.scope is None
            else False
        )
    return any(e is closure.recursive for e in post_order(closure.function.body))
