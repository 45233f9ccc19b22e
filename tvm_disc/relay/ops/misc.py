"""Table entries of random numbers, annotations, memory, devices and the virtual machine."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import OPAQUE, REQUIRED, OpRow, op

ref = References("image")
elem = References("elementwise")

ROWS: tuple[OpRow, ...] = (
    op("annotation.cast_hint", "data", OPAQUE, ref.identity, {"dtype": REQUIRED}),
    op("annotation.checkpoint", "data", OPAQUE, ref.identity),
    op("annotation.stop_fusion", "data", OPAQUE, ref.identity),
    op("annotation.with_funcid", "func", OPAQUE, attrs={"fid": -1}),
    op("call_lowered", "func call_args", OPAQUE, attrs={"metadata": ()}),
    op("debug", "program", OPAQUE, attrs={"debug_func": REQUIRED}),
    op(
        "device_copy",
        "data",
        OPAQUE,
        ref.identity,
        {"src_virtual_device": REQUIRED, "dst_virtual_device": REQUIRED},
    ),
    op(
        "memory.alloc_storage",
        "size shape alignment",
        OPAQUE,
        attrs={"dtype": "float32", "virtual_device": REQUIRED},
    ),
    op(
        "memory.alloc_tensor",
        "storage offset shape",
        OPAQUE,
        attrs={"dtype": "float32", "const_shape": REQUIRED, "assert_shape": REQUIRED},
    ),
    op("memory.kill", "to_free", OPAQUE),
    op(
        "on_device",
        "body",
        OPAQUE,
        ref.identity,
        {"virtual_device": None, "constrain_result": False, "constrain_body": True},
    ),
    op("parser.MetaRef", "", OPAQUE, attrs={"node_type_key": REQUIRED, "node_index": REQUIRED}),
    op("torch_op", "", OPAQUE, attrs={"serialized_function": "", "len": -1}),
    op("vm.invoke_tvm_op", "op ins outs", OPAQUE),
    op("vm.shape_of", "tensor", OPAQUE, elem.shape_of, {"dtype": ""}),
)
