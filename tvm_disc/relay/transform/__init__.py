"""Relay's passes, and the pass manager over Relay modules.

``relay.transform.FoldConstant()(mod)`` gives a new module.  The passes stand in
``tvm.transform.Sequential`` too, and ``tvm.transform.PassContext`` holds for them.
"""

from __future__ import annotations

from .convert_layout import LayoutConfig
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
    AnnotateSpans,
    BackwardFoldScaleAxis,
    CanonicalizeCast,
    CanonicalizeOps,
    CombineParallelBatchMatmul,
    CombineParallelConv2D,
    CombineParallelDense,
    ConvertLayout,
    DeadCodeElimination,
    DefuseOps,
    DivToMul,
    DynamicToStatic,
    EliminateCommonSubexpr,
    EtaExpand,
    FakeQuantizationToInteger,
    FastMath,
    FlattenAtrousConv,
    FoldConstant,
    FoldConstantExpr,
    FoldExplicitPadding,
    FoldScaleAxis,
    ForwardFoldScaleAxis,
    FuseOps,
    InferType,
    InferTypeLocal,
    Inline,
    LambdaLift,
    Legalize,
    MergeComposite,
    RemoveUnusedFunctions,
    SimplifyExpr,
    SimplifyInference,
    ToANormalForm,
    ToANormalFormExpr,
    ToBasicBlockNormalForm,
    ToGraphNormalForm,
    ToMixedPrecision,
)
from .recast import (
    recast,
)
from .refused import (
    REFUSED,
    refused,
)

__all__ = [
    "REFUSED",
    "AnnotateSpans",
    "BackwardFoldScaleAxis",
    "CanonicalizeCast",
    "CanonicalizeOps",
    "CombineParallelBatchMatmul",
    "CombineParallelConv2D",
    "CombineParallelDense",
    "ConvertLayout",
    "DeadCodeElimination",
    "DefuseOps",
    "DivToMul",
    "DynamicToStatic",
    "EliminateCommonSubexpr",
    "EtaExpand",
    "FakeQuantizationToInteger",
    "FastMath",
    "FlattenAtrousConv",
    "FoldConstant",
    "FoldConstantExpr",
    "FoldExplicitPadding",
    "FoldScaleAxis",
    "ForwardFoldScaleAxis",
    "FunctionPass",
    "FuseOps",
    "InferType",
    "InferTypeLocal",
    "Inline",
    "LambdaLift",
    "LayoutConfig",
    "Legalize",
    "MergeComposite",
    "Pass",
    "PassContext",
    "PassInfo",
    "RemoveUnusedFunctions",
    "Sequential",
    "SimplifyExpr",
    "SimplifyInference",
    "ToANormalForm",
    "ToANormalFormExpr",
    "ToBasicBlockNormalForm",
    "ToGraphNormalForm",
    "ToMixedPrecision",
    "build_config",
    "function_pass",
    "module_pass",
    "recast",
]


def __getattr__(name: str) -> object:
    """A pass of Relay that makes no sense here; calling it says why."""
    return refused(name)
