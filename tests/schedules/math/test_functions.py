"""``schedules.vecmath``: accuracy against float64, special values, and what the machine code holds.

The sample has every exponent and sign with many mantissas, so every denormal binade, both
overflow edges and all special values are in it; ``python -m benchmarks.vecmath --all-floats``
covers all 2^32 arguments.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.script import tirx as T

from benchmarks import vecmath as bench
from tests.processor import needs
from tvm_disc.errors import TypeMismatch
from tvm_disc.schedules.math import functions
from tvm_disc.support.processor import PLAIN

UNARY = sorted(set(functions.MATH) - {"power"})
# One function for each technique of the bodies, where all of them would be slow to build.
CORE = ("acos", "asinh", "erf", "erfc", "exp", "expm1", "gelu_erf", "log10", "log1p", "sin", "tanh")
F64_OURS = ("exp", "log", "sigmoid", "tanh")
# fmt: off
SPECIAL = np.array([
    0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-38,
    1.1754944e-38, -1.1754944e-38, 3.4028235e38, -3.4028235e38, 88.72283, 88.72284, 89.41598,
    89.415985, -87.33654, -103.97208, -103.97209, -150, -149.99998, 128, 127.99999, 2.0**24,
    2.0**24 + 2, 2.0**25, -(2.0**24), 2.0**24 - 1, 2.0**24 - 3, 7.5, -7.5, 1e30, -1e30, 2.0**29,
    -(2.0**29),
], dtype=np.float32)
# fmt: on


def floats(mantissas: int, seed: int = 0) -> Any:
    """Each of the 512 sign-exponent pairs with ``mantissas`` mantissas, then the special values."""
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 1 << 23, (512, mantissas), dtype=np.uint32)
    low[:, :4] = (0, 1, (1 << 23) - 1, 0x3504F3)
    bits = (np.arange(512, dtype=np.uint32)[:, None] << 23) | low
    values = np.concatenate([bits.ravel().view(np.float32), SPECIAL])
    return np.concatenate([values, np.ones(-values.size % 16, np.float32)])


@functools.cache
def serial(name: str, mcpu: str | None = None) -> Any:
    arity = 2 if name == "power" else 1
    return bench.build(functions.MATH[name], bench.host_target(mcpu), arity=arity)


need_v3 = needs(*PLAIN["x86_64"]["x86-64-v3"])
need_v2 = needs(*PLAIN["x86_64"]["x86-64-v2"])


def check(name: str, module: Any, mantissas: int = 128, signed_zero: bool = True) -> None:
    x = floats(mantissas)
    got, want = bench.run(module, x), bench.reference(name, x)
    error = bench.ulp_error(got, want)
    if not signed_zero:
        error[(got == 0) & (want == 0)] = 0
    at = int(np.argmax(error))
    assert error[at] <= functions.ULP_BOUND[name], f"{name}({x[at]!r}): {error[at]} ulp"


@pytest.mark.parametrize("name", UNARY)
def test_accuracy_serial_loop(name: str) -> None:
    check(name, serial(name), mantissas=512)


@need_v3
@pytest.mark.parametrize("name", UNARY)
def test_accuracy_x86_64_v3(name: str) -> None:
    check(name, serial(name, "x86-64-v3"))


@need_v2
@pytest.mark.parametrize("name", CORE)
def test_accuracy_without_fma(name: str) -> None:
    check(name, serial(name, "x86-64-v2"))


@pytest.mark.parametrize("name", CORE)
def test_accuracy_vectorized_loop(name: str) -> None:
    check(name, bench.build(functions.MATH[name], lanes=16))


@pytest.mark.parametrize("mcpu", [None, pytest.param("x86-64-v2", marks=need_v2)])
@pytest.mark.parametrize("name", CORE)
def test_accuracy_under_reassociation(name: str, mcpu: str | None) -> None:
    """A target may set these flags."""
    flags = {f"fast-math-{f}": True for f in ("reassoc", "contract", "nsz")}
    module = bench.build(functions.MATH[name], bench.host_target(mcpu, **flags))
    check(name, module, signed_zero=False)


FUSED = ("erf", "exp", "gelu_erf", "sigmoid", "silu", "tanh")


@need_v3
@pytest.mark.parametrize("name", FUSED)
def test_accuracy_of_vectors_without_masks(name: str) -> None:
    """Four registers of AVX2, as element-wise kernels have them."""
    module = bench.native_module(functions.MATH[name], 32, "x86-64-v3")
    x = np.concatenate([floats(128), np.linspace(-20, 20, 1 << 16, dtype=np.float32)])
    x = np.resize(x, -(-x.size // 32) * 32)
    got, want = bench.call_native(module, x, 32), bench.reference(name, x)
    error = bench.ulp_error(got, want)
    at = int(np.argmax(error))
    assert error[at] <= functions.ULP_BOUND[name], f"{name}({x[at]!r}): {error[at]} ulp"
    zero = np.flatnonzero(want == 0)
    assert np.array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@need_v3
@pytest.mark.parametrize("name", FUSED)
def test_vectors_without_masks_select_little(name: str) -> None:
    """Clamps and shifts take the place of comparisons; gelu alone has two ways to its result."""
    asm = asm_of(bench.native_module(functions.MATH[name], 8, "x86-64-v3"))
    selects = re.findall(r"^\s+v(?:blendv|cmp)\w*ps\s.*%ymm", asm, re.M)
    assert not foreign_calls(asm)
    assert len(selects) <= {"gelu_erf": 4, "silu": 2}.get(name, 0), selects
    assert re.search(r"^\s+vfmadd\w*ps\s.*%ymm", asm, re.M)


@need_v3
def test_accuracy_of_exp_where_nothing_is_above_zero() -> None:
    module = bench.native_module(functions.exp_nonpositive, 32, "x86-64-v3")
    x = -np.abs(np.concatenate([floats(128), np.linspace(-90, 0, 1 << 16, dtype=np.float32)]))
    # A NaN whose lowest bits would be an exponent.
    x = np.concatenate([x, np.array([0x7FC00155, 0xFFC00133], np.uint32).view(np.float32)])
    x = np.resize(x, -(-x.size // 32) * 32)
    got, want = bench.call_native(module, x, 32), bench.reference("exp", x)
    tiny = want < np.finfo(np.float32).tiny
    assert np.all((got[tiny] >= 0) & (got[tiny] <= np.finfo(np.float32).tiny))
    assert np.all(got[x < -88] == 0)
    error = bench.ulp_error(got[~tiny], want[~tiny])
    assert error.max() <= functions.ULP_BOUND["exp"]


@pytest.mark.parametrize("lanes", [0, 16])
def test_pow_accuracy(lanes: int) -> None:
    x, y = bench.pow_operands(1 << 15)
    error = bench.ulp_error(
        bench.run(bench.build(functions.pow, arity=2, lanes=lanes), x, y),
        bench.reference("power", x, y),
    )
    at = int(np.argmax(error))
    assert error[at] <= functions.ULP_BOUND["power"], f"pow({x[at]!r}, {y[at]!r}): {error[at]} ulp"


@pytest.mark.parametrize("mcpu", [None, pytest.param("x86-64-v2", marks=need_v2)])
def test_pow_special_values(mcpu: str | None) -> None:
    x, y = (g.ravel() for g in np.meshgrid(SPECIAL, SPECIAL))
    error = bench.ulp_error(bench.run(serial("power", mcpu), x, y), bench.reference("power", x, y))
    at = int(np.argmax(error))
    assert error[at] <= functions.ULP_BOUND["power"], f"pow({x[at]!r}, {y[at]!r}): {error[at]} ulp"


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -0.5, 2.5])
def test_pow_constant_exponent(exponent: float) -> None:
    x = floats(64)
    got = bench.run(bench.build(lambda v: functions.pow(v, T.float32(exponent))), x)
    error = bench.ulp_error(got, bench.reference("power", x, np.full_like(x, exponent)))
    at = int(np.argmax(error))
    assert error[at] <= 2, f"pow({x[at]!r}, {exponent}): {error[at]} ulp"


def test_pow_square_is_one_product() -> None:
    x = tirx.Var("x", "float32")
    square = functions.pow(x, 2.0)
    assert "fma" not in str(square) and str(square).count("*") == 1


def asm_of(module: Any) -> str:
    return str(getattr(module, "mod", module).inspect_source("s"))


def foreign_calls(asm: str) -> set[str]:
    """Called or jumped-to symbols that are neither the module's nor TVM's own runtime."""
    names = set(re.findall(r"^\s+(?:callq?|jmpq?)\s+([A-Za-z_][\w.]*)", asm, flags=re.M))
    names -= set(re.findall(r"^([A-Za-z_][\w.]*):", asm, flags=re.M))
    return {n for n in names if not n.lower().lstrip("_").startswith("tvm")}


@need_v3
@pytest.mark.parametrize("name", sorted(set(functions.MATH) - {"lgamma"}))  # a call of libm
@pytest.mark.parametrize("mcpu", [None, "x86-64-v3"])
def test_serial_loop_is_vectorised(name: str, mcpu: str | None) -> None:
    asm = asm_of(serial(name, mcpu))
    assert not foreign_calls(asm)
    packed = re.findall(r"^\s+v(?:mul|fmadd\w*|fnmadd\w*|sqrt|div|add)ps\s.*%[yz]mm", asm, re.M)
    assert packed, f"no packed single arithmetic in the loop of {name}"


@need_v3
def test_the_check_for_calls_sees_libm() -> None:
    assert "expf" in foreign_calls(asm_of(bench.build(tirx.exp)))


@pytest.mark.parametrize("name", [*CORE, "power"])
def test_vector_typed_expression(name: str) -> None:
    fn = functions.MATH[name]
    arity = 2 if name == "power" else 1

    @T.prim_func(s_tir=True)
    def main(a: T.handle, b: T.handle, c: T.handle):  # type: ignore[no-untyped-def]
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32", align=4)
        B = T.match_buffer(b, (n,), "float32", align=4)
        C = T.match_buffer(c, (n,), "float32", align=4)
        for i in range(n // 8):
            C[T.Ramp(i * 8, 1, 8)] = fn(*[A[T.Ramp(i * 8, 1, 8)], B[T.Ramp(i * 8, 1, 8)]][:arity])

    module = tvm.compile(tvm.IRModule({"main": main}), target=bench.host_target())
    x, y = floats(16), floats(16, seed=1)
    error = bench.ulp_error(bench.run(module, x, y), bench.reference(name, *[x, y][:arity]))
    assert error.max() <= functions.ULP_BOUND[name]


@pytest.mark.parametrize("name", F64_OURS)
def test_float64(name: str) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            rng.uniform(-30, 30, 20_000),
            rng.uniform(-760, 760, 20_000),
            rng.standard_normal(20_000) * 10.0 ** rng.integers(-300, 300, 20_000),
            np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1.0, 709.7827, -745.13]),
        ]
    )
    with np.errstate(all="ignore"):
        wide = x.astype(np.longdouble)
        want = {
            "exp": lambda: np.exp(wide),
            "log": lambda: np.log(wide),
            "tanh": lambda: np.tanh(wide),
            "sigmoid": lambda: np.exp(np.minimum(wide, 0)) / (1 + np.exp(-np.abs(wide))),
        }[name]()
        got = bench.run(bench.build(functions.MATH[name], dtype="float64"), x)
        near = want.astype(np.float64)
        error = np.abs(got - want) / np.maximum(np.spacing(np.abs(near)), 5e-324)
        special = ~np.isfinite(near) | (near == 0)
    assert np.array_equal(got[special], near[special], equal_nan=True)
    assert np.array_equal(np.signbit(got[near == 0]), np.signbit(near[near == 0]))
    assert error[~special].max() <= 4


@pytest.mark.parametrize("name", ["acosh", "erf", "gelu_erf", "power", "silu", "sin"])
def test_float64_fallback(name: str) -> None:
    x = np.linspace(0.05, 0.95, 64)
    arity = 2 if name == "power" else 1
    if name == "acosh":
        x = x + 1
    args = [x, x * 3][:arity]
    got = bench.run(bench.build(functions.MATH[name], arity=arity, dtype="float64"), *args)
    np.testing.assert_allclose(got, bench.reference(name, *args), rtol=1e-13)


@pytest.mark.parametrize("name", [*CORE, "power"])
def test_float16(name: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    arity = 2 if name == "power" else 1
    args = [x, x[::-1].copy()][:arity]
    got = bench.run(bench.build(functions.MATH[name], arity=arity, dtype="float16"), *args)
    with np.errstate(all="ignore"):
        want = bench.reference(name, *args).astype(np.float16)
        gap = np.abs(got.view(np.int16).astype(int) - want.view(np.int16))
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    assert gap[~np.isnan(want)].max() <= 1


def test_float16_constant_exponent() -> None:
    x = np.linspace(0.1, 9, 64).astype(np.float16)
    fn = lambda v: functions.pow(v, 0.5)  # noqa: E731
    got = bench.run(bench.build(fn, dtype="float16"), x)
    assert np.array_equal(got, np.sqrt(x))


@pytest.mark.parametrize("name", [*CORE, "power"])
def test_bfloat16(name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(ml_dtypes.bfloat16)
    arity = 2 if name == "power" else 1
    args = [x, x[::-1].copy()][:arity]
    fn = functions.MATH[name]
    got = bench.run(bench.build(fn, arity=arity, dtype="bfloat16", lanes=16), *args)
    with np.errstate(all="ignore"):
        want = bench.reference(name, *args).astype(np.float32).astype(ml_dtypes.bfloat16)
    number = ~np.isnan(want.astype(np.float32))
    gap = np.abs(got.view(np.int16).astype(int) - want.view(np.int16))
    assert np.array_equal(np.isnan(got.astype(np.float32)), ~number)
    assert gap[number].max() <= 1


@pytest.mark.parametrize("name", CORE)
def test_constant_arguments(name: str) -> None:
    """TVM may inline and fold a constant argument: the value must not change."""
    constants = np.array([0.75, 1.5, 0.0, -200.0], np.float32)

    def fn(v: Any) -> Any:
        first, *rest = (functions.MATH[name](T.float32(float(c))) for c in constants)
        for index, value in enumerate(rest):
            first = tirx.Select(v > T.float32(index + 0.5), value, first)
        return first

    got = bench.run(bench.build(fn), np.arange(4, dtype=np.float32))
    assert bench.ulp_error(got, bench.reference(name, constants)).max() <= 4


@pytest.mark.parametrize("name", UNARY)
def test_argument_is_evaluated_once(name: str) -> None:
    x = tirx.Var("x", "float32")
    loads = []
    expr = functions.MATH[name](tirx.ceil(x))
    tvm_ffi.structural_walk(expr, (tvm.ir.Var, lambda v: loads.append(v) or None))
    assert sum(1 for v in loads if v.same_as(x)) == 1


@pytest.mark.parametrize("name", sorted(functions.MATH))
@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool", "int64"])
def test_refuses_types_that_are_not_floating(name: str, dtype: str) -> None:
    x = tirx.Var("x", dtype)
    with pytest.raises(TypeMismatch, match=f"expects a floating point operand.*found {dtype}"):
        functions.MATH[name](*[x, x][: 2 if name == "power" else 1])


def test_pow_refuses_mixed_types() -> None:
    with pytest.raises(TypeMismatch, match="one type, found float32 and float64"):
        functions.pow(tirx.Var("x", "float32"), tirx.Var("y", "float64"))


def test_tables_agree() -> None:
    assert set(functions.MATH) == set(functions.ULP_BOUND)
    assert set(bench.REFERENCE) == set(functions.MATH)
    assert max(functions.ULP_BOUND.values()) <= 4
    assert len(functions.__all__) == len(set(functions.__all__))
