"""Table entries of operators whose shape or extent is a tensor argument."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .indexing import SLICE
from .nn import UPSAMPLING, UPSAMPLING_3D
from .row import BROADCAST, ELEMWISE, INJECTIVE, OPAQUE, OUT_ELEMWISE, REQUIRED, OpRow, op
from .window_attrs import resize_attrs

image = References("image")
nn = References("nn")
ref = References("transform")

ROWS: tuple[OpRow, ...] = (
    op(
        "dyn.broadcast_to",
        "data shape",
        BROADCAST,
        ref.dyn_broadcast_to,
        {"shape": REQUIRED, "dtype": ""},
    ),
    op("dyn.expand_dims", "data axis", INJECTIVE, ref.dyn_expand_dims, {"num_newaxis": 1}),
    op("dyn.full", "fill_value shape", ELEMWISE, ref.dyn_full, {"shape": REQUIRED, "dtype": ""}),
    op("dyn.image.resize2d", "data size roi", INJECTIVE, image.dyn_resize, resize_attrs(2)),
    op(
        "dyn.nn.pad",
        "data pad_width pad_val",
        INJECTIVE,
        nn.dyn_pad,
        {"pad_width": REQUIRED, "pad_mode": "constant"},
    ),
    op(
        "dyn.nn.upsampling",
        "data scale_h scale_w",
        INJECTIVE,
        image.dyn_upsampling,
        UPSAMPLING,
    ),
    op(
        "dyn.nn.upsampling3d",
        "data scale_d scale_h scale_w",
        INJECTIVE,
        image.dyn_upsampling,
        UPSAMPLING_3D,
    ),
    op(
        "dyn.one_hot",
        "indices on_value off_value depth",
        OUT_ELEMWISE,
        ref.dyn_one_hot,
        {"depth": 1, "axis": -1, "dtype": ""},
    ),
    op("dyn.ones", "shape", OPAQUE, ref.dyn_ones, {"shape": REQUIRED, "dtype": ""}),
    op(
        "dyn.reshape",
        "data newshape",
        INJECTIVE,
        ref.dyn_reshape,
        {"newshape": REQUIRED, "allowzero": False},
    ),
    op("dyn.squeeze", "data axes", INJECTIVE, ref.dyn_squeeze, {"axis": None}),
    op(
        "dyn.strided_slice",
        "data begin end strides",
        INJECTIVE,
        ref.dyn_strided_slice,
        SLICE,
    ),
    op("dyn.tile", "data reps", INJECTIVE, ref.dyn_tile, {"reps": REQUIRED}),
    op(
        "dyn.topk",
        "data k",
        OPAQUE,
        ref.dyn_topk,
        {"k": REQUIRED, "axis": -1, "ret_type": "both", "is_ascend": False, "dtype": ""},
    ),
    op("dyn.zeros", "shape", OPAQUE, ref.dyn_zeros, {"shape": REQUIRED, "dtype": ""}),
)
