"""The *dot* template: ``C[g, i, j] = sum_k A[g, i, k] * B[g, k, j]``, then an epilogue.

Any of batch, M, N, K may be unknown until run time; one compiled body serves every value. The
template does not depend on tensors: operands are affine views or element functions, and results are
stored by ``store`` callables. Producers and consumers are therefore fused by composing index maps
and expressions.

The work is divided into tasks over (batch, groups of B panels, groups of row blocks). A task reads
its part of B packed, or in place if its rows are contiguous. It iterates over K blocks, panels and
row blocks, and calls register-tile kernels (:mod:`.micro_kernel`) that leave their sums in a tile
in the first-level cache; the epilogue then runs over that tile. Loop order and blocking follow Goto
& van de Geijn (2008). M is divided into nearly equal blocks of at most ``m_r`` rows, each with a
kernel of that height, as DietCode and Nimble dispatch on residues, so no padding rows are computed.
Columns are padded to whole vectors in packed panels only. Apart from prefetches, nothing outside an
operand is read or written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from tvm import tirx

from tvm_disc.schedules.gemm.algorithm import PANELS, TILES, Algorithm, Selection
from tvm_disc.schedules.gemm.inner import InnerProducts, InPlace
from tvm_disc.schedules.gemm.micro_kernel import (
    KernelForm,
    MicroKernels,
    call_kernel,
    may_alias,
    vload,
)
from tvm_disc.schedules.gemm.narrow import FewColumns, Lines
from tvm_disc.schedules.gemm.operands import Operands
from tvm_disc.schedules.gemm.outer import OuterProducts
from tvm_disc.schedules.gemm.pack import parts_of
from tvm_disc.schedules.gemm.partition import (
    FEW_ROWS,
    Affine,
    Direct,
    EvenGroups,
    GemmPartition,
    GemmSpec,
    Operand,
    Place,
    Stores,
    TaskSpan,
    bind_size,
    cdiv,
    cheap_div,
    div,
    known,
    least,
    most,
    reads_masked,
    stores_direct,
)
from tvm_disc.schedules.gemm.tile import GemmTile, default_tile
from tvm_disc.target.isa import Isa, isa_of
from tvm_disc.tir.builder import Block, call, either, i64
from tvm_disc.typing import UNSET, Buffer, Expr, Size, Stmt

__all__ = [
    "Affine",
    "Direct",
    "GemmSpec",
    "GemmTile",
    "Isa",
    "MicroKernels",
    "Operand",
    "Stores",
    "default_tile",
    "gemm_body",
    "gemm_scratch_elems",
    "gemm_tasks",
    "isa_of",
    "may_alias",
    "store_row",
]


def gemm_tasks(spec: GemmSpec, tile: GemmTile, selection: Selection = PANELS) -> Size:
    """Return the number of independent tasks; consecutive tasks share a group of B panels."""
    return GemmPartition(spec, tile, selection).tasks(known(spec.batch))


def gemm_scratch_elems(spec: GemmSpec, tile: GemmTile, selection: Selection = PANELS) -> Size:
    """Return the scratch size of one run of :func:`gemm_body`, in elements of ``acc_dtype``."""
    return GemmPartition(spec, tile, selection).elems


def gemm_body(
    spec: GemmSpec,
    tile: GemmTile,
    kernels: MicroKernels,
    scratch: Buffer,
    lo: Size,
    hi: Size,
    selection: Selection = PANELS,
) -> Stmt:
    """Emit tasks ``[lo, hi)``; the scratch must be private to this range while it runs.

    ``kernels`` collects the functions that the statement calls: add ``kernels.functions`` to the
    module. The function that contains the statement must not carry ``tirx.noalias`` (apply
    :func:`may_alias`), because the called functions write ``scratch`` through another parameter.
    """
    return _Emitter(spec, tile, kernels, scratch, selection).body(lo, hi)


class _Emitter:
    """Emits one body. Invariant: ``self.b`` is positioned inside the task loop while emitting."""

    def __init__(
        self,
        spec: GemmSpec,
        tile: GemmTile,
        kernels: MicroKernels,
        scratch: Buffer,
        selection: Selection,
    ) -> None:
        self.spec, self.tile, self.kernels, self.scratch = spec, tile, kernels, scratch
        self.selection = selection
        self.b = Block()
        self._bind = partial(bind_size, self.b)
        self._take(GemmPartition(spec, tile, selection))

    def _take(self, plan: GemmPartition) -> None:
        self.plan = plan
        self.operands = Operands(self.b, self._bind, self.spec, plan, self.tile, self.scratch)

    def body(self, lo: Size, hi: Size) -> Stmt:
        b = self.b

        def at_once() -> None:
            with b.loop("g", i64(hi) - i64(lo), i64(lo)) as g:
                self._at_once(g)

        def partitioned() -> None:
            self._take(GemmPartition(self.spec, self.tile, self.selection, self._bind))
            self._all_tasks(lo, hi)

        self._one_of((self.selection.uses(Algorithm.AT_ONCE), at_once), (True, partitioned))
        return b.stmt()

    def _one_of(self, *ways: tuple[bool | Expr, Callable[[], None]]) -> None:
        """Emit an if-else chain that runs the first way whose condition holds.

        One condition must hold.
        """
        possible = [way for way in ways if way[0] is not False]
        sure = [condition is True for condition, _ in possible]
        *others, (_, last) = possible[: sure.index(True) + 1] if any(sure) else possible
        with ExitStack() as scopes:
            for condition, emit in others:
                with self.b.when(condition):
                    emit()
                scopes.enter_context(self.b.otherwise())
            last()

    def _at_once(self, g: Expr) -> None:
        p, tile, b = self.plan, self.tile, self.b
        form = self._form()
        run = self._kernel(form)
        views = InPlace(self.spec, b, self._bind, g)
        with b.loop("p", cdiv(p.n, tile.n_r)) as panel, b.loop("blk", cdiv(p.m, tile.m_r)) as blk:
            i = self._bind("i", blk * tile.m_r)
            j = self._bind("j", panel * tile.n_r)
            columns = least(tile.n_r, p.n - j)
            vectors = self._bind("vectors", cdiv(columns, tile.lanes))
            sizes = [p.k, views.a.stride, views.b.k_stride, views.out.stride, 0]
            sizes += self._masks(form, (columns, vectors), p.k, views.b.k_stride)
            sizes += [least(tile.m_r, p.m - i), vectors]
            call_kernel(b, run, views.at(i, j), sizes)

    def _all_tasks(self, lo: Size, hi: Size) -> None:
        p = self.plan
        span = p.span(i64(lo), i64(hi), self._bind)
        with self._tasks(span) as (task, g, gn, gm):
            first, blocks = span.groups.span(gm, self._bind, ("first_block", "n_blocks"))
            if span.begin is not None:
                first = self._bind("first_block", span.begin + first)
            groups_n = EvenGroups(p.panels, p.groups_n)
            j_group = groups_n.span(gn, self._bind, ("panel0", "n_panels"))
            last = i64(gn) + 1 == i64(p.groups_n)
            self._ways((task, span.lo), (g, gm), (first, blocks), j_group, last)

    def _ways(
        self,
        task: tuple[Size, Size],
        item: tuple[Size, Size],
        i_group: tuple[Size, Size],
        j_group: tuple[Size, Size],
        last: Expr,
    ) -> None:
        """Emit the task with the kernels of the selected algorithm.

        ``last`` is the condition that the task includes the last columns.
        """
        b, p, n_r = self.b, self.plan, self.tile.n_r
        parts = (b, self._bind, self.spec, p, self.tile, self.kernels)
        inner, lines = InnerProducts(*parts), Lines(*parts)
        columns, outer = FewColumns(*parts, self.scratch), OuterProducts(*parts)
        j_range = (j_group[0] * n_r, j_group[1] * n_r)
        j_end = tirx.Select(last, i64(p.n), j_range[0] + j_range[1])

        def few_columns() -> None:
            with b.when(tirx.any(task[0] == task[1], item[1] == 0)):
                columns.fold(item[0])
            columns.emit(item[0], *self._rows_of(i_group))

        def tiles() -> None:
            self._task(task, item, i_group, j_group)
            apart = self.selection.uses(Algorithm.LAST_APART)
            if apart is False:
                return
            with b.when(tirx.all(last, i64(p.rest) > 0)):
                rows = self._rows_of(i_group)
                fits = self._bind("fits", tirx.Select(inner.last(item[0], rows), i64(1), i64(0)))
                with b.when(fits == 0):
                    lines.last(item[0], rows)

        uses = self.selection.uses
        self._one_of(
            (uses(*TILES), tiles),
            (
                uses(Algorithm.OUTER),
                lambda: outer.emit(item[0], self._rows_of(i_group), j_range),
            ),
            (
                uses(Algorithm.INNER),
                lambda: inner.emit(item[0], (j_range[0], self._bind("j_end", j_end))),
            ),
            (uses(Algorithm.LINES), lambda: lines.emit(item[0], *self._rows_of(i_group))),
            (uses(Algorithm.SHARED_VECTORS), few_columns),
        )

    def _rows_of(self, i_group: tuple[Size, Size]) -> tuple[Size, Size]:
        """Return (first, count) of the rows of a range of row blocks."""
        first, blocks = i_group
        row0 = self._bind("row0", self.plan.rows.start(first))
        return row0, self._bind("rows", self.plan.rows.start(first + blocks) - row0)

    def _task(
        self,
        task: tuple[Size, Size],
        item: tuple[Size, Size],
        i_group: tuple[Size, Size],
        j_group: tuple[Size, Size],
    ) -> None:
        """Emit the products of row blocks ``i_group`` and panels ``j_group``, each as (first,
        count).
        """
        b, p = self.b, self.plan
        g, gm = item
        first, blocks = i_group
        panel0, panels = j_group
        if self.spec.b.packed is None:
            with b.when(tirx.any(task[0] == task[1], gm == 0)):
                self.operands.pack_b(g, panel0, panels)
        row0, rows = self._rows_of(i_group)
        with b.loop("kb", p.k_blocks) as kb:
            k0 = self._bind("k0", kb * p.kc)
            depth = self._bind("depth", least(p.kc, p.k - k0)) if not p.one_k else p.k
            if self.spec.b.depth:  # the last part of K may be smaller
                left = most(self.spec.b.depth - g * p.k - k0, 0)
                depth = self._bind("depth", least(depth, left))
            if p.copied is not False:
                with b.when(p.copied) if p.copied is not True else nullcontext():
                    self.operands.copy_a(g, (row0, rows), (k0, depth))
            a_views = self.operands.a_views(g, row0, k0, p.copied)
            with b.loop("p", panels) as local:
                panel = self._bind("panel", panel0 + local)
                self._panel(g, (panel, local), (first, blocks), a_views, (kb, k0, depth))

    @contextmanager
    def _tasks(self, span: TaskSpan) -> Iterator[tuple[Expr, Expr, Expr, Expr]]:
        """Emit a loop over tasks that yields (task, g, gn, gm).

        The indices are incremented rather than computed by division, which costs as much as a small
        tile.
        """
        b, p, lo, hi = self.b, self.plan, span.lo, span.hi
        names = ("g", "gn", "gm")
        cells = {n: b.alloc(f"{n}_at", 1, "int64") for n in names}
        with b.when(lo < hi):
            rest = self._bind("rest", cheap_div(lo, span.groups.count))
            b.store(cells["gm"], 0, lo - rest * span.groups.count)
            item = self._bind("item", cheap_div(rest, p.groups_n))
            b.store(cells["g"], 0, item)
            b.store(cells["gn"], 0, rest - item * p.groups_n)
        with b.loop("task", hi - lo, lo) as task:
            g, gn, gm = (b.bind(n, cells[n][i64(0)]) for n in names)
            yield task, g, gn, gm
            last_m = self._bind(
                "last_m", tirx.Select(gm + 1 == i64(span.groups.count), i64(1), i64(0))
            )
            last_n: Size = tirx.Select(gn + last_m == i64(p.groups_n), i64(1), i64(0))
            last_n = self._bind("last_n", last_n)
            b.store(cells["gm"], 0, (gm + 1) * (1 - last_m))
            b.store(cells["gn"], 0, (gn + last_m) * (1 - last_n))
            b.store(cells["g"], 0, g + last_n)

    # --- kernels and epilogue ----------------------------------------------------------------

    def _panel(
        self,
        g: Size,
        j_panel: tuple[Size, Size],
        i_group: tuple[Size, Size],
        a_views: list[tuple[Any, Place]],
        k_block: tuple[Size, Size, Size],
    ) -> None:
        """Emit the products of the task's row blocks with one panel of B over one K block."""
        b, p, tile, spec = self.b, self.plan, self.tile, self.spec
        panel, local = j_panel
        first, blocks = i_group
        kb, k0, depth = k_block
        columns = self._bind("columns", p.columns.number(panel))
        views = self.operands.b_views(g, panel, local, columns) if spec.quantized is None else []
        vectors = self._bind("vectors", cdiv(columns, tile.lanes))
        direct = spec.direct if stores_direct(spec, tile) else None
        out_at: Size = UNSET
        if direct is not None:
            out_at = self._bind("out_at", direct.base(b, g) + p.columns.start(panel))
        with b.loop("blk", blocks) as blk:
            r = self._bind("r", first + blk)
            i0 = self._bind("i0", p.rows.start(r))
            rows = self._bind("rows", p.rows.height(r))
            sum_at: Size = i64(0)
            if not p.one_k:
                place = (local * tile.m_blocks + blk) * (tile.m_r * tile.n_r)
                sum_at = self._bind("sum_at", tirx.Select(i64(p.k_blocks) > 1, place, i64(0)))

            def kernel(b_at: Any, form: KernelForm) -> None:
                run = self._kernel(form)
                a_from, lda = self._pointer(a_views, i0, k0)
                b_buf, b_off, ldb = b_at(k0)
                c_buf, c_off = self.scratch, sum_at
                ldc: Size = tile.n_r
                if direct is not None:
                    c_buf, c_off, ldc = direct.buffer, out_at + i0 * direct.stride, direct.stride
                at = [a_from, tirx.address_of(b_buf[b_off]), tirx.address_of(c_buf[c_off])]
                sizes = [depth, lda, ldb, ldc, kb]
                if form.ahead:
                    ahead, step = self._ahead(b_off, (blk, blocks), depth)
                    at.append(tirx.address_of(b_buf[ahead]))
                    sizes.append(step)
                groups: list[Size] = []
                if form.scaled:
                    parts, groups = self.operands.of_groups(panel, k0)
                    at += parts
                if form.keeps:
                    kept, step = self.operands.kept()
                    at.append(kept)
                    groups.append(step)
                if form.rounded:
                    described, step = self.operands.of_rows(i0 - p.rows.start(first))
                    at.append(described)
                    groups.append(step)
                lies = None if b_buf is self.scratch else ldb
                sizes += [*self._masks(form, (columns, vectors), depth, lies), *groups]
                b.eval(call(run, *at, *map(i64, [*sizes, rows, vectors])))

            ways = [(c, partial(kernel, place, self._form())) for c, place in views]
            if spec.quantized is not None:
                narrow = self.operands.narrow_ways(panel, k0, blk)
                ways = [(c, partial(kernel, at, self._narrow_form(way))) for c, at, way in narrow]
            self._one_of(*ways)
            j0 = p.columns.start(panel)
            if direct is None:
                with b.when(kb == i64(p.k_blocks) - 1) if not p.one_k else nullcontext():
                    self._epilogue(g, (i0, rows), (j0, columns), sum_at)

    def _masks(
        self, form: KernelForm, width: tuple[Size, Size], depth: Size, ldb: Size | None
    ) -> list[Size]:
        """Return the mask arguments of a kernel.

        ``ldb`` is the row stride of a B that is read in place; None if B is packed. If the stride
        is at least ``lanes - 1``, only the last row of B needs a mask: a vector that reads past the
        end of another row reads elements of the row after it, which are in bounds.
        """
        if not form.masks:
            return []
        lanes = self.tile.lanes
        tail = self._bind("tail", width[0] - (width[1] - 1) * lanes)
        if not form.short or ldb is None:
            return [tail, *((depth,) * form.short)]
        inside = tirx.any(i64(tail) == lanes, i64(depth) == 0)
        rest = tirx.Select(i64(ldb) >= lanes - 1, i64(depth) - 1, i64(0))
        return [tail, self._bind("unmasked", tirx.Select(inside, i64(depth), rest))]

    def _form(self) -> KernelForm:
        spec, n = self.spec, self.plan.n
        whole = isinstance(n, int) and n % self.tile.lanes == 0
        kept = str(spec.b.packed.dtype) if spec.b.packed is not None else spec.acc_dtype
        return KernelForm(
            ahead=spec.b.packed is not None,
            tail=stores_direct(spec, self.tile) and not whole,
            short=reads_masked(spec, self.tile),
            b_dtype=kept if kept != spec.acc_dtype else "",
            dot=spec.dot,
            parts=self.operands.parts(),
            bits=spec.bits,
        )

    def _narrow_form(self, way: str) -> KernelForm:
        """Return the kernel form for one way of :meth:`Operands.narrow_ways`."""
        form = self._form()
        if way == "few":
            return form
        if way == "first":
            return replace(form, ahead=False, keeps=True)
        return KernelForm(tail=form.tail)

    def _kernel(self, form: KernelForm) -> Any:
        """Return the function that dispatches to the kernels of all tile sizes that may occur."""
        rows, vectors = self._row_counts(), self.plan.columns.counts()
        if form.rounded:
            return self.kernels.dispatcher(self.tile, self.spec.acc_dtype, rows, vectors, form)
        if self.spec.quantized is not None and form.ahead:
            rows = tuple(r for r in rows if r <= FEW_ROWS)
        elif self.spec.quantized is not None:
            # blocks are balanced: if there are two or more, each has at least this many rows
            half = (self.tile.m_r + 1) // 2
            rows = tuple(r for r in rows if r >= min(half, FEW_ROWS + 1))
        return self.kernels.dispatcher(self.tile, self.spec.acc_dtype, rows, vectors, form)

    def _pointer(self, views: list[tuple[Any, Place]], i: Size, k: Size) -> tuple[Expr, Size]:
        """Return address and row stride of an operand in the first view whose condition holds."""
        (condition, place), *rest = views
        buf, off, distance = place(i, k)
        here = tirx.address_of(buf[off])
        if not rest:
            return here, distance
        there, other = self._pointer(rest, i, k)
        return either(condition, here, there), tirx.Select(condition, i64(distance), i64(other))

    def _ahead(self, at: Expr, block: tuple[Size, Size], depth: Size) -> tuple[Expr, Size]:
        """Return the part of the next panel that a row block prefetches: (start, elements per K
        step).

        The next panel is prefetched from memory while the current one is used. The row blocks share
        its cache lines evenly.
        """
        blk, blocks = block
        step = self._bind("step", cdiv(self.tile.n_r, blocks))
        return at + self.plan.k_whole * self.tile.n_r + blk * depth * step, step

    def _row_counts(self) -> tuple[int, ...]:
        base, extra = self.plan.rows.base, self.plan.rows.extra
        if isinstance(base, int) and isinstance(extra, int):
            return tuple(sorted({r for r in (base, base + int(extra > 0)) if r})) or (1,)
        return tuple(range(1, self.tile.m_r + 1))

    def _epilogue(
        self, g: Size, i_rows: tuple[Size, Size], j_cols: tuple[Size, Size], sum_at: Size
    ) -> None:
        """Emit the ``store`` calls for every finished sum of one register tile."""
        b, tile = self.b, self.tile
        i0, rows = i_rows
        j_start, columns = j_cols
        j0 = self._bind("j0", j_start)
        last = columns if isinstance(columns, int) else self.plan.n
        with b.loop("ei", rows) as ei:
            i = self._bind("i", i0 + ei)
            row = self._bind("sums", sum_at + ei * tile.n_r)
            sums = (self.scratch, row)
            store_row(b, self.spec.store, (g, i, j0), sums, columns, tile.lanes, last)


