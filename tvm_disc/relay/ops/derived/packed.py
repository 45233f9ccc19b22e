"""Rows of operators that Relay's own passes create: packed, transformed or annotated forms."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References
from tvm_disc.relay.ops.row import REQUIRED, OpRow, Pattern, Sample
from tvm_disc.relay.ops.window_attrs import conv_attrs

image = References("image")
ref = References("packed")
sparse = References("sparse")

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "annotation.bitpack_end",
        ("data",),
        {},
        Pattern.OPAQUE,
        False,
        reference=image.identity,
        samples=(Sample((("n", "m", "float32"),), ("n", "m")),),
    ),
    OpRow(
        "annotation.bitpack_start",
        ("data",),
        {},
        Pattern.OPAQUE,
        False,
        reference=image.identity,
        samples=(Sample((("n", "m", "float32"),), ("n", "m")),),
    ),
    OpRow(
        "annotation.compiler_begin",
        ("data",),
        {"compiler": REQUIRED},
        Pattern.OPAQUE,
        False,
        reference=image.identity,
        samples=(Sample((("n", "m", "float32"),), ("n", "m"), {"compiler": "default"}),),
    ),
    OpRow(
        "annotation.compiler_end",
        ("data",),
        {"compiler": REQUIRED},
        Pattern.OPAQUE,
        False,
        reference=image.identity,
        samples=(Sample((("n", "m", "float32"),), ("n", "m"), {"compiler": "default"}),),
    ),
    OpRow(
        "nn.bitpack",
        ("data",),
        {"bits": 1, "pack_axis": 1, "bit_axis": -1, "pack_type": "", "name": "BitPack"},
        Pattern.INJECTIVE,
        False,
        reference=ref.bitpack,
        samples=(
            Sample(
                (("n", 16, "m", "uint8"),),
                ("n", 2, 2, "m"),
                {"bits": 2, "bit_axis": 2, "pack_type": "uint8"},
                ranges={0: (0, 4)},
            ),
            Sample(
                (("n", "m", 64, "uint32"),),
                (1, "n", "m", 2),
                {"pack_axis": 2, "bit_axis": 0, "pack_type": "uint32"},
                ranges={0: (0, 2)},
            ),
        ),
    ),
    OpRow(
        "nn.bitserial_conv2d",
        ("data", "weight"),
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
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.bitserial_conv2d,
        samples=(
            Sample(
                (("n", "c", "h", "w", "uint8"), ("o", "c", 3, 3, "uint8")),
                ("n", "o", "h", "w"),
                {"padding": (1, 1), "activation_bits": 2, "out_dtype": "int16"},
                sizes=((1, 2, 3, 4, 5), (2, 3, 5, 4, 1), (3, 8, 4, 6, 2)),
                ranges={0: (0, 4), 1: (0, 2)},
            ),
        ),
    ),
    OpRow(
        "nn.bitserial_dense",
        ("data", "weight"),
        {
            "units": REQUIRED,
            "data_bits": 1,
            "weight_bits": 1,
            "pack_dtype": "",
            "out_dtype": "",
            "unipolar": True,
        },
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.bitserial_dense,
        samples=(
            Sample(
                (("n", "k", "uint8"), ("m", "k", "uint8")),
                ("n", "m"),
                {"units": None, "data_bits": 2, "out_dtype": "int16"},
                ranges={0: (0, 4), 1: (0, 2)},
            ),
            Sample(
                (("n", "k", "uint8"), ("m", "k", "uint8")),
                ("n", "m"),
                {"units": None, "weight_bits": 2, "out_dtype": "int32", "unipolar": False},
                ranges={0: (0, 2), 1: (0, 4)},
            ),
        ),
    ),
    OpRow(
        "nn.contrib_conv2d_NCHWc",
        ("data", "weight"),
        conv_attrs(2),
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.blocked_conv,
        samples=(
            Sample(
                (("n", "c", "h", "w", 4, "float32"), ("o", "c", 3, 3, 4, 8, "float32")),
                ("n", "o", "h", "w", 8),
                {
                    "padding": (1, 1),
                    "data_layout": "NCHW4c",
                    "kernel_layout": "OIHW4i8o",
                    "out_layout": "NCHW8c",
                },
                sizes=((1, 2, 3, 4, 1), (2, 1, 5, 4, 2), (3, 2, 4, 6, 2)),
            ),
        ),
    ),
    OpRow(
        "nn.contrib_conv2d_gemm_weight_transform",
        ("weights",),
        {"tile_N": REQUIRED, "tile_K": REQUIRED},
        Pattern.OUT_ELEMWISE,
        False,
    ),
    OpRow(
        "nn.contrib_conv2d_gemm_without_weight_transform",
        ("data", "weight"),
        conv_attrs(2),
        Pattern.OUT_ELEMWISE,
        False,
    ),
    OpRow(
        "nn.contrib_conv2d_winograd_nnpack_weight_transform",
        ("weight",),
        {"convolution_algorithm": REQUIRED, "out_dtype": ""},
        Pattern.OPAQUE,
        False,
    ),
    OpRow(
        "nn.contrib_conv2d_winograd_weight_transform",
        ("weight",),
        {"tile_size": REQUIRED},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.winograd_weights,
        samples=(
            Sample((("o", "i", 3, 3, "float32"),), (6, 6, "o", "i"), {"tile_size": 4}),
            Sample((("o", "i", 5, 5, "float32"),), (6, 6, "o", "i"), {"tile_size": 2}),
            Sample((("o", "i", 3, 3, "float32"),), (8, 8, "o", "i"), {"tile_size": 6}),
        ),
    ),
    OpRow(
        "nn.contrib_conv2d_winograd_without_weight_transform",
        ("data", "weight"),
        {"tile_size": REQUIRED, **conv_attrs(2)},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.winograd.of(2),
        samples=(
            Sample(
                (("n", "c", "h", "w", "float32"), (6, 6, "o", "c", "float32")),
                ("n", "o", "h", "w"),
                {"tile_size": 4, "padding": (1, 1)},
                sizes=((1, 2, 3, 4, 5), (2, 3, 5, 4, 1), (3, 8, 4, 6, 2)),
            ),
        ),
    ),
    OpRow(
        "nn.contrib_conv3d_winograd_weight_transform",
        ("weight",),
        {"tile_size": REQUIRED},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.winograd_weights,
        samples=(Sample((("o", "i", 3, 3, 3, "float32"),), (4, 4, 4, "o", "i"), {"tile_size": 2}),),
    ),
    OpRow(
        "nn.contrib_conv3d_winograd_without_weight_transform",
        ("data", "weight"),
        {"tile_size": REQUIRED, **conv_attrs(3)},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.winograd.of(3),
        samples=(
            Sample(
                (("n", "c", "d", "h", "w", "float32"), (4, 4, 4, "o", "c", "float32")),
                ("n", "o", "d", "h", "w"),
                {"tile_size": 2, "padding": (1, 1, 1)},
                sizes=((1, 2, 2, 3, 4, 5), (2, 3, 1, 5, 4, 1), (3, 2, 3, 4, 2, 2)),
            ),
        ),
    ),
    OpRow(
        "nn.contrib_dense_pack",
        ("data", "weight"),
        {"units": REQUIRED, "out_dtype": "", "weight_layout": "NC"},
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.blocked_dense,
        samples=(
            Sample(
                (("n", "k", "float32"), ("m", "k", 8, "float32")),
                ("n", "m*8"),
                {"units": None, "weight_layout": "NC8n"},
            ),
        ),
    ),
    OpRow(
        "nn.contrib_depthwise_conv2d_NCHWc",
        ("data", "weight"),
        conv_attrs(2),
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.blocked_conv,
        samples=(
            Sample(
                (("n", 2, "h", "w", 4, "float32"), (2, 1, 3, 3, 1, 4, "float32")),
                ("n", 2, "h", "w", 4),
                {
                    "padding": (1, 1),
                    "groups": 8,
                    "data_layout": "NCHW4c",
                    "kernel_layout": "OIHW1i4o",
                },
                sizes=((1, 3, 4), (2, 5, 4), (3, 4, 6)),
            ),
        ),
    ),
    OpRow(
        "nn.internal.sparse_dense_padded",
        ("data", "weight_data", "weight_indices", "weight_indptr"),
        {"sparse_lhs": False},
        Pattern.OUT_ELEMWISE,
        False,
        reference=sparse.sparse_dense,
        samples=(
            Sample(
                (("m", 6, "float32"), ("e", "float32"), ("e", "int32"), ("r", "int32")),
                ("m", "r-1"),
                {},
                sizes=((1, 4, 3), (5, 7, 4), (3, 12, 9)),
                ranges={2: (0, 6)},
            ),
        ),
    ),
    OpRow(
        "nn.sparse_conv2d",
        ("dense_data", "sparse_data", "sparse_indices", "sparse_indptr"),
        {"layout": "NHWC", "kernel_size": (1, 1)},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.sparse_conv2d,
        samples=(
            Sample(
                (("n", "h", "w", 6, "float32"), ("e", "float32"), ("e", "int32"), ("r", "int32")),
                ("n", "h", "w", "r-1"),
                {},
                sizes=((1, 2, 3, 4, 3), (2, 3, 1, 7, 4), (3, 1, 2, 12, 9)),
                ranges={2: (0, 6)},
            ),
        ),
    ),
    OpRow(
        "vm.reshape_tensor",
        ("data", "shape"),
        {"newshape": REQUIRED},
        Pattern.OPAQUE,
        False,
        reference=ref.reshape_tensor,
        samples=(
            Sample(
                (("n", 6, "float32"), (2, "int64")),
                ("n*2", 3),
                {"newshape": ()},
                values={1: (-1, 3)},
            ),
        ),
    ),
)
