"""Analytical model of attention: its two matmuls, the softmax and the copies."""

from __future__ import annotations

import numpy as np

from tvm_disc.schedules.attention.sizes import AttentionSpec, AttentionTile
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.sampling import Points, Values, evaluate
from tvm_disc.schedules.gemm.cost import micro_ns
from tvm_disc.tir.builder import i64


def attention_ns(
    spec: AttentionSpec, tile: AttentionTile, points: Points, model: CostModel
) -> Values:
    """Return the nanoseconds of one serial run at each point."""
    sizes = (spec.batch, spec.m, spec.n, spec.depth, spec.width)
    batch, m, n, depth, width = (np.asarray(evaluate(i64(x), points), np.float64) for x in sizes)
    blocks = np.maximum(np.ceil(m / tile.queries), 1)
    rows = m / blocks
    products = micro_ns((rows, n, depth), tile.scores, model)
    products = products + micro_ns((rows, width, n), tile.values, model)
    copied = n * (depth + width) + m * depth
    each = products + rows * n * model.exp_ns + rows * model.row_ns + model.task_ns
    return np.asarray(batch * (blocks * each + copied * model.pack_ns))
