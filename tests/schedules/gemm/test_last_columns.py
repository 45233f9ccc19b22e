"""Columns beyond whole vectors as inner products, against float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx

import tvm_disc
from tvm_disc import relay
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.sampling import evaluate
from tvm_disc.schedules.gemm.algorithm import Algorithm, Selection
from tvm_disc.schedules.gemm.cost import gemm_ns
from tvm_disc.schedules.gemm.partition import (
    Affine,
    Direct,
    GemmSpec,
    Operand,
    Stores,
    last_columns,
)
from tvm_disc.schedules.gemm.space import algorithms
from tvm_disc.schedules.gemm.tile import GemmTile
from tvm_disc.tir.builder import i64

RNG = np.random.default_rng(0)
COLUMNS = (*range(1, 60), 64, 65, 72, 73, 97, 113, 128, 255, 256, 257, 264)


def check(got: np.ndarray, x: np.ndarray, y: np.ndarray, eps: float) -> None:
    wide = [v.astype("float64") for v in (x, y.swapaxes(-1, -2))]
    bound = np.abs(wide[0]) @ np.abs(wide[1])
    off = np.abs(got - wide[0] @ wide[1])
    assert np.all(off <= bound * eps * (2 + x.shape[-1] ** 0.5) + 1e-30), (x.shape, y.shape)


@pytest.mark.parametrize(("dtype", "threads"), [("float32", 1), ("float32", 2), ("float64", 2)])
def test_batches_of_every_number_of_columns(dtype: str, threads: int) -> None:
    x, y = (relay.var(n, shape=(relay.Any(),) * 3, dtype=dtype) for n in "xy")
    options = tvm_disc.Options(threads=threads)
    exe = tvm_disc.build(relay.Function([x, y], relay.nn.batch_matmul(x, y)), options=options)
    for n in COLUMNS:
        for m, k in ((1, 64), (9, 16), (10, 70), (19, 1), (33, 64), (250, 15)):
            a = RNG.standard_normal((2, m, k)).astype(dtype)
            b = RNG.standard_normal((2, n, k)).astype(dtype)
            check(exe(a, b), a, b, float(np.finfo(dtype).eps))
    assert (
        exe(np.zeros((2, 20, 0), dtype), np.zeros((2, 33, 0), dtype)).tolist()
        == [[[0] * 33] * 20] * 2
    )


def test_many_rows_in_tasks_of_a_row_of_tiles() -> None:
    x, y = (relay.var(n, shape=(relay.Any(), relay.Any()), dtype="float32") for n in "xy")
    exe = tvm_disc.build(relay.Function([x, y], relay.nn.dense(x, y)))
    for m, n, k in ((2000, 33, 5), (700, 83, 20), (1500, 250, 9), (1201, 200, 64), (33, 1000, 64)):
        a, b = (RNG.standard_normal((s, k)).astype("float32") for s in (m, n))
        check(exe(a, b), a, b, float(np.finfo("float32").eps))


def test_which_columns_are_left() -> None:
    m, n, k = sizes = [tirx.Var(name, "int64") for name in "mnk"]
    tile = GemmTile(9, 48, 16)

    def spec(columns: tuple[object, object], known: int | None = None) -> GemmSpec:
        view = Affine(None, lambda b, g: 0, *columns)
        out = Direct(None, lambda b, g: 0, n)
        a = Affine(None, lambda b, g: 0, k, 1)
        operands = (Operand(affine=a), Operand(affine=view), Stores(lambda *_: None))
        return GemmSpec(1, m, known or n, k, *operands, direct=out)

    def left(count: int, algorithm: Algorithm) -> int:
        found = last_columns(spec((k, 1)), tile, Selection.only(algorithm))
        return int(evaluate(found, {n: np.float64(count)}))

    def offered(one: GemmSpec) -> bool:
        return Selection.only(Algorithm.LAST_APART) in [s for s, _ in algorithms(one, tile)]

    beyond = [left(count, Algorithm.LAST_APART) for count in (15, 16, 17, 32, 33, 43)]
    assert beyond == [0, 0, 1, 0, 1, 11]  # a vector beside them is required
    assert left(33, Algorithm.PANELS) == 0
    assert offered(spec((k, 1)))  # B's columns are contiguous
    assert not offered(spec((1, n)))  # B's rows are
    assert not offered(spec((k, 1), known=33))

    def cheaper(at: tuple[int, int, int]) -> bool:
        points = {v: np.array([float(x)]) for v, x in zip(sizes, at, strict=True)}
        times = [
            gemm_ns(spec((k, 1)), tile, (i64(1), m, n, k), "", points, CostModel(), one)
            for one in map(Selection.only, (Algorithm.LAST_APART, Algorithm.PANELS))
        ]
        return bool(times[0] < times[1])

    assert cheaper((64, 33, 64))
    assert not cheaper((64, 47, 64))  # almost a vector
    assert not cheaper((64, 39, 2))  # the end of an inner product would cost more
