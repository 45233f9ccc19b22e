"""Panels of a few columns, against float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.schedules.conv.tail import tail_columns
from tvm_disc.schedules.gemm.tile import GemmTile

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("dtype", "channels", "outs", "threads"),
    [("float32", 7, 9, 1), ("float32", 5, 4, 1), ("float32", 600, 23, 2), ("float64", 40, 13, 1)],
)
def test_every_number_of_columns(dtype: str, channels: int, outs: int, threads: int) -> None:
    x = relay.var("x", shape=(relay.Any(), channels, relay.Any()), dtype=dtype)
    z = relay.var("z", shape=(relay.Any(), outs, relay.Any()), dtype=dtype)
    w = RNG.standard_normal((outs, channels, 1)).astype(dtype)
    y = relay.nn.conv1d(x, relay.const(w, dtype), channels=outs, kernel_size=(1,))
    options = tvm_disc.Options(threads=threads)
    exe = tvm_disc.build(relay.Function([x, z], relay.nn.relu(relay.add(y, z))), options=options)
    eps = float(np.finfo(dtype).eps)
    for batch, pixels in [*((1, p) for p in (*range(1, 22), *range(47, 55), 196, 515)), (4, 49)]:
        a = RNG.standard_normal((batch, channels, pixels)).astype(dtype)
        b = RNG.standard_normal((batch, outs, pixels)).astype(dtype)
        wide = [v.astype("float64") for v in (w[:, :, 0], a, b)]
        expected = np.maximum(wide[0] @ wide[1] + wide[2], 0)
        bound = np.abs(wide[0]) @ np.abs(wide[1]) + np.abs(wide[2])
        off = np.abs(exe(a, b) - expected)
        assert np.all(off <= bound * eps * (2 + channels**0.5)), (batch, pixels)


def test_the_taps_of_small_images() -> None:
    x = relay.var("x", shape=(relay.Any(), 70, relay.Any(), relay.Any()), dtype="float32")
    w = RNG.standard_normal((12, 70, 3, 3)).astype("float32")
    y = relay.nn.conv2d(x, relay.const(w), padding=(1, 1), channels=12, kernel_size=(3, 3))
    exe = tvm_disc.build(relay.Function([x], y))
    for batch, height, width in ((1, 1, 1), (1, 7, 7), (3, 3, 6), (1, 14, 14), (2, 5, 10)):
        a = RNG.standard_normal((batch, 70, height, width)).astype("float32")
        padded = np.pad(a.astype("float64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
        expected = sum(
            np.einsum("oc,bchw->bohw", w[:, :, i, j].astype("float64"),
                      padded[:, :, i : i + height, j : j + width])
            for i in range(3) for j in range(3)
        )  # fmt: skip
        np.testing.assert_allclose(exe(a), expected, rtol=1e-4, atol=1e-3)


def test_where_there_is_no_tail() -> None:
    wide, narrow = GemmTile(9, 48, 16), GemmTile(6, 16, 8)
    assert tail_columns(wide, 9, 48) == 0  # no panel is narrow, whatever the shape
    assert tail_columns(wide, 9, 49) == 4
    assert tail_columns(wide, 9, 17) == 0
    assert tail_columns(narrow, 9, 49) == 2
    assert tail_columns(wide, 3, 49) == 0  # too few rows for a tile of inner products
