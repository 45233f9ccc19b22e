"""Signatures of Relay's Python functions that differ from their operator's table entry.

Most functions take the arguments of their operator and then its attributes, with the defaults of
the table entry. Those listed here have different names, a different order, different defaults, or
fewer attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_disc.relay.ops.row import REQUIRED, OpRow


def _takes(required: str, /, **optional: object) -> Mapping[str, object]:
    """Return parameters without a default, then those with one."""
    return {**dict.fromkeys(required.split(), REQUIRED), **optional}


_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def _pool(rank: int, **more: object) -> Mapping[str, object]:
    """Return the parameters of pooling; windows have size 1 by default."""
    ones = {"pool_size": (1,) * rank, "strides": (1,) * rank, "dilation": (1,) * rank}
    rest = {"padding": (0,) * rank, "layout": _LAYOUTS[rank], "out_layout": "", "ceil_mode": False}
    return _takes("data", **ones, **rest, **more)


def _pool_grad(**more: object) -> Mapping[str, object]:
    """Return the parameters of a pooling gradient, which has no dilation."""
    taken = {k: v for k, v in _pool(2, **more).items() if k not in ("data", "dilation")}
    return _takes("out_grad data", **taken)


def _resize(rank: int) -> Mapping[str, object]:
    return _takes(
        "data size",
        roi=None,
        layout=_LAYOUTS[rank],
        method="linear",
        coordinate_transformation_mode="half_pixel",
        rounding_method="",
        cubic_alpha=-0.5,
        cubic_exclude=0,
        extrapolation_value=0.0,
        out_dtype=None,
    )


_SCAN = _takes("data", axis=None, dtype=None, exclusive=None)
_QUANTIZED = "input_zero_point kernel_zero_point input_scale kernel_scale"
_CONV1D = {"strides": 1, "padding": 0, "dilation": 1, "groups": 1}
_CONV2D = {"strides": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
_BITS = {"pack_dtype": "uint32", "out_dtype": "int16", "unipolar": True}

SIGNATURES: Mapping[str, Mapping[str, object]] = {
    "argsort": _takes("data", axis=-1, is_ascend=1, dtype="int32"),
    "broadcast_to": _takes("data shape"),
    "concatenate": _takes("data axis"),
    "cumprod": _SCAN,
    "cumsum": _SCAN,
    "device_copy": _takes("data src_device dst_device"),
    "ndarray_size": _takes("data", dtype="int32"),
    "ones": _takes("shape dtype"),
    "repeat": _takes("data repeats axis"),
    "reverse": _takes("data axis"),
    "shape_of": _takes("data", dtype="int32"),
    "slice_like": _takes("data shape_like", axes=None),
    "sort": _takes("data", axis=-1, is_ascend=1),
    "stack": _takes("data axis"),
    "strided_slice": _takes("data begin end", strides=(1,), axes=None, slice_mode="end"),
    "topk": _takes("data", k=1, axis=-1, ret_type="both", is_ascend=False, dtype="int32"),
    "transpose": _takes("data", axes=None),
    "zeros": _takes("shape dtype"),
    "debug": _takes("expr", debug_func=None),
    **{
        f"nn.adaptive_{kind}_pool{rank}d": _takes(
            "data", output_size=None, layout=_LAYOUTS[rank], out_layout=""
        )
        for kind in ("avg", "max")
        for rank in (1, 2, 3)
    },
    **{f"nn.avg_pool{rank}d": _pool(rank, count_include_pad=False) for rank in (1, 2, 3)},
    **{f"nn.max_pool{rank}d": _pool(rank) for rank in (1, 2, 3)},
    "nn.avg_pool2d_grad": _pool_grad(count_include_pad=False),
    "nn.max_pool2d_grad": _pool_grad(),
    "nn.batch_matmul": _takes(
        "tensor_a tensor_b", out_dtype="", transpose_a=False, transpose_b=True
    ),
    "nn.batch_to_space_nd": _takes("data block_shape crops"),
    "nn.bitpack": _takes(
        "data", bits=1, pack_axis=1, bit_axis=2, pack_type="uint32", name="BitPack"
    ),
    "nn.bitserial_conv2d": _takes(
        "data weight",
        strides=(1, 1),
        padding=(0, 0),
        channels=None,
        kernel_size=(3, 3),
        activation_bits=1,
        weight_bits=1,
        data_layout="NCHW",
        kernel_layout="OIHW",
        **_BITS,
    ),
    "nn.bitserial_dense": _takes("data weight", units=None, data_bits=1, weight_bits=1, **_BITS),
    "nn.contrib_dense_pack": _takes("data weight", weight_layout="NC", units=None, out_dtype=""),
    "nn.conv1d": _takes(
        "data weight",
        **_CONV1D,
        channels=None,
        kernel_size=None,
        data_layout="NCW",
        kernel_layout="OIW",
        out_layout="",
        out_dtype="",
    ),
    "nn.conv2d_backward_weight": _takes(
        "grad data",
        **_CONV2D,
        channels=None,
        kernel_size=None,
        grad_layout="NCHW",
        data_layout="NCHW",
        kernel_layout="OIHW",
        out_dtype="",
    ),
    "nn.correlation": _takes(
        "data1 data2 kernel_size max_displacement stride1 stride2 padding is_multiply layout"
    ),
    "nn.dense": _takes("data weight", units=None, out_dtype=""),
    "nn.depth_to_space": _takes("data block_size", layout="NCHW", mode="DCR"),
    "nn.dilate": _takes("data strides", dilation_value=0.0),
    "nn.fifo_buffer": _takes("data buffer axis"),
    "nn.group_norm": _takes(
        "data gamma beta num_groups", axis=1, epsilon=1e-5, center=True, scale=True
    ),
    "nn.l2_normalize": _takes("data eps", axis=None),
    "nn.leaky_relu": _takes("data", alpha=0.01),
    "nn.lrn": _takes("data", size=5, axis=1, bias=2, alpha=1e-05, beta=0.75),
    "nn.matmul": _takes(
        "tensor_a tensor_b", units=None, out_dtype="", transpose_a=False, transpose_b=False
    ),
    "nn.nll_loss": _takes("predictions targets weights", reduction="mean", ignore_index=-100),
    "nn.space_to_batch_nd": _takes("data block_shape paddings", pad_value=0),
    "nn.space_to_depth": _takes("data block_size", layout="NCHW"),
    "nn.upsampling": _takes(
        "data", scale_h=1, scale_w=1, layout="NCHW", method="nearest_neighbor", align_corners=False
    ),
    "nn.upsampling3d": _takes(
        "data",
        scale_d=1,
        scale_h=1,
        scale_w=1,
        layout="NCDHW",
        method="nearest_neighbor",
        coordinate_transformation_mode="half_pixel",
    ),
    "image.affine_grid": _takes("data", target_shape=None),
    "image.crop_and_resize": _takes(
        "data boxes box_indices crop_size layout",
        method="bilinear",
        extrapolation_value=0,
        out_dtype=None,
    ),
    **{f"image.resize{rank}d": _resize(rank) for rank in (1, 2, 3)},
    "vision.proposal": _takes(
        "cls_prob bbox_pred im_info scales ratios feature_stride threshold"
        " rpn_pre_nms_top_n rpn_post_nms_top_n rpn_min_size iou_loss"
    ),
    "vision.yolo_reorg": _takes("data stride"),
    "random.multinomial": _takes("key probs num_samples"),
    "random.threefry_generate": _takes("key shape"),
    "qnn.batch_matmul": _takes("x y x_zero_point y_zero_point x_scale y_scale", out_dtype="int32"),
    "qnn.concatenate": _takes(
        "data input_scales input_zero_points output_scale output_zero_point axis"
    ),
    "qnn.contrib_dense_pack": _takes(
        f"data weight {_QUANTIZED}", kernel_layout="NC", units=None, out_dtype="int32"
    ),
    "qnn.conv2d": _takes(
        f"data kernel {_QUANTIZED} kernel_size channels",
        **_CONV2D,
        data_layout="NCHW",
        kernel_layout="OIHW",
        out_layout="",
        out_dtype="int32",
    ),
    "qnn.conv2d_transpose": _takes(
        f"data weight {_QUANTIZED}",
        **_CONV2D,
        channels=None,
        kernel_size=None,
        data_layout="NCHW",
        kernel_layout="IOHW",
        out_layout="",
        output_padding=(0, 0),
        out_dtype="int32",
    ),
    "qnn.avg_pool2d": _takes(
        "data input_scale input_zero_point output_scale output_zero_point"
        " pool_size strides padding dilation",
        ceil_mode=False,
        count_include_pad=True,
        layout="NHWC",
        out_layout="",
    ),
    "qnn.dense": _takes(f"data weight {_QUANTIZED} units", out_dtype="int32"),
    "qnn.dequantize": _takes("data input_scale input_zero_point", axis=-1, out_dtype="float32"),
    "qnn.leaky_relu": _takes("x alpha input_scale input_zero_point output_scale output_zero_point"),
    "qnn.quantize": _takes("data output_scale output_zero_point", axis=-1, out_dtype="int8"),
    "qnn.requantize": _takes(
        "data input_scale input_zero_point output_scale output_zero_point",
        axis=-1,
        rounding="None",
        compute_dtype="None",
        out_dtype="int8",
    ),
    "qnn.softmax": _takes("x scale zero_point output_scale output_zero_point", axis=-1),
}

# Function parameter -> argument or attribute of the table entry.
RENAMED: Mapping[str, Mapping[str, str]] = {
    "debug": {"expr": "program"},
    "device_copy": {"src_device": "src_virtual_device", "dst_device": "dst_virtual_device"},
    # Relay stored the layouts of both operands and of the result in these fields of a convolution.
    "nn.conv2d_backward_weight": {
        "grad_layout": "data_layout",
        "data_layout": "kernel_layout",
        "kernel_layout": "out_layout",
    },
    "qnn.contrib_dense_pack": {"kernel_layout": "weight_layout"},
    "qnn.conv2d": {"kernel": "weight"},
    "qnn.leaky_relu": {"x": "data"},
    "qnn.softmax": {"x": "data"},
    "random.threefry_generate": {"shape": "out_shape"},
}

# Attributes that are not parameters of the function; it sets them to a value that differs from the
# default of the table entry.
FIXED: Mapping[str, Mapping[str, object]] = {
    "nn.avg_pool2d_grad": {"dilation": ()},
    "nn.max_pool2d_grad": {"dilation": ()},
    "qnn.batch_matmul": {"transpose_b": True},
    # The operators of ``dyn`` receive these values as operands.
    "dyn.broadcast_to": {"shape": None},
    "dyn.full": {"shape": None},
    "dyn.image.resize2d": {"size": (), "roi": ()},
    "dyn.nn.pad": {"pad_width": ()},
    "dyn.nn.upsampling": {"scale_h": 0.0, "scale_w": 0.0},
    "dyn.nn.upsampling3d": {"scale_d": 0.0, "scale_h": 0.0, "scale_w": 0.0},
    "dyn.one_hot": {"depth": 0},
    "dyn.ones": {"shape": None},
    "dyn.reshape": {"newshape": ()},
    "dyn.squeeze": {"axis": ()},
    "dyn.strided_slice": {"begin": None, "end": None, "strides": None, "axes": None},
    "dyn.tile": {"reps": ()},
    "dyn.topk": {"k": None},
    "dyn.zeros": {"shape": None},
}

# Number of results that a function wraps in a TupleWrapper.
RESULTS: Mapping[str, int] = {
    "dft": 2,
    "sparse_reshape": 2,
    "vision.multibox_transform_loc": 2,
    "vision.regular_non_max_suppression": 4,
}


def parameters(row: OpRow) -> Mapping[str, Any]:
    """Return every parameter of an operator's function, in order, with its default or REQUIRED."""
    if row.name in SIGNATURES:
        return SIGNATURES[row.name]
    fixed = FIXED.get(row.name, {})
    attrs = {k: v for k, v in row.attrs.items() if k not in fixed}
    return {**{a.lstrip("*"): REQUIRED for a in row.args}, **attrs}


def field_of(name: str, parameter: str) -> str:
    """Return the argument or attribute of the operator that a parameter sets."""
    return RENAMED.get(name, {}).get(parameter, parameter)


def defaults(row: OpRow) -> dict[str, object]:
    """Return the attributes that a call made from Python has by default."""
    given = {
        field_of(row.name, p): value
        for p, value in SIGNATURES.get(row.name, {}).items()
        if value is not REQUIRED and field_of(row.name, p) in row.attrs
    }
    return {**given, **FIXED.get(row.name, {})}


__all__ = ["FIXED", "RENAMED", "RESULTS", "SIGNATURES", "defaults", "field_of", "parameters"]
