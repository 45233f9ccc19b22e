"""Rows of A as 32-bit words of small integers for dot instructions (:mod:`tvm_disc.target.dots`).

Rows of integers are converted as :class:`NumbersOfA` describes; their sums are exact. Rows of
floats are rounded to int8 by blocks along K (:func:`round_row`), and multiplied by quantized
weights (:func:`emit_groups`).

Each block of a row has one scale, which maps its largest magnitude to 127. Rounding is to nearest
even.

    c[i, j] = sum over groups g of K:
        scale_a[i, g] * scale_b[g, j] * (sum of a[i, k] * (b[k, j] - zero[g, j]) over k in g)

Dot instructions compute the inner sums exactly in int32. An offset is added to the stored numbers
of B, so that its bytes are unsigned; the inner sums therefore start at ``-offset * sum of a``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tvm import tirx

from tvm_disc.target.dots import DOTS, QUAD, Dot
from tvm_disc.tir.builder import Block, byte_offset, const, i64, prefetch, ramp
from tvm_disc.typing import Buffer, Expr, Size

WORDS = 3  # numbers per block: its scale, the initial value of its sums, the sum of its bytes
LARGEST = 127
_TINY = 1e-30  # a block whose numbers are all smaller is rounded to zeros
# Added to a float32 whose magnitude is below 2^22, it leaves the rounded integer in the low bits.
_MAGIC = 1.5 * 2**23
_MAGIC_BITS = 0x4B400000
_MAGNITUDE, _INFINITY = 0x7FFFFFFF, 0x7F800000


@dataclass(frozen=True)
class Bytes:
    """Location of the numbers that describe the blocks of a row that is rounded to bytes.

    Attributes:
        at: offset in the scratch buffer. There are ``WORDS`` numbers for each block: its scale,
            ``-offset`` times the sum of its bytes as int32, and the sum of its bytes.
        offset: the number that is added to each number of B, so that it is unsigned.
    """

    at: Size
    offset: int


def round_row(
    b: Block, buffer: Buffer, at: Size, sizes: tuple[Size, Size], chunk: int, form: Bytes | None
) -> None:
    """Emit code that rounds one float32 row, at offset ``at`` of ``buffer``, to int8 in place.

    ``sizes`` is (elements of the row, elements of a block), both multiples of ``chunk``, the
    elements of a vector. With ``form``, the row becomes words of four bytes, and the numbers that
    describe its blocks are stored at ``form.at``; without, it becomes the rounded values as
    float32. Products with a block that contains an infinity or NaN become NaN.
    """
    depth, block = sizes
    i32 = f"int32x{chunk}"

    def splat(value: float | int | Expr, dtype: str = "float32") -> Expr:
        value = const(value, dtype) if isinstance(value, float | int) else value
        return tirx.Broadcast(value, chunk)

    peak, total = (b.alloc(name, chunk, "int32") for name in ("peak", "total"))
    whole = ramp(i64(0), chunk)
    with b.loop("block", tirx.truncdiv(i64(depth) + (i64(block) - 1), i64(block))) as part:
        begin = b.bind("begin", at + part * block)
        count = tirx.truncdiv(tirx.min(i64(block), i64(depth) - part * block), i64(chunk))
        count = b.bind("chunks", count)
        for sums in (peak, total):
            b.store(sums, whole, const(0, i32))
        with b.loop("c", count) as c:
            # The bits of magnitudes have the order of the magnitudes; NaN is the largest.
            bits = tirx.reinterpret(i32, buffer[ramp(begin + c * chunk, chunk)])
            size = b.bind("size", bits & const(_MAGNITUDE, i32))
            b.store(peak, whole, tirx.max(peak[whole], size))
        most = b.bind("most", _reduced("smax", peak[whole]))
        largest = b.bind("largest", tirx.reinterpret("float32", most))
        finite = most < const(_INFINITY, "int32")
        size = tirx.Select(finite, largest / _float(LARGEST), _float(math.nan))
        scale = b.bind("scale", size)
        times = tirx.Select(largest > _float(_TINY), _float(LARGEST) / largest, _float(0.0))
        inverse = b.bind("inverse", times)
        with b.loop("c", count) as c:
            place = b.bind("place", c * chunk)
            x = buffer[ramp(begin + place, chunk)]
            near = b.bind("near", x * splat(inverse) + splat(_MAGIC))
            if form is None:
                value = (near - splat(_MAGIC)) * splat(scale)
                b.store(buffer, ramp(begin + place, chunk), value)
            else:
                number = b.bind("number", tirx.reinterpret(i32, near) - splat(_MAGIC_BITS, "int32"))
                b.store(total, whole, total[whole] + number)
                bytes_ = tirx.Cast(f"int8x{chunk}", number)
                words = tirx.reinterpret(f"float32x{chunk // 4}", bytes_)
                to = at + tirx.truncdiv(part * block + place, i64(4))
                b.store(buffer, ramp(to, chunk // 4), words)
        if form is not None:
            found = b.bind("found", _reduced("add", total[whole]))
            here = b.bind("here", form.at + part * WORDS)
            offset = tirx.reinterpret("float32", found * const(-form.offset, "int32"))
            for n, value in enumerate((scale, offset, tirx.Cast("float32", found))):
                b.store(buffer, here + n, value)


def _float(value: float) -> Expr:
    return const(float(value), "float32")


def _reduced(name: str, vector: Expr) -> Expr:
    return tirx.call_llvm_pure_intrin("int32", f"llvm.vector.reduce.{name}", vector)


def chunk_of(k: int, block: int) -> int:
    """Return the vector length of :func:`round_row`: 32 if it divides both sizes, otherwise 8."""
    return 32 if k % 32 == 0 and block % 32 == 0 else 8


# -- exact sums ---------------------------------------------------------------------------------

_SIGN = -128


@dataclass(frozen=True)
class NumbersOfA:
    """The type and count of the numbers in a 32-bit word of A.

    Attributes:
        dtype: the element type of A in memory: int8, uint8 or int16.
        per: numbers per word.
    """

    dtype: str
    per: int

    @property
    def stored(self) -> str:
        """Return the element type of the numbers in a word."""
        return "uint8" if self.per == QUAD else "int16"

    @property
    def added(self) -> int:
        """Return the number that is added to each element of A, so that bytes are unsigned."""
        return -_SIGN if self.per == QUAD and self.dtype == "int8" else 0

    def of(self, value: Expr, lanes: int) -> Expr:
        """Return a vector of elements of A, converted to the numbers of a word."""
        suffix = "" if lanes == 1 else f"x{lanes}"
        if self.per != QUAD:
            return tirx.Cast(f"int16{suffix}", value)
        if self.dtype == "uint8":
            return value
        sign = const(_SIGN, "int8") if lanes == 1 else tirx.Broadcast(const(_SIGN, "int8"), lanes)
        return tirx.reinterpret(f"uint8{suffix}", value ^ sign)

    def view(self, b: Block, words: Buffer) -> Buffer:
        """Declare a view of a buffer of words as a buffer of numbers."""
        data = b.bind("numbers_at", byte_offset(words.data, 0, self.stored))
        return b.declare("numbers", data, self.stored)


# -- products ------------------------------------------------------------------------------------

_UNROLLED = 4  # words of B in an iteration of the unrolled loop
# B is prefetched this many words ahead. With the prefetch, one row times 43 matrices of 768 x 3072
# four-bit weights took 0.75 of the time.
_AHEAD = 16


class Form(Protocol):
    """The fields of a :class:`.micro_kernel.KernelForm` that :func:`emit_groups` reads."""

    @property
    def bits(self) -> int:
        """Return the bits of a number of B."""

    @property
    def dot(self) -> str:
        """Return the name of the dot instruction."""

    @property
    def zeros(self) -> bool:
        """Return whether B has zero points."""

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """Return the names, ``scale`` and ``zero``, and element types of the parts of B."""


class Tile(Protocol):
    """The fields of a :class:`.micro_kernel.RegisterTile` that :func:`emit_groups` reads."""

    blk: Block

    @property
    def form(self) -> Form:
        """Return the optional features of the kernel."""

    rows: int
    vectors: int
    lanes: int
    splits: int
    params: dict[str, Expr]
    buffers: dict[str, Buffer]
    a: Buffer
    b: Buffer
    k: Expr
    ldb: Expr
    starts: list[Expr]
    tile_index: list[tuple[int, int]]


def add_products(dot: Dot, lanes: int, total: Expr, left: Expr, right: Expr) -> Expr:
    """Return ``total`` plus, in each lane, the products of the numbers of two words.

    ``left`` and ``right`` are vectors of int32 words. ``dot`` must not compute int16 sums.
    """
    (name,), sums = dot.intrinsics[lanes], f"int32x{lanes}"
    if dot.per == QUAD:
        operands = (_bytes(part, lanes) for part in (left, right))
        return tirx.call_llvm_pure_intrin(sums, name, total, *operands)
    operands = (tirx.reinterpret(f"int16x{dot.per * lanes}", part) for part in (left, right))
    return total + tirx.call_llvm_pure_intrin(sums, name, *operands)


def _bytes(words: Expr, lanes: int) -> Expr:
    return tirx.reinterpret(f"int8x{QUAD * lanes}", words)


class _Sums:
    """The int32 sums of one group, for each row and vector of the tile."""

    def __init__(self, b: Block, dot: Dot, lanes: int, shape: tuple[int, int], splits: int) -> None:
        self.b, self.dot, self.lanes, self.splits = b, dot, lanes, splits
        self.index = [(i, v) for i in range(shape[0]) for v in range(shape[1])]
        self.at = ramp(i64(0), lanes)
        self.sums = [self._buffers(f"sum_{s}", lanes, "int32") for s in range(splits)]
        self.pairs_at = ramp(i64(0), 2 * lanes)
        held = range(splits if dot.quads else 0)
        self.pairs = [self._buffers(f"pairs_{s}", 2 * lanes, "int16") for s in held]

    def _buffers(self, name: str, elems: int, dtype: str) -> dict[tuple[int, int], Buffer]:
        return {(i, v): self.b.alloc(f"{name}_{i}_{v}", elems, dtype) for i, v in self.index}

    def begin(self, first: Sequence[Expr]) -> None:
        """Set the initial value of the sums of row i to ``first[i]``."""
        for i, v in self.index:
            for s, sums in enumerate(self.sums):
                value = const(0, "int32") if s else first[i]
                self.b.store(sums[i, v], self.at, tirx.Broadcast(value, self.lanes))

    def clear_pairs(self) -> None:
        """Set all int16 sums of pairs of products to 0."""
        zero = const(0, f"int16x{2 * self.lanes}")
        for pairs in self.pairs:
            for buffer in pairs.values():
                self.b.store(buffer, self.pairs_at, zero)

    def add(self, s: int, i: int, v: int, left: Expr, right: Expr) -> None:
        """Add the products of words of B (``left``) and one word of A (``right``, broadcast)."""
        if not self.pairs:
            buffer = self.sums[s][i, v]
            total = add_products(self.dot, self.lanes, buffer[self.at], left, right)
            self.b.store(buffer, self.at, total)
            return
        operands = (_bytes(part, self.lanes) for part in (left, right))
        pairs, name = f"int16x{2 * self.lanes}", self.dot.intrinsics[self.lanes][0]
        product = tirx.call_llvm_pure_intrin(pairs, name, *operands)
        buffer = self.pairs[s][i, v]
        self.b.store(buffer, self.pairs_at, buffer[self.pairs_at] + product)

    def widen_pairs(self) -> None:
        """Add the int16 sums of pairs to the int32 sums."""
        ones = const(1, f"int16x{2 * self.lanes}")
        for s, pairs in enumerate(self.pairs):
            for (i, v), buffer in pairs.items():
                name = self.dot.intrinsics[self.lanes][1]
                part = tirx.call_llvm_pure_intrin(
                    f"int32x{self.lanes}", name, buffer[self.pairs_at], ones
                )
                total = self.sums[s][i, v]
                self.b.store(total, self.at, total[self.at] + part)

    def whole(self, i: int, v: int) -> Expr:
        """Return the sums of row i and vector v as float32."""
        total = self.sums[0][i, v][self.at]
        for sums in self.sums[1:]:
            total = total + sums[i, v][self.at]
        return tirx.Cast(f"float32x{self.lanes}", total)


def emit_groups(tile: Tile) -> list[list[Buffer]]:
    """Emit the loop over groups of K; return the float32 sums, indexed by row and vector."""
    return _Groups(tile).emit()


class _Groups:
    def __init__(self, tile: Tile) -> None:
        self.tile, self.blk, form = tile, tile.blk, tile.form
        self.rows, self.vectors, self.lanes = tile.rows, tile.vectors, tile.lanes
        self.per = 32 // form.bits  # numbers in a word of B
        self.quads = self.per // QUAD
        shape = (self.rows, self.vectors)
        self.sums = _Sums(self.blk, DOTS[form.dot], self.lanes, shape, tile.splits)
        self.left = [
            [self.blk.alloc(f"left_{q}_{v}", self.lanes, "int32") for v in range(self.vectors)]
            for q in range(self.quads)
        ]
        self.at = ramp(i64(0), self.lanes)

    def emit(self) -> list[list[Buffer]]:
        blk, tile = self.blk, self.tile
        totals = [
            [blk.alloc(f"total_{i}_{v}", self.lanes, "float32") for v in range(self.vectors)]
            for i in range(self.rows)
        ]
        for i, v in tile.tile_index:
            blk.store(totals[i][v], self.at, const(0.0, f"float32x{self.lanes}"))
        group = tile.params["group"]
        with blk.loop("part", tirx.truncdiv(tile.k + group - 1, group)) as part:
            begin = blk.bind("begin", part * group)
            depth = blk.bind("depth", tirx.min(group, tile.k - begin))
            of_rows = [
                blk.bind(f"of_row_{i}", tile.params["rows_step"] * i + part * WORDS)
                for i in range(self.rows)
            ]
            described = tile.buffers["rows"]
            self.sums.begin([tirx.reinterpret("int32", described[at + 1]) for at in of_rows])
            self._words(begin, depth)
            row_at = blk.bind("row_at", part * tile.ldb)
            parts = {name: self._of_group(name, kind, row_at) for name, kind in tile.form.parts}
            for i, v in tile.tile_index:
                value = self.sums.whole(i, v)
                if tile.form.zeros:
                    by = tirx.Broadcast(described[of_rows[i] + 2], self.lanes)
                    value = value - parts["zero"][v] * by
                by = tirx.Broadcast(described[of_rows[i]], self.lanes)
                scale = by * parts["scale"][v]
                blk.store(totals[i][v], self.at, value * scale + totals[i][v][self.at])
        return totals

    def _of_group(self, part: str, dtype: str, row_at: Expr) -> list[Expr]:
        """Return the scales or zeros of the tile's columns as vectors of float32."""
        found: list[Expr] = []
        for v in range(self.vectors):
            value = self.tile.buffers[part][ramp(row_at + v * self.lanes, self.lanes)]
            if dtype == "float16":
                value = tirx.Cast(f"float32x{self.lanes}", value)
            found.append(self.blk.bind(part, value))
        return found

    def _words(self, begin: Expr, depth: Expr) -> None:
        """Emit the products of one group: an unrolled loop over words of B, then the rest."""
        blk = self.blk
        first = blk.bind("first_word", tirx.truncdiv(begin, i64(self.per)))
        words = blk.bind("words", tirx.truncdiv(depth, i64(self.per)))
        most = DOTS[self.tile.form.dot].quads // self.quads
        unrolled = min(_UNROLLED, most) if most else _UNROLLED
        whole = blk.bind("whole", tirx.truncdiv(words, i64(unrolled)))
        with blk.loop("w", whole) as w:
            self._some(first + w * unrolled, unrolled)
        done = blk.bind("done", whole * unrolled)
        with blk.loop("w", words - done) as w:
            self._some(first + done + w, 1)

    def _some(self, word: Expr, count: int) -> None:
        self.sums.clear_pairs()
        for n in range(count):
            self._word(self.blk.bind("word", word + n), n)
        self.sums.widen_pairs()

    def _word(self, word: Expr, n: int) -> None:
        blk, tile = self.blk, self.tile
        row = blk.bind("b_row", word * tile.ldb)
        for v in range(self.vectors):
            place = row + _AHEAD * tile.ldb + v * self.lanes
            blk.eval(prefetch(tile.b, place, to_write=False))
        for v in range(self.vectors):
            numbers = blk.bind("numbers", tile.b[ramp(row + v * self.lanes, self.lanes)])
            for q, value in enumerate(self._quads_of(numbers)):
                blk.store(self.left[q][v], self.at, value)
        for q in range(self.quads):
            s = (n * self.quads + q) % self.sums.splits
            for i in range(self.rows):
                at = tile.starts[i] + word * self.quads + q
                right = tirx.Broadcast(tile.a[at], self.lanes)
                for v in range(self.vectors):
                    self.sums.add(s, i, v, self.left[q][v][self.at], right)

    def _quads_of(self, numbers: Expr) -> list[Expr]:
        """Return the numbers of a word of B as words of four unsigned bytes."""
        if self.quads == 1:
            return [numbers]
        wide = f"int32x{self.lanes}"
        low = const(0x0F0F0F0F, wide)
        return [numbers & low, (numbers >> const(4, wide)) & low]


__all__ = ["WORDS", "Bytes", "NumbersOfA", "add_products", "chunk_of", "emit_groups", "round_row"]
