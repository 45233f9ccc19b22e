"""Walk over the bindings of a function, and infer shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from tvm_disc.errors import DiscError, TypeMismatch
from tvm_disc.graph.nodes import is_tensor
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay_passes.propagation.context import (
    Lost,
    Operand,
    Prim,
    PropagationContext,
    ShapeValue,
    Tuple_,
)
from tvm_disc.relay_passes.propagation.finish import drop_dead, sequence
from tvm_disc.relay_passes.propagation.rules import RULES
from tvm_disc.support.deadline import at
from tvm_disc.tir.index import substitute
from tvm_disc.typing import Binding, Expr, TVMFunction, TVMType, Var


class Walker:
    """Rewrites one function; ``merged`` maps symbols of its inputs to their replacements."""

    def __init__(self, context: PropagationContext, merged: Mapping[Any, Any]) -> None:
        self.context = context
        self.merged = merged
        self.defined: set[Any] = set()
        self.inputs: set[Any] = set(merged)  # symbols that the inputs' shapes bind

    def function(self, func: TVMFunction) -> tuple[list[Any], Any]:
        """Return (blocks, body) of the rewritten function."""
        ctx = self.context
        for p in func.params:
            ty = self._merged_type(p.ty)
            var = p if ty is p.ty else relax.Var(str(p.name), ty, p.span)
            ctx.inputs[p] = var
            ctx.env[p] = Prim(var) if tvm.ir.is_prim_expr(p) else ctx.describe(var, ty)
            self._define(ty)
        self.inputs |= self.defined
        return self._sequence(func.body, not ctx.portable)

    def _merged_type(self, ty: TVMType) -> TVMType:
        if not self.merged:
            return ty
        if is_tensor(ty) and isinstance(ty.shape, relax.ShapeExpr):
            dims = [substitute(d, self.merged) for d in ty.shape.values]
            return relax.TensorType(dims, ty.dtype, ty.vdevice)
        if isinstance(ty, relax.TupleType):
            return relax.TupleType([self._merged_type(f) for f in ty.fields])
        if isinstance(ty, relax.ShapeType) and ty.values is not None:
            return relax.ShapeType([substitute(d, self.merged) for d in ty.values])
        return ty

    def _define(self, ty: TVMType) -> None:
        if isinstance(ty, relax.TupleType):
            for f in ty.fields:
                self._define(f)
            return
        dims: Any = ()
        if is_tensor(ty) and isinstance(ty.shape, relax.ShapeExpr):
            dims = ty.shape.values
        elif isinstance(ty, relax.ShapeType) and ty.values is not None:
            dims = ty.values
        for d in dims:
            self.defined.update(tirx.analysis.undefined_vars(d))

    # -- sequences -----------------------------------------------------------------------------

    def _sequence(self, seq: Any, given_back: bool = False) -> tuple[list[Any], Any]:
        """Return (blocks, body); a shape that is returned to the caller becomes a tensor."""
        ctx = self.context
        blocks = []
        body = seq.body
        for k, block in enumerate(seq.blocks):
            ctx.sequences.append([])
            ctx.dataflow = isinstance(block, relax.DataflowBlock)
            for binding in block.bindings:
                self._binding(binding)
            if k == len(seq.blocks) - 1:
                body = self._result(body, ctx.dataflow, given_back)
            flow = ctx.dataflow and ctx.portable
            made = relax.DataflowBlock if flow else relax.BindingBlock
            blocks.append(made(ctx.sequences.pop()))
        ctx.dataflow = False
        if not seq.blocks:
            ctx.sequences.append([])
            body = self._result(body, False, given_back)
            blocks = [relax.BindingBlock(ctx.sequences.pop())]
        return blocks, body

    def _result(self, body: Expr, dataflow: bool, given_back: bool) -> Expr:
        """Return the result of a sequence as a variable that is visible outside its block."""
        ctx = self.context
        ctx.name = str(getattr(body, "name", "result"))
        # Do not bind the dims of a result of unknown shape here: its reader binds them.
        value = ctx.env.get(body) if isinstance(body, tvm.ir.Var) else None
        value = ctx.operand(body) if value is None else value
        expr = ctx.raw(ctx.as_tensors(value) if given_back else value)
        hidden = dataflow and ctx.portable
        if isinstance(expr, tvm.ir.Var) and not (hidden and isinstance(expr, relax.DataflowVar)):
            return expr
        if expr.ty.is_missing():
            expr = ctx.builder.normalize(expr)
        var = relax.Var(ctx.name, expr.ty)
        ctx.sequences[-1].append(relax.VarBinding(var, expr))
        return var

    # -- bindings ------------------------------------------------------------------------------

    def _binding(self, binding: Binding) -> None:
        ctx = self.context
        ctx.name = str(binding.var.name)
        ctx.operator = ""
        if isinstance(binding, relax.MatchCast):
            value = self._match_cast(binding)
        else:
            value = self._value(binding)
        exported = ctx.dataflow and ctx.portable and not isinstance(binding.var, relax.DataflowVar)
        if exported and not isinstance(value, Prim | ShapeValue):
            value = self._exported(value)
        ctx.env[binding.var] = value
        if isinstance(value, Prim):
            ctx.scalars[binding.var] = value.expr

    def _exported(self, value: object) -> object:
        """Return a value that later blocks read, bound to a variable that is visible to them."""
        ctx = self.context
        expr = ctx.raw(value)
        if isinstance(expr, tvm.ir.Var) and not isinstance(expr, relax.DataflowVar):
            return value
        if expr.ty.is_missing():
            expr = ctx.builder.normalize(expr)
        var = relax.Var(ctx.name, expr.ty)
        ctx.sequences[-1].append(relax.VarBinding(var, expr))
        if isinstance(value, Tensor):
            return replace(value, expr=var)
        if isinstance(value, Tuple_):
            return Tuple_(value.fields, var)
        return Lost(var)

    def _value(self, binding: Binding) -> object:
        ctx, value = self.context, binding.value
        if isinstance(value, tvm.ir.Call):
            return self._call(binding.var, value)
        if isinstance(value, relax.If):
            return self._branch(binding.var, value)
        if isinstance(value, relax.Function):
            ctx.sequences[-1].append(binding)
            return Lost(binding.var)
        if isinstance(value, tvm.ir.TupleGetItem):
            source = ctx.operand(value.tuple_value)
            if isinstance(source, Tuple_):
                return source.fields[int(value.index)]
            ty = ctx.typed(binding.var.ty)
            return ctx.describe(ctx.item(ctx.raw(source), int(value.index), ty), ty)
        return ctx.operand(value)

    def _branch(self, var: Var, value: Expr) -> object:
        ctx = self.context
        cond = ctx.raw(ctx.operand(value.cond))
        name, dataflow = ctx.name, ctx.dataflow
        branches = []
        for branch in (value.true_branch, value.false_branch):
            saved = dict(ctx.env)
            ctx.nested += 1
            with ctx.solver.scope():
                blocks, body = self._sequence(branch)
            ctx.nested -= 1
            ctx.env = saved
            branches.append(sequence(drop_dead(blocks, body), body))
        ctx.name, ctx.dataflow = name, dataflow
        made = relax.If(cond, *branches)
        types = [b.body.ty for b in branches]
        same = tvm_ffi.structural_equal(types[0], types[1])
        ty = types[0] if same else ctx.typed(var.ty)
        relax.expr._update_type(made, ty)
        new = relax.Var(name, ty)
        ctx.sequences[-1].append(relax.VarBinding(new, made))
        return ctx.describe(new, ty)

    def _call(self, var: object, call: Any) -> Any:
        ctx = self.context
        is_op = isinstance(call.op, tvm.ir.Op)
        ctx.operator = str(call.op.name).removeprefix("relax.") if is_op else ""
        at(f"operator {ctx.operator!r}" if is_op else "a call")
        args = [ctx.operand(a) for a in call.args]
        rule = RULES.get(ctx.operator) if is_op else None
        try:
            result = None if rule is None else rule(ctx, call, args)
        except DiscError as error:
            raise type(error)(_placed(str(error), ctx.name)) from error
        if result is not None:
            return result
        return self._inferred(var, call, args)

    def _inferred(self, var: object, call: Any, args: list[object]) -> Operand:
        """Emit an operator without a rule, with TVM's inference on operands of known shape."""
        ctx = self.context
        new = tvm.ir.Call(call.op, [ctx.raw(a) for a in args], call.attrs, call.ty_args)
        ty = ctx.typed(self._type_of(new, var, call))
        self._require_sizes(ty)
        relax.expr._update_type(new, ty)
        made = ctx.variable(ty)
        ctx.sequences[-1].append(relax.VarBinding(made, new))
        return ctx.describe(made, ty)

    def _require_sizes(self, ty: TVMType) -> None:
        if is_tensor(ty) and isinstance(ty.shape, relax.ShapeExpr):
            self.context.require_sizes(ty.shape.values)
        elif isinstance(ty, relax.TupleType):
            for field in ty.fields:
                self._require_sizes(field)

    def _type_of(self, new: Any, var: Any, call: Any) -> object:
        explicit = isinstance(call.op, tvm.ir.Op) and call.ty_args
        if explicit and str(call.op.name).startswith("relax.call_"):
            return var.ty
        ty = self.context.infer(new)
        tells = is_tensor(ty) and ty.shape is None and is_tensor(var.ty)
        return var.ty if tells and var.ty.shape is not None else ty

    # -- match_cast ----------------------------------------------------------------------------

    def _match_cast(self, binding: Any) -> object:
        """Return the value of a ``match_cast``.

        New symbols are unified with the dims that they match. A cast is removed if it is proved, or
        if the input types or the guards at the entry check it; otherwise it is kept.
        """
        ctx = self.context
        value = binding.value
        source: Any = ctx.env.get(value) if isinstance(value, tvm.ir.Var) else ctx.operand(value)
        if not self._casts(source, binding.ty):
            return self._kept(source, binding)
        declared = binding.ty.shape.values if is_tensor(binding.ty) else binding.ty.values
        actual = source.dims
        if len(declared) != len(actual):
            raise TypeMismatch(
                f"match_cast '{ctx.name}': expected rank {len(declared)}, found {len(actual)}"
            )
        stays = False
        for want, have in zip(declared, actual, strict=True):
            stays = not self._unify(ctx.plain(want), have) or stays
        if stays:
            return self._kept(source, binding)
        return source

    def _casts(self, source: object, ty: TVMType) -> bool:
        if isinstance(source, ShapeValue):
            return isinstance(ty, relax.ShapeType) and ty.values is not None
        known = is_tensor(ty) and isinstance(ty.shape, relax.ShapeExpr)
        return known and isinstance(source, Tensor)

    def _unify(self, want: Expr, have: Expr) -> bool:
        """Unify two dims; return whether the cast need not check them."""
        solver = self.context.solver
        if isinstance(want, tirx.Var) and want not in self.defined:
            self.defined.add(want)
            solver.declare(want)
            solver.assume_eq(want, have, f"match_cast '{self.context.name}'")
            return True
        if solver.known_eq(want, have):
            return True
        free = {*tirx.analysis.undefined_vars(want), *tirx.analysis.undefined_vars(have)}
        if free <= self.inputs:
            solver.require_eq(have, want, f"match_cast '{self.context.name}'")
            return True
        return False

    def _kept(self, source: object, binding: Any) -> Operand:
        ctx = self.context
        expr = ctx.raw(source)
        self._define_new(binding.ty)
        ty = ctx.typed(binding.ty)
        return ctx.describe(ctx.match(expr, ty), ty)

    def _define_new(self, ty: TVMType) -> None:
        if isinstance(ty, relax.TupleType):
            for f in ty.fields:
                self._define_new(f)
        elif is_tensor(ty) and isinstance(ty.shape, relax.ShapeExpr):
            for axis, d in enumerate(ty.shape.values):
                if isinstance(d, tirx.Var) and d not in self.defined:
                    place = f"value '{self.context.name}' axis {axis}"
                    self.context.solver.declare(d, place)
        self._define(ty)


def _placed(message: str, name: str) -> str:
    return message if name in message else f"{message} (value '{name}')"


__all__ = ["Walker"]
