"""The operands of one GEMM body: read in place, or copied to the scratch of its task range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_disc.schedules.gemm.algorithm import Algorithm
from tvm_disc.schedules.gemm.integer import Bytes, NumbersOfA, chunk_of, round_row
from tvm_disc.schedules.gemm.micro_kernel import vload
from tvm_disc.schedules.gemm.pack import cast, copy_contiguous, copy_row, transpose_into
from tvm_disc.schedules.gemm.partition import (
    FEW_ROWS,
    GemmPartition,
    GemmSpec,
    Operand,
    Place,
    cdiv,
    choice,
    div,
    is_one,
    known,
    reads_masked,
    reads_words,
)
from tvm_disc.schedules.gemm.tile import GemmTile
from tvm_disc.tir.builder import Block, const, i64
from tvm_disc.typing import Buffer, Expr, Size


@dataclass
class Operands:
    """Emits copies of operands inside the task loop of a body, and finds where kernels read them.

    ``bind`` binds a non-constant size.
    """

    b: Block
    bind: Callable[[str, Size], Size]
    spec: GemmSpec
    plan: GemmPartition
    tile: GemmTile
    scratch: Buffer

    def _in_place(self) -> bool:
        view = self.spec.b.affine
        return self.spec.b.packed is None and view is not None and is_one(view.stride)

    def _must_pack(self, columns: Size) -> bool | Expr:
        """Return whether a B panel with contiguous rows is packed: a bool or a run-time
        condition.
        """
        spec, lanes = self.spec, self.tile.lanes
        if spec.dtype != spec.acc_dtype:
            return True
        uses = self.plan.selection.uses
        in_place = uses(Algorithm.IN_PLACE)
        ragged: Any = False
        if not reads_masked(spec, self.tile):
            ragged = columns % lanes != 0 if isinstance(columns, int) else None
        if in_place is False or ragged is True:
            return True
        packs = uses(Algorithm.PANELS, Algorithm.LAST_APART)
        terms: list[Expr] = [] if packs is False else [tirx.Not(in_place)]
        if ragged is None:
            terms.append(tirx.truncmod(columns, i64(lanes)) > 0)
        if not terms:
            return False
        return tirx.any(*terms) if len(terms) > 1 else terms[0]

    def pack_b(self, g: Size, panel0: Size, panels: Size) -> None:
        b, p, tile = self.b, self.plan, self.tile
        spec, dtype = self.spec, self.spec.acc_dtype
        with b.loop("pp", panels) as pp:
            j0 = self.bind("pack_j", (panel0 + pp) * tile.n_r)
            columns = self.bind("columns", p.columns.number(panel0 + pp))
            off = self.bind("pack_at", p.b_at + pp * (p.k * tile.n_r))
            view = spec.b.affine
            if view is not None and is_one(view.stride):
                base = self.bind("b_base", view.base(b, g) + j0)
                must = self._must_pack(columns)
                if must is False:
                    return
                condition = const(True, "bool") if must is True else must
                with b.when(condition), b.loop("k", p.k) as kk:
                    at = self.bind("b_row", base + kk * view.k_stride)
                    out = (self.scratch, off + kk * tile.n_r, dtype)
                    copy_row(b, columns, tile.lanes, (view.buffer, at), out, pad=True)
            elif view is not None and is_one(view.k_stride):
                base = self.bind("b_base", view.base(b, g))
                transpose_into(
                    b,
                    (view.buffer, lambda r: base + (j0 + r) * view.stride),
                    columns,
                    i64(p.k),
                    (self.scratch, off, tile.n_r, dtype),
                    tile.lanes,
                )
            else:
                self._pack_b_elements(g, j0, columns, off)

    def _pack_b_elements(self, g: Size, j0: Size, columns: Size, off: Size) -> None:
        b, tile, dtype = self.b, self.tile, self.spec.acc_dtype
        padded = cdiv(columns, tile.lanes) * tile.lanes
        with b.loop("k", self.plan.k) as kk:
            row = self.bind("pack_row", off + kk * tile.n_r)
            if self.spec.b.fill is not None:
                self.spec.b.fill(b, g, kk, (j0, columns), (self.scratch, row))
            else:
                with b.loop("j", columns) as j:
                    value = self._element("B", self.spec.b, g, j0 + j, kk)
                    b.store(self.scratch, row + j, cast(value, dtype))
            if not (isinstance(columns, int) and padded == columns):
                with b.loop("z", padded - columns) as z:
                    b.store(self.scratch, row + columns + z, const(0, dtype))

    def _element(self, name: str, source: Operand, g: Size, outer: Expr, k: Expr) -> Expr:
        view = source.affine
        if view is not None:
            return view.buffer[view.base(self.b, g) + outer * view.stride + k * view.k_stride]
        if source.load is None:
            raise ValueError(f"{name}: expected packed, affine, fill or load, found none")
        return source.load(self.b, g, outer, k)

    def copy_a(self, g: Size, i_rows: tuple[Size, Size], k_block: tuple[Size, Size]) -> None:
        """Emit a copy of a K block of the task's rows of A to scratch; the copied rows are
        contiguous along K, and rounded to int8 if the specification requires it.
        """
        self._copy_rows(g, i_rows, k_block)
        spec, p = self.spec, self.plan
        if not spec.rounded:
            return
        chunk = chunk_of(int(known(spec.k)), spec.group)
        with self.b.loop("i", i_rows[1]) as i:
            at = self.bind("round_at", p.a_at + i * p.block_elems)
            parts = self.bind("parts_of_row", p.parts_at + i * p.row_parts)
            form = Bytes(parts, 1 << (spec.bits - 1)) if spec.dot else None
            round_row(self.b, self.scratch, at, (k_block[1], spec.group), chunk, form)

    def of_rows(self, row: Size) -> tuple[Expr, Size]:
        """Return the address of the numbers that describe a rounded row of the task, and the
        stride to those of the next row.
        """
        p = self.plan
        return tirx.address_of(self.scratch[p.parts_at + row * p.row_parts]), p.row_parts

    def _copy_rows(self, g: Size, i_rows: tuple[Size, Size], k_block: tuple[Size, Size]) -> None:
        row0, rows = i_rows
        k0, depth = k_block
        b, p, spec, tile = self.b, self.plan, self.spec, self.tile
        if spec.quads:
            self._copy_words(g, i_rows, k_block)
            return
        view, dtype = spec.a.affine, spec.acc_dtype
        if view is None and spec.a.fill is not None:
            target = (self.scratch, i64(p.a_at), i64(p.block_elems), dtype, tile.lanes)
            k_block = (i64(0), i64(p.k)) if p.one_k else (i64(k0), i64(depth))
            spec.a.fill(b, g, i_rows, k_block, target)
            return
        contiguous = view is not None and is_one(view.k_stride)
        if view is not None and not contiguous and is_one(view.stride):
            base = self.bind("a_from", view.base(b, g) + row0 + k0 * view.k_stride)
            src = (view.buffer, lambda k: base + k * view.k_stride)
            out = (self.scratch, i64(p.a_at), p.block_elems, dtype)
            transpose_into(b, src, i64(depth), rows, out, tile.lanes)
            return
        with b.loop("i", rows) as i:
            to = self.bind("a_to", p.a_at + i * p.block_elems)
            if view is not None and contiguous:
                at = self.bind("a_row", view.base(b, g) + (row0 + i) * view.stride + k0)
                copy_row(b, depth, tile.lanes, (view.buffer, at), (self.scratch, to, dtype))
            else:
                with b.loop("k", depth) as kk:
                    value = self._element("A", spec.a, g, row0 + i, k0 + kk)
                    b.store(self.scratch, to + kk, cast(value, dtype))

    def _copy_words(self, g: Size, i_rows: tuple[Size, Size], k_block: tuple[Size, Size]) -> None:
        """Emit a copy of rows of A as words of integers (:class:`.integer.NumbersOfA`).

        Numbers beyond K are arbitrary, since they are multiplied by zeros of B.
        """
        b, p, spec = self.b, self.plan, self.spec
        row0, rows = i_rows
        per, lanes = spec.per, self.tile.lanes * spec.per
        numbers = NumbersOfA(spec.dtype, per)
        target, stored = numbers.view(b, self.scratch), numbers.stored
        first = self.bind("first_number", i64(k_block[0]) * per)
        size = self.bind("count", tirx.min(i64(k_block[1]) * per, i64(spec.k) - first))
        if spec.a.affine is None and spec.a.fill is not None:
            span = (i64(0), i64(spec.k)) if p.one_k else (first, size)
            where = (target, i64(p.a_at) * per, i64(p.block_elems) * per, stored, lanes)
            spec.a.fill(b, g, i_rows, span, where)
            return
        view = spec.a.affine
        with b.loop("i", rows) as i:
            to = self.bind("a_to", (p.a_at + i * p.block_elems) * per)
            if view is None or not is_one(view.k_stride):
                with b.loop("k", size) as k:
                    value = numbers.of(self._element("A", spec.a, g, row0 + i, first + k), 1)
                    b.store(target, to + k, value)
            else:
                at = self.bind("a_row", view.base(b, g) + (row0 + i) * view.stride + first)
                whole = spec.k if p.one_k else size
                copy_contiguous(
                    b,
                    known(whole),
                    lanes,
                    lambda e, w: numbers.of(vload(view.buffer, at + e, w), w),
                    (target, to, stored),
                )

    def a_views(
        self, g: Size, row0: Size, k0: Size, copied: bool | Expr
    ) -> list[tuple[Any, Place]]:
        """Return the possible locations of A as (condition, location); the last condition is None.

        A location maps (row, k) to (buffer, offset, row stride).
        """
        spec, p, scratch = self.spec, self.plan, self.scratch
        if spec.a.packed is not None:
            packed = spec.a.packed
            matrices = spec.a.matrices
            item = tirx.floormod(g, i64(matrices)) if matrices else g
            skip = 0 if matrices == 1 else item * (p.m * p.row_elems)
            return [(None, lambda i, k: (packed, skip + i * p.row_elems + k, p.row_elems))]
        view = spec.a.affine

        def copy(i: Size, k: Size) -> tuple[Buffer, Size, Size]:
            return scratch, p.a_at + (i - row0) * p.block_elems + (k - k0), p.block_elems

        if copied is True or view is None:
            return [(None, copy)]
        base = self.bind("a_base", view.base(self.b, g))

        if reads_words(spec):

            def words(i: Size, k: Size) -> tuple[Buffer, Size, Size]:
                at = base + i * view.stride + k * spec.per
                return view.buffer, at, div(view.stride, spec.per)

            return [(None, words)]

        def in_place(i: Size, k: Size) -> tuple[Buffer, Size, Size]:
            return view.buffer, base + i * view.stride + k, view.stride

        return [(None, in_place)] if copied is False else [(copied, copy), (None, in_place)]

    def of_groups(self, panel: Size, k0: Size) -> tuple[list[Expr], list[Size]]:
        """Return the addresses of scale and zero of row ``k0`` of a quantized panel, and the
        number of rows that share them; two empty lists if B has no scale.
        """
        group, parts = self.spec.group, self._parts()
        if not parts:
            return [], []
        row = panel * cdiv(self.plan.k, group) + div(k0, group)
        at = self.bind("group_at", row * self.tile.n_r)
        return [tirx.address_of(x[at]) for x in parts.values()], [group]

    def _parts(self) -> dict[str, Buffer]:
        """Return the scales and zeros of a quantized B that are given, by name."""
        found = self.spec.quantized
        parts = {} if found is None else {"scale": found.scale, "zero": found.zero}
        return {name: x for name, x in parts.items() if x is not None}

    def parts(self) -> tuple[tuple[str, str], ...]:
        """Return the names, ``scale`` or ``zero``, and element types of these arrays."""
        return tuple((name, str(x.dtype)) for name, x in self._parts().items())

    def kept(self) -> tuple[Expr, Size]:
        """Return the address to which a kernel writes the dequantized rows of a panel, and their
        stride.

        The stride is 0 if no other kernel reads these rows.
        """
        p = self.plan
        n_r, alone = self.tile.n_r, p.blocks <= 1
        step = n_r * (not alone) if isinstance(alone, bool) else choice(alone, 0, n_r)
        return tirx.address_of(self.scratch[p.b_at]), step

    def narrow_ways(self, panel: Size, k0: Size, blk: Expr) -> list[tuple[object, object, str]]:
        """Return how kernels read quantized weights, as (condition, location, way); the last
        condition is True.

        ``few``: kernels read the quantized panel and scale the sums, for few rows of A. ``first``:
        the first row block of a task reads the quantized panel and stores it dequantized. ``next``:
        later row blocks read the dequantized panel.
        """
        p, n_r = self.plan, self.tile.n_r
        [(_, numbers)] = self.b_views(i64(0), panel, i64(0), n_r)
        if self.spec.dot:
            return [(True, numbers, "few")]

        def expanded(k: Expr) -> tuple[Buffer, Expr, Size]:
            return self.scratch, p.b_at + (k - k0) * n_r, n_r

        ways = [(p.m <= FEW_ROWS, numbers, "few"), (blk == 0, numbers, "first")]
        ways = [w for w in ways if w[0] is not False]
        for n, (condition, place, way) in enumerate(ways):
            if condition is True or (way == "first" and (p.blocks <= 1) is True):
                return [*ways[:n], (True, place, way)]
        return [*ways, (True, expanded, "next")]

    def b_views(self, g: Size, panel: Size, local: Size, columns: Size) -> list[tuple[Any, Any]]:
        """Return the possible locations of a B panel as (condition, location); the last condition
        is True.

        A location maps a row k to (buffer, offset, row stride).
        """
        spec, p, n_r = self.spec, self.plan, self.tile.n_r
        if spec.b.packed is not None:
            constant = spec.b.packed
            item = p.k if spec.b.depth else 0 if spec.b.matrices == 1 else p.panels * p.k
            at = panel * p.k_whole + g * item
            if spec.quads:
                at = at + panel + 1  # skip the first row of each panel, which holds corrections
            per = 32 // spec.bits if spec.bits else 1
            return [(True, lambda k: (constant, div(at + k, per) * n_r, n_r))]

        def packed(k: Expr) -> tuple[Buffer, Expr, Size]:
            return self.scratch, p.b_at + (local * p.k + k) * n_r, n_r

        view = spec.b.affine
        must = self._must_pack(columns) if self._in_place() else True
        if must is True or view is None:
            return [(True, packed)]
        base = self.bind("b_base", view.base(self.b, g) + panel * n_r)

        def direct(k: Expr) -> tuple[Buffer, Expr, Size]:
            return view.buffer, base + k * view.k_stride, view.k_stride

        if must is False:
            return [(True, direct)]
        return [(self.b.bind("b_is_packed", must), packed), (True, direct)]


__all__ = ["Operands"]
