"""Weights in narrow numbers: a block of a panel of B, expanded where many rows read it.

Few rows expand B in registers, once for each. More rows would do so again and again: the steps of K
that they share are written once, as the sums' type, to scratch that stays in the second-level cache.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvm_disc.schedules.gemm.micro_kernel import (
    KernelForm,
    MicroKernels,
    may_alias,
    vload,
    vstore,
    widened,
)
from tvm_disc.schedules.gemm.partition import cdiv
from tvm_disc.schedules.gemm.tile import GemmTile
from tvm_disc.tir.builder import Block, Expr, i64, index_var, pointer, prim_func


def expander(kernels: MicroKernels, tile: GemmTile, dtype: str, form: KernelForm) -> Any:
    """The function ``(b, [scale, [zero]], out, k, group)`` that expands ``k`` rows of a panel.

    ``form`` is that of the kernels which expand B in registers.
    """
    key = ("expand", dtype, tile.lanes, tile.n_r, form.b_dtype, form.scaled, form.zeros)
    return kernels.add(key, f"expand_{form.b_dtype}", lambda: _function(tile, dtype, form))


def _function(tile: GemmTile, dtype: str, form: KernelForm) -> Any:
    lanes, n_r = tile.lanes, tile.n_r
    b = Block()
    pointers = {"b": pointer("b", form.b_dtype)}
    pointers |= {n: pointer(n, dtype) for n in (*form.parts, "out")}
    k, group = index_var("k"), index_var("group")
    bufs = {n: b.declare(f"{n}_", p, form.b_dtype if n == "b" else dtype)
            for n, p in pointers.items()}  # fmt: skip
    each = range(n_r // lanes)
    # Stack vectors, not bindings: passes that simplify would copy a binding into its uses.
    held = {n: [b.alloc(f"{n}_{v}", lanes, dtype) for v in each] for n in form.parts}

    def rows(begin: Expr, count: Expr) -> None:
        with b.loop("row", count) as row:
            at = b.bind("at", (begin + row) * n_r)
            for v in each:
                value = widened(vload(bufs["b"], at + v * lanes, lanes), dtype, lanes)
                if form.zeros:
                    value = value - vload(held["zero"][v], 0, lanes)
                if form.scaled:
                    value = value * vload(held["scale"][v], 0, lanes)
                vstore(b, bufs["out"], at + v * lanes, lanes, value)

    if not form.scaled:
        rows(i64(0), k)
    else:
        with b.loop("part", cdiv(k, group)) as part:
            begin = b.bind("begin", part * group)
            for name, vectors in held.items():
                for v in each:
                    value = vload(bufs[name], part * n_r + v * lanes, lanes)
                    vstore(b, vectors[v], 0, lanes, value)
            rows(begin, b.bind("count", tirx.min(group, k - begin)))
    return may_alias(prim_func([*pointers.values(), k, group], b.stmt()))


__all__ = ["expander"]
