"""Products of one input become one product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.helpers import run
from tests.relay.transform.helpers import check, optimized, same
from tvm_disc import relay

SHAPES = {"x": (4, 8), "w": (6, 8), "v": (6, 8), "b": (6,)}
CASES = {
    "pda": (
        [relay.transform.CombineParallelDense(min_num_branches=2)],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32]) { %0 = nn.dense(%x, %w, units=None); %1 = "
            "nn.dense(%x, %v, units=None); (%0, %1) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32]) { %0 = (%x, %x); %1 = stack(%0); %2 = (%w, %v); %3 "
            "= stack(%2); %4 = nn.batch_matmul(%1, %3, transpose_b=True); %5 = split(%4, "
            "indices_or_sections=2); %6 = %5.0; %7 = squeeze(%6, axis=[0]); %8 = %5.1; "
            "%9 = squeeze(%8, axis=[0]); (%7, %9) }"
        ),
    ),
    "pfa": (
        [relay.transform.CombineParallelDense(min_num_branches=2, to_batch=False)],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32]) { %0 = nn.dense(%x, %w, units=None); %1 = "
            "nn.dense(%x, %v, units=None); (%0, %1) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32]) { %0 = (%w, %v); %1 = concatenate(%0); %2 = "
            "nn.dense(%x, %1, units=12); %3 = strided_slice(%2, begin=[0, 0], end=[-1, "
            '6], strides=[1, 1], axes=None, slice_mode="size"); %4 = strided_slice(%2, '
            'begin=[0, 6], end=[-1, 6], strides=[1, 1], axes=None, slice_mode="size"); '
            "(%3, %4) }"
        ),
    ),
    "p3a": (
        [relay.transform.CombineParallelDense()],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32]) { %0 = nn.dense(%x, %w, units=None); %1 = "
            "nn.dense(%x, %v, units=None); (%0, %1) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32]) { %0 = nn.dense(%x, %w, units=None); %1 = "
            "nn.dense(%x, %v, units=None); (%0, %1) }"
        ),
    ),
    "pdb": (
        [relay.transform.CombineParallelDense(min_num_branches=2)],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32], %b: Tensor[(6), float32], %d: Tensor[(6), "
            "float32]) { %0 = nn.dense(%x, %w, units=None); %1 = nn.dense(%x, %v, "
            "units=None); (nn.relu(add(%0, %b)), nn.relu(add(%1, %d))) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32], %b: Tensor[(6), float32], %d: Tensor[(6), "
            "float32]) { %0 = (%x, %x); %1 = stack(%0); %2 = (%w, %v); %3 = stack(%2); "
            "%4 = nn.batch_matmul(%1, %3, transpose_b=True); %5 = expand_dims(%b, "
            "axis=0); %6 = expand_dims(%d, axis=0); %7 = (%5, %6); %8 = stack(%7); %9 = "
            "add(%4, %8); %10 = nn.relu(%9); %11 = split(%10, indices_or_sections=2); "
            "%12 = %11.0; %13 = squeeze(%12, axis=[0]); %14 = %11.1; %15 = squeeze(%14, "
            "axis=[0]); (%13, %15) }"
        ),
    ),
    "pfb": (
        [relay.transform.CombineParallelDense(min_num_branches=2, to_batch=False)],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32], %b: Tensor[(6), float32], %d: Tensor[(6), "
            "float32]) { %0 = nn.dense(%x, %w, units=None); %1 = nn.dense(%x, %v, "
            "units=None); (nn.relu(add(%0, %b)), nn.relu(add(%1, %d))) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32], %b: Tensor[(6), float32], %d: Tensor[(6), "
            "float32]) { %0 = (%w, %v); %1 = concatenate(%0); %2 = nn.dense(%x, %1, "
            "units=12); %3 = (%b, %d); %4 = concatenate(%3); %5 = add(%2, %4); %6 = "
            "nn.relu(%5); %7 = strided_slice(%6, begin=[0, 0], end=[-1, 6], strides=[1, "
            '1], axes=None, slice_mode="size"); %8 = strided_slice(%6, begin=[0, 6], '
            'end=[-1, 6], strides=[1, 1], axes=None, slice_mode="size"); (%7, %8) }'
        ),
    ),
    "p3b": (
        [relay.transform.CombineParallelDense()],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32], %b: Tensor[(6), float32], %d: Tensor[(6), "
            "float32]) { %0 = nn.dense(%x, %w, units=None); %1 = nn.dense(%x, %v, "
            "units=None); (nn.relu(add(%0, %b)), nn.relu(add(%1, %d))) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32], %b: Tensor[(6), float32], %d: Tensor[(6), "
            "float32]) { %0 = nn.dense(%x, %w, units=None); %1 = add(%0, %b); %2 = "
            "nn.relu(%1); %3 = nn.dense(%x, %v, units=None); %4 = add(%3, %d); %5 = "
            "nn.relu(%4); (%2, %5) }"
        ),
    ),
    "pdc": (
        [relay.transform.CombineParallelDense(min_num_branches=2)],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(5, 8), float32]) { %0 = nn.dense(%x, %w, units=None); %1 = "
            "nn.dense(%x, %v, units=None); (%0, %1) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(5, 8), float32]) { %0 = nn.dense(%x, %w, units=None); %1 = "
            "nn.dense(%x, %v, units=None); (%0, %1) }"
        ),
    ),
    "pfc": (
        [relay.transform.CombineParallelDense(min_num_branches=2, to_batch=False)],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(5, 8), float32]) { %0 = nn.dense(%x, %w, units=None); %1 = "
            "nn.dense(%x, %v, units=None); (%0, %1) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(5, 8), float32]) { %0 = (%w, %v); %1 = concatenate(%0); %2 = "
            "nn.dense(%x, %1, units=11); %3 = strided_slice(%2, begin=[0, 0], end=[-1, "
            '6], strides=[1, 1], axes=None, slice_mode="size"); %4 = strided_slice(%2, '
            'begin=[0, 6], end=[-1, 5], strides=[1, 1], axes=None, slice_mode="size"); '
            "(%3, %4) }"
        ),
    ),
    "p3c": (
        [relay.transform.CombineParallelDense()],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(5, 8), float32]) { %0 = nn.dense(%x, %w, units=None); %1 = "
            "nn.dense(%x, %v, units=None); (%0, %1) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(5, 8), float32]) { %0 = nn.dense(%x, %w, units=None); %1 = "
            "nn.dense(%x, %v, units=None); (%0, %1) }"
        ),
    ),
    "pdd": (
        [relay.transform.CombineParallelDense(min_num_branches=2)],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32], %b: Tensor[(6), float32]) { %0 = nn.dense(%x, %w, "
            "units=None); %1 = nn.dense(%x, %v, units=None); (nn.relu(add(%0, %b)), "
            "nn.relu(%1)) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32], %b: Tensor[(6), float32]) { %0 = (%x, %x); %1 = "
            "stack(%0); %2 = (%w, %v); %3 = stack(%2); %4 = nn.batch_matmul(%1, %3, "
            "transpose_b=True); %5 = split(%4, indices_or_sections=2); %6 = %5.0; %7 = "
            "squeeze(%6, axis=[0]); %8 = add(%7, %b); %9 = nn.relu(%8); %10 = %5.1; %11 "
            "= squeeze(%10, axis=[0]); %12 = nn.relu(%11); (%9, %12) }"
        ),
    ),
    "pfd": (
        [relay.transform.CombineParallelDense(min_num_branches=2, to_batch=False)],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32], %b: Tensor[(6), float32]) { %0 = nn.dense(%x, %w, "
            "units=None); %1 = nn.dense(%x, %v, units=None); (nn.relu(add(%0, %b)), "
            "nn.relu(%1)) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32], %b: Tensor[(6), float32]) { %0 = (%w, %v); %1 = "
            "concatenate(%0); %2 = nn.dense(%x, %1, units=12); %3 = strided_slice(%2, "
            'begin=[0, 0], end=[-1, 6], strides=[1, 1], axes=None, slice_mode="size"); '
            "%4 = add(%3, %b); %5 = nn.relu(%4); %6 = strided_slice(%2, begin=[0, 6], "
            'end=[-1, 6], strides=[1, 1], axes=None, slice_mode="size"); %7 = '
            "nn.relu(%6); (%5, %7) }"
        ),
    ),
    "p3d": (
        [relay.transform.CombineParallelDense()],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32], %b: Tensor[(6), float32]) { %0 = nn.dense(%x, %w, "
            "units=None); %1 = nn.dense(%x, %v, units=None); (nn.relu(add(%0, %b)), "
            "nn.relu(%1)) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32], %b: Tensor[(6), float32]) { %0 = nn.dense(%x, %w, "
            "units=None); %1 = add(%0, %b); %2 = nn.relu(%1); %3 = nn.dense(%x, %v, "
            "units=None); %4 = nn.relu(%3); (%2, %4) }"
        ),
    ),
    "pde": (
        [relay.transform.CombineParallelDense(min_num_branches=2)],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32]) { %0 = nn.dense(%x, %w, units=None); %1 = "
            "nn.dense(%x, %v, units=None); (add(%0, 1f), add(%1, 2f)) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32]) { %0 = (%x, %x); %1 = stack(%0); %2 = (%w, %v); %3 "
            "= stack(%2); %4 = nn.batch_matmul(%1, %3, transpose_b=True); %5 = split(%4, "
            "indices_or_sections=2); %6 = %5.0; %7 = squeeze(%6, axis=[0]); %8 = add(%7, "
            "1f); %9 = %5.1; %10 = squeeze(%9, axis=[0]); %11 = add(%10, 2f); (%8, %11) }"
        ),
    ),
    "pfe": (
        [relay.transform.CombineParallelDense(min_num_branches=2, to_batch=False)],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32]) { %0 = nn.dense(%x, %w, units=None); %1 = "
            "nn.dense(%x, %v, units=None); (add(%0, 1f), add(%1, 2f)) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32]) { %0 = (%w, %v); %1 = concatenate(%0); %2 = "
            "nn.dense(%x, %1, units=12); %3 = strided_slice(%2, begin=[0, 0], end=[-1, "
            '6], strides=[1, 1], axes=None, slice_mode="size"); %4 = add(%3, 1f); %5 = '
            "strided_slice(%2, begin=[0, 6], end=[-1, 6], strides=[1, 1], axes=None, "
            'slice_mode="size"); %6 = add(%5, 2f); (%4, %6) }'
        ),
    ),
    "p3e": (
        [relay.transform.CombineParallelDense()],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32]) { %0 = nn.dense(%x, %w, units=None); %1 = "
            "nn.dense(%x, %v, units=None); (add(%0, 1f), add(%1, 2f)) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32], %v: "
            "Tensor[(6, 8), float32]) { %0 = nn.dense(%x, %w, units=None); %1 = add(%0, "
            "1f); %2 = nn.dense(%x, %v, units=None); %3 = add(%2, 2f); (%1, %3) }"
        ),
    ),
    "pca": (
        [relay.transform.CombineParallelConv2D(min_num_branches=2)],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(6, 4, 3, 3), "
            "float32], %v: Tensor[(5, 4, 3, 3), float32]) { %0 = nn.conv2d(%x, %w, "
            "padding=[0,0,0,0]); %1 = nn.conv2d(%x, %v, padding=[0,0,0,0]); (%0, %1) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(6, 4, 3, 3), "
            "float32], %v: Tensor[(5, 4, 3, 3), float32]) { %0 = (%w, %v); %1 = "
            "concatenate(%0); %2 = nn.conv2d(%x, %1, padding=[0, 0, 0, 0], channels=11); "
            "%3 = strided_slice(%2, begin=[0, 0], end=[-1, 6], strides=[1, 1], "
            'axes=None, slice_mode="size"); %4 = strided_slice(%2, begin=[0, 6], '
            'end=[-1, 5], strides=[1, 1], axes=None, slice_mode="size"); (%3, %4) }'
        ),
    ),
    "pcb": (
        [relay.transform.CombineParallelConv2D(min_num_branches=2)],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(6, 4, 3, 3), "
            "float32], %v: Tensor[(5, 4, 3, 3), float32], %b: Tensor[(6,1,1), float32], "
            "%d: Tensor[(5,1,1), float32]) { %0 = nn.conv2d(%x, %w, padding=[0,0,0,0]); "
            "%1 = nn.conv2d(%x, %v, padding=[0,0,0,0]); (nn.relu(add(%0,%b)), "
            "nn.relu(add(%1,%d))) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(6, 4, 3, 3), "
            "float32], %v: Tensor[(5, 4, 3, 3), float32], %b: Tensor[(6, 1, 1), "
            "float32], %d: Tensor[(5, 1, 1), float32]) { %0 = (%w, %v); %1 = "
            "concatenate(%0); %2 = nn.conv2d(%x, %1, padding=[0, 0, 0, 0], channels=11); "
            "%3 = (%b, %d); %4 = concatenate(%3); %5 = add(%2, %4); %6 = nn.relu(%5); %7 "
            "= strided_slice(%6, begin=[0, 0], end=[-1, 6], strides=[1, 1], axes=None, "
            'slice_mode="size"); %8 = strided_slice(%6, begin=[0, 6], end=[-1, 5], '
            'strides=[1, 1], axes=None, slice_mode="size"); (%7, %8) }'
        ),
    ),
    "pcc": (
        [relay.transform.CombineParallelConv2D(min_num_branches=2)],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(6, 4, 3, 3), "
            "float32], %v: Tensor[(5, 4, 3, 3), float32]) { %0 = nn.conv2d(%x, %w, "
            "padding=[0,0,0,0]); %1 = nn.conv2d(%x, %v, padding=[1,1,1,1]); (%0, %1) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(6, 4, 3, 3), "
            "float32], %v: Tensor[(5, 4, 3, 3), float32]) { %0 = nn.conv2d(%x, %w, "
            "padding=[0, 0, 0, 0]); %1 = nn.conv2d(%x, %v, padding=[1, 1, 1, 1]); (%0, "
            "%1) }"
        ),
    ),
    "pcd": (
        [relay.transform.CombineParallelConv2D(min_num_branches=2)],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(6, 4, 3, 3), "
            "float32], %v: Tensor[(5, 4, 3, 3), float32]) { %0 = nn.conv2d(%x, %w, "
            "padding=[0,0,0,0]); %1 = nn.conv2d(%x, %v, padding=[0,0,0,0]); "
            "(nn.relu(%0), tanh(%1)) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(6, 4, 3, 3), "
            "float32], %v: Tensor[(5, 4, 3, 3), float32]) { %0 = (%w, %v); %1 = "
            "concatenate(%0); %2 = nn.conv2d(%x, %1, padding=[0, 0, 0, 0], channels=11); "
            "%3 = strided_slice(%2, begin=[0, 0], end=[-1, 6], strides=[1, 1], "
            'axes=None, slice_mode="size"); %4 = nn.relu(%3); %5 = strided_slice(%2, '
            'begin=[0, 6], end=[-1, 5], strides=[1, 1], axes=None, slice_mode="size"); '
            "%6 = tanh(%5); (%4, %6) }"
        ),
    ),
    "pba": (
        [relay.transform.CombineParallelBatchMatmul(min_num_branches=2)],
        (
            "def @main(%x: Tensor[(2, 4, 8), float32], %w: Tensor[(2, 6, 8), float32], "
            "%v: Tensor[(2, 5, 8), float32]) { %0 = nn.batch_matmul(%x, %w, "
            "transpose_b=True); %1 = nn.batch_matmul(%x, %v, transpose_b=True); (%0, %1) "
            "}"
        ),
        (
            "def @main(%x: Tensor[(2, 4, 8), float32], %w: Tensor[(2, 6, 8), float32], "
            "%v: Tensor[(2, 5, 8), float32]) { %0 = (%w, %v); %1 = concatenate(%0, "
            "axis=1); %2 = nn.batch_matmul(%x, %1, transpose_b=True); %3 = "
            "strided_slice(%2, begin=[0, 0, 0], end=[-1, -1, 6], strides=[1, 1, 1], "
            'axes=None, slice_mode="size"); %4 = strided_slice(%2, begin=[0, 0, 6], '
            'end=[-1, -1, 5], strides=[1, 1, 1], axes=None, slice_mode="size"); (%3, %4) '
            "}"
        ),
    ),
    "pbb": (
        [relay.transform.CombineParallelBatchMatmul(min_num_branches=2)],
        (
            "def @main(%x: Tensor[(2, 4, 8), float32], %w: Tensor[(2, 6, 8), float32], "
            "%v: Tensor[(2, 5, 8), float32]) { %0 = nn.batch_matmul(%x, %w, "
            "transpose_b=True); %1 = nn.batch_matmul(%x, %v, transpose_b=True); "
            "(nn.relu(%0), nn.relu(%1)) }"
        ),
        (
            "def @main(%x: Tensor[(2, 4, 8), float32], %w: Tensor[(2, 6, 8), float32], "
            "%v: Tensor[(2, 5, 8), float32]) { %0 = (%w, %v); %1 = concatenate(%0, "
            "axis=1); %2 = nn.batch_matmul(%x, %1, transpose_b=True); %3 = nn.relu(%2); "
            "%4 = strided_slice(%3, begin=[0, 0, 0], end=[-1, -1, 6], strides=[1, 1, 1], "
            'axes=None, slice_mode="size"); %5 = strided_slice(%3, begin=[0, 0, 6], '
            'end=[-1, -1, 5], strides=[1, 1, 1], axes=None, slice_mode="size"); (%4, %5) '
            "}"
        ),
    ),
    "pc_dep": (
        [relay.transform.CombineParallelDense(min_num_branches=2, to_batch=False)],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { %0 = "
            "nn.dense(%x, %w, units=None); %1 = nn.dense(%0, %0, units=None); %2 = "
            "nn.dense(%x, %w, units=None); %3 = add(%2, %0); (%1, %3) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { %0 = "
            "(%w, %w); %1 = concatenate(%0); %2 = nn.dense(%x, %1, units=8); %3 = "
            "strided_slice(%2, begin=[0, 0], end=[-1, 4], strides=[1, 1], axes=None, "
            'slice_mode="size"); %4 = nn.dense(%3, %3, units=None); %5 = '
            "strided_slice(%2, begin=[0, 4], end=[-1, 4], strides=[1, 1], axes=None, "
            'slice_mode="size"); %6 = add(%5, %3); (%4, %6) }'
        ),
    ),
    "pc_dep2": (
        [relay.transform.CombineParallelDense(min_num_branches=2, to_batch=False)],
        (
            "def @main(%x: Tensor[(8, 8), float32], %w: Tensor[(8, 8), float32]) { %0 = "
            "nn.dense(%x, %w, units=None); %1 = nn.dense(%x, %0, units=None); (%0, %1) }"
        ),
        (
            "def @main(%x: Tensor[(8, 8), float32], %w: Tensor[(8, 8), float32]) { %0 = "
            "nn.dense(%x, %w, units=None); %1 = nn.dense(%x, %0, units=None); (%0, %1) }"
        ),
    ),
}


@pytest.mark.parametrize(("passes", "before", "after"), CASES.values(), ids=CASES)
def test_what_a_pass_makes_of_a_program(passes: Any, before: str, after: str) -> None:
    check(passes, before, after)


@pytest.mark.parametrize("to_batch", [False, True])
def test_the_values_stay(to_batch: bool) -> None:
    x, *params = (relay.var(n, shape=s) for n, s in SHAPES.items())
    first, second, bias = params
    branches = [relay.nn.relu(relay.nn.dense(x, w) + bias) for w in (first, second)]
    mod = relay.IRModule.from_expr(relay.Function([x, *params], relay.add(*branches)))
    made = optimized(mod, relay.transform.CombineParallelDense(2, to_batch))
    calls = [n for n in relay.post_order(made["main"]) if isinstance(n, relay.Call)]
    products = [c for c in calls if c.op.name in ("nn.dense", "nn.batch_matmul")]
    assert len(products) == 1
    rng = np.random.default_rng(0)
    inputs = {n: rng.standard_normal(s).astype("float32") for n, s in SHAPES.items()}
    np.testing.assert_allclose(run(made["main"], inputs), run(mod["main"], inputs), rtol=1e-5)


@pytest.mark.parametrize("shape", [(relay.Any(), 8), (4, relay.Any())])
def test_weights_of_unknown_length_stay_apart(shape: Any) -> None:
    x, w = relay.var("x", shape=(4, 8)), relay.var("w", shape=shape)
    both = relay.Tuple([relay.nn.dense(x, w), relay.nn.dense(x, w)])
    mod = relay.IRModule.from_expr(relay.Function([x, w], both))
    assert same(optimized(mod, relay.transform.CombineParallelDense(2)), mod)
