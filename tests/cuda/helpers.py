"""Programs for the emulated GPU, and what their results are compared with."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc.schedules.cuda.library import LibraryProduct
from tvm_disc.schedules.dispatch.sampling import evaluate
from tvm_disc.tir.builder import i64

ORDERS = (0, 1, 5)


def built(module: Any, facts: Sequence[str] = ()) -> Any:
    """A program for the device."""
    return tvm_disc.build(module, target="cuda", constraints=facts)


def has_driver() -> bool:
    """Whether the machine has NVIDIA's."""
    code = "import ctypes; ctypes.CDLL('libcuda.so.1')"
    return not subprocess.run([sys.executable, "-c", code], capture_output=True).returncode


def check(gpu: ctypes.CDLL, program: Any, inputs: list[np.ndarray], wanted: np.ndarray) -> None:
    """Right, and the same to the last bit whatever the order of threads and blocks."""
    found = []
    for order in ORDERS:
        gpu.emulated_order(order)
        found.append(program(*inputs))
    np.testing.assert_allclose(found[0], wanted, rtol=2e-5, atol=2e-6)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def noise(*shape: int) -> np.ndarray:
    """Numbers that differ from element to element."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def worth_a_call(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Have the cost model say that the library takes no time from so many rows on."""

    def ns(given: LibraryProduct, points: Any, model: Any) -> Any:
        return np.where(evaluate(i64(given.view.sizes[1]), points) >= rows, 0.0, 1e12)

    monkeypatch.setattr(LibraryProduct, "ns", ns)
