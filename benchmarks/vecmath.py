"""Accuracy and speed of ``tvm_disc.schedules.math.functions`` on this machine.

python -m benchmarks.vecmath                          # ns/element against TVM and numpy
python -m benchmarks.vecmath --all-floats exp log     # largest error over all 2^32 floats
python -m benchmarks.vecmath --pow 10000000           # largest error of pow, random operands
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as sp
import tvm
from tvm import tirx
from tvm.script import tirx as T

from tvm_disc.codegen.machine_code import compile_tir
from tvm_disc.codegen.target import host_target as this_machine
from tvm_disc.codegen.target import resolve_target
from tvm_disc.schedules.math import functions
from tvm_disc.target.isa import isa_of
from tvm_disc.tir.builder import Block, index_var, pointer, prim_func, ramp
from tvm_disc.tir.llvm_ops import tuned_for

Array = Any

REFERENCE: dict[str, Callable[..., Array]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cos": lambda x: np.where(np.abs(x) < 2.0**29, np.cos(x), np.nan),
    "cosh": np.cosh,
    "erf": sp.erf,
    "erfc": sp.erfc,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "gelu_erf": lambda x: np.where(x == -np.inf, np.nan, x * sp.ndtr(x)),
    "lgamma": lambda x: np.where(x == -np.inf, np.inf, sp.gammaln(x)),
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "power": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": sp.expit,
    "silu": lambda x: x * sp.expit(x),
    "sin": lambda x: np.where(np.abs(x) < 2.0**29, np.sin(x), np.nan),
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": lambda x: np.where(np.abs(x) < 2.0**29, np.tan(x), np.nan),
    "tanh": np.tanh,
}


def reference(name: str, *args: Array) -> Array:
    """Return the function evaluated in float64, with warnings off."""
    with np.errstate(all="ignore"):
        return REFERENCE[name](*(np.asarray(a).astype(np.float64) for a in args))


def host_target(mcpu: str | None = None, **flags: Any) -> tvm.target.Target:
    """Return an LLVM target for ``mcpu``, by default the CPU of this machine."""
    plain = {"kind": "llvm", "mcpu": mcpu} if mcpu else this_machine()
    return tvm.target.Target({**plain, **flags})


def kernel(fn: Callable[..., Any], arity: int = 1, dtype: str = "float32", lanes: int = 0) -> Any:
    """Return ``B[i] = fn(A[i], ..)`` over a dynamic extent: a serial loop, or ``lanes``
    elements at a time.
    """
    step = max(lanes, 1)

    if arity == 1:

        @T.prim_func(s_tir=True)
        def unary(a: T.handle, b: T.handle):  # type: ignore[no-untyped-def]
            n = T.int64()
            A = T.match_buffer(a, (n,), dtype, align=4)
            B = T.match_buffer(b, (n,), dtype, align=4)
            for i in range(n // step):
                for j in T.vectorized(step):
                    B[i * step + j] = fn(A[i * step + j])

        return unary.with_attr("global_symbol", "main")

    @T.prim_func(s_tir=True)
    def binary(a: T.handle, b: T.handle, c: T.handle):  # type: ignore[no-untyped-def]
        n = T.int64()
        A = T.match_buffer(a, (n,), dtype, align=4)
        B = T.match_buffer(b, (n,), dtype, align=4)
        C = T.match_buffer(c, (n,), dtype, align=4)
        for i in range(n // step):
            for j in T.vectorized(step):
                C[i * step + j] = fn(A[i * step + j], B[i * step + j])

    return binary.with_attr("global_symbol", "main")


def build(fn: Callable[..., Any], target: tvm.target.Target | None = None, **how: Any) -> Any:
    """Return the compiled module of :func:`kernel`."""
    mod = tvm.IRModule({"main": kernel(fn, **how)})
    return tvm.compile(mod, target=target or host_target())


def run(module: Any, *args: Array) -> Array:
    """Apply a unary or binary kernel to numpy arrays (any length divisible by its lanes)."""
    out = tvm.runtime.tensor(np.full_like(args[0], 123))
    module["main"](*(tvm.runtime.tensor(np.ascontiguousarray(a)) for a in args), out)
    return out.numpy()


def native_module(fn: Callable[..., Any], lanes: int, mcpu: str | None = None) -> Any:
    """Return the kernel that tvm_disc generates for ``y[i:i+lanes] = fn(x[i:i+lanes])``.

    The target is ``mcpu``, by default ``DISC_TARGET`` or this machine.
    """
    target, block = resolve_target(mcpu and f"llvm -mcpu={mcpu}"), Block()
    pointers = [pointer(name, "float32") for name in ("x", "y")]
    count = index_var("count")
    source, sink = (block.declare(str(p.name), p, "float32") for p in pointers)
    with block.loop("i", count) as i, tuned_for(isa_of(target)):
        at = ramp(i * lanes, lanes)
        block.store(sink, at, fn(source[at]))
    func = prim_func([*pointers, count], block.stmt(), {"global_symbol": "main"})
    return compile_tir(tvm.IRModule({"main": func}), target)


def run_native(fn: Callable[..., Any], x: Array, lanes: int) -> Array:
    """Apply :func:`native_module` to an array whose size is divisible by ``lanes``."""
    return call_native(native_module(fn, lanes), x, lanes)


def call_native(module: Any, x: Array, lanes: int) -> Array:
    """Apply a compiled module of :func:`native_module` to an array."""
    x = np.ascontiguousarray(x)
    out = np.full_like(x, 123)
    module["main"](*(ctypes.c_void_p(a.ctypes.data) for a in (x, out)), x.size // lanes)
    return out


def ulp_error(got: Array, want: Array) -> Array:
    """Return |got - want| in ulp of the float32 nearest ``want``; inf if special values differ.

    An overflow counts as 2^128, so that rounding to inf just above the largest float is an error
    of less than an ulp.
    """
    with np.errstate(all="ignore"):
        nearest = want.astype(np.float32)
        binade = nearest.view(np.int32) & 0x7F800000
        ulp = np.maximum(binade, 1 << 23).view(np.float32).astype(np.float64) * 2.0**-23
        error = np.abs(got - want) / ulp
    odd = np.flatnonzero(~np.isfinite(error) | ~np.isfinite(nearest) | (want == 0))
    for at in np.array_split(odd, max(1, odd.size >> 16)):
        error[at] = _special_error(got[at], want[at])
    return error


def _special_error(got: Array, want: Array) -> Array:
    """Return the error as :func:`ulp_error` does, if a value is not finite or ``want`` is 0."""
    with np.errstate(invalid="ignore"):
        got = got.astype(np.float64)
    exact = np.isnan(want) | np.isinf(want) | (want == 0)
    same = np.isnan(got) & np.isnan(want) | (got == want) & (np.signbit(got) == np.signbit(want))
    as_big = np.where(np.isinf(got), np.copysign(2.0**128, got), got)
    near = np.abs(as_big - np.where(exact, 0.0, np.clip(want, -(2.0**128), 2.0**128)))
    near = np.where(np.isnan(near), np.inf, near * 2.0**-104)
    return np.where(exact, np.where(same, 0.0, np.inf), near)


def all_floats(
    name: str,
    stride: int = 1,
    between: tuple[float, float] | None = None,
    lanes: int = 0,
) -> tuple[float, float]:
    """Return (largest error, its operand) over all 2^32 bit patterns, or every ``stride``-th.

    ``between`` = (low, high), both positive, restricts the operands to low <= |x| < high. With
    ``lanes``, the function is compiled for vectors of this machine as in a program.
    """
    if lanes:
        native = native_module(functions.MATH[name], lanes)
        apply = lambda x: call_native(native, x, lanes)  # noqa: E731
    else:
        module = build(functions.MATH[name])
        apply = lambda x: run(module, x)  # noqa: E731
    spans = [(0, 1 << 32)]
    if between:
        low, high = (int(np.float32(v).view(np.uint32)) for v in between)
        spans = [(low, high), (low + (1 << 31), high + (1 << 31))]
    worst, where = -1.0, 0.0
    step = stride << 18  # arrays that stay in cache
    for first, last in spans:
        for start in range(first, last, step):
            bits = np.arange(start, min(start + step, last), stride, dtype=np.uint64)
            x = bits.astype(np.uint32).view(np.float32)
            if lanes:
                x = np.resize(x, -(-x.size // lanes) * lanes)
            error = ulp_error(apply(x), reference(name, x))
            at = int(np.argmax(error))
            if error[at] > worst:
                worst, where = float(error[at]), float(x[at])
    return worst, where


def pow_operands(count: int, seed: int = 0) -> tuple[Array, Array]:
    """Return random bit patterns, and pairs whose power is near a chosen finite value."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 1 << 32, (2, count), dtype=np.uint64).astype(np.uint32).view(np.float32)
    x2 = np.abs(x)
    with np.errstate(all="ignore"):
        y2 = (rng.uniform(-151, 129, count) / np.log2(x2.astype(np.float64))).astype(np.float32)
    x3 = (1 + rng.uniform(-0.3, 0.5, count) * 2.0 ** rng.integers(-22, 0, count)).astype(np.float32)
    with np.errstate(all="ignore"):
        y3 = (rng.uniform(-151, 129, count) / np.log2(x3.astype(np.float64))).astype(np.float32)
    return np.concatenate([x, x2, x3]), np.concatenate([y, y2, y3])


