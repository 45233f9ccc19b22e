"""Factors, padding, dilation and casts around products."""

from __future__ import annotations

from typing import Any

import pytest

from tests.relay.transform.helpers import check
from tvm_disc import relay

CASES = {
    "sf_a": (
        [relay.transform.ForwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4, 1, 1), float32]) { nn.conv2d(multiply(%x, %s), %w, "
            "padding=[1,1,1,1]) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4, 1, 1), float32]) { %0 = squeeze(%s, axis=[1, 2]); "
            "%1 = expand_dims(%0, axis=1, num_newaxis=2); %2 = multiply(%w, %1); "
            "nn.conv2d(%x, %2, padding=[1, 1, 1, 1]) }"
        ),
    ),
    "sb_a": (
        [relay.transform.BackwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4, 1, 1), float32]) { nn.conv2d(multiply(%x, %s), %w, "
            "padding=[1,1,1,1]) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4, 1, 1), float32]) { %0 = multiply(%x, %s); "
            "nn.conv2d(%0, %w, padding=[1, 1, 1, 1]) }"
        ),
    ),
    "sf_b": (
        [relay.transform.ForwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4, 1, 1), float32]) { multiply(nn.conv2d(%x, %w, "
            "padding=[1,1,1,1]), %s) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4, 1, 1), float32]) { %0 = nn.conv2d(%x, %w, "
            "padding=[1, 1, 1, 1]); multiply(%0, %s) }"
        ),
    ),
    "sb_b": (
        [relay.transform.BackwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4, 1, 1), float32]) { multiply(nn.conv2d(%x, %w, "
            "padding=[1,1,1,1]), %s) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4, 1, 1), float32]) { %0 = squeeze(%s, axis=[1, 2]); "
            "%1 = expand_dims(%0, axis=1, num_newaxis=3); %2 = multiply(%w, %1); "
            "nn.conv2d(%x, %2, padding=[1, 1, 1, 1]) }"
        ),
    ),
    "sf_c": (
        [relay.transform.ForwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            'float32]) { %0 = full(2f, shape=[4,1,1], dtype="float32"); '
            "nn.conv2d(multiply(%x, %0), %w, padding=[1,1,1,1], channels=4, "
            "kernel_size=[3,3]) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            'float32]) { %0 = full(2f, shape=[4, 1, 1], dtype="float32"); %1 = '
            "squeeze(%0, axis=[1, 2]); %2 = expand_dims(%1, axis=1, num_newaxis=2); %3 = "
            "multiply(%w, %2); nn.conv2d(%x, %3, padding=[1, 1, 1, 1], channels=4, "
            "kernel_size=[3, 3]) }"
        ),
    ),
    "sb_c": (
        [relay.transform.BackwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            'float32]) { %0 = full(2f, shape=[4,1,1], dtype="float32"); '
            "nn.conv2d(multiply(%x, %0), %w, padding=[1,1,1,1], channels=4, "
            "kernel_size=[3,3]) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            'float32]) { %0 = full(2f, shape=[4, 1, 1], dtype="float32"); %1 = '
            "multiply(%x, %0); nn.conv2d(%1, %w, padding=[1, 1, 1, 1], channels=4, "
            "kernel_size=[3, 3]) }"
        ),
    ),
    "sf_d": (
        [relay.transform.ForwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4), float32], %b: Tensor[(4, 1, 1), float32]) { %0 = "
            "expand_dims(%s, axis=1, num_newaxis=2); %1 = nn.relu(%s); %2 = "
            "expand_dims(%1, axis=1, num_newaxis=2); %3 = nn.conv2d(%x, %w, "
            "padding=[1,1,1,1], channels=4, kernel_size=[3,3]); %4 = add(%3, %b); %5 = "
            "nn.relu(%4); multiply(%5, %2) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4), float32], %b: Tensor[(4, 1, 1), float32]) { %0 = "
            "nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]); %1 "
            "= add(%0, %b); %2 = nn.relu(%1); %3 = nn.relu(%s); %4 = expand_dims(%3, "
            "axis=1, num_newaxis=2); multiply(%2, %4) }"
        ),
    ),
    "sb_d": (
        [relay.transform.BackwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4), float32], %b: Tensor[(4, 1, 1), float32]) { %0 = "
            "expand_dims(%s, axis=1, num_newaxis=2); %1 = nn.relu(%s); %2 = "
            "expand_dims(%1, axis=1, num_newaxis=2); %3 = nn.conv2d(%x, %w, "
            "padding=[1,1,1,1], channels=4, kernel_size=[3,3]); %4 = add(%3, %b); %5 = "
            "nn.relu(%4); multiply(%5, %2) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4), float32], %b: Tensor[(4, 1, 1), float32]) { %0 = "
            "nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]); %1 "
            "= add(%0, %b); %2 = nn.relu(%1); %3 = nn.relu(%s); %4 = expand_dims(%3, "
            "axis=1, num_newaxis=2); multiply(%2, %4) }"
        ),
    ),
    "sf_e": (
        [relay.transform.ForwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4), float32], %b: Tensor[(4, 1, 1), float32]) { %1 = "
            "nn.relu(%s); %2 = expand_dims(%1, axis=1, num_newaxis=2); %3 = multiply(%x, "
            "%2); %4 = nn.relu(%3); nn.conv2d(%4, %w, padding=[1,1,1,1], channels=4, "
            "kernel_size=[3,3]) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4), float32], %b: Tensor[(4, 1, 1), float32]) { %0 = "
            "nn.relu(%s); %1 = expand_dims(%0, axis=1, num_newaxis=2); %2 = multiply(%x, "
            "%1); %3 = nn.relu(%2); nn.conv2d(%3, %w, padding=[1, 1, 1, 1], channels=4, "
            "kernel_size=[3, 3]) }"
        ),
    ),
    "sb_e": (
        [relay.transform.BackwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4), float32], %b: Tensor[(4, 1, 1), float32]) { %1 = "
            "nn.relu(%s); %2 = expand_dims(%1, axis=1, num_newaxis=2); %3 = multiply(%x, "
            "%2); %4 = nn.relu(%3); nn.conv2d(%4, %w, padding=[1,1,1,1], channels=4, "
            "kernel_size=[3,3]) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4), float32], %b: Tensor[(4, 1, 1), float32]) { %0 = "
            "nn.relu(%s); %1 = expand_dims(%0, axis=1, num_newaxis=2); %2 = multiply(%x, "
            "%1); %3 = nn.relu(%2); nn.conv2d(%3, %w, padding=[1, 1, 1, 1], channels=4, "
            "kernel_size=[3, 3]) }"
        ),
    ),
    "sf_f": (
        [relay.transform.ForwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4), float32]) { %2 = expand_dims(%s, axis=1, "
            "num_newaxis=2); %3 = multiply(%x, %2); nn.conv2d(%3, %w, padding=[1,1,1,1], "
            "channels=4, kernel_size=[3,3]) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4), float32]) { %0 = expand_dims(%s, axis=1, "
            "num_newaxis=2); %1 = squeeze(%0, axis=[1, 2]); %2 = expand_dims(%1, axis=1, "
            "num_newaxis=2); %3 = multiply(%w, %2); nn.conv2d(%x, %3, padding=[1, 1, 1, "
            "1], channels=4, kernel_size=[3, 3]) }"
        ),
    ),
    "sb_f": (
        [relay.transform.BackwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4), float32]) { %2 = expand_dims(%s, axis=1, "
            "num_newaxis=2); %3 = multiply(%x, %2); nn.conv2d(%3, %w, padding=[1,1,1,1], "
            "channels=4, kernel_size=[3,3]) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4), float32]) { %0 = expand_dims(%s, axis=1, "
            "num_newaxis=2); %1 = multiply(%x, %0); nn.conv2d(%1, %w, padding=[1, 1, 1, "
            "1], channels=4, kernel_size=[3, 3]) }"
        ),
    ),
    "sf_g": (
        [relay.transform.ForwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4), float32]) { %2 = expand_dims(%s, axis=1, "
            "num_newaxis=2); %3 = nn.conv2d(%x, %w, padding=[1,1,1,1], channels=4, "
            "kernel_size=[3,3]); multiply(%3, %2) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4), float32]) { %0 = nn.conv2d(%x, %w, padding=[1, 1, "
            "1, 1], channels=4, kernel_size=[3, 3]); %1 = expand_dims(%s, axis=1, "
            "num_newaxis=2); multiply(%0, %1) }"
        ),
    ),
    "sb_g": (
        [relay.transform.BackwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4), float32]) { %2 = expand_dims(%s, axis=1, "
            "num_newaxis=2); %3 = nn.conv2d(%x, %w, padding=[1,1,1,1], channels=4, "
            "kernel_size=[3,3]); multiply(%3, %2) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %s: Tensor[(4), float32]) { %0 = expand_dims(%s, axis=1, "
            "num_newaxis=2); %1 = squeeze(%0, axis=[1, 2]); %2 = expand_dims(%1, axis=1, "
            "num_newaxis=3); %3 = multiply(%w, %2); nn.conv2d(%x, %3, padding=[1, 1, 1, "
            "1], channels=4, kernel_size=[3, 3]) }"
        ),
    ),
    "sf_h": (
        [relay.transform.ForwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32], %s: "
            "Tensor[(8), float32]) { nn.dense(multiply(%x, %s), %w, units=None) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32], %s: "
            "Tensor[(8), float32]) { %0 = multiply(%w, %s); nn.dense(%x, %0, units=None) "
            "}"
        ),
    ),
    "sb_h": (
        [relay.transform.BackwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32], %s: "
            "Tensor[(8), float32]) { nn.dense(multiply(%x, %s), %w, units=None) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32], %s: "
            "Tensor[(8), float32]) { %0 = multiply(%x, %s); nn.dense(%0, %w, units=None) "
            "}"
        ),
    ),
    "sf_i": (
        [relay.transform.ForwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32], %s: "
            "Tensor[(4), float32]) { multiply(nn.dense(%x, %w, units=None), %s) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32], %s: "
            "Tensor[(4), float32]) { %0 = nn.dense(%x, %w, units=None); multiply(%0, %s) "
            "}"
        ),
    ),
    "sb_i": (
        [relay.transform.BackwardFoldScaleAxis()],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32], %s: "
            "Tensor[(4), float32]) { multiply(nn.dense(%x, %w, units=None), %s) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32], %s: "
            "Tensor[(4), float32]) { %0 = expand_dims(%s, axis=1); %1 = multiply(%w, "
            "%0); nn.dense(%x, %1, units=None) }"
        ),
    ),
    "cc1": (
        [relay.transform.CanonicalizeCast()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            'float32]) { %0 = cast(%x, dtype="int32"); (add(%0, 1), multiply(%0, 2)) }'
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            'float32]) { %0 = cast(%x, dtype="int32"); %1 = add(%0, 1); %2 = '
            "multiply(%0, 2); (%1, %2) }"
        ),
    ),
    "fp1": (
        [relay.transform.FoldExplicitPadding()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { %0 = nn.pad(%x, 0f, pad_width=[[0,0],[0,0],[1,1],[1,1]]); "
            "nn.conv2d(%0, %w, padding=[0,0,0,0], channels=4, kernel_size=[3,3]) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=4, "
            "kernel_size=[3, 3]) }"
        ),
    ),
    "fp2": (
        [relay.transform.FoldExplicitPadding()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { %0 = nn.pad(%x, 0f, pad_width=[[0,0],[0,0],[1,1],[1,1]]); "
            "nn.max_pool2d(%0, pool_size=[2,2]) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { %0 = nn.pad(%x, 0f, pad_width=[[0, 0], [0, 0], [1, 1], [1, "
            "1]]); nn.max_pool2d(%0, pool_size=[2, 2]) }"
        ),
    ),
    "fp3": (
        [relay.transform.FoldExplicitPadding()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { %0 = nn.pad(%x, 0f, pad_width=[[0,0],[0,0],[1,1],[1,1]]); "
            "nn.avg_pool2d(%0, pool_size=[2,2], count_include_pad=False) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { nn.avg_pool2d(%x, pool_size=[2, 2], padding=[1, 1, 1, 1], "
            "count_include_pad=True) }"
        ),
    ),
    "fp4": (
        [relay.transform.FoldExplicitPadding()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { %0 = nn.pad(%x, 1f, pad_width=[[0,0],[0,0],[1,1],[1,1]]); "
            "nn.conv2d(%0, %w, padding=[0,0,0,0], channels=4, kernel_size=[3,3]) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { %0 = nn.pad(%x, 1f, pad_width=[[0, 0], [0, 0], [1, 1], [1, "
            "1]]); nn.conv2d(%0, %w, padding=[0, 0, 0, 0], channels=4, kernel_size=[3, "
            "3]) }"
        ),
    ),
    "at1": (
        [relay.transform.FlattenAtrousConv()],
        (
            "def @main(%x: Tensor[(1,4,4,4), float32], %w: Tensor[(3,3,4,4), float32]) { "
            "%0 = nn.space_to_batch_nd(%x, block_shape=[2,2], paddings=[[2,2],[2,2]]); "
            "%1 = nn.conv2d(%0, %w, padding=[0,0,0,0], channels=4, kernel_size=[3,3], "
            'data_layout="NHWC", kernel_layout="HWIO"); nn.batch_to_space_nd(%1, '
            "block_shape=[2,2], crops=[[0,0],[0,0]]) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 4, 4), float32], %w: Tensor[(3, 3, 4, 4), "
            "float32]) { nn.conv2d(%x, %w, padding=[2, 2, 2, 2], dilation=[2, 2], "
            'channels=4, kernel_size=[3, 3], data_layout="NHWC", kernel_layout="HWIO") }'
        ),
    ),
    "ll1": (
        [relay.transform.LambdaLift()],
        (
            "def @main(%x: Tensor[(2), float32]) { %0 = fn (%y: Tensor[(2), float32]) { "
            "add(%x, %y) }; %0(%x) }"
        ),
        (
            "def @lifted_0(%x: Tensor[(2), float32], Closure=1) { fn (%y: Tensor[(2), "
            "float32]) { add(%x, %y) } } def @main(%x1: Tensor[(2), float32]) { %0 = "
            "@lifted_0(%x1); %0(%x1) }"
        ),
    ),
    "ll2": (
        [relay.transform.LambdaLift()],
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) -> Tensor[(2), float32] { %f(%y) }; %f(%x) }"
        ),
        (
            "def @lifted_0(%y: Tensor[(2), float32]) -> Tensor[(2), float32] { "
            "@lifted_0(%y) } def @main(%x: Tensor[(2), float32]) { let %f = @lifted_0; "
            "%f(%x) }"
        ),
    ),
    "ll3": (
        [relay.transform.LambdaLift()],
        (
            "def @main(%x: Tensor[(2), float32]) -> fn (Tensor[(2), float32]) -> "
            "Tensor[(2), float32] { fn (%y: Tensor[(2), float32]) { exp(%y) } }"
        ),
        (
            "def @lifted_0(%y: Tensor[(2), float32]) { exp(%y) } def @main(%x: "
            "Tensor[(2), float32]) -> fn (Tensor[(2), float32]) -> Tensor[(2), float32] "
            "{ @lifted_0 }"
        ),
    ),
    "dm": (
        [relay.transform.DivToMul()],
        "def @main(%x: Tensor[(2), float32]) { divide(%x, 4f) }",
        "def @main(%x: Tensor[(2), float32]) { multiply(%x, 0.25f) }",
    ),
    "cc2": (
        [relay.transform.CanonicalizeCast()],
        (
            'def @main(%x: Tensor[(1, 4, 8, 8), int8]) { %0 = cast(%x, dtype="int32"); '
            "(add(%0, 1), multiply(%0, 2)) }"
        ),
        (
            'def @main(%x: Tensor[(1, 4, 8, 8), int8]) { %0 = cast(%x, dtype="int32"); '
            '%1 = add(%0, 1); %2 = cast(%x, dtype="int32"); %3 = multiply(%2, 2); (%1, '
            "%3) }"
        ),
    ),
    "cc3": (
        [relay.transform.CanonicalizeCast()],
        (
            'def @main(%x: Tensor[(1, 4, 8, 8), int8]) { %0 = cast(%x, dtype="int32"); '
            "(add(%0, 1), sum(%0)) }"
        ),
        (
            'def @main(%x: Tensor[(1, 4, 8, 8), int8]) { %0 = cast(%x, dtype="int32"); '
            "%1 = add(%0, 1); %2 = sum(%0); (%1, %2) }"
        ),
    ),
    "cc4": (
        [relay.transform.CanonicalizeCast()],
        (
            'def @main(%x: Tensor[(1, 4, 8, 8), int8]) { %0 = cast(%x, dtype="int32"); '
            "add(add(%0, 1), %0) }"
        ),
        (
            'def @main(%x: Tensor[(1, 4, 8, 8), int8]) { %0 = cast(%x, dtype="int32"); '
            '%1 = add(%0, 1); %2 = cast(%x, dtype="int32"); add(%1, %2) }'
        ),
    ),
    "cc5": (
        [relay.transform.CanonicalizeCast()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32]) { %0 = cast(%x, "
            'dtype="float16"); add(add(%0, %0), %0) }'
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32]) { %0 = cast(%x, "
            'dtype="float16"); %1 = add(%0, %0); add(%1, %0) }'
        ),
    ),
    "fp5": (
        [relay.transform.FoldExplicitPadding()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32]) { %0 = nn.pad(%x, "
            "-1000000000f, pad_width=[[0,0],[0,0],[1,1],[1,1]]); nn.max_pool2d(%0, "
            "pool_size=[2,2], padding=[0,0,0,0]) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32]) { %0 = nn.pad(%x, -1e+09f, "
            "pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]]); nn.max_pool2d(%0, "
            "pool_size=[2, 2], padding=[0, 0, 0, 0]) }"
        ),
    ),
    "fp6": (
        [relay.transform.FoldExplicitPadding()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { %0 = nn.pad(%x, 0f, pad_width=[[0,0],[1,0],[1,1],[1,1]]); %1 = "
            "strided_slice(%0, begin=[0,0,0,0], end=[1,4,10,10], strides=[1,1,1,1], "
            "axes=None); nn.conv2d(%1, %w, padding=[0,0,0,0], channels=4, "
            "kernel_size=[3,3]) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { %0 = nn.pad(%x, 0f, pad_width=[[0, 0], [1, 0], [1, 1], [1, "
            "1]]); %1 = strided_slice(%0, begin=[0, 0, 0, 0], end=[1, 4, 10, 10], "
            "strides=[1, 1, 1, 1], axes=None); nn.conv2d(%1, %w, padding=[0, 0, 0, 0], "
            "channels=4, kernel_size=[3, 3]) }"
        ),
    ),
    "fp7": (
        [relay.transform.FoldExplicitPadding()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { %0 = nn.pad(%x, 0f, pad_width=[[0,0],[0,0],[1,2],[3,0]]); "
            "nn.conv2d(%0, %w, padding=[1,1,1,1], channels=4, kernel_size=[3,3]) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { nn.conv2d(%x, %w, padding=[2, 4, 3, 1], channels=4, "
            "kernel_size=[3, 3]) }"
        ),
    ),
    "fp8": (
        [relay.transform.FoldExplicitPadding()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { %0 = nn.pad(%x, 0f, pad_width=[[0,0],[0,0],[1,1],[1,1]], "
            'pad_mode="edge"); nn.conv2d(%0, %w, padding=[1,1,1,1], channels=4, '
            "kernel_size=[3,3]) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { %0 = nn.pad(%x, 0f, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]], "
            'pad_mode="edge"); nn.conv2d(%0, %w, padding=[1, 1, 1, 1], channels=4, '
            "kernel_size=[3, 3]) }"
        ),
    ),
}


@pytest.mark.parametrize(("passes", "before", "after"), CASES.values(), ids=CASES)
def test_what_a_pass_makes_of_a_program(passes: Any, before: str, after: str) -> None:
    check(passes, before, after)
