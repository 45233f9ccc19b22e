"""``relay.build_module``: older names of ``build``, ``create_executor`` and parameter binding."""

from __future__ import annotations

from typing import Any

from tvm_disc.errors import refusing
from tvm_disc.relay.expr import Function
from tvm_disc.relay.module import IRModule
from tvm_disc.relay_api import transform
from tvm_disc.relay_api.analysis.binding import bind_params_by_name
from tvm_disc.relay_api.executors.evaluate import Executor, create_executor
from tvm_disc.relay_api.executors.factory import build
from tvm_disc.relay_api.executors.graph import load_module
from tvm_disc.relay_api.executors.programs import as_relay_module
from tvm_disc.relay_api.executors.vm import VMExecutor


@refusing
def optimize(mod: object, target: object = None, params: Any = None) -> tuple[IRModule, object]:
    """Return the module after the Relay passes that a ``PassContext`` enables, and the parameters.

    The compiler's own passes are not included; ``build`` takes the original module.
    """
    module = IRModule.from_expr(mod) if isinstance(mod, Function) else as_relay_module(mod)
    if params:
        module = module.with_main(bind_params_by_name(module["main"], params))
    steps = [
        transform.RemoveUnusedFunctions(),
        transform.SimplifyInference(),
        transform.EliminateCommonSubexpr(),
        transform.CombineParallelConv2D(3),
        transform.CombineParallelDense(3),
        transform.CombineParallelBatchMatmul(3),
        transform.FoldConstant(),
        transform.FoldScaleAxis(),
        transform.SimplifyExpr(),
        transform.CanonicalizeCast(),
        transform.CanonicalizeOps(),
        transform.FlattenAtrousConv(),
        transform.FastMath(),
        transform.FoldConstant(),
    ]
    return transform.Sequential(steps)(module), params


__all__ = [
    "Executor",
    "VMExecutor",
    "bind_params_by_name",
    "build",
    "create_executor",
    "load_module",
    "optimize",
]