def ns_per_element(module: Any, args: list[Any], size: int) -> float:
    timer = getattr(module, "mod", module).time_evaluator("main", tvm.cpu(), number=2, repeat=1)
    return float(timer(*args).mean) * 1e9 / size


TVM_DEFAULT: dict[str, Callable[..., Any]] = {
    name: getattr(tirx, name, functions.MATH[name])  # TVM has no erfc, expm1, lgamma
    for name in REFERENCE
    if name not in ("gelu_erf", "silu", "power")
} | {
    "power": tirx.pow,
    "silu": lambda x: x * tirx.sigmoid(x),
    "gelu_erf": lambda x: 0.5 * x * (1.0 + tirx.erf(x * 0.7071067811865476)),
}
NUMPY_F32: dict[str, Callable[..., Array]] = REFERENCE | {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "gelu_erf": lambda x: np.float32(0.5) * x * (1 + sp.erf(x * np.float32(0.70710677))),
}


def sample(name: str, size: int) -> list[Array]:
    rng = np.random.default_rng(0)
    low, high = {
        "acosh": (1.0, 20.0),
        "acos": (-1.0, 1.0),
        "asin": (-1.0, 1.0),
        "atanh": (-0.99, 0.99),
    }.get(name, (0.1, 20.0) if name in _POSITIVE else (-8.0, 8.0))
    x = rng.uniform(low, high, size).astype(np.float32)
    return [x, rng.uniform(-3, 3, size).astype(np.float32)] if name == "power" else [x]


