"""Relay's passes, and the pass manager over Relay modules.

``relay.transform.FoldConstant()(mod)`` returns a new module. The passes work in
``tvm.transform.Sequential``, and ``tvm.transform.PassContext`` applies to them.
"""

from __future__ import annotations

from tvm_disc.relay_api.transform.convert_layout import LayoutConfig
from tvm_disc.relay_api.transform.manager import (
    FunctionPass,
    Pass,
    PassContext,
    PassInfo,
    Sequential,
    build_config,
    function_pass,
    module_pass,
)
from tvm_disc.relay_api.transform.passes import (
    AlterOpLayout,
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
from tvm_disc.relay_api.transform.recast import recast
from tvm_disc.relay_api.transform.refused import REFUSED, refused

__all__ = [
    "REFUSED",
    "AlterOpLayout",
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
    """Return a function that raises Unsupported for a pass of Relay that is not supported."""
    return refused(name)
