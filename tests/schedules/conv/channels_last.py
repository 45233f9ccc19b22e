"""Convolutions and windows of a graph with their channels last, each between two transposes."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.relax import op as R

FIRST, LAST = [0, 3, 1, 2], [0, 2, 3, 1]


@relax.expr_functor.mutator
class _Mutator(relax.PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        name = call.op.name if isinstance(call.op, tvm.ir.Op) else ""
        if name not in ("relax.nn.conv2d", "relax.nn.max_pool2d", "relax.nn.avg_pool2d"):
            return call
        if "NHWC" in (str(getattr(call.attrs, n, "")) for n in ("data_layout", "layout")):
            return call
        a, x = call.attrs, self.builder_.emit(R.permute_dims(call.args[0], LAST))
        same = ("strides", "padding", "dilation")
        attrs: dict[str, Any] = {n: getattr(a, n) for n in same}
        if name.endswith("conv2d"):
            attrs |= {"groups": a.groups, "out_dtype": a.out_dtype, "kernel_layout": "OIHW"}
            made = R.nn.conv2d(x, call.args[1], data_layout="NHWC", **attrs)
        else:
            attrs |= {n: getattr(a, n) for n in ("pool_size", "ceil_mode", "count_include_pad")}
            made = getattr(R.nn, name.rpartition(".")[2])(x, layout="NHWC", **attrs)
        return R.permute_dims(self.builder_.emit(made), FIRST)


def channels_last(module: Any) -> Any:
    """The pass, for ``passes={"before fuse": channels_last}``."""
    mutator = _Mutator(module)
    for var, function in module.functions.items():
        if isinstance(function, relax.Function):
            mutator.builder_.update_func(var, mutator.visit_expr(function))
    return mutator.builder_.get()
