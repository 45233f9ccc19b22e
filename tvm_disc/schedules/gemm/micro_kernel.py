"""Register-tile GEMM kernels: fully unrolled bodies, one per (rows, vectors).

``c[i, j] (+)= sum_k a[i, k] * b[k, j]`` for ``rows x (vectors * lanes)`` outputs, with

* ``a``: row ``i`` at ``i * lda``, contiguous along K; elements are broadcast;
* ``b``: row ``k`` at ``k * ldb``, contiguous along columns, whole vectors are read;
* ``c``: row ``i`` at ``i * ldc``; ``accumulate != 0`` starts from its content instead of zero.

They know nothing of shapes, fusion or epilogues, so every GEMM of a program shares them. All
rows ``1 .. m_r`` exist: a dynamic M is cut in near-equal blocks and each block dispatches on its
row count (residue dispatch as in Nimble, with the blocks balanced so none is thin).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import astuple, dataclass
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import StringImm

from tvm_disc.schedules.gemm.tile import GemmTile
from tvm_disc.tir.builder import (
    BFLOAT16,
    INDEX,
    Block,
    Buffer,
    Expr,
    Var,
    call,
    const,
    dtype_of,
    element_dtype,
    first_lanes,
    i64,
    index_var,
    loaded,
    masked_load,
    pointer,
    prefetch,
    prim_func,
)

# Up to so many rows packed weights pass as fast as memory gives them. Panels lie one behind the
# other, the processor fetches them by itself, and requests of ours take its buffers: one and two
# rows of 768 x 2304 took 1.3 times as long with them on a Zen 4, three 1.1 times.
_STREAMED_ROWS = 3
# Independent sums needed to cover the latency of two 4-cycle FMA pipes.
_LATENCY_SUMS = 8


def ramp(base: Expr | int, lanes: int) -> Expr:
    """Indices ``base .. base + lanes``; the plain index when ``lanes`` is 1."""
    return i64(base) if lanes == 1 else tirx.Ramp(i64(base), tirx.IntImm("int64", 1), lanes)


def vload(buf: Buffer, base: Expr | int, lanes: int) -> Expr:
    """``lanes`` consecutive elements of ``buf`` from ``base`` on."""
    return tirx.BufferLoad(buf, [ramp(base, lanes)])


def vstore(b: Block, buf: Buffer, base: Expr | int, lanes: int, value: Expr) -> None:
    """Store ``lanes`` consecutive elements."""
    b.store(buf, ramp(base, lanes), value)


def splat(value: Expr, lanes: int) -> Expr:
    """``value`` in every lane."""
    return value if lanes == 1 else tirx.Broadcast(value, lanes)


def bind_opaque(b: Block, name: str, value: Expr | int) -> Expr:
    """``let name = value`` through a stack cell, for int64 values.

    Simplifying passes see through bindings and substitute them: with a page of index arithmetic
    that takes seconds. They do not see through memory; LLVM does, and removes the cell.
    """
    if isinstance(value, int | tirx.IntImm | tirx.Var) or dtype_of(value) != INDEX:
        return b.bind(name, value)
    cell = b.alloc(f"{name}_cell", 1, INDEX)
    b.store(cell, 0, value)
    return b.bind(name, cell[i64(0)])


def widened(value: Expr, dtype: str, lanes: int) -> Expr:
    """``value`` with elements of ``dtype``; the bits of a bfloat16 (uint16) become a float32."""
    suffix = "" if lanes == 1 else f"x{lanes}"
    if dtype_of(value) == dtype + suffix:
        return value
    if dtype == "float32" and element_dtype(value) == "uint16":
        return loaded(value, BFLOAT16)
    if element_dtype(value) == "bfloat16":
        return widened(tirx.reinterpret(f"uint16{suffix}", value), dtype, lanes)
    return tirx.Cast(dtype + suffix, value)


@dataclass(frozen=True)
class KernelForm:
    """What a register-tile kernel does beside its sums; each adds parameters, in this order.

    ``ahead``: one cache line per K step is brought to the second-level cache, for whoever comes
    next: pointer ``ahead``, then the elements ``ahead_step`` between two of them. ``tail``: only
    the first ``tail`` lanes of the last vector of ``c`` exist, with ``short`` of ``b``: behind the
    first ``whole`` steps, which may read past a row of ``b``, its last vector is masked.
    ``b_dtype``: what B is kept in, if narrower than the sums; ``uint16`` holds bits of bfloat16.
    ``quads``: A and B are words of four bytes whose products are all added; sums start from the row
    before B's first. ``tight``: rows of a packed B are no wider than its vectors.
    """

    ahead: bool = False
    tail: bool = False
    short: bool = False
    b_dtype: str = ""
    quads: bool = False
    tight: bool = False

    @property
    def pointers(self) -> tuple[str, ...]:
        """Pointer parameters, before the sizes."""
        return ("a", "b", "c", "ahead") if self.ahead else ("a", "b", "c")

    @property
    def sizes(self) -> tuple[str, ...]:
        """Size parameters."""
        names = ("k", "lda", "ldb", "ldc", "accumulate")
        more = ("ahead_step",) * self.ahead + ("tail",) * self.masks + ("whole",) * self.short
        return (*names, *more)

    @property
    def masks(self) -> bool:
        """Whether a last vector may be partial."""
        return self.tail or self.short


PLAIN = KernelForm()
_QUADS = "llvm.x86.avx512.vpdpbusd.512"
_OF_B = ("b", "ahead")  # pointers to elements of B


def micro_kernel(
    tile: GemmTile, dtype: str, rows: int, vectors: int, form: KernelForm = PLAIN
) -> Any:
    """The function of one register tile: ``(a, b, c, k, lda, ldb, ldc, accumulate)``."""
    lanes, unroll = tile.lanes, tile.k_unroll
    splits = 1
    while splits < 4 and rows * vectors * splits < _LATENCY_SUMS:
        splits *= 2
    unroll = max(unroll, splits)
    pointers = _pointers(form, dtype)
    kept = {n: (form.b_dtype or dtype) if n in _OF_B else dtype for n in pointers}
    params = {n: index_var(n) for n in form.sizes}
    k, lda, ldb, ldc, accumulate = list(params.values())[:5]
    if form.ahead:
        # Packed; a constant leaves registers for the rows of A.
        ldb = i64(vectors * lanes if form.tight else tile.n_r)
    blk = Block()
    buffers = {n: blk.declare(f"{n}_", p, kept[n]) for n, p in pointers.items()}
    a, b, c = buffers["a"], buffers["b"], buffers["c"]
    mask = first_lanes(params["tail"], lanes) if form.masks else None

    def partial(v: int) -> bool:
        return form.tail and v == vectors - 1

    def of_b(at: Expr, v: int, masked: bool) -> Expr:
        if masked and v == vectors - 1:
            return masked_load(b, at, mask)
        return vload(b, at, lanes)

    starts = _row_starts(blk, lda, rows)
    zero = splat(const(0, dtype), lanes)
    sums = [
        [[blk.alloc(f"sum_{s}_{i}_{v}", lanes, dtype) for v in range(vectors)] for i in range(rows)]
        for s in range(splits)
    ]
    # Stack vectors, not bindings: passes that simplify would copy a binding into its uses.
    row = [blk.alloc(f"row_{v}", lanes, dtype) for v in range(vectors)]
    elem = blk.alloc("elem", lanes, dtype)
    tile_index = [(i, v) for i in range(rows) for v in range(vectors)]
    for s in range(splits):
        for i, v in tile_index:
            vstore(blk, sums[s][i][v], 0, lanes, zero)
    if form.quads:
        with blk.when(accumulate == 0):
            for i, v in tile_index:
                vstore(blk, sums[0][i][v], 0, lanes, vload(b, i64(v * lanes) - ldb, lanes))
    with blk.when(accumulate != 0) if form.ahead else nullcontext():
        for i, v in tile_index:
            blk.eval(prefetch(c, ldc * i + v * lanes, to_write=True))

    next_line = _next_line(blk, buffers, params, rows)

    def multiply_add(acc: Buffer, left: Buffer, right: Buffer) -> Expr:
        total, x, y = (vload(v, 0, lanes) for v in (acc, left, right))
        if not form.quads:
            return x * y + total
        x, y = (tirx.reinterpret(f"int8x{4 * lanes}", v) for v in (x, y))
        return tirx.call_llvm_pure_intrin(f"{dtype}x{lanes}", _QUADS, total, x, y)

    line = max(1, 64 * 8 // tvm.DataType(dtype).bits)
    streamed = form.ahead and not form.tight and rows <= _STREAMED_ROWS

    def step(kk: Expr, s: int, masked: bool = False) -> None:
        if tile.prefetch and not streamed:
            # The fetch also keeps LLVM from hoisting the next steps' loads and spilling sums.
            for j in range(0, vectors * lanes, line):
                blk.eval(prefetch(b, (kk + tile.prefetch) * ldb + j, to_write=False))
        if not streamed:
            blk.eval(next_line(kk))
        at = blk.bind("at", kk * ldb)
        for v in range(vectors):
            vstore(blk, row[v], 0, lanes, widened(of_b(at + v * lanes, v, masked), dtype, lanes))
        for i in range(rows):
            vstore(blk, elem, 0, lanes, splat(a[starts[i] + kk], lanes))
            for v in range(vectors):
                acc = sums[s][i][v]
                vstore(blk, acc, 0, lanes, multiply_add(acc, elem, row[v]))

    whole = params.get("whole", k)
    turns = blk.bind("turns", tirx.truncdiv(whole, i64(unroll)))
    with blk.loop("ko", turns) as ko:
        for u in range(unroll):
            step(ko * unroll + u, u % splits)
    if unroll > 1:
        with blk.loop("kt", whole - turns * unroll) as kt:
            step(turns * unroll + kt, 0)
    if form.short:
        with blk.loop("km", k - whole) as km:
            step(whole + km, 0, masked=True)
    with blk.when(accumulate != 0):
        for i, v in tile_index:
            at = ldc * i + v * lanes
            old = masked_load(c, at, mask) if partial(v) else vload(c, at, lanes)
            vstore(blk, sums[0][i][v], 0, lanes, vload(sums[0][i][v], 0, lanes) + old)
    for i, v in tile_index:
        total = vload(sums[0][i][v], 0, lanes)
        for s in range(1, splits):
            total = total + vload(sums[s][i][v], 0, lanes)
        if partial(v):
            blk.masked_store(c, ldc * i + v * lanes, total, mask)
        else:
            vstore(blk, c, ldc * i + v * lanes, lanes, total)
    return may_alias(prim_func([*pointers.values(), *params.values()], blk.stmt()))


def _next_line(
    blk: Block, buffers: dict[str, Buffer], params: dict[str, Var], rows: int
) -> Callable[[Expr], Expr]:
    """What a step of K asks for in favour of the next kernel: of B if ``ahead`` says so, else of A.

    Its rows of A lie behind these where rows have no gap, and a short K ends before the processor
    has seen that: 192 x T x T x 64 took 1.04 to 1.7 times as long without.
    """
    if "ahead" in buffers:
        step = params["ahead_step"]
        return lambda kk: prefetch(buffers["ahead"], kk * step, to_write=False, near=False)
    behind = blk.bind("behind", params["lda"] * rows)
    dense = params["lda"] == params["k"]
    step = blk.bind("a_step", tirx.Select(dense, i64(rows), i64(0)))
    return lambda kk: prefetch(buffers["a"], behind + kk * step, to_write=False)


def _row_starts(blk: Block, lda: Expr, rows: int) -> list[Expr]:
    """Where the rows of A begin, as 1 or 2 times values that LLVM knows nothing about.

    Seeing that all are multiples of ``lda`` it would save registers, and add them up again in every
    step of K: nine instructions beside 27 multiply-adds.
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


