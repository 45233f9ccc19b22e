"""Kernels for a GPU, in the emulator: one program for all shapes, threads in several orders."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import tvm_disc
from tests.cuda.helpers import built, check, noise
from tests.models import function, mlp, mlp_reference, rows
from tvm_disc import relay

SIZES = (0, 1, 7, 31, 32, 33, 300)


def test_elements_and_broadcast(gpu: ctypes.CDLL) -> None:
    x, y = rows("n", 5), rows(5, name="y")
    program = built(function(x, y, relay.exp(relay.multiply(relay.add(x, y), relay.const(0.5)))))
    for n in SIZES:
        a, b = noise(n, 5), noise(5)
        check(gpu, program, [a, b], np.exp((a + b) * 0.5))


def test_an_operand_that_may_be_broadcast(gpu: ctypes.CDLL) -> None:
    x, y = rows("n", 3), rows("?", 3, name="y")
    program = built(function(x, y, relay.subtract(x, y)))
    for n, m in ((4, 4), (9, 1), (1, 1)):
        check(gpu, program, [noise(n, 3), noise(m, 3)], noise(n, 3) - noise(m, 3))


@pytest.mark.parametrize("axis", [-1, 1, 0])
def test_softmax_along_any_axis(gpu: ctypes.CDLL, axis: int) -> None:
    x = rows("b", "m", 3)
    program = built(function(x, relay.nn.softmax(x, axis=axis)))
    for b, m in ((2, 1), (1, 65), (3, 300)):
        a = noise(b, m, 3)
        e = np.exp(a - a.max(axis, keepdims=True))
        check(gpu, program, [a], e / e.sum(axis, keepdims=True))


def test_rows_of_any_length(gpu: ctypes.CDLL) -> None:
    x = rows("n", "m")
    program = built(function(x, relay.nn.softmax(x)))
    assert "template: row\n" in str(program.explain())
    for n, m in ((0, 4), (1, 1), (3, 31), (2, 32), (2, 33), (2, 257), (1, 2000), (400, 5)):
        a = noise(n, m)
        e = np.exp(a - a.max(-1, keepdims=True, initial=-np.inf))
        check(gpu, program, [a], e / e.sum(-1, keepdims=True))


def test_layer_norm(gpu: ctypes.CDLL) -> None:
    x, scale, shift = rows("n", 40), rows(40, name="g"), rows(40, name="h")
    program = built(function(x, scale, shift, relay.nn.layer_norm(x, scale, shift)))
    for n in (1, 3, 130):
        a, g, h = noise(n, 40), noise(40), noise(40) + 1
        normal = (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5)
        check(gpu, program, [a, g, h], normal * g + h)


def test_reductions_of_everything(gpu: ctypes.CDLL) -> None:
    x = rows("n", "m")
    program = built(function(x, relay.sum(x)))
    for n, m in ((0, 3), (1, 1), (7, 11), (50, 60)):
        check(gpu, program, [noise(n, m)], noise(n, m).sum())


def test_products_of_any_size(gpu: ctypes.CDLL) -> None:
    x, y = rows("m", "k"), rows("k", "n", name="y")
    program = built(function(x, y, relay.nn.relu(relay.nn.matmul(x, y))))
    assert "template: product\n" in str(program.explain())
    for m, n, k in ((1, 1, 1), (5, 3, 7), (16, 64, 16), (17, 65, 33), (130, 70, 40), (3, 2, 0)):
        a, b = noise(m, k), noise(k, n)
        check(gpu, program, [a, b], np.maximum(a @ b, 0))


def test_a_whole_program(gpu: ctypes.CDLL) -> None:
    program = built(mlp())
    for n in SIZES:
        x = noise(n, 16)
        check(gpu, program, [x], mlp_reference(x))


def test_convolution_and_pool(gpu: ctypes.CDLL) -> None:
    x = rows("n", 3, "h", "w")
    weight = relay.const(noise(4, 3, 3, 3))
    y = relay.nn.conv2d(x, weight, padding=(1, 1), channels=4, kernel_size=(3, 3))
    program = built(function(x, relay.nn.max_pool2d(relay.nn.relu(y), (2, 2), (2, 2))))
    plain = tvm_disc.build(function(x, relay.nn.max_pool2d(relay.nn.relu(y), (2, 2), (2, 2))))
    for n, h, w in ((1, 2, 2), (2, 5, 7), (1, 16, 17)):
        a = noise(n, 3, h, w)
        check(gpu, program, [a], plain(a))


def test_a_size_in_the_data(gpu: ctypes.CDLL) -> None:
    x = rows("n")
    program = built(function(x, relay.argwhere(relay.greater(x, relay.const(0.0)))))
    for n in (1, 9, 70):
        a = noise(n)
        before = gpu.emulated_waits()
        np.testing.assert_array_equal(program(a), np.argwhere(a > 0))
        assert gpu.emulated_waits() == before + 2  # for the size, and for the result


@pytest.mark.parametrize("axes", [[1, 0], [0, 2, 1], [2, 0, 1]])
def test_transposes_in_tiles(gpu: ctypes.CDLL, axes: list[int]) -> None:
    x = rows("a", "b") if len(axes) == 2 else rows("a", "b", "c")
    program = built(function(x, relay.nn.relu(relay.transpose(x, axes))))
    assert "transpose(side=32)" in str(program.explain())
    for shape in ((0, 3, 4), (2, 1, 7), (2, 31, 33), (3, 32, 64), (1, 65, 130)):
        a = noise(*shape[3 - len(axes) :])
        check(gpu, program, [a], np.maximum(a.transpose(axes), 0))


def test_columns(gpu: ctypes.CDLL) -> None:
    x = rows("n", "m")
    program = built(function(x, relay.sum(x, axis=0)))
    for n, m in ((0, 3), (1, 1), (7, 31), (100, 33), (5000, 3), (9000, 40)):
        check(gpu, program, [noise(n, m)], noise(n, m).sum(0, dtype="float64"))


def test_blocks_that_share_a_sum(gpu: ctypes.CDLL) -> None:
    x, y = rows(1, "k"), rows("k", "n", name="y")
    program = built(function(x, y, relay.nn.matmul(x, y)))
    for k, n in ((1, 1), (63, 5), (4096, 7), (20000, 33)):
        a, b = noise(1, k), noise(k, n) / 64
        check(gpu, program, [a, b], (a.astype("float64") @ b).astype("float32"))
    assert "parts=64" in str(program.explain())


def test_convolution_as_a_product(gpu: ctypes.CDLL) -> None:
    x = rows("n", 8, "h", "w")
    weight = relay.const(noise(40, 4, 3, 3))
    attrs = {"padding": (1, 1), "strides": (2, 1), "channels": 40, "kernel_size": (3, 3)}
    source = function(x, relay.nn.relu(relay.nn.conv2d(x, weight, groups=2, **attrs)))
    program, plain = built(source), tvm_disc.build(source)
    assert "template: convolution\n" in str(program.explain())
    for n, h, w in ((1, 1, 1), (2, 9, 7), (1, 33, 20)):
        a = noise(n, 8, h, w)
        check(gpu, program, [a], plain(a))


def test_literal_zeros(gpu: ctypes.CDLL) -> None:
    """A product with 0.0 is NaN if the other operand is NaN or infinite."""
    x, zero = rows("n", 4), relay.const(0.0)
    results = [x * zero, relay.sum(x) * zero, zero / x, x + zero, relay.nn.dense(x, x) * zero]
    program = built(function(x, relay.Tuple(results)))
    a = np.array([[np.nan, 1, -0.0, np.inf], [1, 2, -3, 4]], "float32")
    with np.errstate(invalid="ignore"):
        wanted = [a * 0, a.sum() * 0, 0 / a, a + 0, (a @ a.T) * 0]
    for got, want in zip(program(a), wanted, strict=True):
        np.testing.assert_array_equal(got, np.float32(want))
