"""One row times packed weights: several sums per result, over consecutive steps of K."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_disc
from tvm_disc import Options, relay
from tvm_disc.schedules.gemm.tile import independent_sums


def test_independent_sums() -> None:
    assert [independent_sums(1, v, 64 * v) for v in (1, 2, 3, 4)] == [4, 5, 4, 3]
    assert [independent_sums(1, v) for v in (1, 2, 3, 4)] == [4, 4, 4, 2]
    assert [independent_sums(r, 4, 256) for r in (2, 3)] == [1, 1]


@pytest.mark.parametrize("columns", [32, 64, 128])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 64, 509, 1025])
def test_one_row(k: int, columns: int) -> None:
    rng = np.random.default_rng(k)
    weights = rng.standard_normal((k, columns), dtype=np.float32)
    x = relay.var("x", shape=(relay.Any(), k))
    body = relay.nn.matmul(x, relay.const(weights))
    program = tvm_disc.build(relay.Function([x], body), options=Options(threads=1))
    for rows in (1, 2, 3):
        value = rng.standard_normal((rows, k), dtype=np.float32)
        for special in (1.0, np.nan, np.inf, -np.inf):
            value[0, k // 2] = special
            with np.errstate(invalid="ignore"):
                expected = value.astype("float64") @ weights.astype("float64")
            np.testing.assert_allclose(program(value), expected, rtol=1e-4, atol=1e-4)