_UNSEEN = """
define linkonce_odr i64 @disc.unseen(i64 %x) alwaysinline {
  %y = call i64 asm "", "=r,0"(i64 %x)
  ret i64 %y
}
"""


def with_unseen(func: Any) -> Any:
    """``func`` with the definition of the identity that LLVM does not look through."""
    library = StringImm(_UNSEEN)
    return func.with_body(
        tirx.AttrStmt(StringImm("disc"), "pragma_import_llvm", library, func.body)
    )


def may_alias(func: Any) -> Any:
    """``func`` without the no-alias promise.

    TVM gives every buffer variable of a no-alias function its own TBAA type, and all variables
    of other functions one more. When LLVM inlines a function, the callee's and the caller's
    names of one buffer then count as different memory and stores move past loads. So functions
    that call each other on shared memory must all drop the promise.
    """
    return func.with_attr("tirx.noalias", False)


class MicroKernels:
    """The register-tile functions that the GEMMs of one module need, each made once.

    Add :attr:`functions` to the module once every template has been emitted.
    """

    def __init__(self) -> None:
        self._vars: dict[tuple[int | str, ...], Any] = {}
        self.functions: dict[Any, Any] = {}
        self._defined = False  # what all kernels call: once per module, linking costs 10 ms

    def get(
        self, tile: GemmTile, dtype: str, rows: int, vectors: int, form: KernelForm = PLAIN
    ) -> Any:
        """The global variable of one kernel."""
        key = (*_knobs(tile, dtype, form), rows, vectors)
        if key not in self._vars:
            name = f"gemm_{dtype}_{rows}x{vectors * tile.lanes}_{len(self._vars)}"
            self._vars[key] = var = tvm.ir.GlobalVar(name)
            kernel = micro_kernel(tile, dtype, rows, vectors, form)
            self.functions[var] = kernel if self._defined else with_unseen(kernel)
            self._defined = True
        return self._vars[key]

    def add(self, key: tuple[int | str, ...], name: str, make: Callable[[], Any]) -> Any:
        """The global variable of the function that ``make`` gives, made once per ``key``."""
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
    ) -> Any:
        """The function that calls the kernel of run-time ``rows`` and ``vectors``.

        Its parameters are a kernel's, then ``rows`` and ``vectors``, each one of the given
        values. One function serves every call with these choices.
        """
        knobs = _knobs(tile, dtype, form)
        key: tuple[int | str, ...] = ("dispatch", *knobs, *rows, 0, *vectors)
        if key in self._vars:
            return self._vars[key]
        self._vars[key] = var = tvm.ir.GlobalVar(f"gemm_tile_{dtype}_{len(self._vars)}")
        args = {**_pointers(form, dtype), **{n: index_var(n) for n in form.sizes}}
        n_rows, n_vectors = index_var("rows"), index_var("vectors")
        b = Block()

        def pick(nv: int) -> None:
            def kernel(nr: int) -> None:
                b.eval(call(self.get(tile, dtype, nr, nv, form), *args.values()))

            _pick(b, n_rows, rows, kernel)

        _pick(b, n_vectors, vectors, pick)
        params = [*args.values(), n_rows, n_vectors]
        self.functions[var] = may_alias(prim_func(params, b.stmt()))
        return var


