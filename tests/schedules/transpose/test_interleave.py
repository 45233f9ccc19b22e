"""An axis of a few elements that becomes the last one, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay

RNG = np.random.default_rng(0)
ANY = relay.Any()
IMAGES = [
    (1, 1, 1),
    (2, 3, 5),
    (1, 7, 1),
    (0, 4, 4),
    (3, 8, 8),
    (1, 65, 63),
    (2, 64, 64),
    (1, 91, 97),
]


def program(channels: Any, axes: tuple[int, ...], dtype: str) -> Any:
    any_ = relay.Any()
    x = relay.var("x", shape=(any_, channels, any_, any_), dtype=dtype)
    return tvm_disc.build(relay.Function([x], relay.transpose(x, axes)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64"])
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_colours_become_last(channels: int, dtype: str) -> None:
    exe = program(channels, (0, 2, 3, 1), dtype)
    assert "template: interleave" in exe.explain()
    for n, h, w in IMAGES:
        x = RNG.integers(-100, 100, (n, channels, h, w)).astype(dtype)
        np.testing.assert_array_equal(exe(x), x.transpose(0, 2, 3, 1), str((n, h, w)))


def test_the_first_axis_becomes_last() -> None:
    x = relay.var("x", shape=(3, relay.Any(), relay.Any()), dtype="float32")
    exe = tvm_disc.build(relay.Function([x], relay.transpose(x, (1, 2, 0))))
    assert "template: interleave" in exe.explain()
    a = RNG.standard_normal((3, 5, 31)).astype("float32")
    np.testing.assert_array_equal(exe(a), a.transpose(1, 2, 0))


@pytest.mark.parametrize(
    ("channels", "axes", "dtype", "reason"),
    [
        (5, (0, 2, 3, 1), "float32", "it requires a constant size of 2 to 4"),
        (relay.Any(), (0, 2, 3, 1), "float32", "it requires a constant size of 2 to 4"),
        (3, (0, 3, 2, 1), "float32", "it requires a permutation that moves one axis to the end"),
        (3, (0, 2, 3, 1), "bool", "it has no vector shuffles for bool"),
    ],
)
def test_others_are_refused(channels: Any, axes: tuple[int, ...], dtype: str, reason: str) -> None:
    exe = program(channels, axes, dtype)
    assert f"interleave not used: {reason}" in exe.explain()
    x = RNG.integers(0, 2, (2, 5 if channels != 3 else 3, 4, 9)).astype(dtype)
    np.testing.assert_array_equal(exe(x), x.transpose(axes))


def test_other_work_is_refused() -> None:
    x = relay.var("x", shape=(relay.Any(), 3, relay.Any()), dtype="float32")
    exe = tvm_disc.build(relay.Function([x], relay.nn.relu(relay.transpose(x, (0, 2, 1)))))
    assert "interleave not used: it requires a kernel that permutes axes once" in exe.explain()


def test_elementwise_operators_before_it_are_computed_in_vectors() -> None:
    x, y = (relay.var(n, shape=(ANY, 3, ANY, ANY)) for n in "xy")
    whole = relay.cast(relay.maximum(relay.add(x, y) * relay.const(3.0), relay.const(0.0)), "int32")
    func = relay.Function([x, y], relay.transpose(whole, (0, 2, 3, 1)))
    exe = tvm_disc.build(func, constraints=[f"x.{k} == y.{k}" for k in (0, 2, 3)])
    assert len(exe.kernels) == 1 and "template: interleave" in exe.explain()
    for n, h, w in IMAGES:
        a, b = RNG.standard_normal((2, n, 3, h, w)).astype("float32")
        exact = np.maximum((a + b) * np.float32(3), 0).astype("int32")
        np.testing.assert_array_equal(exe(a, b), exact.transpose(0, 2, 3, 1))


def test_operands_that_are_broadcast_are_refused() -> None:
    x = relay.var("x", shape=(relay.Any(), 3, relay.Any(), relay.Any()), dtype="float32")
    y = relay.var("y", shape=(3, 1, 1), dtype="float32")
    exe = tvm_disc.build(relay.Function([x, y], relay.transpose(relay.add(x, y), (0, 2, 3, 1))))
    assert "their operands must have the shape of the permuted value" in exe.explain()