_POSITIVE = ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "power")


def bench(names: list[str], size: int = 1 << 16, rounds: int = 21) -> None:
    """Print ns/element, medians of ``rounds``. The functions of tvm_disc and TVM alternate."""
    print(f"mcpu {host_target().mcpu}, {size} elements, one thread, median of {rounds}")
    print(f"{'function':10} {'vecmath':>9} {'16 lanes':>9} {'TVM':>9} {'numpy':>9} {'TVM/ours':>9}")
    for name in names:
        arrays = sample(name, size)
        arity = len(arrays)
        modules = [
            build(functions.MATH[name], arity=arity),
            build(functions.MATH[name], arity=arity, lanes=16),
            build(TVM_DEFAULT[name], arity=arity),
        ]
        tensors = [tvm.runtime.tensor(a) for a in [*arrays, arrays[0]]]
        times: list[list[float]] = [[], [], [], []]
        for _ in range(rounds):
            for slot, module in enumerate(modules):
                times[slot].append(ns_per_element(module, tensors, size))
            begin = time.perf_counter()
            NUMPY_F32[name](*arrays)
            times[3].append((time.perf_counter() - begin) * 1e9 / size)
        mid = [float(np.median(t)) for t in times]
        print(f"{name:10} " + " ".join(f"{t:9.3f}" for t in mid) + f" {mid[2] / mid[0]:8.1f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all-floats", nargs="+", metavar="NAME", default=None)
    parser.add_argument("--stride", type=int, default=1, help="with --all-floats: every n-th")
    parser.add_argument("--between", nargs=2, type=float, help="with --all-floats: bounds of |x|")
    parser.add_argument("--lanes", type=int, default=0, help="with --all-floats: as in kernels")
    parser.add_argument("--pow", type=int, metavar="COUNT", default=0)
    parser.add_argument("--names", nargs="+", default=sorted(functions.MATH))
    args = parser.parse_args()
    if args.all_floats is not None:
        for name in args.all_floats:
            begin = time.perf_counter()
            worst, where = all_floats(name, args.stride, args.between, args.lanes)
            took = time.perf_counter() - begin
            print(f"{name:10} {worst:8.3f} ulp at {where!r}  ({took:.0f} s)", flush=True)
    elif args.pow:
        x, y = pow_operands(args.pow)
        error = ulp_error(run(build(functions.pow, arity=2), x, y), reference("power", x, y))
        at = int(np.argmax(error))
        print(f"power {error[at]:.3f} ulp at ({x[at]!r}, {y[at]!r}), {x.size} pairs")
    else:
        bench(args.names)


if __name__ == "__main__":
    main()
