"""Table entries of neural-network operators other than convolution and pooling."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import BROADCAST, ELEMWISE, INJECTIVE, OPAQUE, OUT_ELEMWISE, REQUIRED, OpRow, op

image = References("image")
ref = References("nn")

UPSAMPLING = {
    "scale_h": REQUIRED,
    "scale_w": REQUIRED,
    "layout": "NCHW",
    "method": "nearest_neighbor",
    "align_corners": False,
}
UPSAMPLING_3D = {
    "scale_d": REQUIRED,
    "scale_h": REQUIRED,
    "scale_w": REQUIRED,
    "layout": "NCDHW",
    "method": "nearest_neighbor",
    "coordinate_transformation_mode": "half_pixel",
}

ROWS: tuple[OpRow, ...] = (
    op("nn.batch_flatten", "data", INJECTIVE, ref.batch_flatten),
    op(
        "nn.batch_matmul",
        "tensor_a tensor_b",
        OUT_ELEMWISE,
        ref.matmul,
        {"out_dtype": "", "transpose_a": False, "transpose_b": False},
    ),
    op(
        "nn.batch_norm",
        "data gamma beta moving_mean moving_var",
        OUT_ELEMWISE,
        ref.batch_norm,
        {"axis": 1, "epsilon": 1e-5, "center": True, "scale": True},
    ),
    op("nn.bias_add", "data bias", BROADCAST, ref.bias_add, {"axis": 1}),
    op("nn.dense", "data weight", OUT_ELEMWISE, ref.dense, {"units": REQUIRED, "out_dtype": ""}),
    op(
        "nn.depth_to_space",
        "data",
        INJECTIVE,
        ref.depth_to_space,
        {"block_size": 1, "layout": "NCHW", "mode": "DCR"},
    ),
    op("nn.dilate", "data", INJECTIVE, ref.dilate, {"strides": (1, 1), "dilation_value": 0.0}),
    op("nn.dropout", "data", OPAQUE, ref.dropout, {"rate": 0.5}),
    op("nn.fast_softmax", "data", OUT_ELEMWISE, ref.softmax, {"axis": -1}, keeps_type=True),
    op(
        "nn.group_norm",
        "data gamma beta",
        OPAQUE,
        ref.group_norm,
        {"num_groups": 0, "axis": 1, "epsilon": 1e-5, "center": True, "scale": True},
    ),
    op(
        "nn.instance_norm",
        "data gamma beta",
        OPAQUE,
        ref.instance_norm,
        {"axis": 1, "epsilon": 1e-5, "center": True, "scale": True},
    ),
    op(
        "nn.l2_normalize",
        "data",
        OPAQUE,
        ref.l2_normalize,
        {"eps": REQUIRED, "axis": REQUIRED},
        keeps_type=True,
    ),
    op(
        "nn.layer_norm",
        "data gamma beta",
        OPAQUE,
        ref.layer_norm,
        {"axis": -1, "epsilon": 1e-5, "center": True, "scale": True},
    ),
    op("nn.leaky_relu", "data", ELEMWISE, ref.leaky_relu, {"alpha": 0.25}),
    op("nn.log_softmax", "data", OUT_ELEMWISE, ref.log_softmax, {"axis": -1}, keeps_type=True),
    op(
        "nn.lrn",
        "data",
        OPAQUE,
        image.lrn,
        {"size": 5, "axis": 1, "bias": 2.0, "alpha": 0.0001, "beta": 0.75},
        keeps_type=True,
    ),
    op(
        "nn.matmul",
        "tensor_a tensor_b",
        OUT_ELEMWISE,
        ref.matmul,
        {"units": REQUIRED, "out_dtype": "", "transpose_a": False, "transpose_b": False},
    ),
    op(
        "nn.mirror_pad",
        "data",
        INJECTIVE,
        ref.mirror_pad,
        {"pad_width": REQUIRED, "mode": "SYMMETRIC"},
    ),
    op(
        "nn.pad",
        "data pad_val",
        INJECTIVE,
        ref.pad,
        {"pad_width": REQUIRED, "pad_mode": "constant"},
    ),
    op("nn.prelu", "data alpha", BROADCAST, ref.prelu, {"axis": 1}),
    op("nn.relu", "data", ELEMWISE, ref.relu),
    op("nn.softmax", "data", OUT_ELEMWISE, ref.softmax, {"axis": -1}, keeps_type=True),
    op(
        "nn.space_to_depth",
        "data",
        INJECTIVE,
        ref.space_to_depth,
        {"block_size": 1, "layout": "NCHW", "mode": "DCR"},
    ),
    op(
        "nn.upsampling",
        "data",
        INJECTIVE,
        image.upsampling,
        UPSAMPLING,
    ),
    op(
        "nn.upsampling3d",
        "data",
        INJECTIVE,
        image.upsampling,
        UPSAMPLING_3D,
    ),
)
