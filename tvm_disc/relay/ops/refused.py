"""Operators without an import rule by design: the reason, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping

_PACKED = (
    "a layout that TVM's own layout passes choose for one target; "
    "give the model as it was before AlterOpLayout"
)
_WINOGRAD = (
    "the half of a convolution that TVM's own passes split for one target; "
    "give the convolution itself"
)
_TUNED = "a layout that another tuner chose; give the model as it was before tuning"
_BYOC = "a mark for external code generators; remove it, the whole module is compiled here"
_LOWERED = "what TVM's own lowering leaves behind; give the module as it was before lowering"

REFUSED: Mapping[str, str] = {
    "annotation.with_funcid": _LOWERED,
    "auto_scheduler_layout_transform": _TUNED,
    "call_lowered": _LOWERED,
    "debug": "it stops in a debugger; remove it and look at the stages with DISC_DUMP",
    "memory.alloc_storage": _LOWERED,
    "memory.alloc_tensor": _LOWERED,
    "memory.kill": _LOWERED,
    "meta_schedule_layout_transform": _TUNED,
    "nn.contrib_conv2d_gemm_weight_transform": _PACKED,
    "nn.contrib_conv2d_gemm_without_weight_transform": _PACKED,
    "nn.contrib_conv2d_winograd_nnpack_weight_transform": _WINOGRAD,
    "parser.MetaRef": "a reference that the reader of a text resolves; read it with relay.parse",
    "torch_op": "it calls PyTorch at run time; export the model without custom operators",
    "vm.invoke_tvm_op": _LOWERED,
}

_QNN_CONFIG = "requantize has its own rounding and compute_dtype; set them on the call"
_QNN_RULES = "quantised operators have import rules of their own, and no rewrites to register"

# Functions of Relay's Python API without a counterpart: the reason, and what to do instead.
REFUSED_FUNCTIONS: Mapping[str, str] = {
    "contrib": _BYOC,
    "copy_shape_func": "shapes are computed by the program itself; there are no shape functions",
    "memory": _LOWERED,
    "qnn.current_requantize_config": _QNN_CONFIG,
    "qnn.register_qnn_canonicalize": _QNN_RULES,
    "qnn.register_qnn_legalize": _QNN_RULES,
    "qnn.requantize_config": _QNN_CONFIG,
    "vm": _LOWERED,
}
