"""Rows of random numbers, annotations, memory, devices and the virtual machine."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import REQUIRED, OpRow, Pattern, Sample

ref = References("image")
elem = References("elementwise")

_SAME = (Sample((("n", 3, "float32"),), ("n", 3)),)

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "annotation.cast_hint",
        ("data",),
        {"dtype": REQUIRED},
        Pattern.OPAQUE,
        False,
        reference=ref.identity,
        samples=(Sample((("n", 3, "float32"),), ("n", 3), {"dtype": "int8"}),),
    ),
    OpRow(
        "annotation.checkpoint",
        ("data",),
        {},
        Pattern.OPAQUE,
        True,
        reference=ref.identity,
        samples=_SAME,
    ),
    OpRow(
        "annotation.stop_fusion",
        ("data",),
        {},
        Pattern.OPAQUE,
        True,
        reference=ref.identity,
        samples=_SAME,
    ),
    OpRow("annotation.with_funcid", ("func",), {"fid": -1}, Pattern.OPAQUE, False),
    OpRow("call_lowered", ("func", "call_args"), {"metadata": ()}, Pattern.OPAQUE, False),
    OpRow("debug", ("program",), {"debug_func": REQUIRED}, Pattern.OPAQUE, False),
    OpRow(
        "device_copy",
        ("data",),
        {"src_virtual_device": REQUIRED, "dst_virtual_device": REQUIRED},
        Pattern.OPAQUE,
        True,
        reference=ref.identity,
        samples=(
            Sample(
                (("n", 3, "float32"),),
                ("n", 3),
                {"src_virtual_device": None, "dst_virtual_device": None},
            ),
        ),
    ),
    OpRow(
        "memory.alloc_storage",
        ("size", "shape", "alignment"),
        {"dtype": "float32", "virtual_device": REQUIRED},
        Pattern.OPAQUE,
        False,
    ),
    OpRow(
        "memory.alloc_tensor",
        ("storage", "offset", "shape"),
        {"dtype": "float32", "const_shape": REQUIRED, "assert_shape": REQUIRED},
        Pattern.OPAQUE,
        False,
    ),
    OpRow("memory.kill", ("to_free",), {}, Pattern.OPAQUE, False),
    OpRow(
        "on_device",
        ("body",),
        {"virtual_device": None, "constrain_result": False, "constrain_body": True},
        Pattern.OPAQUE,
        True,
        reference=ref.identity,
        samples=_SAME,
    ),
    OpRow(
        "parser.MetaRef",
        (),
        {"node_type_key": REQUIRED, "node_index": REQUIRED},
        Pattern.OPAQUE,
        False,
    ),
    OpRow("torch_op", (), {"serialized_function": "", "len": -1}, Pattern.OPAQUE, False),
    OpRow("vm.invoke_tvm_op", ("op", "ins", "outs"), {}, Pattern.OPAQUE, False),
    OpRow(
        "vm.shape_of",
        ("tensor",),
        {"dtype": ""},
        Pattern.OPAQUE,
        False,
        reference=elem.shape_of,
        samples=(
            Sample((("n", 3, "float32"),), (2,), {"dtype": "int64"}),
            Sample((("n", 3, "float32"),), (2,), {}),
        ),
    ),
)
