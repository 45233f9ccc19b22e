"""Analytical model of matmuls: our kernels and library calls.

    time = micro-kernel steps x cycles of a step + calls + packing + memory traffic of the tiles

after DietCode (Zheng et al. 2022): the cost of one micro-kernel times the number of micro-kernels
that the sizes need, rounded up to tiles. The common cost model distributes tasks over threads.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    has_close_rows,
    inner_cost,
    is_one,
    known,
    last_columns,
)
from tvm_disc.schedules.gemm.tile import GemmTile
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr


def micro_ns(sizes: Sequence[Values], tile: GemmTile, model: CostModel) -> Values:
    """Return the nanoseconds that the register tiles of an m x n x k matmul take."""
    m, n, k = sizes
    blocks = np.maximum(np.ceil(m / tile.m_r), 1)
    panels = np.maximum(np.ceil(n / tile.n_r), 1)
    rows, columns = m / blocks, np.ceil(n / tile.lanes) / panels  # of the average micro-kernel
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
    """Return the nanoseconds of one serial run at each point."""
    batch, m, n, k = (np.asarray(evaluate(i64(x), points), np.float64) for x in sizes)
    last = i64(last_columns(spec, tile))
    rest = np.asarray(evaluate(last, points), np.float64)
    wide = n - rest  # columns computed by register tiles
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
    """Return the cycles that a register tile takes for one step of K."""
    fma, loads = rows * vectors / model.fma_per_cycle, (rows + vectors) / model.load_per_cycle
    return np.asarray(np.maximum(np.maximum(fma, loads), model.fma_latency / 4))


def _outer_ns(
    few: Expr, sizes: Sequence[Values], tile: GemmTile, tiles: Values, at: tuple[Points, CostModel]
) -> Values:
    """Return the time of outer products where ``few`` holds, and ``tiles`` elsewhere."""
    (m, n, k), (points, model) = sizes, at
    vector = np.maximum(k / model.fma_per_cycle, (k / ROWS + 1) / model.load_per_cycle)
    cycles = m * (model.micro_call_cycles / ROWS + np.ceil(n / tile.lanes) * vector)
    outer = cycles * model.cycle_ns + m * n * model.store_ns
    return np.where(evaluate(few, points), outer, tiles)


def _packs(spec: GemmSpec, tile: GemmTile, m: Values) -> Values | float:
    """Return 1 where B is packed into panels at run time, and 0 where it is read in place."""
    if spec.b_affine is None or not is_one(spec.b_affine.stride):
        return 1.0
    return 0.0 if has_close_rows(spec, tile) else np.asarray(m > tile.pack_rows, np.float64)


def _instead(
    sizes: Sequence[Expr], rest: Expr, spec: GemmSpec, tile: GemmTile, points: Points
) -> Values | float:
    """Return the ratio of the time of special kernels (few rows or columns) to that of tiles.

    The ratio is 1 where no special kernel is used. ``rest`` is the number of columns outside of the
    tiles. The conditions are the expressions that the kernels test, evaluated at the points, so the
    model cannot disagree with the kernels.
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
    """Return the nanoseconds of one library call per batch item."""
    batch, m, n, k = (np.asarray(evaluate(x, points), np.float64) for x in sizes)
    elems = (m * k + k * n + m * n) * model.vendor_elem_ns
    each = model.vendor_call_ns + elems + m * n * k * model.vendor_fma_ns
    return np.asarray(batch * each)
