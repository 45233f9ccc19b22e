"""Relay's passes that are not supported, each with the reason that a call raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from tvm_disc.errors import Unsupported

_EXTERNAL = (
    "it prepares functions for an external code generator, and this compiler uses none; "
    "MergeComposite and dataflow_pattern.partition group operators"
)
_MEMORY = "the compiler plans memory for all shapes; a Relay module contains no allocations"
_GRADIENT = "programs are compiled for inference; export the gradient from the training framework"
_SPARSE = (
    "it replaces weights of a parameter list for sparse kernels, which do not exist here; programs "
    "with relay.nn.sparse_dense compile"
)
_DEVICES = (
    "a program runs on the processor it is compiled for; on_device and device_copy do nothing"
)
_CLOSURES = "the compiler compiles closures as they are; build the program without the pass"

REFUSED: Mapping[str, str] = {
    "AnnotateTarget": _EXTERNAL,
    "BatchingOps": "use CombineParallelConv2D, CombineParallelDense and CombineParallelBatchMatmul",
    "CapturePostDfsIndexInSpans": _EXTERNAL,
    "ChangeBatch": "a program serves every batch: make the dim relay.Any()",
    "CollagePartition": _EXTERNAL,
    "Conv2dToSparse": _SPARSE,
    "Conv2dToSparse2": _SPARSE,
    "Defunctionalization": _CLOSURES,
    "DenseToSparse": _SPARSE,
    "FirstOrderGradient": _GRADIENT,
    "FlexibleShapeDispatch": "a program serves every shape: make the dims relay.Any()",
    "InlineCompilerFunctionsBoundTo": _EXTERNAL,
    "LazyGradientInit": _GRADIENT,
    "ManifestAlloc": _MEMORY,
    "ManifestLifetimes": _MEMORY,
    "MarkCompilerFunctionsAsExtern": _EXTERNAL,
    "MergeCompilerRegions": _EXTERNAL,
    "OutlineCompilerFunctionsWithExistingGlobalSymbols": _EXTERNAL,
    "PartialEvaluate": (
        "the compiler unrolls what is known while it reads the program; FoldConstant, Inline and "
        "DeadCodeElimination(inline_once=True) do most of it here"
    ),
    "PartitionGraph": _EXTERNAL,
    "PlanDevices": _DEVICES,
    "RemoveStandaloneReshapes": "the compiler implements reshapes as views",
    "SimplifyFCTranspose": (
        "it transposes weights of a parameter list for sparse kernels, which do not exist here"
    ),
    "SplitArgs": "kernels on the CPU take any number of arguments",
    "ToCPS": _CLOSURES,
    "gradient": _GRADIENT,
    "to_cps": _CLOSURES,
    "un_cps": _CLOSURES,
}


def refused(name: str) -> Callable[..., NoReturn]:
    """Return a function that raises Unsupported for a pass; AttributeError for an unknown name."""
    if name not in REFUSED:
        raise AttributeError(f"Relay has no pass {name!r}")

    def use(*_args: object, **_options: object) -> NoReturn:
        raise Unsupported(f"relay.transform.{name}: {REFUSED[name]}")

    use.__name__, use.__doc__ = name, f"Not here: {REFUSED[name]}."
    return use


__all__ = ["REFUSED", "refused"]
