"""Matrix products of every form, and their check against float64 NumPy between canaries."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.gemm_harness import Gemm, aligned, cpu
from tvm_disc.schedules.gemm import macro_kernel
from tvm_disc.schedules.gemm.layouts import PanelsOfB, RowsOfA
from tvm_disc.schedules.gemm.macro_kernel import Affine, Operand
from tvm_disc.schedules.gemm.micro_kernel import (
    ramp,
    vload,
)
from tvm_disc.schedules.packing import pack_constant

HERE = cpu()
GUARD = 40
CANARY = 12345.0
RNG = np.random.default_rng(0)


def tile_for(target: Any = HERE, dtype: str = "float32", **knobs: int) -> macro_kernel.GemmTile:
    base = macro_kernel.default_tile(macro_kernel.isa_of(target), dtype).to_json()
    return macro_kernel.GemmTile(**{**base, **knobs})


def small_tile(**knobs: int) -> macro_kernel.GemmTile:
    """Few kernels, so that fully dynamic instances build fast; every edge still occurs."""
    return tile_for(**{"m_r": 4, "n_r": 32, "m_blocks": 3, "n_panels": 2, **knobs})


def at(buf: Any, index: Any, lanes: int = 1) -> Any:
    return buf[index] if lanes == 1 else vload(buf, index, lanes)


def plain_store(c: Any, m: Any, n: Any) -> macro_kernel.Stores:
    def vector(b: Any, g: Any, i: Any, j: Any, lanes: int, value: Any) -> bool:
        b.store(c, ramp((g * m + i) * n + j, lanes), value)
        return True

    return macro_kernel.Stores(lambda b, g, i, j, v: b.store(c, (g * m + i) * n + j, v), vector)


def pick(sizes: dict[str, Any], static: dict[str, int]) -> list[Any]:
    return [static.get(name, sizes[name]) for name in ("batch", "m", "n", "k")]


def general(
    static: dict[str, int],
    a_form: str,
    b_form: str,
    dtype: str = "float32",
    acc: str = "",
    direct: bool = False,
) -> Any:
    """Dense row-major C; A and B in one of their forms, everything else dynamic."""

    def describe(_b: Any, bufs: dict[str, Any], sizes: dict[str, Any]) -> macro_kernel.GemmSpec:
        batch, m, n, k = pick(sizes, static)
        a, b_, c = bufs["a"], bufs["b"], bufs["c"]
        base = lambda _b, g: g * m * k  # noqa: E731
        left = {
            "rows": Operand(affine=Affine(a, base, k, 1)),
            "cols": Operand(affine=Affine(a, base, 1, m)),
            "packed": Operand(a, matrices=0),
            "element": Operand(load=lambda _b, g, i, kk: a[(g * m + i) * k + kk]),
        }
        base = lambda _b, g: g * n * k  # noqa: E731
        right = {
            "rows": Operand(affine=Affine(b_, base, 1, n)),
            "cols": Operand(affine=Affine(b_, base, k, 1)),
            "packed": Operand(b_, matrices=0),
            "element": Operand(load=lambda _b, g, j, kk: b_[(g * k + kk) * n + j]),
        }
        operands = (left[a_form], right[b_form], plain_store(c, m, n))
        out = macro_kernel.Direct(c, lambda _b, g: g * m * n, n) if direct else None
        return macro_kernel.GemmSpec(batch, m, n, k, *operands, dtype, acc or dtype, out)

    return describe


def lay_out(x: np.ndarray, form: str, tile: macro_kernel.GemmTile, which: str) -> np.ndarray:
    if form == "packed":
        layout = RowsOfA(str(x.dtype)) if which == "a" else PanelsOfB(tile.n_r, tile.lanes)
        return np.stack([pack_constant(layout, one) for one in x])
    return x.transpose(0, 2, 1) if form == "cols" else x


def check(
    gemm: Gemm, shape: tuple[int, int, int, int], forms: tuple[str, str] = ("rows", "packed"),
    offset: int = 0, split: bool = False,
) -> None:  # fmt: skip
    batch, m, n, k = shape
    dtype = gemm.dtype
    a = RNG.standard_normal((batch, m, k)).astype(dtype)
    b = RNG.standard_normal((batch, k, n)).astype(dtype)
    arrays = {}
    for name, x, form in (("a", a, forms[0]), ("b", b, forms[1])):
        laid = lay_out(x, form, gemm.tile, name)
        arrays[name] = aligned(max(laid.size, 1), dtype, offset)
        arrays[name][: laid.size] = laid.ravel()
    whole = aligned(batch * m * n + 2 * GUARD, dtype, offset)
    arrays["c"] = whole[GUARD:]
    sizes = {"batch": batch, "m": m, "n": n, "k": k}
    expected = a.astype("float64") @ b.astype("float64")
    bound = np.abs(a).astype("float64") @ np.abs(b).astype("float64")
    for algorithm in gemm.possible(sizes):
        whole[:] = CANARY
        if split:
            for t in reversed(range(gemm.query("tasks", sizes, algorithm))):
                gemm.runner(arrays, t, t + 1, algorithm, **sizes)(1)
        else:
            gemm.runner(arrays, algorithm=algorithm, **sizes)(1)
        got = whole[GUARD : GUARD + batch * m * n].reshape(batch, m, n)
        eps, at = float(np.finfo(dtype).eps), (shape, algorithm)
        assert np.all(np.abs(got - expected) <= bound * eps * (2 + k**0.5) + 1e-30), at
        assert np.all(whole[:GUARD] == CANARY), at
        assert np.all(whole[GUARD + batch * m * n :] == CANARY), at
