"""Build one GEMM as a plain entry function on raw pointers, for benchmarks and tests."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm

from tvm_disc.codegen.machine_code import compile_tir
from tvm_disc.codegen.target import resolve_target
from tvm_disc.schedules.dispatch.sampling import evaluate
from tvm_disc.schedules.gemm import macro_kernel
from tvm_disc.schedules.gemm.algorithm import Selection
from tvm_disc.schedules.gemm.macro_kernel import Affine, Operand, Stores
from tvm_disc.schedules.gemm.space import algorithms
from tvm_disc.tir.builder import Block, i64, index_var, pointer, prim_func
from tvm_disc.tir.hoisted import Sizes

SIZES = ("batch", "m", "n", "k")


def cpu(mcpu: str | None = None) -> Any:
    """Return an LLVM target, by default for this machine; 512-bit vectors are used if available."""
    attrs = resolve_target(None if mcpu is None else {"kind": "llvm", "mcpu": mcpu}).attrs
    kept = {key: attrs[key] for key in ("mtriple", "mcpu", "mattr") if key in attrs}
    return tvm.target.Target({"kind": "llvm", **kept})


def build(functions: dict[Any, Any], target: Any) -> Any:
    """Lower and compile functions whose bodies are already scheduled."""
    return compile_tir(tvm.IRModule(functions), target)


def aligned(elems: int, dtype: str, offset: int = 0) -> np.ndarray:
    """Return an array that starts ``offset`` elements after a 64-byte boundary."""
    size = np.dtype(dtype).itemsize
    raw = np.zeros(elems * size + 128 + offset * size, np.uint8)
    start = -raw.ctypes.data % 64 + offset * size
    return raw[start : start + elems * size].view(dtype)


@dataclass
class Gemm:
    """A compiled GEMM over named arrays; sizes that were fixed at build time are ignored.

    ``describe(block, buffers, sizes)`` returns the :class:`GemmSpec`; ``names`` are the names
    of its arrays. The code contains every algorithm of the tile; a call selects one by its number.
    """

    names: tuple[str, ...]
    describe: Callable[[Block, dict[str, Any], dict[str, Any]], macro_kernel.GemmSpec]
    target: Any
    tile: macro_kernel.GemmTile
    dtype: str = "float32"
    acc_dtype: str = ""  # dtype of the scratch memory; empty means ``dtype``
    lib: Any = field(init=False)
    functions: dict[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.acc_dtype = self.acc_dtype or self.dtype
        dtypes = dict.fromkeys(self.names, self.dtype) | {"scratch": self.acc_dtype}
        if self.acc_dtype != self.dtype:
            dtypes["c"] = self.acc_dtype
        pointers = [pointer(n, dt) for n, dt in dtypes.items()]
        sizes = {n: index_var(n) for n in SIZES}
        lo, hi, repeat, number = (index_var(n) for n in ("lo", "hi", "repeat", "algorithm"))
        b = Block()
        buffers = {
            n: b.declare(f"{n}_", p, dt)
            for (n, dt), p in zip(dtypes.items(), pointers, strict=True)
        }
        kernels = macro_kernel.MicroKernels()
        spec = self.describe(b, buffers, sizes)
        self._sizes, self.needs = sizes, self._algorithms(spec)
        selection = Selection(number, tuple(self.needs))
        tasks = Sizes(b).emit("tasks", i64(macro_kernel.gemm_tasks(spec, self.tile, selection)))
        stop = b.number("stop", tvm.tirx.min(hi, tasks))
        with b.loop("rep", repeat):
            where = (buffers["scratch"], lo, stop)
            b.add(macro_kernel.gemm_body(spec, self.tile, kernels, *where, selection))
        params = [*pointers, *sizes.values(), number, lo, hi, repeat]
        query = Block()
        q = self.describe(query, {n: buffers[n] for n in buffers}, sizes)
        self.functions = dict(kernels.functions)
        entry = macro_kernel.may_alias(prim_func(params, b.stmt(), {"global_symbol": "gemm"}))
        self.functions[tvm.ir.GlobalVar("gemm")] = entry
        for name, value in (
            ("tasks", macro_kernel.gemm_tasks(q, self.tile, selection)),
            ("scratch_elems", macro_kernel.gemm_scratch_elems(q, self.tile, selection)),
        ):
            out = pointer("out", "int64")
            body = Block()
            body.store(body.declare("out_", out, "int64"), 0, Sizes(body).emit(name, i64(value)))
            func = prim_func([out, *sizes.values(), number], body.stmt(), {"global_symbol": name})
            self.functions[tvm.ir.GlobalVar(name)] = func
        self.lib = build(self.functions, self.target)
        self._entry = self.lib["gemm"]

    def _algorithms(self, spec: macro_kernel.GemmSpec) -> dict[int, list[Any]]:
        """Return the conditions of each algorithm, by its number."""
        found = algorithms(spec, self.tile, threads=2)
        return {int(s.number): [need.cond for need in needs] for s, needs in found}

    def possible(self, sizes: dict[str, int]) -> list[int]:
        """Return the numbers of the algorithms that may run at given sizes."""
        points = {v: np.float64(sizes.get(n, 1)) for n, v in self._sizes.items()}
        return [k for k, conds in self.needs.items() if all(evaluate(c, points) for c in conds)]

    def query(self, name: str, sizes: dict[str, int], algorithm: int | None = None) -> int:
        """Return the run-time value of ``tasks`` or ``scratch_elems``."""
        out = np.zeros(1, np.int64)
        number = next(iter(self.needs)) if algorithm is None else algorithm
        dims = [sizes.get(n, 1) for n in SIZES]
        self.lib[name](ctypes.c_void_p(out.ctypes.data), *dims, number)
        return int(out[0])

    def runner(
        self,
        arrays: dict[str, np.ndarray],
        lo: int = 0,
        hi: int = 1 << 40,
        algorithm: int | None = None,
        **sizes: int,
    ) -> Callable[[int], None]:
        """Return a function that computes the GEMM ``repeat`` times."""
        number = next(iter(self.needs)) if algorithm is None else algorithm
        scratch = aligned(max(1, self.query("scratch_elems", sizes, number)), self.acc_dtype)
        keep = [arrays[n] for n in self.names] + [scratch]
        args = [ctypes.c_void_p(a.ctypes.data) for a in keep]
        dims = [sizes.get(n, 1) for n in SIZES]

        def run(repeat: int = 1) -> None:
            self._entry(*args, *dims, number, lo, hi, repeat)

        run.arrays = keep  # type: ignore[attr-defined]  # keeps the memory alive
        return run


def weights(n: int, k: int, tile: macro_kernel.GemmTile, dtype: str = "float32") -> Any:
    """Return ``describe`` of ``c[m, n] = a[m, k] @ packed constant b``."""

    def describe(_b: Block, bufs: dict[str, Any], sizes: dict[str, Any]) -> macro_kernel.GemmSpec:
        c = bufs["c"]

        def store_vector(b: Block, g: Any, i: Any, j: Any, lanes: int, v: Any) -> bool:
            b.store(c, tvm.tirx.Ramp(i * n + j, tvm.tirx.IntImm("int64", 1), lanes), v)
            return True

        return macro_kernel.GemmSpec(
            batch=1,
            m=sizes["m"],
            n=n,
            k=k,
            a=Operand(affine=Affine(bufs["a"], lambda _b, g: g * 0, k, 1)),
            b=Operand(bufs["b"]),
            store=Stores(lambda b, g, i, j, v: b.store(c, i * n + j, v), store_vector),
            dtype=dtype,
            acc_dtype=dtype,
            direct=macro_kernel.Direct(c, lambda _b, g: g * 0, n),
        )

    return describe
