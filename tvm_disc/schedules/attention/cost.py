"""Analytical model of attention: its two matmuls, the softmax and the copies."""

from __future__ import annotations

import numpy as np

from tvm_disc.schedules.attention.sizes import AttentionSpec, AttentionTile
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.sampling import Points, Values, evaluate
from tvm_disc.schedules.gemm.cost import inner_ns, micro_ns, transposing_ns
from tvm_disc.tir.builder import i64


def attention_ns(
    spec: AttentionSpec, tile: AttentionTile, in_place: bool, points: Points, model: CostModel
) -> Values:
    """Return the nanoseconds of one serial run at each point.

    Args:
        in_place: whether inner products read the keys in place.
    """
    sizes = (spec.batch, spec.m, spec.n, spec.depth, spec.width)
    batch, m, n, depth, width = (np.asarray(evaluate(i64(x), points), np.float64) for x in sizes)
    blocks = np.maximum(np.ceil(m / tile.queries), 1)
    rows = m / blocks
    if in_place:
        products, packed = inner_ns((rows, n, depth), tile.lanes, model), np.zeros_like(n)
    else:
        products = micro_ns((rows, n, depth), tile.scores, model)
        packed = transposing_ns(n, depth, tile.lanes, model)
    products = products + micro_ns((rows, width, n), tile.values, model)
    read = spec.values_in_place & (m <= tile.queries)
    copied = np.where(read, 0, n * width) + m * depth
    each = products + rows * n * model.exp_ns + rows * model.row_ns + model.task_ns
    return np.asarray(batch * (blocks * each + packed + copied * model.pack_ns))
