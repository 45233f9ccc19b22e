"""Register-tile GEMM kernels: fully unrolled bodies, one per (rows, vectors).

``c[i, j] (+)= sum_k a[i, k] * b[k, j]`` for ``rows x (vectors * lanes)`` outputs, with

* ``a``: row ``i`` at ``i * lda``, contiguous along K; elements are broadcast;
* ``b``: row ``k`` at ``k * ldb``, contiguous along columns; whole vectors are read;
* ``c``: row ``i`` at ``i * ldc``; if ``accumulate`` is nonzero, the sums are added to its content.

Kernels do not depend on shapes, fusion or epilogues, so all GEMMs of a program share them. There is
a kernel for each number of rows ``1 .. m_r``. A dynamic M is divided into nearly equal blocks, and
each block dispatches on its row count. This is residue dispatch as in Nimble, with balanced blocks
so that no block has only a few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from typing import Any

import tvm
from tvm import tirx

from tvm_disc.relay.kernel_ops import NIBBLES
from tvm_disc.schedules.gemm.integer import add_products, emit_groups
from tvm_disc.schedules.gemm.tile import GemmTile, independent_sums
from tvm_disc.target.dots import DOTS
from tvm_disc.target.isa import Isa
from tvm_disc.tir.builder import (
    BFLOAT16,
    INDEX,
    Block,
    KernelFunction,
    call,
    const,
    dtype_of,
    element_dtype,
    first_lanes,
    i64,
    loaded,
    masked_load,
    prefetch,
)
from tvm_disc.tir.imports import provide
from tvm_disc.tir.llvm_ops import emitting_for, has_native, lookup
from tvm_disc.typing import UNSET, Buffer, Expr, GlobalVar, PrimFunc, Size

# Up to this many rows, packed weights are streamed at memory speed. Panels are consecutive, so the
# hardware prefetcher reads ahead. Software prefetches would compete for its fill buffers: with
# them, one and two rows times 768 x 2304 took 1.3 times as long on a Zen 4, three rows 1.1 times.
_STREAMED_ROWS = 3


def ramp(base: Expr | int, lanes: int) -> Expr:
    """Return the indices of ``lanes`` elements from ``base``; a scalar index if ``lanes`` is 1."""
    return i64(base) if lanes == 1 else tirx.Ramp(i64(base), i64(1), lanes)


def vload(buf: Buffer, base: Expr | int, lanes: int) -> Expr:
    """Return ``lanes`` consecutive elements of ``buf`` from ``base`` on."""
    return tirx.BufferLoad(buf, [ramp(base, lanes)])


def vstore(b: Block, buf: Buffer, base: Expr | int, lanes: int, value: Expr) -> None:
    """Store ``lanes`` consecutive elements."""
    b.store(buf, ramp(base, lanes), value)


def splat(value: Expr, lanes: int) -> Expr:
    """Return ``value`` broadcast to all lanes."""
    return value if lanes == 1 else tirx.Broadcast(value, lanes)


def bind_opaque(b: Block, name: str, value: Expr | int) -> Expr:
    """Bind an int64 value to a variable loaded from a one-element stack buffer.

    Simplification passes substitute ordinary bindings, which takes seconds for long index
    arithmetic, but they do not track values in memory. LLVM does, and removes the buffer.
    """
    if isinstance(value, int | tirx.IntImm | tirx.Var) or dtype_of(value) != INDEX:
        return b.bind(name, value)
    cell = b.alloc(f"{name}_cell", 1, INDEX)
    b.store(cell, 0, value)
    return b.bind(name, cell[i64(0)])


def widened(value: Expr, dtype: str, lanes: int) -> Expr:
    """Return ``value`` converted to ``dtype``; uint16 bits of bfloat16 become float32."""
    suffix = "" if lanes == 1 else f"x{lanes}"
    if dtype_of(value) == dtype + suffix:
        return value
    if dtype == "float32" and element_dtype(value) == "uint16":
        return loaded(value, BFLOAT16)
    if element_dtype(value) == "bfloat16":
        return widened(tirx.reinterpret(f"uint16{suffix}", value), dtype, lanes)
    return tirx.Cast(dtype + suffix, value)


def nibble_of(words: Expr, place: int) -> Expr:
    """Return the number at ``place`` in each word of eight 4-bit numbers, as float32."""
    lanes = int(str(words.ty.dtype).partition("x")[2] or 1)
    shift = 8 * (place % 4) + 4 * (place // 4)
    if has_native(lanes):
        moved = words >> splat(const(shift, "int32"), lanes) if shift else words
        return lookup([*range(8), *range(-8, 0)], moved)
    high = words << splat(const(28 - shift, "int32"), lanes) if shift < 28 else words
    return widened(high >> splat(const(28, "int32"), lanes), "float32", lanes)


@dataclass(frozen=True)
class KernelForm:
    """Optional features of a register-tile kernel; some add :attr:`pointers` and :attr:`sizes`.

    Attributes:
        ahead: each K step prefetches one cache line to the second-level cache for the next kernel.
            Parameters: pointer ``ahead``, and the stride ``ahead_step`` in elements.
        tail: only the first ``tail`` lanes of the last vector of ``c`` exist.
        short: after the first ``whole`` K steps, which may read past a row of ``b``, the last
            vector of ``b`` is masked to ``tail`` lanes.
        b_dtype: element type of B if narrower than the sums; ``uint16`` holds bfloat16 bits.
        dot: name of a dot instruction (:mod:`tvm_disc.target.dots`), or "". A and B are then
            32-bit words of integers (:mod:`.integer`). Without ``scaled``, the sums start at the
            values of the row before B's first row. With ``scaled``, numbers of B have ``bits``
            bits, and ``rows``, of row stride ``rows_step``, has ``WORDS`` numbers for each group.
        tight: rows of a packed B are not padded beyond the last vector.
        parts: names and element types of the arrays with one row per ``group`` rows of a quantized
            B. Sums are scaled per group by ``scale``; ``zero`` is subtracted from B before that.
        keeps: each row of B is also stored, dequantized, at ``kept`` with a stride ``kept_step``.
        bits: bits of a number of B if a word holds several (:class:`.layouts.WordsOfB`), or 0.
    """

    ahead: bool = False
    tail: bool = False
    short: bool = False
    b_dtype: str = ""
    dot: str = ""
    tight: bool = False
    parts: tuple[tuple[str, str], ...] = ()
    keeps: bool = False
    bits: int = 0

    @property
    def nibbles(self) -> bool:
        """Return whether B consists of words of eight 4-bit numbers, widened to float32."""
        return self.bits == 4 and not self.dot

    @property
    def quads(self) -> bool:
        """Return whether the results are exact integer sums of a dot instruction."""
        return bool(self.dot) and not self.scaled

    @property
    def rounded(self) -> bool:
        """Return whether A is rounded to int8 by groups of K."""
        return bool(self.dot) and self.scaled

    @property
    def scaled(self) -> bool:
        """Return whether sums are scaled per group of a quantized B."""
        return "scale" in dict(self.parts)

    @property
    def zeros(self) -> bool:
        """Return whether a quantized B has zero points."""
        return "zero" in dict(self.parts)

    @property
    def pointers(self) -> tuple[str, ...]:
        """Return the names of the pointer parameters; they precede the sizes."""
        more = ("kept",) * self.keeps + ("rows",) * self.rounded
        return ("a", "b", "c", *("ahead",) * self.ahead, *dict(self.parts), *more)

    @property
    def sizes(self) -> tuple[str, ...]:
        """Return the names of the size parameters."""
        names = ("k", "lda", "ldb", "ldc", "accumulate")
        more = ("ahead_step",) * self.ahead + ("tail",) * self.masks + ("whole",) * self.short
        more += ("group",) * self.scaled + ("kept_step",) * self.keeps
        more += ("rows_step",) * self.rounded
        return (*names, *more)

    @property
    def masks(self) -> bool:
        """Return whether the last vector may be partial."""
        return self.tail or self.short


PLAIN = KernelForm()
_STREAM = KernelForm(ahead=True)  # packed weights in the type of the sums
_OF_B = ("b", "ahead")  # pointers to elements of B


def call_kernel(b: Block, run: object, at: Sequence[Expr], sizes: Sequence[Size]) -> None:
    """Emit a call of a :class:`KernelFunction` with pointers to the elements ``at``."""
    b.eval(call(run, *map(tirx.address_of, at), *map(i64, sizes)))


def micro_kernel(
    tile: GemmTile, dtype: str, rows: int, vectors: int, form: KernelForm = PLAIN
) -> PrimFunc:
    """Return the function of one register tile: ``(a, b, c, k, lda, ldb, ldc, accumulate)``.

    The parameters of ``form`` are added.
    """
    return RegisterTile(tile, dtype, rows, vectors, form).function()


@lru_cache(maxsize=512)
def _made(
    isa: Isa | None, tile: GemmTile, dtype: str, rows: int, vectors: int, form: KernelForm
) -> PrimFunc:
    """Return a cached :func:`micro_kernel`, shared by all programs of a process."""
    return micro_kernel(tile, dtype, rows, vectors, form)


class RegisterTile:
    """Emits one register tile: clear the sums, loop over K, add old content, store."""

    def __init__(
        self, tile: GemmTile, dtype: str, rows: int, vectors: int, form: KernelForm
    ) -> None:
        self.tile, self.dtype, self.rows, self.vectors, self.form = tile, dtype, rows, vectors, form
        self.lanes = lanes = tile.lanes
        self.splits = independent_sums(rows, vectors, tile.more_sums * (form == _STREAM))
        self.kernel = KernelFunction(_element_types(form, dtype), form.sizes)
        self.params, self.buffers = self.kernel.sizes, self.kernel.buffers
        self.k, lda, self.ldb, self.ldc, self.accumulate = list(self.params.values())[:5]
        if form.ahead or form.keeps:
            # B is packed; a constant stride leaves more registers for the rows of A.
            self.ldb = i64(vectors * lanes if form.tight else tile.n_r)
        blk = self.blk = self.kernel.block
        self.a, self.b, self.c = (self.buffers[n] for n in "abc")
        # UNSET if the form does not mask its last vector
        self.mask: Expr = first_lanes(self.params["tail"], lanes) if form.masks else UNSET
        self.starts = _row_starts(blk, lda, rows)
        self.tile_index = [(i, v) for i in range(rows) for v in range(vectors)]
        if form.rounded:
            return
        each = range(rows), range(vectors)
        self.sums = [
            [[blk.alloc(f"sum_{s}_{i}_{v}", lanes, dtype) for v in each[1]] for i in each[0]]
            for s in range(self.splits)
        ]
        # Stack vectors, not bindings: simplification passes would copy a binding into its uses.
        self.row = [blk.alloc(f"row_{v}", lanes, dtype) for v in range(vectors)]
        self.elem = blk.alloc("elem", lanes, dtype)
        self.words = [blk.alloc(f"word_{v}", lanes, "int32") for v in range(vectors * form.nibbles)]
        held = vectors * (form.zeros and not form.keeps)
        self.zero = [blk.alloc(f"zero_{v}", lanes, dtype) for v in range(held)]
        self.group_at: Expr = i64(0)
        self.streamed = form.ahead and not form.tight and rows <= _STREAMED_ROWS

    def function(self) -> PrimFunc:
        """Emit the statements of the kernel; return its TIR function."""
        if self.form.rounded:
            self.sums, self.splits = [emit_groups(self)], 1
        else:
            self._products()
        self._add_old()
        self._store()
        return self.kernel.finish()

    def _products(self) -> None:
        self._begin()
        self.next_line = _next_line(self.blk, self.buffers, self.params, self.rows)
        if self.form.scaled:
            self._groups()
        else:
            self._steps(i64(0), self.k)

    def _sum(self, s: int, i: int, v: int) -> Expr:
        return vload(self.sums[s][i][v], 0, self.lanes)

    def _at(self, i: int, v: int) -> Expr:
        """Return the offset of vector ``v`` of row ``i`` in ``c``."""
        return self.ldc * i + v * self.lanes

    def _partial(self, v: int) -> bool:
        return self.form.tail and v == self.vectors - 1

    def _begin(self) -> None:
        blk, lanes = self.blk, self.lanes
        self._clear()
        if self.form.quads:
            with blk.when(self.accumulate == 0):
                for i, v in self.tile_index:
                    first = vload(self.b, i64(v * lanes) - self.ldb, lanes)
                    vstore(blk, self.sums[0][i][v], 0, lanes, first)
        with blk.when(self.accumulate != 0) if self.form.ahead else nullcontext():
            for i, v in self.tile_index:
                blk.eval(prefetch(self.c, self._at(i, v), to_write=True))

    def _clear(self) -> None:
        zero = splat(const(0, self.dtype), self.lanes)
        for s in range(self.splits):
            for i, v in self.tile_index:
                vstore(self.blk, self.sums[s][i][v], 0, self.lanes, zero)

    def _groups(self) -> None:
        """Emit the loop over K by groups of a quantized B.

        The sums of a group are scaled when they are added to the total, so that a step of K does no
        extra work. With ``keeps``, each row of B is scaled instead, before it is stored.
        """
        blk, k, group = self.blk, self.k, self.params["group"]
        totals: list[list[Buffer]] = []
        if not self.form.keeps:
            zero = splat(const(0, self.dtype), self.lanes)
            for i in range(self.rows):
                totals.append([])
                for v in range(self.vectors):
                    totals[i].append(blk.alloc(f"total_{i}_{v}", self.lanes, self.dtype))
                    vstore(blk, totals[i][v], 0, self.lanes, zero)
        with blk.loop("part", tirx.truncdiv(k + group - 1, group)) as part:
            begin = blk.bind("begin", part * group)
            self.group_at = blk.bind("row_at", part * self.ldb)
            for v, held in enumerate(self.zero):
                vstore(blk, held, 0, self.lanes, self._of_group("zero", v))
            if totals:
                self._clear()
            self._steps(begin, blk.bind("depth", tirx.min(group, k - begin)))
            for i, v in self.tile_index if totals else ():
                total = vload(totals[i][v], 0, self.lanes)
                total = self._all_sums(i, v) * self._of_group("scale", v) + total
                vstore(blk, totals[i][v], 0, self.lanes, total)
        if totals:
            self.sums, self.splits = [totals], 1

    def _of_group(self, part: str, v: int) -> Expr:
        value = vload(self.buffers[part], self.group_at + v * self.lanes, self.lanes)
        return widened(value, self.dtype, self.lanes)

    def _all_sums(self, i: int, v: int) -> Expr:
        total = self._sum(0, i, v)
        for s in range(1, self.splits):
            total = total + self._sum(s, i, v)
        return total

    def _steps(self, first: Expr, depth: Expr) -> None:
        """Emit K steps: an unrolled loop, the remaining steps, then masked steps of a short row."""
        if self.form.nibbles:
            self._steps_of_words(first, depth)
            return
        blk, unroll = self.blk, max(self.tile.k_unroll, self.splits)
        whole = self.params.get("whole", depth)
        turns = blk.bind("turns", tirx.truncdiv(whole, i64(unroll)))
        with blk.loop("ko", turns) as ko:
            for u in range(unroll):
                self._step(first + ko * unroll + u, u % self.splits)
        if unroll > 1:
            with blk.loop("kt", whole - turns * unroll) as kt:
                self._step(first + turns * unroll + kt, 0)
        if self.form.short:
            with blk.loop("km", depth - whole) as km:
                self._step(whole + km, 0, masked=True)

    def _steps_of_words(self, first: Expr, depth: Expr) -> None:
        """Emit K steps over words of eight numbers."""
        blk = self.blk
        with blk.loop("kw", tirx.truncdiv(depth, i64(NIBBLES))) as kw:
            k0 = blk.bind("k0", first + kw * NIBBLES)
            at = blk.bind("word_at", tirx.truncdiv(k0, i64(NIBBLES)) * self.ldb)
            for v, word in enumerate(self.words):
                vstore(blk, word, 0, self.lanes, vload(self.b, at + v * self.lanes, self.lanes))
            for u in range(NIBBLES):
                self._step(k0 + u, u % self.splits, nibble=u)

    def _step(self, kk: Expr, s: int, masked: bool = False, nibble: int = -1) -> None:
        """Emit step ``kk`` of K into the sums ``s``; ``nibble``: its index in a word of B or -1."""
        blk, lanes = self.blk, self.lanes
        if not self.streamed:
            self._fetch(kk, nibble)
        at = blk.bind("at", kk * self.ldb)
        for v in range(self.vectors):
            if nibble < 0:
                value = widened(self._of_b(at + v * lanes, v, masked), self.dtype, lanes)
            else:
                value = nibble_of(vload(self.words[v], 0, lanes), nibble)
            vstore(blk, self.row[v], 0, lanes, self._centred(value, v))
            if self.form.keeps:
                place = kk * self.params["kept_step"] + v * lanes
                vstore(blk, self.buffers["kept"], place, lanes, vload(self.row[v], 0, lanes))
        for i in range(self.rows):
            vstore(blk, self.elem, 0, lanes, splat(self.a[self.starts[i] + kk], lanes))
            for v in range(self.vectors):
                vstore(blk, self.sums[s][i][v], 0, lanes, self._multiply_add(s, i, v))

    def _centred(self, value: Expr, v: int) -> Expr:
        """Return a vector of B minus its zero points; with ``keeps``, multiplied by its scale."""
        if self.zero:
            return value - vload(self.zero[v], 0, self.lanes)
        if not self.form.keeps:
            return value
        value = value - self._of_group("zero", v) if self.form.zeros else value
        return value * self._of_group("scale", v) if self.form.scaled else value

    def _fetch(self, kk: Expr, nibble: int) -> None:
        if self.tile.prefetch and nibble <= 0:
            # The prefetch also keeps LLVM from hoisting loads of later steps, which would spill
            # sums.
            line = max(1, 64 * 8 // tvm.DataType(self.dtype).bits)
            for j in range(0, self.vectors * self.lanes, line):
                row = kk + self.tile.prefetch
                if nibble == 0:
                    row = tirx.truncdiv(row, i64(NIBBLES))
                place = row * self.ldb + j
                self.blk.eval(prefetch(self.b, place, to_write=False))
        self.blk.eval(self.next_line(kk))

    def _of_b(self, at: Expr, v: int, masked: bool) -> Expr:
        if masked and v == self.vectors - 1:
            return masked_load(self.b, at, self.mask)
        return vload(self.b, at, self.lanes)

    def _multiply_add(self, s: int, i: int, v: int) -> Expr:
        total = self._sum(s, i, v)
        x, y = (vload(part, 0, self.lanes) for part in (self.elem, self.row[v]))
        if not self.form.quads:
            return x * y + total
        return add_products(DOTS[self.form.dot], self.lanes, total, x, y)

    def _add_old(self) -> None:
        """Emit the addition of the old content of ``c`` if ``accumulate`` is nonzero."""
        with self.blk.when(self.accumulate != 0):
            for i, v in self.tile_index:
                at = self._at(i, v)
                part = self._partial(v)
                old = masked_load(self.c, at, self.mask) if part else vload(self.c, at, self.lanes)
                vstore(self.blk, self.sums[0][i][v], 0, self.lanes, self._sum(0, i, v) + old)

    def _store(self) -> None:
        for i, v in self.tile_index:
            total = self._all_sums(i, v)
            if self._partial(v):
                self.blk.masked_store(self.c, self._at(i, v), total, self.mask)
            else:
                vstore(self.blk, self.c, self._at(i, v), self.lanes, total)


def _next_line(
    blk: Block, buffers: dict[str, Buffer], params: dict[str, Expr], rows: int
) -> Callable[[Expr], Expr]:
    """Return a function of the K step that prefetches for the next kernel: B if ``ahead``, else A.

    If A has no gaps between rows, the next kernel's rows follow those of this kernel. A kernel with
    a short K ends before the hardware prefetcher detects the stream: without the prefetch, a batch
    of 192 matmuls of T x T x 64 took 1.04 to 1.7 times as long.
    """
    if "ahead" in buffers:
        step = params["ahead_step"]
        return lambda kk: prefetch(buffers["ahead"], kk * step, to_write=False, near=False)
    behind = blk.bind("behind", params["lda"] * rows)
    dense = params["lda"] == params["k"]
    step = blk.bind("a_step", tirx.Select(dense, i64(rows), i64(0)))
    return lambda kk: prefetch(buffers["a"], behind + kk * step, to_write=False)


def _row_starts(blk: Block, lda: Expr, rows: int) -> list[Expr]:
    """Return the offsets of the rows of A, as 1 or 2 times values that are opaque to LLVM.

    If LLVM saw multiples of ``lda``, it would recompute the offsets in every step of K to save
    registers: nine instructions next to 27 multiply-adds.
    """
    starts: list[Expr] = [i64(0)]
    bases: dict[int, Expr] = {}
    for i in range(1, rows):
        if i % 2 == 0 and i // 2 in bases:
            starts.append(bases[i // 2] * 2)
            continue
        bases[i] = blk.bind(f"row{i}", tirx.call_extern(INDEX, "disc.unseen", lda * i))
        starts.append(bases[i])
    return starts


# The identity function, opaque to LLVM.
provide("""
define linkonce_odr i64 @disc.unseen(i64 %x) alwaysinline {
  %y = call i64 asm "", "=r,0"(i64 %x)
  ret i64 %y
}
""")


def may_alias(func: PrimFunc) -> PrimFunc:
    """Return ``func`` without the no-alias attribute.

    In a no-alias function, TVM gives every buffer variable its own TBAA type. If LLVM inlines a
    callee, a buffer has two names, and LLVM may move a store to one past a load from the other.
    Functions that call each other on shared memory must therefore all drop the attribute.
    """
    return func.with_attr("tirx.noalias", False)


class MicroKernels:
    """The register-tile functions that the GEMMs of one module need, each created once.

    Add :attr:`functions` to the module after all templates have been emitted.
    """

    def __init__(self) -> None:
        self._vars: dict[tuple[int | str, ...], GlobalVar] = {}
        self.functions: dict[GlobalVar, PrimFunc] = {}

    def get(
        self, tile: GemmTile, dtype: str, rows: int, vectors: int, form: KernelForm = PLAIN
    ) -> Any:
        """Return the global variable of one kernel."""
        tile = _without_unused_sums(tile, rows, form)
        key = (*_knobs(tile, dtype, form), rows, vectors)
        if key not in self._vars:
            name = f"gemm_{dtype}_{rows}x{vectors * tile.lanes}_{len(self._vars)}"
            self._vars[key] = var = tvm.ir.GlobalVar(name)
            self.functions[var] = _made(emitting_for(), tile, dtype, rows, vectors, form)
        return self._vars[key]

    def add(self, key: tuple[int | str, ...], name: str, make: Callable[[], Any]) -> Any:
        """Return the global variable of the function from ``make``, created once per ``key``."""
        if key not in self._vars:
            self._vars[key] = var = tvm.ir.GlobalVar(f"{name}_{len(self._vars)}")
            self.functions[var] = make()
        return self._vars[key]

    def dispatcher(
        self,
        tile: GemmTile,
        dtype: str,
        rows: tuple[int, ...],
        vectors: tuple[int, ...],
        form: KernelForm = PLAIN,
    ) -> object:
        """Return a function that calls the kernel of the run-time ``rows`` and ``vectors``.

        Its parameters are a kernel's, then ``rows`` and ``vectors``, each one of the given values.
        One function serves all calls with the same choices.
        """
        tile = _without_unused_sums(tile, min(rows), form)
        knobs = _knobs(tile, dtype, form)
        key: tuple[int | str, ...] = ("dispatch", *knobs, *rows, 0, *vectors)
        if key in self._vars:
            return self._vars[key]
        self._vars[key] = var = tvm.ir.GlobalVar(f"gemm_tile_{dtype}_{len(self._vars)}")
        made = KernelFunction(_element_types(form, dtype), (*form.sizes, "rows", "vectors"))
        *sizes, n_rows, n_vectors = made.sizes.values()
        args = (*made.pointers.values(), *sizes)

        def pick(nv: int) -> None:
            def kernel(nr: int) -> None:
                made.block.eval(call(self.get(tile, dtype, nr, nv, form), *args))

            _pick(made.block, n_rows, rows, kernel)

        _pick(made.block, n_vectors, vectors, pick)
        self.functions[var] = made.finish()
        return var


def _without_unused_sums(tile: GemmTile, rows: int, form: KernelForm) -> GemmTile:
    """Return the tile with ``more_sums`` set to 0, unless a kernel of one row uses them: equal
    kernels must have equal keys. ``rows`` is the smallest number of rows.
    """
    return tile if rows == 1 and form == _STREAM else replace(tile, more_sums=0)


def _knobs(tile: GemmTile, dtype: str, form: KernelForm) -> tuple[int | str, ...]:
    """Return the key of a kernel, apart from its size."""
    wide = tile.n_r if (form.ahead or form.keeps) and not form.tight else 0
    knobs = (dtype, tile.lanes, tile.k_unroll, tile.prefetch, wide, tile.more_sums)
    return (*knobs, *astuple(form))


def _element_types(form: KernelForm, dtype: str) -> dict[str, str]:
    """Return the element types of the pointer parameters of a kernel."""
    special = dict.fromkeys(_OF_B, form.b_dtype or dtype) | dict(form.parts)
    if form.rounded:
        special["a"] = "int32"
    return {n: special.get(n, dtype) for n in form.pointers}


def _pick(b: Block, var: Expr, values: tuple[int, ...], emit: Callable[[int], None]) -> None:
    """Emit a dispatch of ``var`` over the ascending ``values``; the largest is tested first."""
    if len(values) == 1:
        emit(values[0])
        return
    with b.when(var == values[-1]):
        emit(values[-1])
    with b.otherwise():
        _halve(b, var, values[:-1], emit)


def _halve(b: Block, var: Expr, values: tuple[int, ...], emit: Callable[[int], None]) -> None:
    if len(values) == 1:
        emit(values[0])
        return
    mid = len(values) // 2
    with b.when(var < values[mid]):
        _halve(b, var, values[:mid], emit)
    with b.otherwise():
        _halve(b, var, values[mid:], emit)
