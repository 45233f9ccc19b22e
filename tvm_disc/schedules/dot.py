"""The *dot* template: ``C[g, i, j] = sum_k A[g, i, k] * B[g, k, j]``, then an epilogue.

Any of batch, M, N, K may be unknown until run time; one compiled body serves every value. The
template knows no tensors: operands are affine views or element functions, results leave through
``store`` callables, so neighbours fuse by composing index maps and expressions.

Work is cut in tasks over (batch, groups of B panels, groups of row blocks). A task keeps its
share of B (packed, or read in place when its rows are contiguous) and walks K blocks, panels and
row blocks, calling register-tile kernels (:mod:`gemm_micro`) that leave sums in an L1-resident
tile; the epilogue then runs over that tile. Loop order and blocking follow Goto & van de Geijn
(2008). M is cut in near-equal blocks of at most ``m_r`` rows, each with its own kernel, as DietCode
and Nimble dispatch on residues, so no M computes padding rows. Columns are padded to whole
vectors in packed panels only; nothing outside an operand is read (prefetches apart) or written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_disc.schedules.emit import Block, Buffer, Expr, Stmt, const, i64
from tvm_disc.schedules.gemm_micro import MicroKernels, bind_opaque, call, may_alias, vload
from tvm_disc.schedules.gemm_pack import cast, copy_contiguous, transpose_into
from tvm_disc.schedules.gemm_tile import (
    GemmTile,
    Isa,
    bad_row_stride_bytes,
    default_tile,
    isa_of,
    pack_a_constant,
    pack_b_constant,
    packed_row_elems,
)

__all__ = [
    "Affine",
    "GemmSpec",
    "GemmTile",
    "Isa",
    "MicroKernels",
    "default_tile",
    "gemm_body",
    "gemm_scratch_elems",
    "gemm_tasks",
    "isa_of",
    "may_alias",
    "pack_a_constant",
    "pack_b_constant",
    "packed_row_elems",
]

Index = Any  # Expr or int
_Place = Callable[[Expr, Expr], tuple[Buffer, Expr, Index]]  # buffer, offset, row distance


@dataclass(frozen=True)
class Affine:
    """An operand in place: element ``(g, outer, k)`` at ``base(b, g) + outer * stride + k * k_stride``.

    ``outer`` is i for A and j for B. Strides are in elements; a Python int ``1`` is what allows
    direct or vectorised reads, so pass literals where they are known.
    """

    buffer: Buffer
    base: Callable[[Block, Expr], Expr]
    stride: Index
    k_stride: Index


@dataclass
class GemmSpec:
    """One GEMM: sizes (int64 expressions or ints), operands and the epilogue.

    Operands, first match wins:

    * A: ``a_packed`` (``[M, packed_row_elems(K)]``, see :func:`pack_a_constant`); ``a_affine``
      (read in place when ``k_stride`` is 1 and rows do not collide in the cache, else copied;
      transposed in registers when ``stride`` is 1); ``a_row`` (row i contiguous along K, at any
      place: copied by vectors); ``load_a`` (copied element by element).
    * B: ``b_packed`` (``[ceil(N / n_r), K, n_r]``, see :func:`pack_b_constant`); ``b_affine``
      (``stride`` 1: rows read in place or packed by vectors, ``k_stride`` 1: transposed in
      registers); ``load_b`` (packed element by element).

    ``load_*`` must be pure: a copied A is evaluated once per group of panels, B once per run of
    tasks. Packed constants hold one matrix for all of ``batch`` unless ``*_packed_batched``; they
    and the scratch hold ``acc_dtype`` and should be 64-byte aligned for speed.

    ``store(b, g, i, j, value)`` finishes one output; ``store_vector(b, g, i, j0, lanes, values)``
    finishes ``lanes`` neighbours along j, or returns False having emitted nothing.
    """

    batch: Index
    m: Index
    n: Index
    k: Index
    store: Callable[[Block, Expr, Expr, Expr, Expr], None]
    store_vector: Callable[[Block, Expr, Expr, Expr, int, Expr], bool] | None = None
    dtype: str = "float32"
    acc_dtype: str = "float32"
    load_a: Callable[[Block, Expr, Expr, Expr], Expr] | None = None
    load_b: Callable[[Block, Expr, Expr, Expr], Expr] | None = None
    a_affine: Affine | None = None
    b_affine: Affine | None = None
    a_row: Callable[[Block, Expr, Expr], tuple[Buffer, Expr]] | None = None
    a_packed: Buffer | None = None
    b_packed: Buffer | None = None
    a_packed_batched: bool = False
    b_packed_batched: bool = False


def _cdiv(x: Index, y: Index) -> Index:
    if isinstance(x, int) and isinstance(y, int):
        return -(-x // y)
    return tirx.truncdiv(i64(x) + i64(y) - 1, i64(y))


def _div(x: Index, y: Index) -> Index:
    if isinstance(x, int) and isinstance(y, int):
        return x // y
    return tirx.truncdiv(i64(x), i64(y))


def _min(x: Index, y: Index) -> Index:
    return min(x, y) if isinstance(x, int) and isinstance(y, int) else tirx.min(i64(x), i64(y))


def _max(x: Index, y: Index) -> Index:
    return max(x, y) if isinstance(x, int) and isinstance(y, int) else tirx.max(i64(x), i64(y))


def _is_one(x: Index) -> bool:
    return (isinstance(x, int) and x == 1) or (isinstance(x, tirx.IntImm) and int(x.value) == 1)


def _same(x: Index) -> Index:
    return int(x.value) if isinstance(x, tirx.IntImm) else x


class _Plan:
    """Sizes of the task space and of the scratch; ``bind`` names what is not constant."""

    def __init__(
        self, spec: GemmSpec, tile: GemmTile, bind: Callable[[str, Index], Index] | None = None
    ) -> None:
        keep = bind or (lambda _name, value: value)
        self.m, self.n, self.k = m, n, k = _same(spec.m), _same(spec.n), _same(spec.k)
        self.panels = keep("panels", _cdiv(n, tile.n_r))
        self.blocks = keep("blocks", _cdiv(m, tile.m_r))  # register tiles of rows
        self.groups_m = keep("groups_m", _cdiv(self.blocks, tile.m_blocks))
        self.groups_n = keep("groups_n", _cdiv(self.panels, tile.n_panels))
        self.per_m = keep("per_m", _cdiv(self.blocks, _max(self.groups_m, 1)))
        self.per_n = keep("per_n", _cdiv(self.panels, _max(self.groups_n, 1)))
        self.base_rows = keep("base_rows", _div(m, _max(self.blocks, 1)))
        self.extra_rows = keep("extra_rows", m - self.base_rows * self.blocks)
        if tile.kc:
            turns = _max(_cdiv(k, tile.kc), 1)
            self.kc = keep("kc", _cdiv(_cdiv(k, turns), 8) * 8)
            self.k_blocks = keep("k_blocks", _max(_cdiv(k, _max(self.kc, 1)), 1))
        else:
            self.kc, self.k_blocks = k, 1
        self.one_k = isinstance(self.k_blocks, int) and self.k_blocks == 1

        itemsize = max(1, tirx.const(0, spec.acc_dtype).ty.dtype.bits // 8)
        line = max(1, 64 // itemsize)
        lines = _cdiv(k, line)
        # An odd number of lines, as packed_row_elems() gives for constants.
        self.row_elems = keep("row_elems", (_div(lines, 2) * 2 + 1) * line)
        tile_elems = tile.m_r * tile.n_r
        self.sum_elems = tile_elems * (1 if self.one_k else tile.m_blocks * tile.n_panels)
        self.a_at = -(-self.sum_elems // line) * line
        rows = _min(m, tile.m_blocks * tile.m_r)
        a_elems = rows * self.row_elems if _may_copy_a(spec) else 0
        self.b_at = keep("b_at", self.a_at + a_elems)
        b_elems = _min(self.panels, tile.n_panels) * tile.n_r * k if spec.b_packed is None else 0
        self.elems = self.b_at + b_elems

    def tasks(self, batch: Index) -> Index:
        """Number of independent tasks."""
        return batch * self.groups_m * self.groups_n


def _may_copy_a(spec: GemmSpec) -> bool:
    if spec.a_packed is not None:
        return False
    view = spec.a_affine
    if view is None or not _is_one(view.k_stride):
        return True
    stride = _same(view.stride)
    return not isinstance(stride, int) or _collides(stride, spec)


def _collides(stride: int, spec: GemmSpec) -> bool:
    itemsize = tirx.const(0, spec.dtype).ty.dtype.bits // 8
    return stride > 0 and stride * itemsize % bad_row_stride_bytes() == 0


def gemm_tasks(spec: GemmSpec, tile: GemmTile) -> Index:
    """Number of independent tasks; neighbours share a group of B panels."""
    return _Plan(spec, tile).tasks(_same(spec.batch))


def gemm_scratch_elems(spec: GemmSpec, tile: GemmTile) -> Index:
    """Elements of ``acc_dtype`` that one running :func:`gemm_body` needs (sums, copies)."""
    return _Plan(spec, tile).elems


def gemm_body(
    spec: GemmSpec,
    tile: GemmTile,
    kernels: MicroKernels,
    scratch: Buffer,
    lo: Index,
    hi: Index,
) -> Stmt:
    """Compute tasks ``[lo, hi)``; scratch is private to this range while it runs.

    ``kernels`` collects the functions that the statement calls: add ``kernels.functions`` to the
    module. The function that holds the statement must not carry ``tirx.noalias`` (apply
    :func:`may_alias`): the called functions write ``scratch`` under another name.
    """
    return _Emitter(spec, tile, kernels, scratch).body(lo, hi)


class _Emitter:
    """Emits one body. Invariant: ``self.b`` is positioned inside the task loop while emitting."""

    def __init__(
        self, spec: GemmSpec, tile: GemmTile, kernels: MicroKernels, scratch: Buffer
    ) -> None:
        self.spec, self.tile, self.kernels, self.scratch = spec, tile, kernels, scratch
        self.b = Block()
        self.plan = _Plan(spec, tile, self._bind)

    def _bind(self, name: str, value: Index) -> Index:
        return value if isinstance(value, int) else bind_opaque(self.b, name, value)

    def body(self, lo: Index, hi: Index) -> Stmt:
        b, p = self.b, self.plan
        with b.loop("task", i64(hi) - i64(lo), i64(lo)) as task:
            rest = self._bind("rest", _div(task, p.groups_m))
            gm = self._bind("gm", task - rest * p.groups_m)
            g = self._bind("g", _div(rest, p.groups_n))
            gn = self._bind("gn", rest - g * p.groups_n)
            first = self._bind("first_block", gm * p.per_m)
            blocks = self._bind("n_blocks", _min(p.per_m, p.blocks - first))
            panel0 = self._bind("panel0", gn * p.per_n)
            panels = self._bind("n_panels", _min(p.per_n, p.panels - panel0))
            if self.spec.b_packed is None:
                with b.when(tirx.any(task == i64(lo), i64(gm) == 0)):
                    self._pack_b(g, panel0, panels)
            row0 = self._bind("row0", self._block_start(first))
            copied = self._copy_a(g, row0, self._block_start(first + blocks) - row0)
            a_views = self._a_views(g, row0, copied)
            with b.loop("kb", p.k_blocks) as kb:
                k0 = self._bind("k0", kb * p.kc)
                depth = self._bind("depth", _min(p.kc, p.k - k0)) if not p.one_k else p.k
                with b.loop("p", panels) as local:
                    panel = self._bind("panel", panel0 + local)
                    self._panel(g, (panel, local), (first, blocks), a_views, (kb, k0, depth))
        return b.stmt()

    def _block_start(self, block: Expr) -> Expr:
        """First row of a register tile: tiles differ by at most one row in height."""
        return block * self.plan.base_rows + _min(block, self.plan.extra_rows)

    # --- operands ---------------------------------------------------------------------------

    def _columns(self, panel: Expr) -> Index:
        """How many columns a panel really has."""
        n, n_r = self.plan.n, self.tile.n_r
        if isinstance(n, int) and n % n_r == 0:
            return n_r
        return self._bind("columns", _min(n_r, n - panel * n_r))

    def _in_place(self) -> bool:
        view = self.spec.b_affine
        return self.spec.b_packed is None and view is not None and _is_one(view.stride)

    def _must_pack(self, columns: Index) -> Any:
        """Whether a B panel with contiguous rows is packed: a Python or run-time truth value."""
        m, lanes = self.plan.m, self.tile.lanes
        ragged: Any = columns % lanes != 0 if isinstance(columns, int) else None
        if isinstance(m, int) and m > self.tile.pack_rows or ragged is True:
            return True
        if isinstance(m, int) and ragged is False:
            return False
        terms = [] if isinstance(m, int) else [m > self.tile.pack_rows]
        if ragged is None:
            terms.append(tirx.truncmod(columns, i64(lanes)) != 0)
        return tirx.any(*terms) if len(terms) > 1 else terms[0]

    def _pack_b(self, g: Expr, panel0: Expr, panels: Expr) -> None:
        b, p, tile = self.b, self.plan, self.tile
        spec, dtype = self.spec, self.spec.acc_dtype
        with b.loop("pp", panels) as pp:
            j0 = self._bind("pack_j", (panel0 + pp) * tile.n_r)
            columns = self._columns(panel0 + pp)
            off = self._bind("pack_at", p.b_at + pp * (p.k * tile.n_r))
            view = spec.b_affine
            if view is not None and _is_one(view.stride):
                base = self._bind("b_base", view.base(b, g) + j0)
                must = self._must_pack(columns)
                if must is False:
                    return
                with b.when(const(True, "bool") if must is True else must):
                    with b.loop("k", p.k) as kk:
                        at = self._bind("b_row", base + kk * view.k_stride)
                        copy_contiguous(
                            b,
                            columns,
                            tile.lanes,
                            lambda _b, e, w: vload(view.buffer, at + e, w),
                            (self.scratch, off + kk * tile.n_r, dtype),
                            pad=True,
                        )
            elif view is not None and _is_one(view.k_stride):
                base = self._bind("b_base", view.base(b, g))
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

    def _pack_b_elements(self, g: Expr, j0: Expr, columns: Index, off: Expr) -> None:
        b, tile, dtype = self.b, self.tile, self.spec.acc_dtype
        padded = _cdiv(columns, tile.lanes) * tile.lanes
        with b.loop("k", self.plan.k) as kk:
            row = self._bind("pack_row", off + kk * tile.n_r)
            with b.loop("j", columns) as j:
                b.store(self.scratch, row + j, cast(self._load_b(g, kk, j0 + j), dtype))
            if not (isinstance(columns, int) and padded == columns):
                with b.loop("z", padded - columns) as z:
                    b.store(self.scratch, row + columns + z, const(0, dtype))

    def _load_b(self, g: Expr, k: Expr, j: Expr) -> Expr:
        view = self.spec.b_affine
        if view is not None:
            return view.buffer[view.base(self.b, g) + j * view.stride + k * view.k_stride]
        if self.spec.load_b is None:
            raise ValueError("GemmSpec: B is given in no form")
        return self.spec.load_b(self.b, g, k, j)

    def _load_a(self, g: Expr, i: Expr, k: Expr) -> Expr:
        view = self.spec.a_affine
        if view is not None:
            return view.buffer[view.base(self.b, g) + i * view.stride + k * view.k_stride]
        if self.spec.load_a is None:
            raise ValueError("GemmSpec: A is given in no form")
        return self.spec.load_a(self.b, g, i, k)

    def _copy_a(self, g: Expr, row0: Expr, rows: Expr) -> Any:
        """Copy the task's rows of A if needed; whether it was: a Python or run-time truth value."""
        b, p, spec, tile = self.b, self.plan, self.spec, self.tile
        if not _may_copy_a(spec):
            return False
        view, dtype = spec.a_affine, spec.acc_dtype
        dst = lambda i: p.a_at + i * p.row_elems  # noqa: E731
        if view is not None and _is_one(view.k_stride):
            copied = self._bind("copied", self._run_time_collision(view.stride))
            base = self._bind("a_from", view.base(b, g) + row0 * view.stride)
            with b.when(copied), b.loop("i", rows) as i:
                at = self._bind("a_row", base + i * view.stride)
                copy_contiguous(
                    b,
                    p.k,
                    tile.lanes,
                    lambda _b, e, w: vload(view.buffer, at + e, w),
                    (self.scratch, dst(i), dtype),
                )
            return copied
        if view is not None and _is_one(view.stride):
            base = self._bind("a_from", view.base(b, g) + row0)
            src = (view.buffer, lambda k: base + k * view.k_stride)
            out = (self.scratch, i64(p.a_at), p.row_elems, dtype)
            transpose_into(b, src, i64(p.k), rows, out, tile.lanes)
            return True
        with b.loop("i", rows) as i:
            if view is None and spec.a_row is not None:
                buf, start = spec.a_row(b, g, row0 + i)
                at = self._bind("a_row", start)
                copy_contiguous(
                    b,
                    p.k,
                    tile.lanes,
                    lambda _b, e, w: vload(buf, at + e, w),
                    (self.scratch, dst(i), dtype),
                )
            else:
                row = self._bind("a_to", dst(i))
                with b.loop("k", p.k) as kk:
                    b.store(self.scratch, row + kk, cast(self._load_a(g, row0 + i, kk), dtype))
        return True

    def _run_time_collision(self, stride: Index) -> Expr:
        itemsize = tirx.const(0, self.spec.dtype).ty.dtype.bits // 8
        period = max(1, bad_row_stride_bytes() // itemsize)
        return tirx.all(
            tirx.truncmod(i64(stride), i64(period)) == 0, i64(self.plan.m) > self.tile.m_r
        )

    def _a_views(self, g: Expr, row0: Expr, copied: Any) -> list[tuple[Any, _Place]]:
        """Where the kernels find A: (condition or None, place of (row, k)), first match wins."""
        spec, p = self.spec, self.plan
        if spec.a_packed is not None:
            packed = spec.a_packed
            skip = g * (p.m * p.row_elems) if spec.a_packed_batched else 0
            return [(None, lambda i, k: (packed, skip + i * p.row_elems + k, p.row_elems))]
        scratch, view = self.scratch, spec.a_affine

        def copy(i: Expr, k: Expr) -> tuple[Buffer, Expr, Index]:
            return scratch, p.a_at + (i - row0) * p.row_elems + k, p.row_elems

        if copied is True or view is None:
            return [(None, copy)]
        base = self._bind("a_base", view.base(self.b, g))

        def direct(i: Expr, k: Expr) -> tuple[Buffer, Expr, Index]:
            return view.buffer, base + i * view.stride + k, view.stride

        return [(None, direct)] if copied is False else [(copied, copy), (None, direct)]

    def _b_views(self, g: Expr, panel: Expr, local: Expr, columns: Index) -> list[tuple[Any, Any]]:
        """Where the kernels find row k of a B panel, as :meth:`_a_views`; ``place(k)``."""
        spec, p, n_r = self.spec, self.plan, self.tile.n_r
        if spec.b_packed is not None:
            constant = spec.b_packed
            at = panel * p.k + (g * (p.panels * p.k) if spec.b_packed_batched else 0)
            return [(None, lambda k: (constant, (at + k) * n_r, n_r))]

        def packed(k: Expr) -> tuple[Buffer, Expr, Index]:
            return self.scratch, p.b_at + (local * p.k + k) * n_r, n_r

        view = spec.b_affine
        must = self._must_pack(columns) if self._in_place() else True
        if must is True or view is None:
            return [(None, packed)]
        base = self._bind("b_base", view.base(self.b, g) + panel * n_r)

        def direct(k: Expr) -> tuple[Buffer, Expr, Index]:
            return view.buffer, base + k * view.k_stride, view.k_stride

        if must is False:
            return [(None, direct)]
        return [(self.b.bind("b_is_packed", must), packed), (None, direct)]

    # --- kernels and epilogue ----------------------------------------------------------------

    def _panel(
        self,
        g: Expr,
        j_panel: tuple[Expr, Expr],
        i_group: tuple[Expr, Expr],
        a_views: list[tuple[Any, _Place]],
        k_block: tuple[Expr, Expr, Expr],
    ) -> None:
        """All row blocks of the task against one panel and one K block."""
        b, p, tile, spec = self.b, self.plan, self.tile, self.spec
        panel, local = j_panel
        first, blocks = i_group
        kb, k0, depth = k_block
        columns = self._columns(panel)
        b_views = self._b_views(g, panel, local, columns)
        vectors = self._bind("vectors", _cdiv(columns, tile.lanes))
        run = self.kernels.dispatcher(
            tile, spec.acc_dtype, self._row_counts(), self._vector_counts()
        )
        with b.loop("blk", blocks) as blk:
            r = self._bind("r", first + blk)
            i0 = self._bind("i0", self._block_start(r))
            rows = self._bind("rows", self._rows(r))
            sum_at: Expr = i64(0)
            if not p.one_k:
                place = (local * tile.m_blocks + blk) * (tile.m_r * tile.n_r)
                sum_at = self._bind("sum_at", tirx.Select(i64(p.k_blocks) > 1, place, i64(0)))

            def kernel(a: tuple[Buffer, Expr, Index], bp: tuple[Buffer, Expr, Index]) -> None:
                sizes = (depth, a[2], bp[2], tile.n_r, kb, rows, vectors)
                at = [tirx.address_of(buf[where]) for buf, where, _ in (a, bp)]
                at.append(tirx.address_of(self.scratch[sum_at]))
                b.eval(call(run, [*at, *(i64(x) for x in sizes)]))

            self._first(
                a_views, lambda a: self._first(b_views, lambda bp: kernel(a(i0, k0), bp(k0)))
            )
            j0 = panel * tile.n_r
            if p.one_k:
                self._epilogue(g, (i0, rows), (j0, columns), sum_at)
            else:
                with b.when(kb == i64(p.k_blocks) - 1):
                    self._epilogue(g, (i0, rows), (j0, columns), sum_at)

    def _first(self, views: list[tuple[Any, Any]], emit: Callable[[Any], None]) -> None:
        """``emit`` the view whose condition holds; the last one has none."""
        if len(views) == 1:
            emit(views[0][1])
            return
        with self.b.when(views[0][0]):
            emit(views[0][1])
        with self.b.otherwise():
            emit(views[1][1])

    def _rows(self, r: Expr) -> Index:
        p = self.plan
        if isinstance(p.extra_rows, int) and p.extra_rows == 0:
            return p.base_rows
        return p.base_rows + tirx.Select(r < p.extra_rows, i64(1), i64(0))

    def _row_counts(self) -> tuple[int, ...]:
        base, extra = self.plan.base_rows, self.plan.extra_rows
        if isinstance(base, int) and isinstance(extra, int):
            return tuple(sorted({r for r in (base, base + int(extra > 0)) if r})) or (1,)
        return tuple(range(1, self.tile.m_r + 1))

    def _vector_counts(self) -> tuple[int, ...]:
        n, tile = self.plan.n, self.tile
        if not isinstance(n, int):
            return tuple(range(1, tile.vectors + 1))
        counts = {-(-(n % tile.n_r) // tile.lanes)} if n % tile.n_r else set()
        if n >= tile.n_r:
            counts.add(tile.vectors)
        return tuple(sorted(counts)) or (1,)

    def _epilogue(
        self, g: Expr, i_rows: tuple[Expr, Index], j_cols: tuple[Expr, Index], sum_at: Expr
    ) -> None:
        """Hand every finished sum of one register tile to the store callables."""
        b, spec, tile = self.b, self.spec, self.tile
        i0, rows = i_rows
        j_start, columns = j_cols
        j0 = self._bind("j0", j_start)
        with b.loop("ei", rows) as ei:
            i = self._bind("i", i0 + ei)
            row = self._bind("sums", sum_at + ei * tile.n_r)

            def scalar(j: Expr) -> None:
                spec.store(b, g, i, j0 + j, self.scratch[row + j])

            whole = self._bind("whole", _div(columns, tile.lanes))
            with b.loop("ev", whole) as ev:
                jv = self._bind("jv", ev * tile.lanes)
                values = b.bind("values", vload(self.scratch, row + jv, tile.lanes))
                done = spec.store_vector is not None and spec.store_vector(
                    b, g, i, b.bind("j", j0 + jv), tile.lanes, values
                )
                if not done:
                    with b.loop("es", tile.lanes) as es:
                        scalar(jv + es)
            if not (isinstance(columns, int) and columns % tile.lanes == 0):
                rest = self._bind("rest_cols", whole * tile.lanes)
                with b.loop("et", columns - rest) as et:
                    scalar(rest + et)
