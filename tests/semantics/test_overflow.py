"""Integers that overflow inside a kernel wrap around: LLVM must not assume that they do not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.cuda import emulator
from tvm_disc import relay

DTYPES = ["int8", "uint8", "int32", "int64", "uint32", "uint64"]


def results(x: Any, y: Any, number: Callable[[int], Any], where: Any, lib: Any) -> list[Any]:
    """Combinations that are constant, or shorter, if no step overflows."""
    one, two, three, zero = (number(k) for k in (1, 2, 3, 0))
    return [
        where(lib.greater(x + one, x), x, y),
        where(lib.not_equal(x + x, zero), x, y),
        where(lib.greater(x * two, zero), x, y),
        where(lib.less(x - one, x), x, y),
        where(lib.greater(x + y, y), x, y),
        where(lib.equal(x * three, y * three), x, y),
        where(lib.greater(x * x, zero), one + zero * x, zero * y),
        lib.right_shift(x * two, one),
        lib.floor_divide(x * two, two),
        lib.floor_divide(x * y, three),
        lib.minimum(x * two, y * two),
        where(lib.less(lib.negative(x), zero), x, y),
        where(lib.greater_equal(lib.abs(x), zero), x, y),
    ]


def wanted(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    with np.errstate(over="ignore"):
        return results(x, y, x.dtype.type, np.where, np)


def compiled(dtype: str, **options: Any) -> Any:
    x, y = (relay.var(name, shape=(relay.Any("n"),), dtype=dtype) for name in "xy")
    outs = results(x, y, lambda k: relay.const(k, dtype), relay.where, relay)
    return tvm_disc.build(relay.Function([x, y], relay.Tuple(outs)), **options)


def operands(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    ends = np.iinfo(dtype)
    near = [ends.min, ends.min + 1, ends.max, ends.max - 1, ends.max // 2 + 1, 0, 1, 2, 3, 7, 100]
    x = np.array([*near, ends.max - 5], dtype)
    return x, np.roll(x, 5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_on_the_processor(dtype: str) -> None:
    exe = compiled(dtype)
    x, y = operands(dtype)
    for times in (1, 9):
        a, b = np.tile(x, times), np.tile(y, times)
        for k, (got, want) in enumerate(zip(exe(a, b), wanted(a, b), strict=True)):
            np.testing.assert_array_equal(got, want, err_msg=f"result {k}")


@pytest.mark.skipif(shutil.which("g++") is None, reason="the emulator needs g++")
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64"])
def test_on_a_gpu(dtype: str) -> None:
    x, y = operands(dtype)
    with emulator.emulated():
        found = [np.asarray(f) for f in compiled(dtype, target="cuda")(x, y)]
    for k, (got, want) in enumerate(zip(found, wanted(x, y), strict=True)):
        np.testing.assert_array_equal(got, want, err_msg=f"result {k}")


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_steps_of_other_kernels(dtype: str) -> None:
    """A sum of a row, a running sum and an element of a table, each used by a comparison."""
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            total, running = x.sum(1), x.cumsum(0)
            taken = x[(x[:, 0] % 3).abs()]
            return (total * 2) > 0, (running + x) > x, (taken + 1) > taken, (total + 1) // 2

    kind = getattr(torch, dtype)
    ends = torch.iinfo(kind)
    x = torch.tensor([[ends.max, 0], [ends.min, 5], [ends.max // 2 + 1, 1]], dtype=kind)
    exe = tvm_disc.build(Model(), example_inputs=(x,))
    for a in (x, x.repeat(7, 1), x.repeat(1, 20)):
        for got, want in zip(exe(a), Model()(a), strict=True):
            assert torch.equal(got, want)
