"""Columns beyond whole vectors as inner products, against float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx

import tvm_disc
from tvm_disc import relay
from tvm_disc.schedules.dispatch.sampling import evaluate
from tvm_disc.schedules.gemm.partition import Affine, Direct, GemmSpec, last_columns
from tvm_disc.schedules.gemm.tile import GemmTile

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

    def left(
        b_strides: tuple[object, object], at: tuple[int, int, int], known: bool = False
    ) -> int:
        view = Affine(None, lambda b, g: 0, *b_strides)
        dims = (m, at[1], k) if known else tuple(sizes)
        out = Direct(None, lambda b, g: 0, dims[1])
        a = Affine(None, lambda b, g: 0, k, 1)
        spec = GemmSpec(1, *dims, lambda *_: None, a_affine=a, b_affine=view, direct=out)
        points = {v: np.float64(x) for v, x in zip(sizes, at, strict=True)}
        return int(evaluate(last_columns(spec, tile), points))

    columns = (k, 1)  # B's columns are contiguous
    assert [left(columns, (64, n, 64)) for n in (16, 17, 32, 33, 39, 40, 43)] == [
        0,
        1,
        0,
        1,
        7,
        0,
        0,
    ]
    assert left(columns, (8, 33, 64)) == 0  # fewer rows than a tile has
    assert left(columns, (64, 15, 64)) == 0  # no vector beside them
    assert left(columns, (64, 257, 64)) == 0  # a small part of the whole
    assert left(columns, (64, 39, 2)) == 0  # the end of an inner product would cost more
    assert left(columns, (64, 33, 64), known=True) == 0
    assert left((1, n), (64, 33, 64)) == 0  # B's rows are
