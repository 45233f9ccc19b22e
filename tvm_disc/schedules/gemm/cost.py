"""What the analytical model says of matrix products: our own, and those of a library.

    time = micro-kernel steps x cycles of a step + calls + packing + memory the tiles stream

after DietCode (Zheng et al. 2022): the cost of a micro-kernel times how many of them the sizes,
rounded up to tiles, need. How tasks fill the threads is the common part's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import tvm

from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.sampling import Points, Values, evaluate
from tvm_disc.schedules.gemm.inner import most_inner_rows
from tvm_disc.schedules.gemm.narrow import narrow_cost, widths
from tvm_disc.schedules.gemm.outer import MOST_STEPS, ROWS, may_be_outer
from tvm_disc.schedules.gemm.partition import (
    GemmSpec,
    copies_a,
    inner_cost,
    is_one,
    known,
    last_columns,
    possible,
)
from tvm_disc.schedules.gemm.tile import GemmTile
from tvm_disc.tir.builder import i64

Expr: TypeAlias = Any


def micro_ns(sizes: Sequence[Values], tile: GemmTile, model: CostModel) -> Values:
    """Nanoseconds in the register tiles of a product of m x n x k."""
    m, n, k = sizes
    blocks = np.maximum(np.ceil(m / tile.m_r), 1)
    panels = np.maximum(np.ceil(n / tile.n_r), 1)
    rows, columns = m / blocks, np.ceil(n / tile.lanes) / panels  # of a mean micro-kernel
    step = _step_cycles(rows, columns, model)
    calls = blocks * panels * np.maximum(np.ceil(k / (tile.kc or np.inf)), 1)
    cycles = blocks * panels * k * step + calls * model.micro_call_cycles
    return np.asarray(cycles * model.cycle_ns)


def gemm_ns(
    spec: GemmSpec,
    tile: GemmTile,
    sizes: Sequence[Expr],
    factor: float,
    points: Points,
    model: CostModel,
) -> Values:
    """Nanoseconds of one serial run at each point."""
    batch, m, n, k = (np.asarray(evaluate(i64(x), points), np.float64) for x in sizes)
    rest = np.asarray(evaluate(i64(last_columns(spec, tile)), points), np.float64)
    wide = n - rest  # columns of the tiles
    blocks = np.maximum(np.ceil(m / tile.m_r), 1)
    panels = np.maximum(np.ceil(wide / tile.n_r), 1)
    time = micro_ns((m, wide, k), tile, model)
    groups_m = np.ceil(blocks / tile.m_blocks)
    groups_n = np.ceil(panels / tile.n_panels)
    if spec.b_packed is None:
        packing = _packs(spec, tile, m) * k * model.pack_ns
        time = time + packing * wide
        inner, vector = inner_cost((m, rest, k), tile.lanes, 1)
        there = micro_ns((m, np.float64(tile.lanes), k), tile, model) + packing * tile.lanes
        time = time + there * inner / np.maximum(vector, 1)
    time = time * _instead((m, n, k), rest, spec, tile) + m * n * model.store_ns
    time = _outer_ns((m, n, k), spec, tile, time, model)
    if copies_a(spec):
        time = time + groups_n * m * k * model.pack_ns
    itemsize = int(tvm.DataType(spec.dtype).bits) // 8
    streamed = (groups_m * n * k + groups_n * m * k) * itemsize
    far = np.maximum(streamed - model.near_bytes, 0)
    time = time + far * model.far_byte_ns + model.task_ns * groups_m * groups_n
    return np.asarray(batch * time * factor)


def _step_cycles(rows: Values, vectors: Values | int, model: CostModel) -> Values:
    """Cycles of a step of K of a register tile."""
    fma, loads = rows * vectors / model.fma_per_cycle, (rows + vectors) / model.load_per_cycle
    return np.asarray(np.maximum(np.maximum(fma, loads), model.fma_latency / 4))


def _outer_ns(
    sizes: Sequence[Values], spec: GemmSpec, tile: GemmTile, tiles: Values, model: CostModel
) -> Values:
    """Where few steps of K are outer products, what those take; else what ``tiles`` take."""
    m, n, k = sizes
    if not may_be_outer(spec, tile):
        return tiles
    vector = np.maximum(k / model.fma_per_cycle, (k / ROWS + 1) / model.load_per_cycle)
    cycles = m * (model.micro_call_cycles / ROWS + np.ceil(n / tile.lanes) * vector)
    few = (k >= 1) & (k <= MOST_STEPS)
    return np.where(few, cycles * model.cycle_ns + m * n * model.store_ns, tiles)


def _packs(spec: GemmSpec, tile: GemmTile, m: Values) -> Values | float:
    """Whether B is brought into panels when the product runs."""
    if spec.b_affine is None or not is_one(spec.b_affine.stride):
        return 1.0
    step = known(spec.b_affine.k_stride)
    dense = isinstance(step, int) and 0 < step <= 2 * tile.n_r
    return 0.0 if dense else np.asarray(m > tile.pack_rows, np.float64)


def _instead(
    sizes: Sequence[Values], rest: Values, spec: GemmSpec, tile: GemmTile
) -> Values | float:
    """What few rows or columns take, where tiles are not used for them, over what tiles would.

    Of the columns ``rest`` are no part of tiles.
    """
    view, lanes = spec.b_affine, tile.lanes
    if view is None or not possible(spec, tile):
        return 1.0
    m, n, k = sizes
    share = np.ones(np.broadcast_shapes(m.shape, n.shape, k.shape))
    if not is_one(view.stride):
        inner, tiles = inner_cost(sizes, lanes, np.ceil((n - rest) / lanes))
        tiles = tiles + inner_cost((m, rest, k), lanes, 1)[0]
        usable = (m <= most_inner_rows(tile)) & (n * np.minimum(m, 4) >= lanes)
        return np.where(usable, np.minimum(inner / np.maximum(tiles, 1), 1), share)
    below = 0
    for width in widths(lanes):
        narrow, tiles = narrow_cost((m, k), width, lanes)
        chosen = (n > below) & (n <= width)
        share = np.where(chosen, np.minimum(narrow / np.maximum(tiles, 1), 1), share)
        below = width
    return share


def vendor_ns(sizes: Sequence[Expr], points: Points, model: CostModel) -> Values:
    """Nanoseconds of one library call for each item of the batch."""
    batch, m, n, k = (np.asarray(evaluate(x, points), np.float64) for x in sizes)
    elems = (m * k + k * n + m * n) * model.vendor_elem_ns
    each = model.vendor_call_ns + elems + m * n * k * model.vendor_fma_ns
    return np.asarray(batch * each)
