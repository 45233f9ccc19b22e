"""Table entries of operators that Relay's own passes create: packed, transformed, annotated."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References
from tvm_disc.relay.ops.row import INJECTIVE, OPAQUE, OUT_ELEMWISE, REQUIRED, OpRow, op
from tvm_disc.relay.ops.window_attrs import conv_attrs

image = References("image")
ref = References("packed")
sparse = References("sparse")


def _winograd(rank: int) -> tuple[OpRow, OpRow]:
    """Return the rows of the transform of the weights and of the convolution with its result."""
    name = f"nn.contrib_conv{rank}d_winograd"
    tile = {"tile_size": REQUIRED}
    return (
        op(f"{name}_weight_transform", "weight", OUT_ELEMWISE, ref.winograd_weights, tile),
        op(
            f"{name}_without_weight_transform",
            "data weight",
            OUT_ELEMWISE,
            ref.winograd.of(rank),
            {**tile, **conv_attrs(rank)},
        ),
    )


ROWS: tuple[OpRow, ...] = (
    op("annotation.bitpack_end", "data", OPAQUE, image.identity),
    op("annotation.bitpack_start", "data", OPAQUE, image.identity),
    op("annotation.compiler_begin", "data", OPAQUE, image.identity, {"compiler": REQUIRED}),
    op("annotation.compiler_end", "data", OPAQUE, image.identity, {"compiler": REQUIRED}),
    op(
        "nn.bitpack",
        "data",
        INJECTIVE,
        ref.bitpack,
        {"bits": 1, "pack_axis": 1, "bit_axis": -1, "pack_type": "", "name": "BitPack"},
    ),
    op(
        "nn.bitserial_conv2d",
        "data weight",
        OUT_ELEMWISE,
        ref.bitserial_conv2d,
        {
            "strides": (1, 1),
            "padding": (0, 0),
            "channels": None,
            "kernel_size": (3, 3),
            "activation_bits": 1,
            "weight_bits": 1,
            "data_layout": "NCHW",
            "kernel_layout": "OIHW",
            "pack_dtype": "",
            "out_dtype": "",
            "unipolar": True,
        },
    ),
    op(
        "nn.bitserial_dense",
        "data weight",
        OUT_ELEMWISE,
        ref.bitserial_dense,
        {
            "units": REQUIRED,
            "data_bits": 1,
            "weight_bits": 1,
            "pack_dtype": "",
            "out_dtype": "",
            "unipolar": True,
        },
    ),
    op("nn.contrib_conv2d_NCHWc", "data weight", OUT_ELEMWISE, ref.blocked_conv, conv_attrs(2)),
    op(
        "nn.contrib_conv2d_gemm_weight_transform",
        "weights",
        OUT_ELEMWISE,
        attrs={"tile_N": REQUIRED, "tile_K": REQUIRED},
    ),
    op(
        "nn.contrib_conv2d_gemm_without_weight_transform",
        "data weight",
        OUT_ELEMWISE,
        attrs=conv_attrs(2),
    ),
    op(
        "nn.contrib_conv2d_winograd_nnpack_weight_transform",
        "weight",
        OPAQUE,
        attrs={"convolution_algorithm": REQUIRED, "out_dtype": ""},
    ),
    *_winograd(2),
    *_winograd(3),
    op(
        "nn.contrib_dense_pack",
        "data weight",
        OUT_ELEMWISE,
        ref.blocked_dense,
        {"units": REQUIRED, "out_dtype": "", "weight_layout": "NC"},
    ),
    op(
        "nn.contrib_depthwise_conv2d_NCHWc",
        "data weight",
        OUT_ELEMWISE,
        ref.blocked_conv,
        conv_attrs(2),
    ),
    op(
        "nn.internal.sparse_dense_padded",
        "data weight_data weight_indices weight_indptr",
        OUT_ELEMWISE,
        sparse.sparse_dense,
        {"sparse_lhs": False},
    ),
    op(
        "nn.sparse_conv2d",
        "dense_data sparse_data sparse_indices sparse_indptr",
        OUT_ELEMWISE,
        ref.sparse_conv2d,
        {"layout": "NHWC", "kernel_size": (1, 1)},
    ),
    op("vm.reshape_tensor", "data shape", OPAQUE, ref.reshape_tensor, {"newshape": REQUIRED}),
)
