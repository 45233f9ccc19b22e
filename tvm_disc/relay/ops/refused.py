"""Operators without an import rule by design: the reason, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping

_PACKED = (
    "a layout that TVM's layout passes select for one target; "
    "pass the model as it was before AlterOpLayout"
)
_WINOGRAD = (
    "half of a convolution that TVM's passes split for one target; pass the original convolution"
)
_TUNED = "a layout that another tuner selects; pass the model as it was before tuning"
_BYOC = "an annotation for external code generators; remove it: the whole module is compiled"
_LOWERED = "created by TVM's own lowering; pass the module as it was before lowering"

REFUSED: Mapping[str, str] = {
    "annotation.with_funcid": _LOWERED,
    "auto_scheduler_layout_transform": _TUNED,
    "call_lowered": _LOWERED,
    "debug": "it stops in a debugger; remove it and inspect the stages with DISC_DUMP",
    "memory.alloc_storage": _LOWERED,
    "memory.alloc_tensor": _LOWERED,
    "memory.kill": _LOWERED,
    "meta_schedule_layout_transform": _TUNED,
    "nn.contrib_conv2d_gemm_weight_transform": _PACKED,
    "nn.contrib_conv2d_gemm_without_weight_transform": _PACKED,
    "nn.contrib_conv2d_winograd_nnpack_weight_transform": _WINOGRAD,
    "parser.MetaRef": "a reference that the text parser resolves; parse the text with relay.parse",
    "torch_op": "it calls PyTorch at run time; export the model without custom operators",
    "vm.invoke_tvm_op": _LOWERED,
}

_QNN_CONFIG = "set rounding and compute_dtype on the requantize call"

# Functions of Relay's Python API without a counterpart: the reason, and what to do instead.
REFUSED_FUNCTIONS: Mapping[str, str] = {
    "contrib": _BYOC,
    "copy_shape_func": "the compiler infers shapes; there are no shape functions",
    "memory": _LOWERED,
    "qnn.current_requantize_config": _QNN_CONFIG,
    "qnn.requantize_config": _QNN_CONFIG,
    "vm": _LOWERED,
}
