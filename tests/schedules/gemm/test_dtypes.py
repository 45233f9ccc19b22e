"""Matrix products of narrow and wide types through the one template, against exact references."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax, tirx

import tvm_disc
from tests.processor import run_on
from tvm_disc import relay

RNG = np.random.default_rng(0)
K, N = 70, 100
ROWS = (0, 1, 7, 8, 9, 31, 100)


def data(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if "int" in dtype:
        info = np.iinfo(dtype)
        return RNG.integers(info.min, info.max + 1, shape).astype(dtype)
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(
    ("dtype", "out", "tolerance"),
    [("float64", "float64", 1e-14), ("float16", "float16", 1e-3), ("float16", "float32", 1e-6),
     ("int8", "int32", 0)],
)  # fmt: skip
def test_dense(dtype: str, out: str, tolerance: float, constant: bool) -> None:
    w = data((N, K), dtype)
    x = relay.var("x", shape=(relay.Any(), K), dtype=dtype)
    weight = relay.const(w, dtype) if constant else relay.var("w", shape=(N, K), dtype=dtype)
    call = relay.nn.dense(x, weight, out_dtype=out)
    exe = tvm_disc.build(relay.Function([x] if constant else [x, weight], call))
    assert "template: gemm" in exe.explain()
    for rows in ROWS:
        a = data((rows, K), dtype)
        got = exe(a) if constant else exe(a, w)
        exact = a.astype("float64") @ w.astype("float64").T
        scale = np.abs(exact).max() if rows else 1.0
        assert got.dtype == out
        assert np.abs(got - exact).max(initial=0.0) <= tolerance * scale


@pytest.mark.parametrize(
    ("target", "k", "n"),
    [("cascadelake", 0, 5), ("cascadelake", 1, 1), ("cascadelake", 67, 100),
     ("cascadelake", 3079, 17), ("skylake-avx512", 67, 49), ("x86-64-v3", 64, 17)],
)  # fmt: skip
def test_bytes_are_added_four_at_a_time_where_an_instruction_does(
    target: str, k: int, n: int
) -> None:
    w = data((n, k), "int8")
    x = relay.var("x", shape=(relay.Any(), k), dtype="int8")
    func = relay.Function([x], relay.nn.dense(x, relay.const(w, "int8"), out_dtype="int32"))
    exe = tvm_disc.build(func, target={"kind": "llvm", "mcpu": target})
    assert ("vpdpbusd" in exe.source("asm")) == (target == "cascadelake" and k > 1)
    run_on(target)
    for rows in (0, 1, 8, 9, 10, 131):
        a = data((rows, k), "int8")
        a[: rows // 2] = -128
        np.testing.assert_array_equal(exe(a), a.astype("int32") @ w.astype("int32").T)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_unlike_bytes(dtype: str) -> None:
    a_var = relax.Var("a", relax.TensorType([tirx.Var("m", "int64"), 37], dtype))
    w = data((37, 50), "int8")
    bb = relax.BlockBuilder()
    with bb.function("main", [a_var]):
        with bb.dataflow():
            out = bb.emit_output(relax.op.matmul(a_var, relax.const(w), out_dtype="int32"))
        bb.emit_func_output(out)
    exe = tvm_disc.build(bb.get())
    for rows in (0, 1, 17, 65):
        a = data((rows, 37), dtype)
        np.testing.assert_array_equal(exe(a), a.astype("int32") @ w.astype("int32"))


def test_bytes_with_a_scale_and_rows_of_a_transposed_operand() -> None:
    w = data((N, K), "int8")
    x = relay.var("x", shape=(K, relay.Any()), dtype="int8")
    sums = relay.nn.dense(relay.transpose(x), relay.const(w, "int8"), out_dtype="int32")
    exe = tvm_disc.build(
        relay.Function([x], relay.multiply(relay.cast(sums, "float32"), relay.const(0.5)))
    )
    for rows in ROWS:
        a = data((K, rows), "int8")
        want = (a.T.astype("int32") @ w.astype("int32").T).astype("float32") / 2
        np.testing.assert_array_equal(exe(a), want)


def test_products_of_wider_integers_are_exact() -> None:
    x = relay.var("x", shape=(relay.Any(), K), dtype="int16")
    w = relay.const(data((N, K), "int16"), "int16")
    exe = tvm_disc.build(relay.Function([x], relay.nn.dense(x, w, out_dtype="int32")))
    for rows in ROWS:
        a = data((rows, K), "int16") // 256
        np.testing.assert_array_equal(exe(a), a.astype("int32") @ w.data.astype("int32").T)


def test_unlike_types_have_no_kernels() -> None:
    x = relay.var("x", shape=(relay.Any(), K), dtype="int64")
    w = relay.const(data((N, K), "int64"), "int64")
    exe = tvm_disc.build(relay.Function([x], relay.nn.dense(x, w, out_dtype="int64")))
    assert "it does not support int64 x int64 -> int64" in exe.explain()
    a = data((3, K), "int64") // 256
    np.testing.assert_array_equal(exe(a), a @ w.data.T)
