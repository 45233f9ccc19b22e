"""Kernels read and write nothing beyond the last byte of a tensor: behind it there is no memory.

A vector that is only partly there must be masked, and a row may be read past its end only where
another row follows. Every tensor ends where a page begins that may not be touched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.guarded import Guarded
from tvm_disc import relay
from tvm_disc.relay.ops.references.nn import softmax

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="protects pages through libc")


def _var(name: str, rank: int) -> Any:
    return relay.var(name, shape=tuple(relay.Any() for _ in range(rank)), dtype="float32")


def _matmul() -> Any:
    x, y = _var("x", 2), _var("y", 2)
    return relay.Function([x, y], relay.nn.matmul(x, y))


def _products_of_transposed() -> Any:
    x, y = _var("x", 3), _var("y", 3)
    return relay.Function([x, y], relay.nn.batch_matmul(x, y, transpose_b=True))


def _softmax() -> Any:
    x = _var("x", 2)
    return relay.Function([x], relay.nn.softmax(x))


def _chain() -> Any:
    x, y = _var("x", 2), _var("y", 2)
    return relay.Function([x, y], relay.multiply(relay.exp(x), y))


def _transposed() -> Any:
    x = _var("x", 2)
    return relay.Function([x], relay.transpose(x, (1, 0)))


def _sums() -> Any:
    x = _var("x", 2)
    return relay.Function([x], relay.sum(x, axis=0))


Case = tuple[Callable[[], Any], Callable[..., np.ndarray], list[tuple[tuple[int, ...], ...]]]
SIZES = (1, 2, 5, 15, 16, 17, 31, 47, 48, 49, 63, 100)
PAIRS = [((m, n),) for m in (1, 3, 17, 64) for n in SIZES]
PRODUCTS = [((m, k), (k, n)) for m in (1, 7, 9, 80) for k in (1, 2, 3, 40) for n in SIZES]
CASES: dict[str, Case] = {
    "matmul": (_matmul, np.matmul, PRODUCTS),
    "batch matmul": (
        _products_of_transposed,
        lambda x, y: x @ y.transpose(0, 2, 1),
        [((2, m, k), (2, n, k)) for m in (1, 9, 40) for k in (1, 17, 40) for n in SIZES],
    ),
    "softmax": (_softmax, lambda x: softmax(x, axis=1), PAIRS),
    "element-wise": (_chain, lambda x, y: np.exp(x) * y, [(p, p) for (p,) in PAIRS]),
    "transpose": (_transposed, lambda x: x.T, PAIRS),
    "sum of columns": (_sums, lambda x: x.sum(axis=0), PAIRS),
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_beyond_a_tensor_is_touched(name: str, rng: np.random.Generator) -> None:
    make, reference, shapes = CASES[name]
    executable = tvm_disc.build(make())
    for given in shapes:
        inputs = [rng.standard_normal(shape).astype("float32") for shape in given]
        wanted = np.asarray(reference(*inputs))
        ends = Guarded()
        placed = [ends.array(x) for x in inputs]
        out = ends.array(np.zeros(wanted.shape, "float32"))
        try:
            executable(*placed, out=out)
            np.testing.assert_allclose(out, wanted, rtol=2e-4, atol=2e-4, err_msg=str(given))
        finally:
            ends.release()
