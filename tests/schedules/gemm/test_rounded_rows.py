"""Products of quantized weights and rows rounded to int8: sums of bytes, scaled by blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tests.processor import run_on
from tvm_disc import relay

RNG = np.random.default_rng(0)
ROWS = (0, 1, 2, 7, 8, 9, 15, 16, 17, 97, 200)
VNNI = "cascadelake"
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", VNNI)
Array = np.ndarray[Any, Any]


def options(**more: Any) -> tvm_disc.Options:
    return tvm_disc.Options(int8_activations=True, **more)


def weights(
    k: int, n: int, group: int, bits: int = 4, zeros: bool = False, halves: bool = False
) -> tuple[Any, Array]:
    """Return a matrix ``[N, K]`` as a graph gives it, and its values.

    With ``halves``, all scales are exact in float16.
    """
    half, blocks = 1 << (bits - 1), k // group
    q = RNG.integers(0, 2 * half, (n, blocks, group)).astype("uint8")
    q[:, 0, :2] = 0, 2 * half - 1  # all bits are needed
    scale = (RNG.random((n, blocks, 1)) * 0.01 + 0.001).astype("float32")
    scale = scale.astype("float16").astype("float32") if halves else scale
    zero = np.full((n, blocks, 1), half, "float32")
    if zeros:
        zero = RNG.integers(0, 2 * half, zero.shape).astype("float32") + np.float32(0.5)
    wide = relay.subtract(relay.cast(relay.const(q), "float32"), relay.const(zero))
    made = relay.reshape(relay.multiply(wide, relay.const(scale)), (n, k))
    return made, ((q.astype("float64") - zero) * scale).reshape(n, k)


def rounded(x: Array, block: int) -> Array:
    """Rows of whole numbers -127 to 127 times a scale for each block."""
    parts = x.reshape(*x.shape[:-1], x.shape[-1] // block, block)
    largest = np.abs(parts).max(-1, keepdims=True)
    inverse = np.float32(127) / np.where(largest > 1e-30, largest, np.float32(np.inf))
    numbers = np.rint(parts.astype("float64") * inverse.astype("float64"))
    return (numbers * (largest / np.float32(127))).reshape(x.shape)


def check(exe: Any, w: Array, block: int, sizes: tuple[int, ...] = ROWS) -> None:
    for m in sizes:
        x = RNG.standard_normal((m, w.shape[1])).astype("float32")
        close(exe(x), x, w, block)


def close(got: Array, x: Array, w: Array, block: int) -> None:
    """Compare with the exact product; the rounding of a tie may differ in one element."""
    exact = rounded(x, block) @ w.T
    step = np.abs(x).max(initial=0) / 127 * np.abs(w).max()
    bound = (w.shape[1] + 4) * 2.0**-24 * (np.abs(x).astype("float64") @ np.abs(w).T + 1)
    assert got.shape == exact.shape
    off = np.abs(got - exact) > bound
    assert np.all(np.abs(got - exact) <= bound + step)
    assert off.any(-1).mean() <= 0.15 if len(x) > 20 else True


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("k", "n", "group", "bits", "zeros", "block"),
    [
        (1024, 97, 32, 4, False, 32),
        (768, 96, 32, 4, True, 32),
        (4096, 50, 128, 4, False, 128),
        (1000, 128, 40, 4, False, 40),
        (2048, 64, 2048, 4, False, 256),
        (1024, 97, 32, 8, False, 32),
        (1600, 64, 64, 8, True, 64),
        (3072, 48, 3072, 8, False, 256),
    ],
)
def test_products(
    k: int, n: int, group: int, bits: int, zeros: bool, block: int, level: str
) -> None:
    made, w = weights(k, n, group, bits, zeros)
    x = rows("m", k)
    exe = tvm_disc.build(
        function(x, relay.nn.dense(x, made)),
        target={"kind": "llvm", "mcpu": level},
        options=options(),
    )
    assert len(exe.kernels) == 1
    text = exe.source("asm")
    assert ("vpdpbusd" in text) == (level == VNNI)
    assert ("vpmaddubsw" in text) == (bits == 4 and level in ("x86-64-v3", "x86-64-v4"))
    run_on(level)
    check(exe, w, block)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("bits", "zeros"), [(4, False), (4, True), (8, True)])
def test_scales_and_zeros_of_float16(bits: int, zeros: bool, level: str) -> None:
    made, w = weights(6176, 97, 32, bits, zeros, halves=True)  # two blocks of K
    x = rows("m", 6176)
    exe = tvm_disc.build(
        function(x, relay.nn.dense(x, made)),
        target={"kind": "llvm", "mcpu": level},
        options=options(),
    )
    assert len(exe.kernels) == 1
    assert ("vcvtph2ps" in exe.source("asm")) == (level != "x86-64-v2")
    run_on(level)
    check(exe, w, 32)


def test_avx_vnni_has_vectors_of_32_bytes() -> None:
    made, _ = weights(768, 96, 32, 8)
    x = rows("m", 768)
    exe = tvm_disc.build(
        function(x, relay.nn.dense(x, made)),
        target={"kind": "llvm", "mcpu": "alderlake"},
        options=options(load=False),
    )
    assert "vpdpbusd" in exe.source("asm") and "zmm" not in exe.source("asm")


@pytest.mark.parametrize("m", [1, 4, 9, 40])
def test_static_rows_and_an_epilogue(m: int) -> None:
    made, w = weights(1024, 97, 32)
    bias = RNG.standard_normal(97).astype("float32")
    x = rows(m, 1024)
    func = relay.nn.relu(relay.add(relay.nn.dense(x, made), relay.const(bias)))
    exe = tvm_disc.build(function(x, func), options=options())
    assert len(exe.kernels) == 1
    one = RNG.standard_normal((m, 1024)).astype("float32")
    exact = np.maximum(rounded(one, 32) @ w.T + bias, 0)
    assert np.abs(exe(one) - exact).max() <= 2e-3 * np.abs(exact).max()


def test_each_of_three_products_rounds_the_rows_that_they_share() -> None:
    x = rows("b", "s", 512)
    made = [weights(512, n, 32) for n in (256, 192, 160)]
    outs = [relay.nn.dense(x, w) for w, _ in made]
    exe = tvm_disc.build(function(x, relay.Tuple(outs)), options=options())
    assert len(exe.kernels) == 3
    for shape in ((1, 1), (2, 7), (3, 0), (0, 5), (2, 40)):
        value = RNG.standard_normal((*shape, 512)).astype("float32")
        for got, (_, w) in zip(exe(value), made, strict=True):
            close(got.reshape(-1, len(w)), value.reshape(-1, 512), w, 32)


def test_computed_rows_are_rounded_like_inputs() -> None:
    """Rows of a transposed input are gathered, and rounded as they are without fusion."""
    made, _ = weights(512, 256, 64)
    x = rows(512, "m")
    func = function(x, relay.nn.dense(relay.transpose(x), made))
    exe = tvm_disc.build(func, options=options())
    plain = tvm_disc.build(func, options=options(fuse=False))
    for m in (0, 1, 5, 33):
        value = RNG.standard_normal((512, m)).astype("float32")
        scale = np.abs(plain(value)).max(initial=1)
        np.testing.assert_allclose(exe(value), plain(value), rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("bits", [4, 8])
def test_special_values(bits: int, level: str) -> None:
    """Zeros stay zeros; NaN and infinities make their row NaN, and no other."""
    made, w = weights(512, 128, 32, bits)
    x = rows("m", 512)
    exe = tvm_disc.build(
        function(x, relay.nn.dense(x, made)),
        target={"kind": "llvm", "mcpu": level},
        options=options(),
    )
    run_on(level)
    value = np.zeros((12, 512), "float32")
    value[1, 7], value[2, 100], value[3, 0] = np.nan, np.inf, -np.inf
    value[4], value[5], value[6] = -0.0, 1e-42, 1e34
    value[7, ::2], value[8, 33] = 1e-35, -5.0
    got = exe(value)
    assert np.isnan(got[1:4]).all() and not np.isnan(np.delete(got, (1, 2, 3), 0)).any()
    assert not got[[0, 4, 9, 10, 11]].any()
    assert np.abs(got[[5, 7]]).max() < 1e-30
    np.testing.assert_allclose(got[8], -5.0 * w[:, 33], rtol=1e-5)
    np.testing.assert_allclose(got[6] / 1e34, w.sum(1), rtol=1e-4, atol=1e-5)


def test_results_do_not_depend_on_threads() -> None:
    made, w = weights(1024, 400, 32)
    x = rows("m", 1024)
    func = function(x, relay.nn.dense(x, made))
    one, two = (tvm_disc.build(func, options=options(threads=count)) for count in (1, 2))
    check(two, w, 32, (0, 1, 5, 64, 333))
    value = RNG.standard_normal((40, 1024)).astype("float32")
    np.testing.assert_array_equal(one(value), two(value))


@pytest.mark.parametrize(
    ("k", "group", "reason"),
    [
        (1024, 16, "divides the number of rows that share a scale, 16"),
        (2408, 344, "divides the number of rows that share a scale, 344"),
        (1002, 1002, "divides the number of rows that share a scale, 1002"),
    ],
)
def test_rows_that_are_not_rounded(k: int, group: int, reason: str) -> None:
    made, w = weights(k, 96, group)
    x = rows("m", k)
    exe = tvm_disc.build(function(x, relay.nn.dense(x, made)), options=options())
    assert reason in exe.explain()
    value = RNG.standard_normal((5, k)).astype("float32")
    np.testing.assert_allclose(exe(value), value @ w.T, rtol=1e-3, atol=1e-4)


def test_nothing_is_rounded_unless_the_option_allows_it() -> None:
    made, w = weights(1024, 96, 32)
    x = rows("m", 1024)
    exe = tvm_disc.build(function(x, relay.nn.dense(x, made)))
    value = RNG.standard_normal((5, 1024)).astype("float32")
    np.testing.assert_allclose(exe(value), value @ w.T, rtol=1e-4, atol=1e-4)
    assert "round_rows" not in exe.explain()
