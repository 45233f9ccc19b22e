"""Analytical model of matmuls: our kernels and library calls.

    time = micro-kernel steps x cycles of a step + calls + packing + memory traffic of the tiles

after DietCode (Zheng et al. 2022): the cost of one micro-kernel times the number of micro-kernels
that the sizes need, rounded up to tiles. The common cost model distributes tasks over threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import tvm

from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.sampling import Points, Values, evaluate
from tvm_disc.schedules.gemm.algorithm import BY_ROWS, PANELS, Algorithm, Selection
from tvm_disc.schedules.gemm.outer import ROWS
from tvm_disc.schedules.gemm.partition import (
    WIDEST,
    GemmSpec,
    copies_a,
    has_close_rows,
    is_one,
    may_stride,
)
from tvm_disc.schedules.gemm.tile import GemmTile
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr


def micro_ns(sizes: Sequence[Values], tile: GemmTile, model: CostModel) -> Values:
    """Return the nanoseconds that the register tiles of an m x n x k matmul take.

    A packed B may have one panel more than is counted here, see :func:`.layouts.panel_count`. With
    the exact count, 26 of 4,644 choices change on a Zen 5, some from two threads to one. These 26
    then take 1.19 times as long in the geometric mean, each 0.82 to 1.88 times.
    """
    m, n, k = sizes
    blocks = np.maximum(np.ceil(m / tile.m_r), 1)
    panels = np.maximum(np.ceil(n / tile.n_r), 1)
    rows, columns = m / blocks, np.ceil(n / tile.lanes) / panels  # per call, on average
    step = _step_cycles(rows, columns, model)
    calls = blocks * panels * np.maximum(np.ceil(k / tile.kc), 1)
    cycles = blocks * panels * k * step + calls * model.micro_call_cycles
    return np.asarray(cycles * model.cycle_ns)


def inner_ns(sizes: Sequence[Values], lanes: int, model: CostModel) -> Values:
    """Return the nanoseconds of an m x n x k matmul as inner products of rows of both operands."""
    m, n, k = sizes
    each = np.ceil(k / lanes) * model.dot_step_cycles + model.dot_cycles
    return np.asarray(m * n * each * model.cycle_ns)


def transposing_ns(rows: Values, columns: Values, lanes: int, model: CostModel) -> Values:
    """Return the nanoseconds of transposing ``rows`` contiguous rows of ``columns`` elements."""
    vectors = np.ceil(rows / lanes) * columns
    return np.asarray(vectors * model.transpose_cycles * model.cycle_ns)


@dataclass(frozen=True)
class _Item:
    """The matmul of one batch item; ``m``, ``n`` and ``k`` are arrays over the sampled points."""

    spec: GemmSpec
    tile: GemmTile
    m: Values
    n: Values
    k: Values
    model: CostModel

    def ns(self, algorithm: Algorithm) -> Values:
        """Return the nanoseconds of an algorithm's multiplications.

        ``gemm_ns`` adds the copies of A, the stores, the overhead per task and the memory traffic.
        """
        special = {
            Algorithm.LAST_APART: self._last_apart,
            Algorithm.AT_ONCE: self._at_once,
            Algorithm.OUTER: self._outer,
            Algorithm.SHARED_VECTORS: self._shared_vectors,
            Algorithm.INNER: lambda: self._inner(self.n),
            Algorithm.LINES: self._lines,
        }
        if algorithm in special:
            return np.asarray(special[algorithm]())
        return self._tiles(self.n, algorithm is Algorithm.IN_PLACE)

    def _tiles(self, columns: Values, in_place: bool) -> Values:
        """Return the time of register tiles over ``columns``, and of packing or reading B."""
        time = micro_ns((self.m, columns, self.k), self.tile, self.model)
        if self.spec.b.packed is not None or (in_place and has_close_rows(self.spec, self.tile)):
            return time
        view, model = self.spec.b.affine, self.model
        if view is not None and is_one(view.k_stride) and not is_one(view.stride):
            return np.asarray(time + transposing_ns(columns, self.k, self.tile.lanes, model))
        each = self.m * model.unpacked_ns if in_place else model.pack_ns
        return np.asarray(time + each * columns * self.k)

    def _last_apart(self) -> Values:
        lanes = float(self.tile.lanes)
        rest = np.where(self.n > lanes, self.n % lanes, 0)
        return np.asarray(self._tiles(self.n - rest, False) + self._inner(rest))

    def _at_once(self) -> Values:
        """Return the time of the tiles of ``m_r`` rows plus that of the tiles of the rows left."""
        whole = np.floor(self.m / self.tile.m_r) * self.tile.m_r
        sizes = [(part, self.n, self.k) for part in (whole, self.m - whole)]
        parts = [micro_ns(x, self.tile, self.model) * (x[0] > 0) for x in sizes]
        each = 0.0 if has_close_rows(self.spec, self.tile) else self.model.unpacked_ns
        return np.asarray(parts[0] + parts[1] + each * self.m * self.n * self.k)

    def _outer(self) -> Values:
        model, k = self.model, self.k
        vector = np.maximum(k / model.fma_per_cycle, (k / ROWS + 1) / model.load_per_cycle)
        row = model.micro_call_cycles / ROWS + np.ceil(self.n / self.tile.lanes) * vector
        return np.asarray(self.m * row * model.cycle_ns)

    def _shared_vectors(self) -> Values:
        model, lanes = self.model, self.tile.lanes
        width = 2 ** np.ceil(np.log2(np.maximum(self.n, 1)))
        fold = np.maximum(lanes / width, 1)
        steps = np.ceil(self.k / fold)
        cycles = self.m * (steps * model.fold_step_cycles + model.fold_row_cycles)
        arranged = self.k * model.fold_cycles + steps * model.fold_group_cycles
        cycles = cycles + np.where(width > 1, arranged, 0)
        return np.asarray(cycles * model.cycle_ns)

    def _inner(self, columns: Values) -> Values:
        return inner_ns((self.m, columns, self.k), self.tile.lanes, self.model)

    def _lines(self) -> Values:
        model = self.model
        each = np.ceil(self.k / self.tile.lanes) * model.line_step_cycles + model.line_cycles
        return np.asarray(self.m * self.n * each * model.cycle_ns)


# nanoseconds of copying one element of A into rows along K, at each point
CopyCost: TypeAlias = Callable[[Points, CostModel], Values]


def gemm_ns(
    spec: GemmSpec,
    tile: GemmTile,
    sizes: Sequence[Expr],
    factor: str,
    points: Points,
    model: CostModel,
    selection: Selection = PANELS,
    copy_ns: CopyCost | None = None,
) -> Values:
    """Return the nanoseconds of one serial run of one algorithm at each sampled point.

    ``factor`` names a factor of the model on the time, see :meth:`CostModel.factor`. ``copy_ns`` is
    the cost of copying one element of A; None means the cost of packing.
    """
    batch, m, n, k = _values(sizes, points)
    algorithm = Algorithm(int(selection.number) % BY_ROWS)
    time = _Item(spec, tile, m, n, k, model).ns(algorithm)
    if may_stride(spec, tile):
        lost = model.fma_latency if tile.more_sums else k * model.stride_cycles
        time = time + (m == 1) * np.ceil(n / tile.lanes) * lost * model.cycle_ns
    if spec.rounded and spec.dot:
        time = time / model.byte_speed
    time = time + m * n * model.store_ns
    groups_m, groups_n = _groups(tile, m, n)
    if copies_a(spec):
        each = model.pack_ns if copy_ns is None else copy_ns(points, model)
        each = each + (model.round_ns if spec.rounded else 0.0)
        time = time + groups_n * m * k * each
    if algorithm is Algorithm.COPIED:
        copies, reads = _reads_of_a(tile, m, n)
        saved = np.where(k > tile.kc, reads * model.copied_ns, 0)
        time = time + m * k * (copies * model.pack_ns - saved)
    itemsize = int(tvm.DataType(spec.dtype).bits) // 8
    streamed = (groups_m * n * k + groups_n * m * k) * itemsize
    time = time + np.maximum(streamed - model.near_bytes, 0) * model.far_byte_ns
    if algorithm is Algorithm.AT_ONCE:
        return np.asarray(batch * time * model.factor(factor))
    time = time + model.task_ns * groups_m * groups_n
    return np.asarray(batch * time * model.factor(factor) + model.partition_ns)


def shared_lines_ns(
    spec: GemmSpec,
    tile: GemmTile,
    sizes: Sequence[Expr],
    selection: Selection,
    points: Points,
    model: CostModel,
) -> Values:
    """Return the overhead of threading, in nanoseconds.

    If columns are divided between threads, and rows of the result end inside a cache line, two
    threads write to that line (false sharing). With tasks by rows, each thread reads all of B.
    """
    _, m, n, k = _values(sizes, points)
    if selection.by_rows:
        return np.asarray(k * n * model.pack_ns)
    line = 512 // int(tvm.DataType(spec.acc_dtype).bits)
    shared = (n % line > 0) & (_groups(tile, m, n)[1] > 1)
    return np.where(shared, m * model.shared_line_ns, 0)


def _values(sizes: Sequence[Expr], points: Points) -> list[Values]:
    found = [np.asarray(evaluate(i64(x), points), np.float64) for x in sizes]
    return list(np.broadcast_arrays(*found))


def _groups(tile: GemmTile, m: Values, n: Values) -> tuple[Values, Values]:
    """Return (number of groups of row blocks, number of groups of panels)."""
    blocks = np.maximum(np.ceil(m / tile.m_r), 1)
    panels = np.maximum(np.ceil(n / tile.n_r), 1)
    return np.ceil(blocks / tile.m_blocks), np.ceil(panels / tile.n_panels)


def _reads_of_a(tile: GemmTile, m: Values, n: Values) -> tuple[Values, Values]:
    """Return (tasks that read each element of A, panels that each element is multiplied by).

    B is packed at compile time, so the panels per task grow with the rows, see ``GemmPartition``.
    """
    groups_m, panels = _groups(tile, m, n)[0], np.maximum(np.ceil(n / tile.n_r), 1)
    wider = np.clip(groups_m // 2, 1, WIDEST) * tile.n_panels
    width = np.maximum(np.minimum(wider, np.ceil(panels / 2)), tile.n_panels)
    return np.ceil(panels / width), panels


def _step_cycles(rows: Values, vectors: Values | int, model: CostModel) -> Values:
    """Return the cycles that a register tile takes for one step of K."""
    fma, loads = rows * vectors / model.fma_per_cycle, (rows + vectors) / model.load_per_cycle
    return np.asarray(np.maximum(np.maximum(fma, loads), model.fma_latency / 4))


def vendor_ns(sizes: Sequence[Expr], points: Points, model: CostModel) -> Values:
    """Return the nanoseconds of one library call per batch item."""
    batch, m, n, k = (np.asarray(evaluate(x, points), np.float64) for x in sizes)
    elems = (m * k + k * n + m * n) * model.vendor_elem_ns
    each = model.vendor_call_ns + elems + m * n * k * model.vendor_fma_ns
    return np.asarray(batch * each)
