"""Products whose weights stay in int8 or bfloat16: every number of rows, scale and level."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tests.processor import run_on
from tvm_disc import relay
from tvm_disc.codegen import machine

RNG = np.random.default_rng(0)
ROWS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 18, 19, 31, 108, 109, 300)
LEVELS = ("x86-64-v3", "x86-64-v4")


def weights(
    form: str,
    k: int,
    n: int,
    block: int = 0,
    kept: str = "int8",
    bits: int = 8,
    halves: bool = False,
) -> tuple[Any, np.ndarray, int]:
    """Return a matrix ``[N, K]`` of narrow numbers, its values, the number of packed operands.

    With ``halves``, all scales are exact in float16.
    """
    low = np.iinfo(kept).min >> (8 - bits)
    ends = (low, low + 2**bits)
    q = RNG.integers(*ends, (n, k)).astype(kept)
    blocks = -(-k // block) if block else 1
    form_of = {"tensor": (1, 1), "column": (n, 1), "group": (n, blocks)}
    shape = form_of[form.split()[0]]
    scale = (RNG.random(shape) * 0.01 + 0.001).astype("float32")
    if halves:
        scale = scale.astype("float16").astype("float32")
        scale.flat[0] = 2.0**-24  # the least of float16
    zero = np.zeros(shape, "int32")
    if "zero" in form:
        zero = RNG.integers(*ends, shape).astype("int32")
    elif kept == "uint8":
        zero += 1 << (bits - 1)
    each = [np.repeat(x, block, 1)[:, :k] if block and x.shape[1] > 1 else x for x in (scale, zero)]
    wide = relay.cast(relay.const(q), "int32")
    wide = relay.cast(relay.subtract(wide, relay.const(each[1])), "float32")
    value = (q.astype("float64") - each[1]) * each[0]
    return relay.multiply(wide, relay.const(each[0])), value, 3 if "zero" in form else 2


def product(matrix: Any, k: int, level: str) -> Any:
    """A program that multiplies ``m`` rows by a matrix."""
    x = rows("m", k)
    func = function(x, relay.nn.dense(x, matrix))
    return tvm_disc.build(func, target={"kind": "llvm", "mcpu": level})


def check(exe: Any, w: np.ndarray, bias: np.ndarray | None, sizes: tuple[int, ...] = ROWS) -> None:
    for m in sizes:
        x = RNG.standard_normal((m, w.shape[1])).astype("float32")
        exact = x.astype("float64") @ w.T + (0 if bias is None else bias)
        # The error of float32 sums of as many products, of which each has two roundings.
        bound = (w.shape[1] + 4) * 2.0**-24 * (np.abs(x).astype("float64") @ np.abs(w).T + 1)
        got = exe(x)
        assert got.shape == (m, len(w))
        assert np.all(np.abs(got - exact) <= bound)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("form", "k", "n", "block", "kept"),
    [
        ("tensor", 301, 257, 0, "int8"),
        ("column", 768, 96, 0, "int8"),
        ("column", 4100, 50, 0, "uint8"),
        ("column zero", 301, 257, 0, "uint8"),
        ("column zero", 4100, 50, 0, "int8"),
        ("group", 1024, 100, 32, "int8"),
        ("group", 1000, 97, 32, "int8"),
        ("group zero", 1700, 64, 128, "uint8"),
        ("group zero", 3333, 48, 8, "int8"),
        ("group", 2500, 48, 1100, "int8"),
    ],
)
def test_scales(form: str, k: int, n: int, block: int, kept: str, level: str) -> None:
    made, w, parts = weights(form, k, n, block, kept)
    exe = product(made, k, level)
    assert f"packed at build time: {', '.join(('B', 'B scale', 'B zero')[:parts])}" in exe.explain()
    assert len(exe.kernels) == 1
    assert "vpmovsxbd" in exe.source("asm")
    run_on(level)
    check(exe, w, None)


@pytest.mark.parametrize("level", ("x86-64-v2", *LEVELS))
@pytest.mark.parametrize(
    ("form", "k", "n", "block", "kept"),
    [
        ("tensor", 304, 257, 0, "int8"),
        ("column", 4104, 50, 0, "uint8"),
        ("column zero", 768, 96, 0, "uint8"),
        ("group", 1024, 97, 32, "uint8"),
        ("group", 1000, 100, 40, "int8"),
        ("group zero", 1696, 64, 32, "uint8"),
        ("group zero", 3328, 48, 8, "int8"),
    ],
)
def test_four_bits(form: str, k: int, n: int, block: int, kept: str, level: str) -> None:
    """Eight numbers of a word; levels widen them with arithmetic or a table."""
    made, w, _ = weights(form, k, n, block, kept, bits=4)
    exe = product(made, k, level)
    assert len(exe.kernels) == 1
    assert "vpmovsxbd" not in exe.source("asm")
    run_on(level)
    check(exe, w, None)


@pytest.mark.parametrize("level", ("x86-64-v2", *LEVELS))
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(
    ("form", "k", "n", "block"),
    [("column", 768, 96, 0), ("group", 1024, 97, 32), ("group zero", 1696, 64, 32)],
)
def test_scales_and_zeros_of_float16(
    form: str, k: int, n: int, block: int, bits: int, level: str
) -> None:
    """They are stored in 16 bits if that loses nothing."""
    made, w, _ = weights(form, k, n, block, "uint8", bits, halves=True)
    exe = product(made, k, level)
    assert len(exe.kernels) == 1
    assert ("vcvtph2ps" in exe.source("asm")) == (level != "x86-64-v2")
    run_on(level)
    check(exe, w, None)


@pytest.mark.parametrize(("k", "block"), [(1001, 0), (1020, 12), (1000, 20)])
def test_words_of_four_bits_that_do_not_divide_k_are_bytes(k: int, block: int) -> None:
    made, w, _ = weights("group" if block else "column", k, 96, block, bits=4)
    exe = product(made, k, "x86-64-v3")
    assert "vpmovsxbd" in exe.source("asm")
    run_on("x86-64-v3")
    check(exe, w, None, (1, 5, 20))


@pytest.mark.parametrize("m", [1, 3, 4, 9, 40])
def test_static_rows(m: int) -> None:
    made, w, _ = weights("group", 1000, 97, 32)
    bias = RNG.standard_normal(97).astype("float32")
    x = rows(m, 1000)
    product = relay.add(relay.nn.dense(x, made), relay.const(bias))
    exe = tvm_disc.build(function(x, relay.nn.relu(product)))
    assert len(exe.kernels) == 1
    one = RNG.standard_normal((m, 1000)).astype("float32")
    exact = np.maximum(one.astype("float64") @ w.T + bias, 0)
    assert np.abs(exe(one) - exact).max() <= 1e-5 * np.abs(exact).max()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("k", "n"), [(768, 96), (4100, 50), (301, 257)])
def test_bfloat16(k: int, n: int, level: str) -> None:
    w = RNG.standard_normal((n, k)).astype(ml_dtypes.bfloat16)
    x = rows("m", k)
    bias = RNG.standard_normal(n).astype("float32")
    dense = relay.nn.dense(x, relay.cast(relay.const(w, "bfloat16"), "float32"))
    func = function(x, relay.add(dense, relay.const(bias)))
    exe = tvm_disc.build(func, target={"kind": "llvm", "mcpu": level})
    assert "packed at build time: B" in exe.explain()
    run_on(level)
    check(exe, w.astype("float64"), bias)


def test_results_do_not_depend_on_threads() -> None:
    made, w, _ = weights("group zero", 1024, 400, 64, "uint8")
    x = rows("m", 1024)
    one, two = (
        tvm_disc.build(
            function(x, relay.nn.dense(x, made)), options=tvm_disc.Options(threads=count)
        )
        for count in (1, 2)
    )
    check(two, w, None, (0, 1, 5, 64, 333))
    value = RNG.standard_normal((40, 1024)).astype("float32")
    np.testing.assert_array_equal(one(value), two(value))


@pytest.mark.parametrize(("form", "block"), [("column", 0), ("group zero", 32)])
def test_copied_rows(form: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy of a K block and the dequantized panel share the scratch memory."""
    model_of = machine.model_for
    monkeypatch.setattr(machine, "model_for", lambda p: replace(model_of(p), copied_ns=1.0))
    made, w, _ = weights(form, 1600, 400, block, "uint8")
    func = function(x := rows("m", 1600), relay.nn.dense(x, made))
    exe = tvm_disc.build(func, options=tvm_disc.Options(cache=False))
    assert "algorithm=copied" in str(exe.explain())
    check(exe, w, None, (1, 3, 4, 73, 440))