def _knobs(tile: GemmTile, dtype: str, form: KernelForm) -> tuple[int | str, ...]:
    """What makes two kernels of one size different."""
    wide = tile.n_r if form.ahead and not form.tight else 0
    knobs = (dtype, tile.lanes, tile.k_unroll, tile.prefetch, wide)
    return (*knobs, *astuple(form))


def _pointers(form: KernelForm, dtype: str) -> dict[str, Any]:
    """The pointer parameters of a kernel by name."""
    narrow = form.b_dtype or dtype
    return {n: pointer(n, narrow if n in _OF_B else dtype) for n in form.pointers}


def _pick(b: Block, var: Var, values: tuple[int, ...], emit: Callable[[int], None]) -> None:
    """``emit`` the one of the ascending ``values`` that ``var`` has; the largest is tried first."""
    if len(values) == 1:
        emit(values[0])
        return
    with b.when(var == values[-1]):
        emit(values[-1])
    with b.otherwise():
        _halve(b, var, values[:-1], emit)


def _halve(b: Block, var: Var, values: tuple[int, ...], emit: Callable[[int], None]) -> None:
    if len(values) == 1:
        emit(values[0])
        return
    mid = len(values) // 2
    with b.when(var < values[mid]):
        _halve(b, var, values[:mid], emit)
    with b.otherwise():
        _halve(b, var, values[mid:], emit)
