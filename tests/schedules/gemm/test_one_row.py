"""One row times packed weights: several sums per result, over consecutive steps of K."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import Options, relay
from tvm_disc.codegen import machine
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.gemm.partition import GemmSpec, Operand
from tvm_disc.schedules.gemm.space import with_sums
from tvm_disc.schedules.gemm.tile import GemmTile, independent_sums
from tvm_disc.tir.builder import i64


def test_independent_sums() -> None:
    assert [independent_sums(1, v, 1) for v in (1, 2, 4, 8)] == [5, 5, 3, 1]
    assert [independent_sums(1, v) for v in (1, 2, 3, 4)] == [4, 4, 4, 2]
    assert [independent_sums(r, 4, 1) for r in (2, 3)] == [1, 1]


def test_the_cost_model_decides_whether_one_row_has_another_sum() -> None:
    def sums(k: int, vectors: int, stride_cycles: float, packed: bool = True) -> int:
        weights: Any = packed or None  # any buffer
        stores: Any = None
        spec = GemmSpec(1, i64(1), 64, k, Operand(), Operand(packed=weights), stores)
        tile = GemmTile(6, 16 * vectors, 16)
        return with_sums(tile, spec, replace(CostModel(), stride_cycles=stride_cycles)).more_sums

    assert sums(512, 4, 0.5) == 1
    assert sums(512, 4, CostModel().stride_cycles) == 0
    assert sums(4, 4, 0.5) == 0  # the addition would cost more
    assert sums(512, 3, 0.5) == sums(512, 4, 0.5, packed=False) == 0


@pytest.mark.parametrize("columns", [32, 64, 128])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 64, 509, 1025])
@pytest.mark.parametrize("stride_cycles", [0.001, 100.0])  # an even and an odd number of sums
def test_one_row(
    k: int, columns: int, stride_cycles: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = replace(CostModel(), stride_cycles=stride_cycles)
    monkeypatch.setattr(machine, "model_for", lambda processor: model)
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
