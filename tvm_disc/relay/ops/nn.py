"""Rows of neural-network operators other than convolution and pooling."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import REQUIRED, OpRow, Pattern, Sample

image = References("image")
ref = References("nn")

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "nn.batch_flatten",
        ("data",),
        {},
        Pattern.INJECTIVE,
        True,
        reference=ref.batch_flatten,
        samples=(Sample((("n", 3, "m", "float32"),), ("n", "m*3")),),
    ),
    OpRow(
        "nn.batch_matmul",
        ("tensor_a", "tensor_b"),
        {"out_dtype": "", "transpose_a": False, "transpose_b": False},
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.matmul,
        samples=(
            Sample(
                (
                    ("b", "n", "k", "float32"),
                    ("b", "m", "k", "float32"),
                ),
                ("b", "n", "m"),
                {"transpose_b": True},
                sizes=((1, 2, 3, 4), (5, 3, 2, 7)),
            ),
        ),
    ),
    OpRow(
        "nn.batch_norm",
        ("data", "gamma", "beta", "moving_mean", "moving_var"),
        {"axis": 1, "epsilon": 1e-5, "center": True, "scale": True},
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.batch_norm,
        samples=(
            Sample(
                (
                    ("n", 3, "m", "float32"),
                    (3, "float32"),
                    (3, "float32"),
                    (3, "float32"),
                    (3, "float32"),
                ),
                (("n", 3, "m"), (3,), (3,)),
                ranges={4: (0.5, 2)},
            ),
        ),
    ),
    OpRow(
        "nn.bias_add",
        ("data", "bias"),
        {"axis": 1},
        Pattern.BROADCAST,
        True,
        reference=ref.bias_add,
        samples=(
            Sample(
                (
                    ("n", 3, "float32"),
                    (3, "float32"),
                ),
                ("n", 3),
            ),
        ),
    ),
    OpRow(
        "nn.dense",
        ("data", "weight"),
        {"units": REQUIRED, "out_dtype": ""},
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.dense,
        samples=(
            Sample(
                (
                    ("n", 4, "float32"),
                    (5, 4, "float32"),
                ),
                ("n", 5),
                {"units": 5},
            ),
            Sample(
                (
                    ("n", "m", 4, "float32"),
                    (5, 4, "float32"),
                ),
                ("n", "m", 5),
                {"units": None},
            ),
        ),
    ),
    OpRow(
        "nn.depth_to_space",
        ("data",),
        {"block_size": 1, "layout": "NCHW", "mode": "DCR"},
        Pattern.INJECTIVE,
        False,
        reference=ref.depth_to_space,
        samples=(
            Sample((("n", 8, "h", "w", "float32"),), ("n", 2, "h*2", "w*2"), {"block_size": 2}),
        ),
    ),
    OpRow(
        "nn.dilate",
        ("data",),
        {"strides": (1, 1), "dilation_value": 0.0},
        Pattern.INJECTIVE,
        True,
        reference=ref.dilate,
        samples=(Sample((("n", 3, "float32"),), ("n*2-1", 3), {"strides": (2, 1)}),),
    ),
    OpRow(
        "nn.dropout",
        ("data",),
        {"rate": 0.5},
        Pattern.OPAQUE,
        True,
        reference=ref.dropout,
        samples=(Sample((("n", 3, "float32"),), (("n", 3), ("n", 3))),),
    ),
    OpRow(
        "nn.fast_softmax",
        ("data",),
        {"axis": -1},
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.softmax,
        samples=(Sample((("n", "m", "float32"),), ("n", "m")),),
    ),
    OpRow(
        "nn.group_norm",
        ("data", "gamma", "beta"),
        {"num_groups": 0, "axis": 1, "epsilon": 1e-5, "center": True, "scale": True},
        Pattern.OPAQUE,
        True,
        reference=ref.group_norm,
        samples=(
            Sample(
                (
                    ("n", 4, "m", 2, "float32"),
                    (4, "float32"),
                    (4, "float32"),
                ),
                ("n", 4, "m", 2),
                {"num_groups": 2},
            ),
        ),
    ),
    OpRow(
        "nn.instance_norm",
        ("data", "gamma", "beta"),
        {"axis": 1, "epsilon": 1e-5, "center": True, "scale": True},
        Pattern.OPAQUE,
        True,
        reference=ref.instance_norm,
        samples=(
            Sample(
                (
                    ("n", 3, "m", 2, "float32"),
                    (3, "float32"),
                    (3, "float32"),
                ),
                ("n", 3, "m", 2),
            ),
        ),
    ),
    OpRow(
        "nn.l2_normalize",
        ("data",),
        {"eps": REQUIRED, "axis": REQUIRED},
        Pattern.OPAQUE,
        True,
        reference=ref.l2_normalize,
        samples=(Sample((("n", 3, "float32"),), ("n", 3), {"eps": 1e-6, "axis": (1,)}),),
    ),
    OpRow(
        "nn.layer_norm",
        ("data", "gamma", "beta"),
        {"axis": -1, "epsilon": 1e-5, "center": True, "scale": True},
        Pattern.OPAQUE,
        True,
        reference=ref.layer_norm,
        samples=(
            Sample(
                (
                    ("n", "m", 4, "float32"),
                    (4, "float32"),
                    (4, "float32"),
                ),
                ("n", "m", 4),
            ),
        ),
    ),
    OpRow(
        "nn.leaky_relu",
        ("data",),
        {"alpha": 0.25},
        Pattern.ELEMWISE,
        True,
        reference=ref.leaky_relu,
        samples=(Sample((("n", 3, "float32"),), ("n", 3), {"alpha": 0.1}),),
    ),
    OpRow(
        "nn.log_softmax",
        ("data",),
        {"axis": -1},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.log_softmax,
        samples=(
            Sample((("n", "m", "float32"),), ("n", "m")),
            Sample((("n", "m", 3, "float32"),), ("n", "m", 3), {"axis": 1}),
        ),
    ),
    OpRow(
        "nn.lrn",
        ("data",),
        {"size": 5, "axis": 1, "bias": 2.0, "alpha": 0.0001, "beta": 0.75},
        Pattern.OPAQUE,
        False,
        reference=image.lrn,
        samples=(
            Sample((("n", 6, "m", "float32"),), ("n", 6, "m"), {"size": 3, "alpha": 0.5}),
            Sample((("n", "c", 4, "float32"),), ("n", "c", 4), {"axis": -1, "bias": 1.5}),
        ),
    ),
    OpRow(
        "nn.matmul",
        ("tensor_a", "tensor_b"),
        {"units": REQUIRED, "out_dtype": "", "transpose_a": False, "transpose_b": False},
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.matmul,
        samples=(
            Sample(
                (
                    ("n", 4, "float32"),
                    (4, 5, "float32"),
                ),
                ("n", 5),
                {"units": None},
            ),
        ),
    ),
    OpRow(
        "nn.mirror_pad",
        ("data",),
        {"pad_width": REQUIRED, "mode": "SYMMETRIC"},
        Pattern.INJECTIVE,
        True,
        reference=ref.mirror_pad,
        samples=(Sample((("n", 3, "float32"),), ("n", 6), {"pad_width": ((0, 0), (2, 1))}),),
    ),
    OpRow(
        "nn.pad",
        ("data", "pad_val"),
        {"pad_width": REQUIRED, "pad_mode": "constant"},
        Pattern.INJECTIVE,
        True,
        reference=ref.pad,
        samples=(
            Sample(
                (
                    ("n", 3, "float32"),
                    ("float32",),
                ),
                ("n+3", 4),
                {"pad_width": ((1, 2), (0, 1))},
            ),
            Sample(
                (
                    ("n", 3, "float32"),
                    ("float32",),
                ),
                ("n", 6),
                {"pad_width": ((0, 0), (2, 1)), "pad_mode": "reflect"},
            ),
            Sample(
                (
                    ("n", 3, "float32"),
                    ("float32",),
                ),
                ("n", 6),
                {"pad_width": ((0, 0), (2, 1)), "pad_mode": "edge"},
            ),
        ),
    ),
    OpRow(
        "nn.prelu",
        ("data", "alpha"),
        {"axis": 1},
        Pattern.BROADCAST,
        True,
        reference=ref.prelu,
        samples=(
            Sample(
                (
                    ("n", 3, "m", "float32"),
                    (3, "float32"),
                ),
                ("n", 3, "m"),
            ),
        ),
    ),
    OpRow(
        "nn.relu",
        ("data",),
        {},
        Pattern.ELEMWISE,
        True,
        reference=ref.relu,
        samples=(Sample((("n", 3, "float32"),), ("n", 3)),),
    ),
    OpRow(
        "nn.softmax",
        ("data",),
        {"axis": -1},
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.softmax,
        samples=(
            Sample((("n", "m", "float32"),), ("n", "m")),
            Sample((("n", "m", 3, "float32"),), ("n", "m", 3), {"axis": 1}),
        ),
    ),
    OpRow(
        "nn.space_to_depth",
        ("data",),
        {"block_size": 1, "layout": "NCHW", "mode": "DCR"},
        Pattern.INJECTIVE,
        False,
        reference=ref.space_to_depth,
        samples=(
            Sample(
                (("n", 2, "h", "w", "float32"),),
                ("n", 8, "h//2", "w//2"),
                {"block_size": 2},
                sizes=((1, 4, 6), (3, 2, 8)),
            ),
        ),
    ),
    OpRow(
        "nn.upsampling",
        ("data",),
        {
            "scale_h": REQUIRED,
            "scale_w": REQUIRED,
            "layout": "NCHW",
            "method": "nearest_neighbor",
            "align_corners": False,
        },
        Pattern.INJECTIVE,
        False,
        reference=image.upsampling,
        samples=(
            Sample(
                (("n", 3, "h", "w", "float32"),),
                ("n", 3, "h*2", "w*2"),
                {"scale_h": 2.0, "scale_w": 2.0},
            ),
            Sample(
                (("n", 3, "h", "w", "float32"),),
                ("n", 3, "h*2", "w*3"),
                {"scale_h": 2.0, "scale_w": 3.0, "method": "bilinear"},
            ),
        ),
    ),
    OpRow(
        "nn.upsampling3d",
        ("data",),
        {
            "scale_d": REQUIRED,
            "scale_h": REQUIRED,
            "scale_w": REQUIRED,
            "layout": "NCDHW",
            "method": "nearest_neighbor",
            "coordinate_transformation_mode": "half_pixel",
        },
        Pattern.INJECTIVE,
        False,
        reference=image.upsampling,
        samples=(
            Sample(
                (("n", 2, "d", "h", "w", "float32"),),
                ("n", 2, "d*2", "h", "w*3"),
                {"scale_d": 2.0, "scale_h": 1.0, "scale_w": 3.0},
                sizes=((1, 2, 3, 4), (2, 1, 5, 3)),
            ),
            Sample(
                (("n", 2, "d", "h", "w", "float32"),),
                ("n", 2, "d*2", "h*2", "w*2"),
                {"scale_d": 2.0, "scale_h": 2.0, "scale_w": 2.0, "method": "trilinear"},
                sizes=((1, 2, 3, 4), (2, 1, 5, 3)),
            ),
        ),
    ),
)
