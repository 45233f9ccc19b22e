"""Attention over ragged batches: tasks over packed rows, and the sizes of one item.

A task is one head and a block of consecutive packed rows, which may belong to several items. For
any lengths of the items, all tasks have nearly the same number of queries:

    for each item of the block:
        the attention of its rows in the block, with the keys of this item
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.attention import Attention
from tvm_disc.graph.axes import cofactor
from tvm_disc.graph.nodes import Node
from tvm_disc.relay.kernel_ops import PACK, UNPACK
from tvm_disc.schedules.attention.sizes import AttentionSizes
from tvm_disc.schedules.gemm.partition import cdiv, least, most
from tvm_disc.schedules.kernel import Body, Group
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import product
from tvm_disc.typing import Buffer, Size

Bind = Callable[[str, Size], Size]


@dataclass(frozen=True)
class RaggedAttention:
    """The ragged sides of an attention: its queries, its keys and values, or both.

    Attributes:
        queries, keys: the offsets of the items on this side, or None if all items have the same
            length.
        rows: the number of packed queries.
        heads: the number of heads of an item.
    """

    queries: Node | None
    keys: Node | None
    rows: Size
    heads: Size

    def text(self) -> str:
        """Return the text that ``explain`` shows for the ragged sides."""
        sides = [n for n in ("queries", "keys") if getattr(self, n) is not None]
        return f"{' and '.join(sides)}; no padding is computed"

    @property
    def offsets(self) -> list[Node]:
        """Return the distinct offsets of the ragged sides."""
        return list(dict.fromkeys(x for x in (self.queries, self.keys) if x is not None))


def ragged_attention(
    group: Group, found: Attention, solver: Solver
) -> RaggedAttention | WhyNot | None:
    """Return the ragged sides of an attention; None if all items have the same length.

    Returns a WhyNot if the template does not support them.
    """
    lead, m, n = found.scores.shape[:-2], found.scores.shape[-2], found.scores.shape[-1]
    sides: dict[str, Node] = {}
    items, rows = None, None
    for node in group.nodes:
        if node.op not in (UNPACK, PACK):
            continue
        padded = node if node.op == UNPACK else node.inputs[0]
        items = padded.shape[0]
        rows = node.shape[0] if node.op == PACK else rows
        for side, size in (("queries", m), ("keys", n)):
            if solver.known_eq(padded.shape[1], size):
                sides[side] = node.inputs[1]
    if items is None:
        return None
    outermost = bool(lead) and cofactor(lead[0], (items,), solver) is not None
    heads = cofactor(product(lead), (items,), solver) if outermost else None
    if heads is None:
        return WhyNot(
            "attention", "the outermost axis of the matrices must be the items of the ragged batch"
        )
    if "queries" in sides and rows is None:
        return WhyNot("attention", "its result must be ragged, because its queries are")
    queries, keys = sides.get("queries"), sides.get("keys")
    return RaggedAttention(queries, keys, m if rows is None else rows, heads)


class RaggedTasks:
    """Emits the loops over the items of a task, and computes the sizes of each item."""

    def __init__(self, ragged: RaggedAttention, body: Body, sizes: AttentionSizes, bind: Bind):
        self.ragged, self.body, self.sizes, self.bind = ragged, body, sizes, bind
        self.low, self.b = body.low, body.block

    @contextmanager
    def segments(self, first: Size, rows: Size) -> Iterator[tuple[Size, Size, Size]]:
        """Emit a loop over the items with packed rows in ``[first, first + rows)``.

        The context is the loop's body; it yields (item, first query in the item, query count).
        """
        low, b, offsets = self.low, self.b, self._offsets(self.ragged.queries)
        row, item = b.alloc("row", 1, "int64"), b.alloc("item", 1, "int64")
        end = self.bind("end", first + rows)
        b.store(row, 0, first)
        self._search(item, offsets, first)
        with b.loop_while(row[i64(0)] < end), low.scope():
            g, here = self.bind("g", item[i64(0)] + 0), self.bind("here", row[i64(0)] + 0)
            begin, stop = self.bind("begin", offsets[g]), self.bind("stop", offsets[g + 1])
            upto = self.bind("upto", least(stop, end))
            with b.when(upto > here), low.scope():
                with self.item(g):
                    yield g, self.bind("i0", here - begin), self.bind("rows", upto - here)
                b.store(row, 0, upto)
            b.store(item, 0, g + 1)

    def _search(self, item: Buffer, offsets: Buffer, row: Size) -> None:
        """Emit a bisection for the last item that begins at or before ``row``."""
        b = self.b
        assert self.ragged.queries is not None
        count = i64(self.ragged.queries.shape[0]) - 1
        above = b.alloc("above", 1, "int64")
        b.store(item, 0, i64(0))
        b.store(above, 0, count)
        with b.loop_while(item[i64(0)] + 1 < above[i64(0)]):
            middle = self.bind("middle", tirx.shift_right(item[i64(0)] + above[i64(0)], i64(1)))
            with b.when(offsets[middle] <= row):
                b.store(item, 0, middle)
            with b.otherwise():
                b.store(above, 0, middle)

    @contextmanager
    def item(self, g: Size) -> Iterator[None]:
        """Return a context in which sizes and reads are those of item ``g``."""
        z, r = self.sizes, self.ragged
        kept = z.m, z.n, z.k_panels, z.k_blocks
        for offsets in r.offsets:
            first = self.bind("first", self._offsets(offsets)[i64(g)])
            size = self.bind("size", self._offsets(offsets)[i64(g) + 1] - first)
            self.low.bind_item(offsets, i64(g), i64(first))
            if offsets is r.queries:
                z.m = size
            if offsets is r.keys:
                z.n = size
        z.k_panels = self.bind("k_panels", cdiv(z.n, z.k_columns))
        z.k_blocks = self.bind("k_blocks", most(cdiv(z.n, most(z.keys, 1)), 1))
        yield
        z.m, z.n, z.k_panels, z.k_blocks = kept

    def _offsets(self, node: Node | None) -> Buffer:
        assert node is not None
        return self.body.buffers[node]


__all__ = ["RaggedAttention", "RaggedTasks", "ragged_attention"]
