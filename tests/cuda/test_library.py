"""Products by cuBLASLt: what it is told of operands, and what happens where it is not there."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm_ffi

import tvm_disc
from tests.cuda.helpers import noise, worth_a_call
from tests.models import function, rows
from tvm_disc import relay

SIZES = (1, 3, 16, 0, 65)


def built(source: Any, **options: Any) -> Any:
    """A program."""
    given = tvm_disc.Options(cache=False, **options)
    return tvm_disc.build(source, target="cuda", options=given)


def weight(*shape: int) -> Any:
    """A constant."""
    return relay.const(noise(*shape))


def dense() -> Any:
    """``x @ w.T``, the weight as PyTorch has it."""
    x = rows("n", 24)
    return function(x, relay.nn.dense(x, weight(10, 24)))


def test_a_weight_that_lies_along_k(blas: ctypes.CDLL) -> None:
    program, w = built(dense()), noise(10, 24)
    for n in SIZES:
        calls = blas.fake_calls()
        x = noise(n, 24)
        np.testing.assert_allclose(program(x), x @ w.T, rtol=1e-5, atol=1e-5)
        assert blas.fake_calls() - calls == (n > 0)
    assert blas.fake_compute() == 68 and blas.fake_batch() == 1


def test_a_bias_and_a_weight_along_n(blas: ctypes.CDLL) -> None:
    x = rows("n", 24)
    product = relay.nn.matmul(x, weight(24, 10))
    program = built(function(x, relay.nn.bias_add(product, weight(10))))
    assert "always the product and the bias, if it is installed" in program.explain()
    for n in SIZES:
        value = noise(n, 24)
        wanted = value @ noise(24, 10) + noise(10)
        calls = blas.fake_calls()
        np.testing.assert_allclose(program(value), wanted, rtol=1e-5, atol=1e-5)
        assert blas.fake_calls() - calls == (n > 0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("result", ["float32", ""])
def test_half_types(blas: ctypes.CDLL, dtype: str, result: str) -> None:
    """The result is of the type of the operands, or float32."""
    x, w = rows("b", "n", 24, dtype=dtype), rows("b", 10, 24, name="w", dtype=dtype)
    program = built(function(x, w, relay.nn.batch_matmul(x, w, out_dtype=result or dtype)))
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    for b, n in ((1, 1), (3, 16), (2, 65)):
        calls = blas.fake_calls()
        given = noise(b, n, 24).astype(kind), noise(b, 10, 24).astype(kind)
        wanted = given[0].astype("f8") @ given[1].astype("f8").transpose(0, 2, 1)
        found = program(*given)
        assert found.dtype == (result or kind) and blas.fake_calls() == calls + 1
        np.testing.assert_allclose(found.astype("f8"), wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("transposed", [False, True])
def test_batches(blas: ctypes.CDLL, transposed: bool) -> None:
    x = rows("b", "m", 6)
    # What lies along n must have rows of known length: the solver knows no products of dims.
    y = rows("b", *(("n", 6) if transposed else (6, 9)), name="y")
    product = relay.nn.batch_matmul(x, y, transpose_b=transposed)
    program = built(function(x, y, product))
    for b, m, columns in ((1, 1, 1), (3, 5, 7), (2, 16, 1), (4, 1, 9), (0, 3, 3)):
        n = columns if transposed else 9
        a, c = noise(b, m, 6), noise(b, 6, n)
        given = np.ascontiguousarray(c.swapaxes(1, 2)) if transposed else c
        calls = blas.fake_calls()
        np.testing.assert_allclose(program(a, given), a @ c, rtol=1e-5, atol=1e-5)
        assert blas.fake_calls() - calls == (b > 0)
        assert b == 0 or blas.fake_batch() == b


def test_the_stream_and_no_wait(gpu: ctypes.CDLL, blas: ctypes.CDLL) -> None:
    program = built(dense())
    x = noise(5, 24)
    program(x)
    with tvm_ffi.use_raw_stream(tvm_ffi.device("cuda:0"), 23):
        there = program._main.sent(x)
        waits, launches = gpu.emulated_waits(), gpu.emulated_launches()
        result = program(there)
        assert (gpu.emulated_waits(), gpu.emulated_launches()) == (waits, launches)
        assert blas.fake_stream() == 23
        found = program._main.fetched(result).numpy()
    np.testing.assert_allclose(found, x @ noise(10, 24).T, rtol=1e-5, atol=1e-5)


def test_tf32_is_an_option(blas: ctypes.CDLL) -> None:
    program = built(dense(), tf32=True)
    program(noise(3, 24))
    assert blas.fake_compute() == 77 and "always the product in TF32" in program.explain()


def test_small_products_are_our_own(blas: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    worth_a_call(monkeypatch, 1000)
    program = built(dense())
    for n, theirs in ((3, 0), (100, 0), (3000, 1)):
        calls = blas.fake_calls()
        x = noise(n, 24)
        np.testing.assert_allclose(program(x), x @ noise(10, 24).T, rtol=1e-5, atol=1e-5)
        assert blas.fake_calls() - calls == theirs


@pytest.mark.parametrize("why", ["absent", "unable"])
def test_without_it_our_own_kernels_run(gpu: ctypes.CDLL, blas: ctypes.CDLL, why: str) -> None:
    blas.fake_present(why != "absent")
    blas.fake_unable(why == "unable")
    program = built(dense())
    for n in SIZES:
        x, calls, launches = noise(n, 24), blas.fake_calls(), gpu.emulated_launches()
        np.testing.assert_allclose(program(x), x @ noise(10, 24).T, rtol=1e-5, atol=1e-5)
        assert blas.fake_calls() == calls
        assert (gpu.emulated_launches() > launches) == (n > 0)


def test_a_graph_has_kernels_of_our_own(blas: ctypes.CDLL) -> None:
    program = built(dense(), cuda_graphs=2)
    x = noise(3, 24)
    calls = blas.fake_calls()
    for _ in range(2):
        np.testing.assert_allclose(program(x), x @ noise(10, 24).T, rtol=1e-5, atol=1e-5)
    assert blas.fake_calls() == calls
    assert program.memory_statistics()["graphs_made"] == 1


def test_what_is_not_handed_over_is_told(gpu: ctypes.CDLL) -> None:
    x = rows("n", 24)
    program = built(function(x, relay.tanh(relay.nn.dense(x, weight(10, 24)))))
    assert (
        "cublasLt not used: it requires a matrix product alone, or with a bias" in program.explain()
    )
    x = rows("n", 24, dtype="float64")
    wide = relay.const(noise(10, 24).astype("float64"), "float64")
    program = built(function(x, relay.nn.dense(x, wide)))
    reason = "it requires two matrices of one float type"
    assert f"cublasLt not used: {reason}" in program.explain()


def test_large_products_are_worth_a_call() -> None:
    """Of a product of 4096 columns and as many steps: waves of tiles that cuBLASLt computes."""
    x, w = rows("n", 4096), weight(4096, 4096)
    text = tvm_disc.build(function(x, relay.nn.dense(x, w)), target="cuda").explain()
    assert "cublasLt:\n        the product, if it is installed and this tree selects it" in text
