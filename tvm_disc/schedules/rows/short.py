"""Short rows: a row is one vector of one or several registers, whose last lanes are masked.

If a row is a single block, a loop over blocks costs more than the computation. Rows of at most
:data:`WIDTHS` registers need no loop: each stage is one masked step. The body is selected by the
row length, once for all rows.
"""

from __future__ import annotations

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.loops.reducers import ARG_REDUCTIONS
from tvm_disc.schedules.rows.accumulate import Accumulator, make_accumulator
from tvm_disc.schedules.rows.loops import Along, RowWork
from tvm_disc.schedules.rows.stages import bytes_of
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import first_lanes, i64, ramp
from tvm_disc.tir.index import product
from tvm_disc.typing import Expr

WIDTHS = (1, 2, 4)  # numbers of registers of a row for which there is a body


def short_widths(work: RowWork, solver: Solver) -> list[int]:
    """Return the longest row, in elements, of each body for short rows; [] if no row can be short.

    Groups with argmax or argmin have no such bodies, and neither have groups with elements of more
    than 4 bytes: their vectors take many registers, which increases LLVM's compile time.
    """
    nodes = work.group.nodes
    if any(n.op in ARG_REDUCTIONS for n in nodes) or any(
        bytes_of(x.dtype) > 4 for n in nodes for x in (n, *n.inputs)
    ):
        return []
    length = product(work.domain.inner)
    found: list[int] = []
    whole = whole_registers(work, solver)
    for width in (k * work.lanes for k in WIDTHS):
        if solver.known_le(width + 1, length) or (
            whole and solver.known_eq(width, length) is False
        ):
            continue
        found.append(width)
        if solver.known_le(length, width):
            break
    return found


def whole_registers(work: RowWork, solver: Solver) -> bool:
    """Return whether row lengths are known to be multiples of a register, so need no masks."""
    return bool(solver.known_divides(work.lanes, product(work.domain.inner)))


class AtOnce(Along):
    """Emits a row of at most ``reach`` elements as one vector; exactly ``reach`` if ``whole``."""

    reach, whole = 0, False

    def accumulate(self, stage: int, row: Expr, ahead: Expr) -> list[tuple[Node, Accumulator]]:
        nodes, stores = self.work.reductions(stage), self.work.stores(stage)
        if not nodes and not stores:
            return []
        whole = self.whole or self.low.solver.known_eq(self.length_of_row, self.reach)
        mask = None if whole else first_lanes(self.length, self.reach)
        wide = [make_accumulator(self.block, n, self.reach) for n in nodes]
        with self.low.masked(mask):
            self.step(nodes, wide, stores, ramp(i64(0), self.reach))
        if self.reach == self.width:
            return list(zip(nodes, wide, strict=True))
        accs = [make_accumulator(self.block, n, self.width) for n in nodes]
        for acc, part in zip(accs, wide, strict=True):
            acc.absorb(part)
        return list(zip(nodes, accs, strict=True))


__all__ = ["WIDTHS", "AtOnce", "short_widths", "whole_registers"]