def store_row(
    b: Block,
    store: Stores,
    place: tuple[Size, Size, Size],
    sums: tuple[Buffer, Size],
    columns: Size,
    lanes: int,
    last: Size,
) -> None:
    """Emit the stores of adjacent sums of one row: full vectors, then the columns left.

    Args:
        place: (g, i, j) of the first output.
        sums: the buffer and the offset of the first sum.
        last: a size with the same remainder modulo ``lanes`` as ``columns``, unless ``columns`` is
            a multiple of ``lanes``. It may be an int although ``columns`` is an expression.
    """
    g, i, j0 = place
    buffer, row = sums

    def scalar(at: Expr) -> None:
        store.scalar(b, g, i, j0 + at, buffer[row + at])

    def some(at: Size, width: int) -> None:
        values = b.bind("values", vload(buffer, row + at, width))
        done = store.vector is not None and store.vector(
            b, g, i, b.bind("j", j0 + at), width, values
        )
        if not done:
            with b.loop("es", width) as es:
                scalar(at + es)

    whole = bind_size(b, "whole", div(columns, lanes))
    with b.loop("ev", whole) as ev:
        some(bind_size(b, "jv", ev * lanes), lanes)
    if isinstance(last, int) and last % lanes == 0:
        return
    rest = bind_size(b, "rest_cols", whole * lanes)
    if not isinstance(last, int):
        with b.loop("et", columns - rest) as et:
            scalar(rest + et)
        return
    with b.when(i64(columns) > i64(rest)):
        for at, width in parts_of(last % lanes):
            if width > 1:
                some(bind_size(b, "jt", rest + at), width)
            else:
                scalar(i64(rest + at))
