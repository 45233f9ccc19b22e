"""Rows of operators whose shape or extent is a tensor argument."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import REQUIRED, OpRow, Pattern, Sample
from .window_attrs import resize_attrs

image = References("image")
nn = References("nn")
ref = References("transform")

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "dyn.broadcast_to",
        ("data", "shape"),
        {"shape": REQUIRED, "dtype": ""},
        Pattern.BROADCAST,
        True,
        reference=ref.dyn_broadcast_to,
        samples=(
            Sample(
                (
                    (1, 3, "float32"),
                    (2, "int64"),
                ),
                ("n", 3),
                {"shape": None},
                values={1: ("n", 3)},
            ),
        ),
    ),
    OpRow(
        "dyn.expand_dims",
        ("data", "axis"),
        {"num_newaxis": 1},
        Pattern.INJECTIVE,
        True,
        reference=ref.dyn_expand_dims,
        samples=(
            Sample(
                (
                    ("n", 3, "float32"),
                    ("int64",),
                ),
                ("n", 1, 3),
                values={1: 1},
            ),
        ),
    ),
    OpRow(
        "dyn.full",
        ("fill_value", "shape"),
        {"shape": REQUIRED, "dtype": ""},
        Pattern.ELEMWISE,
        True,
        reference=ref.dyn_full,
        samples=(
            Sample(
                (
                    ("float32",),
                    (2, "int64"),
                ),
                ("n", 3),
                {"shape": None},
                values={1: ("n", 3)},
            ),
        ),
    ),
    OpRow(
        "dyn.image.resize2d",
        ("data", "size", "roi"),
        resize_attrs(2),
        Pattern.INJECTIVE,
        True,
        reference=image.dyn_resize,
        samples=(
            Sample(
                (("n", 3, "h", "w", "float32"), (2, "int64"), (0, "float32")),
                ("n", 3, "p", "q"),
                {"rounding_method": ""},
                sizes=((1, 5, 9, 3, 4), (2, 4, 4, 7, 2), (3, 1, 7, 1, 5)),
                values={1: ("p", "q"), 2: ()},
            ),
        ),
    ),
    OpRow(
        "dyn.nn.pad",
        ("data", "pad_width", "pad_val"),
        {"pad_width": REQUIRED, "pad_mode": "constant"},
        Pattern.INJECTIVE,
        True,
        reference=nn.dyn_pad,
        samples=(
            Sample(
                (
                    ("n", 3, "float32"),
                    (2, 2, "int64"),
                    ("float32",),
                ),
                ("n+3", 3),
                {"pad_width": ()},
                values={1: ((1, 2), (0, 0))},
            ),
        ),
    ),
    OpRow(
        "dyn.nn.upsampling",
        ("data", "scale_h", "scale_w"),
        {
            "scale_h": REQUIRED,
            "scale_w": REQUIRED,
            "layout": "NCHW",
            "method": "nearest_neighbor",
            "align_corners": False,
        },
        Pattern.INJECTIVE,
        True,
        reference=image.dyn_upsampling,
        samples=(
            Sample(
                (("n", 3, "h", "w", "float32"), ("float32",), ("float32",)),
                ("n", 3, "h*2", "w*3"),
                {"scale_h": 0.0, "scale_w": 0.0},
                values={1: 2, 2: 3},
            ),
        ),
    ),
    OpRow(
        "dyn.nn.upsampling3d",
        ("data", "scale_d", "scale_h", "scale_w"),
        {
            "scale_d": REQUIRED,
            "scale_h": REQUIRED,
            "scale_w": REQUIRED,
            "layout": "NCDHW",
            "method": "nearest_neighbor",
            "coordinate_transformation_mode": "half_pixel",
        },
        Pattern.INJECTIVE,
        True,
        reference=image.dyn_upsampling,
        samples=(
            Sample(
                (
                    ("n", 2, "d", "h", "w", "float32"),
                    ("float32",),
                    ("float32",),
                    ("float32",),
                ),
                ("n", 2, "d*2", "h", "w*3"),
                {"scale_d": 0.0, "scale_h": 0.0, "scale_w": 0.0},
                sizes=((1, 2, 3, 4), (2, 1, 5, 3)),
                values={1: 2, 2: 1, 3: 3},
            ),
        ),
    ),
    OpRow(
        "dyn.one_hot",
        ("indices", "on_value", "off_value", "depth"),
        {"depth": 1, "axis": -1, "dtype": ""},
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.dyn_one_hot,
        samples=(
            Sample(
                (
                    ("n", "int64"),
                    ("float32",),
                    ("float32",),
                    ("int64",),
                ),
                ("n", "d"),
                {"depth": 0, "dtype": "float32"},
                ranges={0: (0, 3)},
                values={3: "d"},
                sizes=((1, 4), (5, 3), (7, 8)),
            ),
        ),
    ),
    OpRow(
        "dyn.ones",
        ("shape",),
        {"shape": REQUIRED, "dtype": ""},
        Pattern.OPAQUE,
        True,
        reference=ref.dyn_ones,
        samples=(
            Sample(
                ((2, "int64"),), ("n", 3), {"shape": None, "dtype": "float32"}, values={0: ("n", 3)}
            ),
        ),
    ),
    OpRow(
        "dyn.reshape",
        ("data", "newshape"),
        {"newshape": REQUIRED, "allowzero": False},
        Pattern.INJECTIVE,
        True,
        reference=ref.dyn_reshape,
        samples=(
            Sample(
                (
                    ("n", 6, "float32"),
                    (2, "int64"),
                ),
                ("n*2", 3),
                {"newshape": ()},
                values={1: (-1, 3)},
            ),
        ),
    ),
    OpRow(
        "dyn.squeeze",
        ("data", "axes"),
        {"axis": None},
        Pattern.INJECTIVE,
        True,
        reference=ref.dyn_squeeze,
        samples=(
            Sample(
                (
                    ("n", 1, 3, "float32"),
                    (1, "int64"),
                ),
                ("n", 3),
                values={1: (1,)},
            ),
        ),
    ),
    OpRow(
        "dyn.strided_slice",
        ("data", "begin", "end", "strides"),
        {
            "begin": REQUIRED,
            "end": REQUIRED,
            "strides": REQUIRED,
            "axes": REQUIRED,
            "slice_mode": "end",
        },
        Pattern.INJECTIVE,
        True,
        reference=ref.dyn_strided_slice,
        samples=(
            Sample(
                (
                    ("n", 8, "float32"),
                    (2, "int64"),
                    (2, "int64"),
                    (2, "int64"),
                ),
                ("n", 3),
                {"begin": None, "end": None, "strides": None, "axes": None},
                values={1: (0, 1), 2: (100, 7), 3: (1, 2)},
            ),
            Sample(
                (
                    ("n", 8, "float32"),
                    (2, "int64"),
                    (2, "int64"),
                    (2, "int64"),
                ),
                ("n", 3),
                {
                    "begin": None,
                    "end": None,
                    "strides": None,
                    "axes": None,
                    "slice_mode": "size",
                },
                values={1: (0, -5), 2: (-1, 3), 3: (1, 1)},
            ),
        ),
    ),
    OpRow(
        "dyn.tile",
        ("data", "reps"),
        {"reps": REQUIRED},
        Pattern.INJECTIVE,
        True,
        reference=ref.dyn_tile,
        samples=(
            Sample(
                (
                    ("n", 3, "float32"),
                    (2, "int64"),
                ),
                ("n*2", 3),
                {"reps": ()},
                values={1: (2, 1)},
            ),
        ),
    ),
    OpRow(
        "dyn.topk",
        ("data", "k"),
        {"k": REQUIRED, "axis": -1, "ret_type": "both", "is_ascend": False, "dtype": ""},
        Pattern.OPAQUE,
        True,
        reference=ref.dyn_topk,
        samples=(
            Sample(
                (
                    ("n", 5, "float32"),
                    (1, "int64"),
                ),
                (("n", 3), ("n", 3)),
                {"k": None},
                values={1: (3,)},
            ),
        ),
    ),
    OpRow(
        "dyn.zeros",
        ("shape",),
        {"shape": REQUIRED, "dtype": ""},
        Pattern.OPAQUE,
        True,
        reference=ref.dyn_zeros,
        samples=(
            Sample(
                ((2, "int64"),), ("n", 3), {"shape": None, "dtype": "float32"}, values={0: ("n", 3)}
            ),
        ),
    ),
)
