"""Zones: output rows whose windows reach into the padding get separate panels.

A panel skips the first and last rows of taps if they are outside the input for all of its pixels.
In an image of a few rows, however, most panels contain a pixel row that needs all rows of taps. If
it is faster, columns are therefore divided into three zones: the pixel rows at the upper edge of
all images of an item, the middle rows, and the rows at the lower edge. A panel is in one zone. For
example, a window of three rows on images of two rows then takes two thirds of the multiplications.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tvm import tirx

from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.conv.contraction import geometry
from tvm_disc.schedules.conv.fill import Source
from tvm_disc.schedules.gemm.partition import cdiv, div, known, least, most
from tvm_disc.schedules.gemm.tile import GemmTile
from tvm_disc.tir.builder import Block, i64
from tvm_disc.tir.index import product
from tvm_disc.typing import Expr, Size

Bind: TypeAlias = Callable[[str, Size], Size]

# Largest number of rows for zones. With more rows, additional panels cost more than zones save.
_FEW_ROWS = 16
_MORE_PANELS = 2  # largest number of panels that zones add
_TAIL_COST, _VECTOR_COST = 1, 4  # relative cost of a tail panel, and of a vector of columns
_GAIN = (31, 32)  # zones are used if they reduce the cost below this fraction


def lead_taps(node: Node) -> int:
    """Return the number of outer rows of taps, or 1 if panels never skip rows of taps."""
    weight, rows = node.inputs[1], static_dim(node.shape[2])
    rank = len(node.shape) - 2
    geo, taps = geometry(node, rank), static_dim(weight.shape[2])
    padded = geo.padding[0] > 0 or geo.padding[rank] > 0
    if rank < 2 or taps is None or not padded or (rows is not None and rows > _FEW_ROWS):
        return 1
    return taps


def more_panels(lead: int, rows: Size) -> Size:
    """Return the number of panels that zones may add to a result of ``rows`` rows."""
    rows = known(rows)
    if lead == 1:
        return 0
    if isinstance(rows, int):
        return _MORE_PANELS if rows <= _FEW_ROWS else 0
    return tirx.Select(i64(rows) <= _FEW_ROWS, i64(_MORE_PANELS), i64(0))


def tails(tail: int, rest: Size, lead: int, rows: Expr) -> Size:
    """Return the number of panels that may be tails.

    ``rest`` is the number of columns of the last panel without zones.
    """
    one: Size = 1
    if not isinstance(rest, int):
        one = tirx.Select(tirx.And(rest > 0, rest <= tail), i64(1), i64(0))
    zones = more_panels(lead, rows)
    if isinstance(zones, int):
        return 1 + zones if zones else one
    return tirx.Select(zones > 0, zones + 1, i64(one))


class Zones:
    """The three zones of an item's columns: their rows, columns, panels and rows of taps.

    ``begins``, ``ends`` (pixel rows), ``columns``, ``panels``, ``first_tap`` and ``taps`` have one
    value for each zone. A zone may be empty. If zones are not faster, the middle zone has all rows.
    """

    def __init__(self, source: Source, images: Size, tile: GemmTile, tail: int, bind: Bind) -> None:
        self.source, self.tile, self.tail, self.bind = source, tile, tail, bind
        self.lead, self.images = source.lead, images
        self.rows, self.extent = bind("rows", source.pixels[0]), bind("extent", source.extents[0])
        self.slab = bind("slab", product(source.pixels[1:]))
        stride, before = source.window.strides[0], source.window.padding[0]
        above = bind("above", least(-(-before // stride), self.rows))
        reach = (self.lead - 1) * source.window.dilation[0] - before
        whole = bind("whole", cdiv(most(i64(self.extent) - reach, 0), stride))
        below = bind("below", most(above, least(whole, self.rows)))
        apart = bind("apart", self._apart(above, below))
        begin = bind("middle", above * apart)
        end = bind("lower", self.rows + (below - self.rows) * apart)
        self.begins, self.ends = [i64(0), begin, end], [begin, end, self.rows]
        spans = list(zip(self.begins, self.ends, strict=True))
        self.columns = [bind("zone_columns", self._columns(*s)) for s in spans]
        self.panels = [bind("zone_panels", cdiv(c, tile.n_r)) for c in self.columns]
        taps = [self._taps(*s) for s in spans]
        self.first_tap = [first for first, _ in taps]
        self.taps = [count for _, count in taps]

    def _columns(self, begin: Size, end: Size) -> Size:
        return (end - begin) * self.slab * self.images

    def _taps(self, begin: Size, end: Size) -> tuple[Size, Size]:
        """Return (first, count) of the rows of taps that pixel rows ``[begin, end)`` need."""
        stride, step = self.source.window.strides[0], self.source.window.dilation[0]
        before = self.source.window.padding[0]
        first = cdiv(most(before - (end - 1) * stride, 0), step)
        upto = div(most(i64(self.extent) - 1 + before - begin * stride + step, 0), step)
        first = self.bind("first_tap", least(first, self.lead))
        count = most(least(upto, self.lead) - first, 0)
        return first, self.bind("taps", count)

    def _apart(self, above: Size, below: Size) -> Expr:
        """Return 1 if separate panels for the zones are cheaper than common panels, otherwise 0."""
        rows = self.rows
        together = self._cost(0, rows)
        zones = ((i64(0), above), (above, below), (below, rows))
        parts = [self._cost(begin, end) for begin, end in zones]
        less = (parts[0] + parts[1] + parts[2]) * _GAIN[1] < together * _GAIN[0]
        return tirx.Select(tirx.And(i64(rows) <= _FEW_ROWS, less), i64(1), i64(0))

    def _cost(self, begin: Size, end: Size) -> Size:
        """Return the cost of a zone.

        A vector of columns times a row of taps costs ``_VECTOR_COST``.
        """
        columns = self.bind("columns", self._columns(begin, end))
        lanes, n_r = self.tile.lanes, self.tile.n_r
        cost: Size = cdiv(columns, lanes) * _VECTOR_COST
        if self.tail:
            rest = columns - div(columns, n_r) * n_r
            narrow = tirx.And(rest > 0, rest <= self.tail)
            cost = cost - tirx.Select(narrow, i64(_VECTOR_COST - _TAIL_COST), i64(0))
        return self.bind("cost", cost * self._taps(begin, end)[1])


class Places:
    """The first column, and the rows of taps, of each panel of a task.

    ``sizes`` is (images of an item, columns of an item, panels of an item). A ``slot`` is the
    number of a panel in the task. ``of_all`` holds values that are equal for all panels; they are
    stored in memory to make them opaque to LLVM.
    """

    def __init__(
        self,
        block: Block,
        bind: Bind,
        source: Source,
        tile: GemmTile,
        tail: int,
        sizes: tuple[Size, Size, Size],
        of_all: dict[str, int],
    ) -> None:
        self.b, self.bind, self.source, self.tile, self.tail = block, bind, source, tile, tail
        self.shared, self.all_columns, self.panels = sizes
        self.zones: Zones | None = None
        if source.lead > 1:
            self.zones = Zones(source, self.shared, tile, tail, bind)
            self.panels = bind("all_panels", sum(self.zones.panels[1:], self.zones.panels[0]))
        self.pixels = product(source.pixels)
        self.wide: Size = 1
        self._cells = {n: block.alloc(f"{n}_of", tile.n_panels + _MORE_PANELS, "int64")
                       for n in ("image", "pixel", "columns", "zone", "rank", *of_all)}  # fmt: skip
        self._of_all = of_all

    def locate(self, first: Size, count: Size, image: Size) -> None:
        """Store the positions of ``count`` panels from ``first`` in slots 0, 1, ...

        ``image`` is the first image of the item.
        """
        b, wide = self.b, self.b.alloc("wide_at", 1, "int64")
        b.store(wide, 0, i64(0))
        with b.loop("q", count) as slot:
            start, zone = self._start(first + slot)
            total = self._of(zone, self.zones.columns) if self.zones else self.all_columns
            columns = self.bind("columns", least(self.tile.n_r, total - start))
            self._store("columns", slot, columns)
            self._store("rank", slot, wide[i64(0)])
            for name, value in self._of_all.items():
                self._store(name, slot, i64(value))
            self._place(slot, start, zone, image)
            narrow = tirx.Select(columns <= self.tail, i64(0), i64(1))
            b.store(wide, 0, wide[i64(0)] + narrow)
        self.wide = self.bind("wide_panels", tirx.max(wide[i64(0)], i64(1)))

    def _start(self, panel: Expr) -> tuple[Size, Size]:
        """Return (first column of a panel in its zone, number of the zone)."""
        if self.zones is None:
            return self.bind("start", panel * self.tile.n_r), i64(0)
        upper, middle, _ = self.zones.panels
        second = self.bind("second", upper + middle)
        after = [tirx.Select(panel >= i64(p), i64(1), i64(0)) for p in (upper, second)]
        zone = self.bind("zone", after[0] + after[1])
        before = self._of(zone, [i64(0), upper, second])
        return self.bind("start", (panel - before) * self.tile.n_r), zone

    def _place(self, slot: Expr, start: Size, zone: Size, image: Size) -> None:
        """Store zone, image and first pixel of a panel in ``slot``.

        A division is computed only if an item contains several images.
        """
        b = self.b
        begin, end = self._bounds(zone)
        self._store("zone", slot, zone)
        if isinstance(self.shared, int) and self.shared == 1:
            self._store("image", slot, image)
            self._store("pixel", slot, begin + start)
            return
        with b.when(i64(self.shared) > 1):
            size = self.bind("zone_pixels", most(end - begin, 1))
            skipped = self.bind("skipped", div(start, size))
            self._store("image", slot, skipped)
            self._store("pixel", slot, begin + start - skipped * size)
        with b.otherwise():
            self._store("image", slot, image)
            self._store("pixel", slot, begin + start)

    def image(self, slot: Expr) -> Expr:
        """Return the first image of a panel."""
        return self._load("image", slot)

    def pixel(self, slot: Expr) -> Expr:
        """Return the first pixel of a panel in its image."""
        return self._load("pixel", slot)

    def columns(self, slot: Expr) -> Expr:
        """Return the number of columns of a panel."""
        return self._load("columns", slot)

    def of_all(self, name: str, slot: Expr) -> Expr:
        """Return value ``name``, which is equal for all panels, from memory."""
        return self._load(name, slot)

    def rank(self, slot: Expr) -> Expr:
        """Return the number of earlier panels that are not tails."""
        return self._load("rank", slot)

    def bounds(self, slot: Expr) -> tuple[Size, Size]:
        """Return the range of pixels of an image that belongs to a panel's zone."""
        return self._bounds(self._load("zone", slot))

    def lines(self, slot: Expr) -> tuple[Expr, Expr]:
        """Return the range of pixel rows of an image that belongs to a panel's zone."""
        if self.zones is None:
            return i64(0), i64(product(self.source.pixels[:-1]))
        per, zone = product(self.source.pixels[1:-1]), self._load("zone", slot)
        begin, end = (self._of(zone, e) * per for e in (self.zones.begins, self.zones.ends))
        return begin, end

    def taps(self, slot: Expr) -> tuple[Size, Size]:
        """Return (first, count) of the rows of taps that a panel needs."""
        if self.zones is None:
            return i64(0), i64(self.source.lead)
        zone = self._load("zone", slot)
        return self._of(zone, self.zones.first_tap), self._of(zone, self.zones.taps)

    def _bounds(self, zone: Size) -> tuple[Size, Size]:
        if self.zones is None:
            return i64(0), i64(self.pixels)
        begin, end = (self._of(zone, e) for e in (self.zones.begins, self.zones.ends))
        slab = self.zones.slab
        return self.bind("zone_begin", begin * slab), self.bind("zone_end", end * slab)

    def _of(self, zone: Size, values: Sequence[Size]) -> Size:
        first, second, third = (i64(v) for v in values)
        rest = tirx.Select(zone == 1, second, third)
        return self.bind("of_zone", tirx.Select(zone == 0, first, rest))

    def _store(self, name: str, slot: Expr, value: Size) -> None:
        self.b.store(self._cells[name], slot, i64(value))

    def _load(self, name: str, slot: Expr) -> Expr:
        return self.b.bind(name, self._cells[name][slot])
