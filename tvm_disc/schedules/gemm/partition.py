"""The specification of a GEMM, and the sizes of its task space and scratch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import tvm
from tvm import tirx

from tvm_disc.schedules.gemm.algorithm import PANELS, Algorithm, Selection
from tvm_disc.schedules.gemm.integer import WORDS
from tvm_disc.schedules.gemm.layouts import panel_count
from tvm_disc.schedules.gemm.micro_kernel import bind_opaque
from tvm_disc.schedules.gemm.tile import GemmTile
from tvm_disc.target.dots import DOTS, QUAD
from tvm_disc.tir.builder import Block, i64
from tvm_disc.typing import Buffer, Expr, Size

FEW_ROWS = 3  # up to this many rows of A, kernels scale the sums instead of the quantized weights
WIDEST = 4  # largest factor by which the panels of a task grow, see GemmPartition._width
MASKED_BYTES = 32  # since AVX2, loads and stores can mask lanes
MASKED_BYTES_NARROW = 64  # only AVX-512 can mask elements of less than 32 bits
# a packed constant, in a specification of sizes only
GIVEN = cast("Buffer", True)
Place = Callable[[Size, Size], tuple[Buffer, Size, Size]]  # buffer, offset, row stride


@dataclass(frozen=True)
class Affine:
    """An operand in place: ``(g, o, k)`` is at ``buffer[base(b, g) + o * stride + k * k_stride]``.

    ``o`` is i for A and j for B. Strides are in elements. Only a literal stride of 1 enables direct
    or vectorized reads, so known strides must be passed as literals.
    """

    buffer: Buffer
    base: Callable[[Block, Size], Expr]
    stride: Size
    k_stride: Size


@dataclass(frozen=True)
class Direct:
    """A result stored without epilogue: ``(g, i, j)`` at ``buffer[base(b, g) + i * stride +
    j]``.
    """

    buffer: Buffer
    base: Callable[[Block, Size], Expr]
    stride: Size


@dataclass(frozen=True)
class Operand:
    """A or B of a GEMM, in one or several forms; kernels use the first that is given.

    Attributes:
        packed: a constant in a layout of :mod:`.layouts`: for A, ``RowsOfA`` with elements of
            ``acc_dtype``; for B, ``PanelsOfB`` with elements of ``acc_dtype`` or of a narrower
            type, ``QuadsOfB`` or ``WordsOfB``. It should be 64-byte aligned for speed.
        affine: a view, which is read in place, or copied by vectors if one of its strides is 1.
        fill: a function that emits a part of a copy. For A, ``fill(b, g, rows, k_block, target)``
            copies rows (first, count) of a K block (first, count) to (buffer, offset, row stride,
            dtype, lanes). For B, ``fill(b, g, k, columns, target)`` copies columns (first, count)
            of row k to (buffer, offset).
        load: ``load(b, g, o, k)`` is an element, where ``o`` is i for A and j for B. It must be
            pure: a copied A is evaluated once per group of panels, B once per range of tasks.
        matrices: number of matrices in ``packed``: item g of the batch reads matrix ``g %
            matrices``. 0: one for each item. For B, 0 or 1.
        depth: K of the matrix in ``packed`` if item g of the batch reads its rows ``[g * k, (g + 1)
            * k)``; 0: the item reads all rows.
    """

    packed: Buffer | None = None
    affine: Affine | None = None
    fill: Callable[..., None] | None = None
    load: Callable[[Block, Size, Size, Size], Expr] | None = None
    matrices: int = 1
    depth: int = 0


@dataclass(frozen=True)
class Quantized:
    """A quantized B: its value is ``(b - zero) * scale``, where ``b`` are the packed numbers.

    Row ``k`` uses row ``k / group`` of ``scale`` and ``zero``. These are panels as well; either may
    be absent. With ``bits``, a word of B holds several numbers along K (see
    :class:`.layouts.WordsOfB`). Kernels dequantize B in registers. For more than ``m_r`` rows, the
    first row block stores the dequantized panel of a K block in scratch for the others.

    With ``rounded``, rows of A are rounded to int8 by groups of K when they are copied. If the
    specification also has a dot instruction, the copy consists of bytes, which the instruction
    multiplies by the numbers of B. Otherwise, the copy consists of the rounded values as float32.
    """

    bits: int = 0
    group: int = 0
    scale: Buffer | None = None
    zero: Buffer | None = None
    rounded: bool = False


@dataclass(frozen=True)
class Stores:
    """The functions that finish the sums of a GEMM.

    ``scalar(b, g, i, j, value)`` finishes one output. ``vector(b, g, i, j0, lanes, values)``
    finishes ``lanes`` adjacent outputs along j, or emits nothing and returns False.
    """

    scalar: Callable[[Block, Size, Size, Size, Expr], None]
    vector: Callable[[Block, Size, Size, Size, int, Expr], bool] | None = None


@dataclass
class GemmSpec:
    """One GEMM: sizes (int64 expressions or ints), operands and the epilogue.

    If ``dot`` names a dot instruction and B is not quantized, a 32-bit word of A and of the packed
    B (see :class:`.layouts.QuadsOfB`) holds ``per`` numbers along K, and one step of K adds ``per``
    products. ``a.fill`` then writes numbers of 8 or 16 bits (:mod:`.integer`).

    If ``dtype`` differs from ``acc_dtype`` (half or int8 operands), operands are converted while
    they are copied, and not read in place, except for words of bytes (:func:`reads_words`). The
    scratch holds ``acc_dtype``.

    With ``direct``, kernels write the result in place if they can; ``store`` must write it to the
    same place.
    """

    batch: Size
    m: Size
    n: Size
    k: Size
    a: Operand
    b: Operand
    store: Stores
    dtype: str = "float32"
    acc_dtype: str = "float32"
    direct: Direct | None = None
    dot: str = ""
    quantized: Quantized | None = None

    @property
    def quads(self) -> bool:
        """Return whether kernels compute exact integer sums with a dot instruction."""
        return bool(self.dot) and self.quantized is None

    @property
    def per(self) -> int:
        """Return how many numbers along K a word of A holds; 1 if A does not consist of words."""
        return DOTS[self.dot].per if self.quads else 1

    @property
    def rounded(self) -> bool:
        """Return whether rows of A are rounded to int8."""
        return self.quantized is not None and self.quantized.rounded

    @property
    def bits(self) -> int:
        """Return the bits of a number of a quantized B if a word holds several; otherwise 0."""
        return self.quantized.bits if self.quantized is not None else 0

    @property
    def group(self) -> int:
        """Return how many rows of a quantized B share a scale; 0 without scales."""
        return self.quantized.group if self.quantized is not None else 0


def cdiv(x: Size, y: Size) -> Size:
    """Return ``x / y`` rounded up, folded for literals."""
    if isinstance(x, int) and isinstance(y, int):
        return -(-x // y)
    return tirx.truncdiv(i64(x) + i64(y) - 1, i64(y))


def div(x: Size, y: Size) -> Size:
    """Return ``x / y`` rounded down, for non-negative operands."""
    if isinstance(x, int) and isinstance(y, int):
        return x // y
    return tirx.truncdiv(i64(x), i64(y))


def bind_size(b: Block, name: str, value: Size) -> Size:
    """Return a literal unchanged, and any other size bound by :func:`bind_opaque`."""
    return value if isinstance(value, int) else bind_opaque(b, name, value)


def cheap_div(x: Size, y: Size) -> Size:
    """Return :func:`div` with a test for ``y == 1``, the common case, which avoids the division."""
    if isinstance(y, int):
        return div(x, y)
    return tirx.if_then_else(y == 1, i64(x), div(x, y))


def cheap_cdiv(x: Size, y: Size) -> Size:
    """Return :func:`cdiv` with a test for ``y == 1``."""
    if isinstance(y, int):
        return cdiv(x, y)
    return tirx.if_then_else(y == 1, i64(x), cdiv(x, y))


def least(x: Size, y: Size) -> Size:
    """Return the minimum, folded for literals."""
    return min(x, y) if isinstance(x, int) and isinstance(y, int) else tirx.min(i64(x), i64(y))


def most(x: Size, y: Size) -> Size:
    """Return the maximum, folded for literals."""
    return max(x, y) if isinstance(x, int) and isinstance(y, int) else tirx.max(i64(x), i64(y))


def choice(condition: Expr, x: Size, y: Size) -> Expr:
    """Return ``x`` if the condition holds, otherwise ``y``, as int64."""
    return tirx.Select(condition, i64(x), i64(y))


def either(condition: bool | Expr, x: Size, y: Size) -> Size:
    """Return :func:`choice`, folded for a condition known at compile time."""
    if isinstance(condition, bool):
        return x if condition else y
    return choice(condition, x, y)


def _bound(keep: Callable[[str, Size], Size], name: str, condition: bool | Expr) -> bool | Expr:
    """Return ``condition``, bound to a variable first if it is a run-time expression."""
    return condition if isinstance(condition, bool) else keep(name, choice(condition, 1, 0)) > 0


def is_one(x: Size) -> bool:
    """Return whether a size is the literal 1."""
    return (isinstance(x, int) and x == 1) or (isinstance(x, tirx.IntImm) and int(x.value) == 1)


def known(x: Size) -> Size:
    """Return a literal as a Python int, and any other size unchanged."""
    return int(x.value) if isinstance(x, tirx.IntImm) else x


@dataclass(frozen=True)
class EvenBlocks:
    """Blocks of rows: the first ``extra`` blocks have ``base + 1`` rows, the others ``base``."""

    base: Size
    extra: Size

    def start(self, block: Size) -> Size:
        """Return the first row of a block."""
        return block * self.base + least(block, self.extra)

    def height(self, block: Size) -> Size:
        """Return the number of rows of a block."""
        if isinstance(self.extra, int) and self.extra == 0:
            return self.base
        return self.base + tirx.Select(block < self.extra, i64(1), i64(0))


@dataclass(frozen=True)
class TaskSpan:
    """The tasks ``[lo, hi)`` to run; ``groups`` divides the row tiles from number ``begin`` on."""

    lo: Size
    hi: Size
    groups: EvenGroups
    begin: Size | None  # None means 0


@dataclass(frozen=True)
class EvenGroups:
    """``total`` items in ``count`` groups; group q begins at item ``q * total // count``.

    Unlike in :class:`EvenBlocks`, larger and smaller groups alternate, so that threads with equal
    numbers of groups have equal work. Computing the start of a group requires a division.
    """

    total: Size
    count: Size

    def start(self, group: Size) -> Size:
        """Return the first item of a group; ``start(count)`` is ``total``."""
        total, count = self.total, most(self.count, 1)
        if isinstance(total, int) and total <= 1:
            return group * total
        if isinstance(total, int) and isinstance(count, int) and total % count == 0:
            return group * (total // count)
        return cheap_div(i64(group) * i64(total), count)

    def span(
        self, group: Size, bind: Callable[[str, Size], Size], names: tuple[str, str]
    ) -> tuple[Size, Size]:
        """Return (first, count) of the items of a group, bound to variables of these names."""
        first = bind(names[0], self.start(group))
        return first, bind(names[1], self.start(group + 1) - first)


@dataclass(frozen=True)
class PanelColumns:
    """The columns of the panels of B: of ``n_r`` each, or those of :func:`.layouts.panel_starts` if
    B was packed at compile time.
    """

    n: Size
    tile: GemmTile
    vectors: EvenGroups | None

    def start(self, panel: Size) -> Size:
        """Return the first column of a panel."""
        if self.vectors is None:
            return panel * self.tile.n_r
        return self.vectors.start(panel) * self.tile.lanes

    def number(self, panel: Size) -> Size:
        """Return the number of columns of a panel."""
        n, n_r, even = self.n, self.tile.n_r, self.vectors
        if even is None:
            whole = isinstance(n, int) and n % n_r == 0
            return n_r if whole else least(n_r, n - panel * n_r)
        if isinstance(n, int) and isinstance(even.count, int) and even.count:
            each, rest = divmod(n, even.count)
            if rest == 0 and each % self.tile.lanes == 0:
                return each
        return least(self.start(panel + 1), n) - self.start(panel)

    def counts(self) -> tuple[int, ...]:
        """Return the possible numbers of vectors of a panel, ascending."""
        even = self.vectors
        if even is None or not (isinstance(even.total, int) and isinstance(even.count, int)):
            return vector_counts(self.n, self.tile)
        starts = [k * even.total // even.count for k in range(even.count)] + [even.total]
        return tuple(sorted({b - a for a, b in pairwise(starts)})) or (1,)


class GemmPartition:
    """The sizes of the task space and the scratch; ``bind`` binds a size to a variable."""

    def __init__(
        self,
        spec: GemmSpec,
        tile: GemmTile,
        selection: Selection = PANELS,
        bind: Callable[[str, Size], Size] | None = None,
    ) -> None:
        self.selection = selection
        keep = bind or (lambda _name, value: value)
        per, share = (cdiv, div) if bind is None else (cheap_cdiv, cheap_div)
        self.m, self.n, self.k = m, n, k = known(spec.m), known(spec.n), known(spec.k)
        self.k_whole = spec.b.depth or k
        if spec.quads:
            self.k_whole = self.k = k = keep("words", cdiv(k, spec.per))
        self.rest = keep("rest_columns", last_columns(spec, tile, selection))
        self.wide = keep("wide", n - self.rest)  # columns computed by register tiles
        self.panels = keep("panels", _panels(spec, tile, self.wide))
        self.blocks = keep("blocks", cdiv(m, tile.m_r))  # number of register tiles along M
        self.m_blocks = tile.m_blocks
        groups = keep("row_groups", cdiv(self.blocks, tile.m_blocks))
        self.groups_m = keep("groups_m", _even_tasks(spec, tile, groups, self.panels))
        self.width = self._width(spec, tile, keep)
        self.groups_n = keep("groups_n", cdiv(self.panels, self.width))
        # bound to a variable, because it is tested several times
        self.by_rows = _bound(keep, "by_rows", selection.by_rows)
        even = None
        if spec.b.packed is not None:
            even = EvenGroups(keep("vectors_of_n", cdiv(n, tile.lanes)), self.panels)
        self.columns = PanelColumns(self.wide, tile, even)
        base = keep("base_rows", share(m, most(self.blocks, 1)))
        self.rows = EvenBlocks(base, keep("extra_rows", m - base * self.blocks))
        turns = keep("turns", most(cdiv(k, tile.kc), 1))
        unit = spec.group if 0 < spec.group < k else 8  # each K block starts a group
        self.kc = keep("kc", cdiv(per(k, turns), unit) * unit)
        k_blocks = most(cdiv(k, most(self.kc, 1)), 1)
        if bind is not None and not isinstance(turns, int):
            k_blocks = tirx.if_then_else(turns == 1, i64(1), k_blocks)
        self.k_blocks = keep("k_blocks", k_blocks)
        self.one_k = isinstance(self.k_blocks, int) and self.k_blocks == 1

        itemsize = max(1, tirx.const(0, spec.acc_dtype).ty.dtype.bits // 8)
        line = max(1, 64 // itemsize)
        # An odd number of cache lines, as in packed_row_elems().
        self.row_elems = keep("row_elems", (div(cdiv(k, line), 2) * 2 + 1) * line)
        self.block_elems = keep("block_elems", (div(cdiv(self.kc, line), 2) * 2 + 1) * line)
        tile_elems = tile.m_r * tile.n_r
        if stores_direct(spec, tile):
            tile_elems = 0
        held = 1 if self.one_k else tile.m_blocks * least(self.panels, self.width)
        self.sum_elems = keep("sum_elems", tile_elems * held)
        self.a_at = keep("a_at", cdiv(self.sum_elems, line) * line)
        rows = least(m, tile.m_blocks * tile.m_r)
        # whether a K block of A is copied: a bool or a run-time condition
        self.copied = copies_a(spec) or selection.uses(Algorithm.COPIED)
        a_elems = either(self.copied, rows * self.block_elems, 0)
        # Offset of the numbers that describe the groups of rounded rows (WORDS for each group).
        self.parts_at = keep("parts_at", self.a_at + a_elems)
        self.row_parts = WORDS * cdiv(self.kc, spec.group) if spec.rounded and spec.dot else 0
        a_elems = a_elems + cdiv(rows * self.row_parts, line) * line
        self.b_at = keep("b_at", self.a_at + a_elems)
        packs = spec.b.packed is None and not never_packs_b(spec, tile, selection)
        b_elems = least(self.panels, self.width) * tile.n_r * k if packs else 0
        if spec.quantized is not None and not (spec.dot or (isinstance(m, int) and m <= FEW_ROWS)):
            b_elems = least(self.kc, k) * tile.n_r
        self.elems = self.b_at + b_elems

    def _width(self, spec: GemmSpec, tile: GemmTile, keep: Callable[[str, Size], Size]) -> Size:
        """Return the number of panels per task: more for packed weights and many groups of rows.

        A block of A stays in the second-level cache for all panels of the task, while packed panels
        are streamed. The result is ``n_panels`` times half the number of groups of rows, but at
        most ``WIDEST * n_panels`` and half of the panels, and at least ``n_panels``. Fewer and
        larger tasks would balance badly: of nine tasks, one of two threads runs five.
        """
        if spec.b.packed is None:
            return tile.n_panels
        wider = most(least(div(self.groups_m, 2), WIDEST), 1) * tile.n_panels
        return keep("width", most(least(wider, cdiv(self.panels, 2)), tile.n_panels))

    def tasks(self, batch: Size) -> Size:
        """Return the number of independent tasks."""
        groups = either(self.by_rows, self.blocks, batch * self.groups_m * self.groups_n)
        return either(self.selection.uses(Algorithm.AT_ONCE), batch, groups)

    def span(self, lo: Expr, hi: Expr, bind: Callable[[str, Size], Size]) -> TaskSpan:
        """Return the work of tasks ``[lo, hi)``.

        If a task is one row of register tiles, the rows of the range are merged into groups.
        """
        rows = self.by_rows
        if rows is False:
            return TaskSpan(lo, hi, EvenGroups(self.blocks, self.groups_m), None)
        groups = bind("groups", cheap_cdiv(hi - lo, self.m_blocks))

        def bound(name: str, here: Size, there: Size) -> Size:
            return bind(name, either(rows, here, there))

        return TaskSpan(
            bound("first_task", 0, lo),
            bound("end_task", groups * self.groups_n, hi),
            EvenGroups(
                bound("span_blocks", hi - lo, self.blocks),
                bound("span_groups", groups, self.groups_m),
            ),
            bound("span_begin", lo, 0),
        )


def _even_tasks(spec: GemmSpec, tile: GemmTile, groups: Size, panels: Size) -> Size:
    """Return the number of groups of row blocks; it is made even if each group is a task."""
    only = isinstance(panels, int) and panels <= tile.n_panels and is_one(known(spec.batch))
    if spec.b.packed is None or not only or tile.m_blocks == 1:
        return groups
    # Two threads then have equal work. If the number of threads is even, none of them has more
    # work than with an odd number of groups.
    return either(groups > 1, 2 * cdiv(groups, 2), groups)


def _panels(spec: GemmSpec, tile: GemmTile, n: Size) -> Size:
    """Return the number of panels of ``n`` columns of B; see :func:`.layouts.panel_count`."""
    panels = cdiv(n, tile.n_r)
    if spec.b.packed is None or spec.quantized is not None or tile.vectors <= 2:
        return panels
    if isinstance(n, int):
        return panel_count(n, tile.n_r, tile.lanes)
    odd = tirx.all(i64(panels) > 1, tirx.truncmod(i64(panels), i64(2)) > 0)
    return panels + choice(tirx.all(odd, n > (2 * panels + 1) * tile.lanes), 1, 0)


def in_place_operands(spec: GemmSpec, tile: GemmTile) -> bool:
    """Return whether kernels can read both operands and write the result in place.

    A is then contiguous along K, nothing is converted, and there is no epilogue.
    """
    a, b = spec.a.affine, spec.b.affine
    if spec.direct is None or spec.dtype != spec.acc_dtype or a is None or b is None:
        return False
    if spec.a.packed is not None or spec.b.packed is not None or tile.lanes == 1:
        return False
    return is_one(a.k_stride)


def never_packs_b(spec: GemmSpec, tile: GemmTile, selection: Selection) -> bool:
    """Return whether no task packs B: if it is read in place, all vectors are full or masked."""
    packs = selection.uses(Algorithm.PANELS, Algorithm.LAST_APART, Algorithm.SHARED_VECTORS)
    ragged = not (reads_masked(spec, tile) or whole_vectors(spec, tile))
    return packs is False and not (ragged and selection.uses(Algorithm.IN_PLACE) is not False)


def whole_vectors(spec: GemmSpec, tile: GemmTile) -> bool:
    """Return whether N is known to be a multiple of the vector length."""
    n = known(spec.n)
    return isinstance(n, int) and n % tile.lanes == 0


def may_leave_columns(spec: GemmSpec, tile: GemmTile) -> bool:
    """Return whether the last columns can be computed as inner products along K.

    Columns of B must be contiguous, and N unknown.
    """
    view = spec.b.affine
    if view is None or not in_place_operands(spec, tile) or isinstance(known(spec.n), int):
        return False
    return is_one(view.k_stride) and not is_one(view.stride)


def last_columns(spec: GemmSpec, tile: GemmTile, selection: Selection) -> Size:
    """Return the number of columns that are computed as inner products along K.

    With ``LAST_APART``, these are the columns after the last full vector, if there is a full one;
    columns of B are contiguous. In a register tile, they would cost as much as a full vector, both
    to transpose and to multiply. With other algorithms, the number is 0.
    """
    apart = selection.uses(Algorithm.LAST_APART)
    if apart is False:
        return 0
    n, lanes = i64(spec.n), tile.lanes
    rest = n - div(n, lanes) * lanes
    return either(n > lanes if apart is True else tirx.all(apart, n > lanes), rest, 0)


def vector_counts(n: Size | None, tile: GemmTile) -> tuple[int, ...]:
    """Return the possible numbers of vectors of a panel if there are ``n`` columns, ascending."""
    if not isinstance(n, int):
        return tuple(range(1, tile.vectors + 1))
    last = -(-(n % tile.n_r) // tile.lanes)
    return tuple(sorted({last, tile.vectors * (n >= tile.n_r)} - {0})) or (1,)


def has_masks(vector_bytes: int, dtype: str) -> bool:
    """Return whether loads of ``dtype`` can mask lanes; a vector has ``vector_bytes`` bytes."""
    narrow = int(tvm.DataType(dtype).bits) < 32
    return vector_bytes >= (MASKED_BYTES_NARROW if narrow else MASKED_BYTES)


def reads_masked(spec: GemmSpec, tile: GemmTile) -> bool:
    """Return whether the last vector of a row-major B is read under a mask."""
    view, n = spec.b.affine, known(spec.n)
    if spec.b.packed is not None or view is None or not is_one(view.stride):
        return False
    if spec.dtype != spec.acc_dtype or (isinstance(n, int) and n % tile.lanes == 0):
        return False
    return has_masks(tile.lanes * int(tvm.DataType(spec.dtype).bits) // 8, spec.dtype)


def has_close_rows(spec: GemmSpec, tile: GemmTile) -> bool:
    """Return whether rows of a row-major B are close enough to read panels in place for any M."""
    step = None if spec.b.affine is None else known(spec.b.affine.k_stride)
    return isinstance(step, int) and 0 < step <= 2 * tile.n_r


def stores_direct(spec: GemmSpec, tile: GemmTile) -> bool:
    """Return whether kernels store to ``direct``: vectors are full, or stores can be masked."""
    if spec.direct is None:
        return False
    itemsize = tirx.const(0, spec.acc_dtype).ty.dtype.bits // 8
    return whole_vectors(spec, tile) or tile.lanes * itemsize >= MASKED_BYTES


def may_copy_rows(spec: GemmSpec, tile: GemmTile) -> bool:
    """Return whether the template offers a copy of each K block of A, although A could be read in
    place: B is packed, and the rows of A may be longer than a block of K.

    The kernels of one K block then read a small part of each row. They touch one page per row, and
    the rows often compete for the same sets of the first-level cache.
    """
    k = known(spec.k)
    if spec.a.packed is not None or spec.b.packed is None or copies_a(spec) or spec.quads:
        return False
    return not (isinstance(k, int) and k <= tile.kc)


def may_stride(spec: GemmSpec, tile: GemmTile) -> bool:
    """Return whether one row of A reads a packed B at a stride that is a power of two.

    A load advances by one step of K per sum, see :func:`.tile.independent_sums`.
    """
    n, plain = known(spec.n), not (spec.dot or spec.quantized) and spec.dtype == spec.acc_dtype
    if spec.b.packed is None or not plain or not isinstance(n, int) or n % tile.lanes:
        return False
    return tile.vectors & (tile.vectors - 1) == 0


def copies_a(spec: GemmSpec) -> bool:
    """Return whether A is copied to rows along K, of ``acc_dtype`` or of words of integers."""
    if spec.a.packed is not None or reads_words(spec):
        return False
    in_place = spec.a.affine is not None and is_one(spec.a.affine.k_stride)
    return spec.rounded or not in_place or spec.dtype != spec.acc_dtype


def reads_words(spec: GemmSpec) -> bool:
    """Return whether kernels read words of bytes of A in place: the bytes are unsigned, and rows
    consist of whole words.
    """
    view, k = spec.a.affine, known(spec.k)
    if not spec.quads or spec.per != QUAD or spec.dtype != "uint8" or view is None:
        return False
    sizes = k, known(view.stride)
    return is_one(view.k_stride) and all(isinstance(x, int) and x % QUAD == 0 for x in sizes)
