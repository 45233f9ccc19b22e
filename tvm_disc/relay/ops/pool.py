"""Rows of pooling operators."""

from __future__ import annotations

import numpy as np

from . import reference_nn as ref
from .row import REQUIRED, OpRow, Pattern, Sample

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "nn.adaptive_avg_pool1d",
        ("data",),
        {"output_size": (), "layout": "NCW", "out_layout": ""},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.adaptive_pool(np.mean),
        samples=(
            Sample(
                (("n", 3, "w", "float32"),), ("n", 3, 2), {"output_size": (2,)}, sizes=((1, 5),)
            ),
        ),
    ),
    OpRow(
        "nn.adaptive_avg_pool2d",
        ("data",),
        {"output_size": (), "layout": "NCHW", "out_layout": ""},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.adaptive_pool(np.mean),
        samples=(
            Sample(
                (("n", 3, "h", "w", "float32"),),
                ("n", 3, 2, 2),
                {
                    "output_size": (
                        2,
                        2,
                    )
                },
                sizes=((1, 5, 5),),
            ),
        ),
    ),
    OpRow(
        "nn.adaptive_avg_pool3d",
        ("data",),
        {"output_size": (), "layout": "NCDHW", "out_layout": ""},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.adaptive_pool(np.mean),
        samples=(
            Sample(
                (("n", 3, "d", "h", "w", "float32"),),
                ("n", 3, 2, 2, 2),
                {
                    "output_size": (
                        2,
                        2,
                        2,
                    )
                },
                sizes=((1, 5, 5, 5),),
            ),
        ),
    ),
    OpRow(
        "nn.adaptive_max_pool1d",
        ("data",),
        {"output_size": (), "layout": "NCW", "out_layout": ""},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.adaptive_pool(np.max),
        samples=(
            Sample(
                (("n", 3, "w", "float32"),), ("n", 3, 2), {"output_size": (2,)}, sizes=((1, 5),)
            ),
        ),
    ),
    OpRow(
        "nn.adaptive_max_pool2d",
        ("data",),
        {"output_size": (), "layout": "NCHW", "out_layout": ""},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.adaptive_pool(np.max),
        samples=(
            Sample(
                (("n", 3, "h", "w", "float32"),),
                ("n", 3, 2, 2),
                {
                    "output_size": (
                        2,
                        2,
                    )
                },
                sizes=((1, 5, 5),),
            ),
        ),
    ),
    OpRow(
        "nn.adaptive_max_pool3d",
        ("data",),
        {"output_size": (), "layout": "NCDHW", "out_layout": ""},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.adaptive_pool(np.max),
        samples=(
            Sample(
                (("n", 3, "d", "h", "w", "float32"),),
                ("n", 3, 2, 2, 2),
                {
                    "output_size": (
                        2,
                        2,
                        2,
                    )
                },
                sizes=((1, 5, 5, 5),),
            ),
        ),
    ),
    OpRow(
        "nn.avg_pool1d",
        ("data",),
        {
            "pool_size": REQUIRED,
            "strides": (1,),
            "dilation": (1,),
            "padding": (0,),
            "layout": "NCW",
            "out_layout": "",
            "ceil_mode": False,
            "count_include_pad": False,
        },
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.avg_pool,
        samples=(
            Sample(
                (("n", 3, "w", "float32"),),
                ("n", 3, "w//2"),
                {"pool_size": (2,), "strides": (2,)},
                sizes=((1, 4), (2, 9)),
            ),
        ),
    ),
    OpRow(
        "nn.avg_pool2d",
        ("data",),
        {
            "pool_size": REQUIRED,
            "strides": (1, 1),
            "dilation": (1, 1),
            "padding": (0, 0),
            "layout": "NCHW",
            "out_layout": "",
            "ceil_mode": False,
            "count_include_pad": False,
        },
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.avg_pool,
        samples=(
            Sample(
                (("n", 3, "h", "w", "float32"),),
                ("n", 3, "(h+1)//2", "(w+1)//2"),
                {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1)},
                sizes=((1, 4, 5), (2, 9, 8)),
            ),
            Sample(
                (("n", 3, "h", "w", "float32"),),
                ("n", 3, "(h+1)//2", "(w+1)//2"),
                {"pool_size": (2, 2), "strides": (2, 2), "ceil_mode": True},
                sizes=((1, 4, 5), (2, 9, 8)),
            ),
        ),
    ),
    OpRow(
        "nn.avg_pool3d",
        ("data",),
        {
            "pool_size": REQUIRED,
            "strides": (1, 1, 1),
            "dilation": (1, 1, 1),
            "padding": (0, 0, 0),
            "layout": "NCDHW",
            "out_layout": "",
            "ceil_mode": False,
            "count_include_pad": False,
        },
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.avg_pool,
        samples=(
            Sample(
                (("n", 2, "d", "h", "w", "float32"),),
                ("n", 2, "d//2", "h//2", "w//2"),
                {"pool_size": (2, 2, 2), "strides": (2, 2, 2)},
                sizes=((1, 2, 3, 4), (2, 4, 5, 4)),
            ),
        ),
    ),
    OpRow(
        "nn.global_avg_pool2d",
        ("data",),
        {"layout": "NCHW", "out_layout": ""},
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.global_pool(np.mean),
        samples=(Sample((("n", 3, "h", "w", "float32"),), ("n", 3, 1, 1)),),
    ),
    OpRow(
        "nn.global_max_pool2d",
        ("data",),
        {"layout": "NCHW", "out_layout": ""},
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.global_pool(np.max),
        samples=(Sample((("n", 3, "h", "w", "float32"),), ("n", 3, 1, 1)),),
    ),
    OpRow(
        "nn.max_pool1d",
        ("data",),
        {
            "pool_size": REQUIRED,
            "strides": (1,),
            "dilation": (1,),
            "padding": (0,),
            "layout": "NCW",
            "out_layout": "",
            "ceil_mode": False,
        },
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.max_pool,
        samples=(
            Sample(
                (("n", 3, "w", "float32"),),
                ("n", 3, "w//2"),
                {"pool_size": (2,), "strides": (2,)},
                sizes=((1, 4), (2, 9)),
            ),
        ),
    ),
    OpRow(
        "nn.max_pool2d",
        ("data",),
        {
            "pool_size": REQUIRED,
            "strides": (1, 1),
            "dilation": (1, 1),
            "padding": (0, 0),
            "layout": "NCHW",
            "out_layout": "",
            "ceil_mode": False,
        },
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.max_pool,
        samples=(
            Sample(
                (("n", 3, "h", "w", "float32"),),
                ("n", 3, "(h+1)//2", "(w+1)//2"),
                {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1)},
                sizes=((1, 4, 5), (2, 9, 8)),
            ),
            Sample(
                (("n", 3, "h", "w", "float32"),),
                ("n", 3, "(h+1)//2", "(w+1)//2"),
                {"pool_size": (2, 2), "strides": (2, 2), "ceil_mode": True},
                sizes=((1, 4, 5), (2, 9, 8)),
            ),
        ),
    ),
    OpRow(
        "nn.max_pool3d",
        ("data",),
        {
            "pool_size": REQUIRED,
            "strides": (1, 1, 1),
            "dilation": (1, 1, 1),
            "padding": (0, 0, 0),
            "layout": "NCDHW",
            "out_layout": "",
            "ceil_mode": False,
        },
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.max_pool,
        samples=(
            Sample(
                (("n", 2, "d", "h", "w", "float32"),),
                ("n", 2, "d//2", "h//2", "w//2"),
                {"pool_size": (2, 2, 2), "strides": (2, 2, 2)},
                sizes=((1, 2, 3, 4), (2, 4, 5, 4)),
            ),
        ),
    ),
)
