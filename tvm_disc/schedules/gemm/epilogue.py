"""Epilogue of a matmul or convolution: applies the fused consumers to sums and stores them."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.gemm.view import View
from tvm_disc.schedules.kernel import Body
from tvm_disc.schedules.loops.fallback import column_ranges, store_outputs, whole_vectors
from tvm_disc.schedules.rows.template import LANEWISE, LANEWISE_MOVES
from tvm_disc.tir.builder import Block, i64
from tvm_disc.typing import Expr, Size


class Epilogue:
    """Applies the fused consumers to one element of the anchor, or to a vector along j.

    The results are stored.
    """

    def __init__(self, view: View, body: Body) -> None:
        self.view, self.body, self.low = view, body, body.low
        self.group = view.group
        self.lanewise = all(
            n is view.node or n.cls in LANEWISE or n.op in LANEWISE_MOVES for n in view.group.nodes
        )

        # Operands with the anchor's shape, in its element order: outputs that are stored and
        # parameters that are read in the epilogue.
        shape = view.node.shape
        outs = zip(self.group.outputs, body.outputs, strict=True)
        self.writes = [buffer for n, buffer in outs if self._alike(n.shape, shape)]
        left = (p for p in self.group.params if p not in view.node.inputs)
        self.reads = [body.buffers[p] for p in left if self._alike(p.shape, shape)]

    def _alike(self, one: Sequence[Expr], other: Sequence[Expr]) -> bool:
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(self.low.solver.known_eq(a, b) for a, b in pairs)

    def scalar(self, block: Block, g: Size, i: Size, j: Size, value: Expr) -> None:
        self._store(block, i64(g), i64(i), i64(j), value)

    def vector(self, block: Block, g: Size, i: Size, j0: Size, lanes: int, value: Expr) -> bool:
        if not self.lanewise or not whole_vectors(self.group, lanes):
            return False
        j = self._columns(i64(j0), lanes)
        if j is None:
            return False
        self._store(block, i64(g), i64(i), j, value)
        return True

    def _columns(self, j0: Expr, lanes: int) -> Expr | None:
        """Return the column indices of a vector at ``j0``, or None if the vector store is not
        allowed.
        """
        if not self.view.starts_aligned(lanes):
            cut = any(column_ranges(self.group, node) for node in self.group.outputs)
            return None if cut else tirx.Ramp(j0, i64(1), lanes)
        # Panels start at multiples of ``lanes``. Declared aligned, the vector can be split into
        # (head, column) by its first index.
        return self.low.space.aligned(j0, lanes)

    def _store(self, block: Block, g: Expr, i: Expr, j: Expr, value: Expr) -> None:
        low, anchor = self.low, self.view.node
        with low.inside(block):
            total = block.bind("total", cast(value, anchor.dtype))
            index = self.view.index(low, g, i, j)
            store_outputs(self.group, self.body, anchor, total, index, self.view.flat(g, i, j))
