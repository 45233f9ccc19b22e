"""Relay's passes, and the pass manager over Relay modules.

``relay.transform.FoldConstant()(mod)`` gives a new module.  The passes stand in
``tvm.transform.Sequential`` too, and ``tvm.transform.PassContext`` holds for them.
"""

from __future__ import annotations

from .manager import (
    FunctionPass,
    Pass,
    PassContext,
    PassInfo,
    Sequential,
    build_config,
    function_pass,
    module_pass,
)
from .passes import (
    CanonicalizeOps,
    CombineParallelBatchMatmul,
    CombineParallelConv2D,
    CombineParallelDense,
    DeadCodeElimination,
    DynamicToStatic,
    EliminateCommonSubexpr,
    EtaExpand,
    FastMath,
    FoldConstant,
    InferType,
    Inline,
    RemoveUnusedFunctions,
    SimplifyExpr,
    SimplifyInference,
    ToANormalForm,
    ToBasicBlockNormalForm,
    ToGraphNormalForm,
)

__all__ = [
    "CanonicalizeOps",
    "CombineParallelBatchMatmul",
    "CombineParallelConv2D",
    "CombineParallelDense",
    "DeadCodeElimination",
    "DynamicToStatic",
    "EliminateCommonSubexpr",
    "EtaExpand",
    "FastMath",
    "FoldConstant",
    "FunctionPass",
    "InferType",
    "Inline",
    "Pass",
    "PassContext",
    "PassInfo",
    "RemoveUnusedFunctions",
    "Sequential",
    "SimplifyExpr",
    "SimplifyInference",
    "ToANormalForm",
    "ToBasicBlockNormalForm",
    "ToGraphNormalForm",
    "build_config",
    "function_pass",
    "module_pass",
]
