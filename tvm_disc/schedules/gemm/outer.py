"""Outer-product kernels: matmuls with at most ``MOST_STEPS`` steps of K.

With so few steps, setting up a register tile costs more than computing it. This kernel writes the
rows of the result from left to right, two at a time. Each vector of the result is the sum of
``steps`` rows of B times elements of A. B stays in the first-level cache and the elements of A stay
in registers. The angles of a rotary embedding are such a matmul, with K = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tvm import tirx

from tvm_disc.schedules.gemm.inner import InPlace, Way
from tvm_disc.schedules.gemm.micro_kernel import (
    call_kernel,
    splat,
    vload,
    vstore,
)
from tvm_disc.schedules.gemm.partition import least
from tvm_disc.tir.builder import KernelFunction, first_lanes, i64, masked_load
from tvm_disc.typing import Buffer, Expr, PrimFunc, Size

MOST_STEPS = 4  # with more steps, register tiles need fewer loads per multiply-add
ROWS = 2


def outer_kernel(dtype: str, lanes: int, steps: int) -> PrimFunc:
    """Return the function ``(a, b, c, lda, ldb, ldc, rows, columns)`` that computes ``rows``
    rows.
    """
    names = ("lda", "ldb", "ldc", "rows", "columns")
    kernel = KernelFunction(dict.fromkeys("abc", dtype), names)
    blk, (a, b, c) = kernel.block, kernel.buffers.values()
    lda, ldb, ldc, rows, columns = kernel.sizes.values()
    elems = [[blk.alloc(f"a_{r}_{t}", lanes, dtype) for t in range(steps)] for r in range(ROWS)]
    line = [blk.alloc(f"b_{t}", lanes, dtype) for t in range(steps)]
    whole = blk.bind("whole", tirx.truncdiv(columns, i64(lanes)))
    rest = blk.bind("rest", columns - whole * lanes)

    def vector(at: Expr, starts: list[Expr], mask: Expr | None) -> None:
        def load(buf: Buffer, where: Expr) -> Expr:
            return vload(buf, where, lanes) if mask is None else masked_load(buf, where, mask)

        for t, held in enumerate(line):
            vstore(blk, held, 0, lanes, load(b, ldb * t + at))
        for own, start in zip(elems, starts, strict=True):
            total = vload(own[0], 0, lanes) * vload(line[0], 0, lanes)
            for x, y in zip(own[1:], line[1:], strict=True):
                total = vload(x, 0, lanes) * vload(y, 0, lanes) + total
            if mask is None:
                vstore(blk, c, start + at, lanes, total)
            else:
                blk.masked_store(c, start + at, total, mask)

    with blk.loop("pair", tirx.truncdiv(rows + (ROWS - 1), i64(ROWS))) as pair:
        # If the number of rows is odd, the last row is computed twice.
        numbers = [blk.bind("row", least(pair * ROWS + r, rows - 1)) for r in range(ROWS)]
        for own, row in zip(elems, numbers, strict=True):
            for t, held in enumerate(own):
                vstore(blk, held, 0, lanes, splat(a[lda * row + t], lanes))
        starts = [blk.bind("start", ldc * row) for row in numbers]
        with blk.loop("jv", whole) as jv:
            vector(jv * lanes, starts, None)
        with blk.when(rest > 0):
            vector(whole * lanes, starts, first_lanes(rest, lanes))
    return kernel.finish()


def step_counts(k: Size) -> tuple[int, ...]:
    """Return the possible numbers of steps of a matmul of depth ``k``."""
    return tuple(s for s in range(1, MOST_STEPS + 1) if not isinstance(k, int) or k == s)


@dataclass
class OuterProducts(Way):
    """Computes a task as outer products."""

    def emit(self, g: Size, i_range: tuple[Size, Size], j_range: tuple[Size, Size]) -> None:
        """Emit the products of a range of rows and one of columns; a range is (first, count)."""
        b, dtype, lanes = self.b, self.spec.dtype, self.tile.lanes
        views = InPlace(self.spec, b, self.bind, g)
        (row0, rows), (column0, wanted) = i_range, j_range
        columns = least(wanted, self.plan.n - column0)
        sizes = (views.a.stride, views.b.k_stride, views.out.stride, rows, columns)
        for steps in step_counts(self.plan.k):
            make = partial(outer_kernel, dtype, lanes, steps)
            run = self.kernels.add(("outer", dtype, lanes, steps), "gemm_outer", make)
            with b.when(i64(self.plan.k) == steps):
                call_kernel(b, run, views.at(row0, column0), sizes)


__all__ = ["OuterProducts", "outer_kernel", "step_counts"]
