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
from tvm_disc.schedules.gemm.inner import few_rows, transposing_cost
from tvm_disc.schedules.gemm.narrow import few_columns, narrow_cost
from tvm_disc.schedules.gemm.outer import ROWS, few_steps
from tvm_disc.schedules.gemm.partition import (
    GemmSpec,
    copies_a,
    inner_cost,
    is_one,
    known,
    last_columns,
    lies_dense,
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
    last = i64(last_columns(spec, tile))
    rest = np.asarray(evaluate(last, points), np.float64)
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
    time = time * _instead(sizes[1:], last, spec, tile, points) + m * n * model.store_ns
    few = few_steps(spec, tile, known(sizes[3]))
    if few is not None:
        time = _outer_ns(few, (m, n, k), tile, time, (points, model))
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
    few: Expr, sizes: Sequence[Values], tile: GemmTile, tiles: Values, at: tuple[Points, CostModel]
) -> Values:
    """Where few steps of K are outer products, what those take; else what ``tiles`` take."""
    (m, n, k), (points, model) = sizes, at
    vector = np.maximum(k / model.fma_per_cycle, (k / ROWS + 1) / model.load_per_cycle)
    cycles = m * (model.micro_call_cycles / ROWS + np.ceil(n / tile.lanes) * vector)
    outer = cycles * model.cycle_ns + m * n * model.store_ns
    return np.where(evaluate(few, points), outer, tiles)


def _packs(spec: GemmSpec, tile: GemmTile, m: Values) -> Values | float:
    """Whether B is brought into panels when the product runs."""
    if spec.b_affine is None or not is_one(spec.b_affine.stride):
        return 1.0
    return 0.0 if lies_dense(spec, tile) else np.asarray(m > tile.pack_rows, np.float64)


def _instead(
    sizes: Sequence[Expr], rest: Expr, spec: GemmSpec, tile: GemmTile, points: Points
) -> Values | float:
    """What few rows or columns take, where tiles are not used for them, over what tiles would.

    Of the columns ``rest`` are no part of tiles. The conditions are the very expressions that
    kernels ask, evaluated at the points: nothing here repeats them.
    """
    m, n, k = sizes
    parts = (n - rest, rest)
    rows = few_rows(spec, tile, (m, n, k), parts)
    cases = [] if rows is None else [(rows, transposing_cost((m, n, k), parts, tile.lanes))]
    for width, when in few_columns(spec, tile, (m, n, k)):
        cases.append((when, narrow_cost((m, k), width, tile.lanes)))
    share: Values | float = 1.0
    for when, costs in cases:
        here, tiles = (evaluate(x, points) for x in costs)
        ratio = np.minimum(here / np.maximum(tiles, 1), 1)
        share = np.where(evaluate(when, points), ratio, share)
    return share


def vendor_ns(sizes: Sequence[Expr], points: Points, model: CostModel) -> Values:
    """Nanoseconds of one library call for each item of the batch."""
    batch, m, n, k = (np.asarray(evaluate(x, points), np.float64) for x in sizes)
    elems = (m * k + k * n + m * n) * model.vendor_elem_ns
    each = model.vendor_call_ns + elems + m * n * k * model.vendor_fma_ns
    return np.asarray(batch * each)
