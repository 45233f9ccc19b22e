"""Use bfloat16 for storage only: operators compute in float32 and round their results.

An operator on bfloat16 tensors becomes one on float32 between casts (``relax.astype``), which
fusion merges into the surrounding kernels. A fused kernel therefore rounds exactly where the graph
has a bfloat16 value. Composite operators (softmax, normalization) round once, at their end, and
reductions accumulate in float32. Data movement copies the bits. Matmuls and convolutions read their
operands directly if all are bfloat16, and return their float32 accumulators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax
from tvm.relax import op as R

from tvm_disc.graph.core_ops import BFLOAT16
from tvm_disc.relay.call_attrs import fields_of, with_dtypes
from tvm_disc.relay.expressions import expressions
from tvm_disc.relay.kernel_ops import BLANK, DEQUANTIZE, EXTENDING, REINTERPRET, WRITE_SLICE
from tvm_disc.typing import Call, Expr, PassContext, TVMModule, TVMType

WIDE = "float32"

# Operators that move or convert elements without computing on them.
MOVES = frozenset(
    f"relax.{name}"
    for name in (
        "reshape", "expand_dims", "squeeze", "flatten", "nn.batch_flatten", "permute_dims",
        "broadcast_to", "concat", "stack", "split", "strided_slice", "take", "gather_elements",
        "gather_nd", "flip", "tile", "repeat", "tril", "triu", "astype", "nn.dropout",
    )
) | {REINTERPRET, DEQUANTIZE, BLANK, WRITE_SLICE, *EXTENDING}  # fmt: skip

# Operators whose templates read bfloat16 operands and accumulate in float32.
PRODUCTS = ("relax.matmul", "relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")


def _is_narrow(x: Expr) -> bool:
    return isinstance(x.ty, relax.TensorType) and str(x.ty.dtype) == BFLOAT16


def _narrow_fields(ty: TVMType) -> list[bool]:
    """Return for a value, or for each field of a tuple, whether it is a bfloat16 tensor."""
    fields = ty.fields if isinstance(ty, tvm.ir.TupleType) else [ty]
    return [isinstance(t, relax.TensorType) and str(t.dtype) == BFLOAT16 for t in fields]


def _tensors(args: Any) -> list[Expr]:
    """Return the operands, with tuples flattened."""
    return [x for a in args for x in (a.fields if isinstance(a, tvm.ir.Tuple) else [a])]


def _map_tensors(args: Any, fn: Callable[[Expr], Expr]) -> list[Expr]:
    """Return the operands with ``fn`` applied to bfloat16 tensors, also inside tuples."""
    result: list[Expr] = []
    for arg in args:
        if isinstance(arg, tvm.ir.Tuple):
            result.append(relax.Tuple(_map_tensors(arg.fields, fn)))
        else:
            result.append(fn(arg) if _is_narrow(arg) else arg)
    return result


def _wide_attrs(attrs: object, product: bool) -> object:
    """Return attributes with float32 in place of bfloat16; a product's ``out_dtype`` is float32."""
    if attrs is None:
        return None
    _, fields = fields_of(attrs)
    narrow = [k for k, v in fields.items() if str(v) == BFLOAT16 or (product and k == "out_dtype")]
    return with_dtypes(attrs, narrow, WIDE)


@relax.expr_functor.mutator
class _Widener(relax.PyExprMutator):
    def visit_call_(self, call: Call) -> Expr:
        ty = call.ty
        call = self.visit_expr_post_order(call)
        if not isinstance(call, tvm.ir.Call) or not isinstance(call.op, tvm.ir.Op):
            return call
        name, narrow = str(call.op.name), any(map(_is_narrow, _tensors(call.args)))
        if name in MOVES or not (narrow or any(_narrow_fields(ty))):
            return call
        args, attrs = call.args, _wide_attrs(call.attrs, name in PRODUCTS)
        if name not in PRODUCTS or not all(map(_is_narrow, args)):
            args = _map_tensors(args, self._widened)
        made = tvm.ir.Call(call.op, list(args), attrs, list(call.ty_args))
        return self._narrowed(self.builder_.normalize(made), ty)

    def _widened(self, x: Expr) -> Expr:
        return self.builder_.emit(R.astype(x, WIDE))

    def _narrowed(self, call: Expr, ty: TVMType) -> Expr:
        """Return the result; fields whose original type is bfloat16 are rounded to bfloat16."""
        narrow = _narrow_fields(ty)
        if not any(narrow):
            return call
        value = self.builder_.emit(call)
        if not isinstance(ty, tvm.ir.TupleType):
            return self.builder_.normalize(R.astype(value, BFLOAT16))
        fields = [self.builder_.emit(relax.TupleGetItem(value, k)) for k in range(len(narrow))]
        return relax.Tuple(
            [
                self.builder_.emit(R.astype(x, BFLOAT16)) if n else x
                for x, n in zip(fields, narrow, strict=True)
            ]
        )


def _mentions(mod: TVMModule) -> bool:
    """Return whether any value of a module is a bfloat16 tensor."""
    functions = [f for _, f in mod.functions_items() if isinstance(f, relax.Function)]
    return any(
        any(_narrow_fields(e.ty))
        for func in functions
        for e in expressions(func)
        if isinstance(e, tvm.ir.Call | tvm.ir.Var | tvm.ir.GenericConst)
    )


def WidenBFloat16() -> object:
    """Return a module pass that computes bfloat16 in float32 and rounds each operator's result."""

    def widen(mod: TVMModule, ctx: PassContext) -> object:
        if not _mentions(mod):
            return mod
        mutator = _Widener(mod)
        for gv, func in mod.functions_items():
            if isinstance(func, relax.Function):
                mutator.builder_.update_func(gv, mutator.visit_expr(func))
        return mutator.builder_.get()

    return tvm.transform.module_pass(widen, opt_level=0, name="WidenBFloat16")


__all__: list[str] = ["MOVES", "PRODUCTS", "WidenBFloat16"]
