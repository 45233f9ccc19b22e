"""Which weights stay narrow, in whatever form a model writes them, and which do not and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.relay_passes.narrow_weights import Numbers, grouped

RNG = np.random.default_rng(0)
K, N, BLOCK = 320, 224, 32
Q = RNG.integers(-127, 128, (N, K)).astype("int8")
SCALE = (RNG.random((N, 1)) * 0.01 + 0.001).astype("float32")
BLOCKS = (RNG.random((N, K // BLOCK, 1)) * 0.01 + 0.001).astype("float32")


def const(x: Any, dtype: str = "float32") -> Any:
    return relay.const(np.asarray(x, dtype))


def wide(q: Any = None, dtype: str = "float32") -> Any:
    return relay.cast(relay.const(Q if q is None else q), dtype)


def times_column() -> Any:
    return relay.multiply(wide(), const(SCALE))


def by_rows() -> Any:
    """The matrix of the product as it is multiplied, ``[K, N]``."""
    turned = relay.multiply(wide(np.ascontiguousarray(Q.T)), const(SCALE.T))
    return relay.transpose(turned)


def through_integers() -> Any:
    numbers = relay.subtract(wide((Q + 3).astype("int8"), "int32"), const(3, "int32"))
    return relay.multiply(relay.cast(numbers, "float32"), const(SCALE))


def of_blocks() -> Any:
    blocks = relay.multiply(wide(Q.reshape(N, K // BLOCK, BLOCK)), const(BLOCKS))
    return relay.reshape(blocks, (N, K))


def of_spread_blocks() -> Any:
    spread = relay.broadcast_to(const(BLOCKS), (N, K // BLOCK, BLOCK))
    spread = relay.reshape(spread, (N, K))
    return relay.multiply(wide(), relay.strided_slice(spread, [0, 0], [N, K]))


def added_zero() -> Any:
    return relay.multiply(relay.add(const(-7.0), wide()), const(SCALE))


def of_qnn() -> Any:
    scale, zero = const(SCALE[:, 0]), const(np.full(N, 5), "int32")
    return relay.qnn.dequantize(relay.const(Q), scale, zero, axis=0)


FORMS: list[tuple[Callable[[], Any], np.ndarray]] = [
    (lambda: relay.multiply(wide(), const(0.02)), Q * 0.02),
    (wide, Q * 1.0),
    (times_column, Q * SCALE),
    (by_rows, Q * SCALE),
    (through_integers, ((Q + 3).astype("int8") - 3.0) * SCALE),
    (of_blocks, (Q.reshape(N, -1, BLOCK) * BLOCKS).reshape(N, K)),
    (of_spread_blocks, (Q.reshape(N, -1, BLOCK) * BLOCKS).reshape(N, K)),
    (added_zero, (Q - 7.0) * SCALE),
    (of_qnn, (Q - 5.0) * SCALE),
    (lambda: relay.multiply(times_column(), const(2.0)), Q * SCALE * 2),
]


@pytest.mark.parametrize(("form", "value"), FORMS)
def test_weights_stay_bytes(form: Callable[[], Any], value: np.ndarray) -> None:
    x = rows("m", K)
    exe = tvm_disc.build(function(x, relay.nn.relu(relay.nn.dense(x, form()))))
    assert len(exe.kernels) == 1
    assert "packed at build time: B" in exe.explain()
    assert "dequantize" in exe.explain()
    for m in (0, 1, 7, 37):
        a = RNG.standard_normal((m, K)).astype("float32")
        exact = np.maximum(a.astype("float64") @ value.T.astype("float64"), 0)
        assert np.abs(exe(a) - exact).max(initial=0) <= 1e-5 * np.abs(exact).max(initial=1)


def refused(body: Any, *params: Any) -> str:
    exe = tvm_disc.build(function(*params, body))
    assert "dequantize" not in "".join(exe.kernels)
    return str(exe.explain())


@pytest.mark.parametrize(
    ("weight", "reason"),
    [
        (lambda: wide(Q[:8, :8].copy()), "fewer than 65536 elements"),
        (lambda: wide(np.ones((2, 65536), "int8")), "fewer than 16 columns"),
        (
            lambda: relay.multiply(wide(), const(RNG.random((N, K)))),
            "expected at least 8 rows of the matrix per scale, found 1",
        ),
        (lambda: relay.tanh(wide()), "is not a cast, a transpose, a reshape"),
        (
            lambda: relay.add(times_column(), const(1.0)),
            "adds to the weights after the product with the scale",
        ),
        (
            lambda: relay.cast(relay.cast(times_column(), "float16"), "float32"),
            "casts to float16, expected float32",
        ),
    ],
)
def test_refusals(weight: Callable[[], Any], reason: str) -> None:
    made = weight()
    k = {"fewer than 65536 elements": 8, "fewer than 16 columns": 65536}.get(reason, K)
    x = rows("m", k)
    assert reason in refused(relay.nn.dense(x, made), x)


def test_products_of_other_types_are_refused() -> None:
    x = rows("m", K, dtype="float64")
    assert "only products of float32" in refused(relay.nn.dense(x, wide(None, "float64")), x)


def test_two_products_read_one_matrix() -> None:
    x, y = rows("m", K), rows("k", K, name="y")
    weight = times_column()
    body = relay.Tuple([relay.nn.dense(x, weight), relay.exp(relay.nn.dense(y, weight))])
    exe = tvm_disc.build(function(x, y, body))
    assert len(exe.kernels) == 2
    a, b = (RNG.standard_normal((m, K)).astype("float32") * 0.01 for m in (5, 2))
    value = (Q * SCALE).T.astype("float64")
    for got, exact in zip(exe(a, b), (a @ value, np.exp(b @ value)), strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kept", ["int8", "uint8"])
@pytest.mark.parametrize("block", [0, 8, 9, 50])
@pytest.mark.parametrize("low", [-200, 0, 100, 127.5])
def test_grouped_numbers_are_the_numbers(kept: str, block: int, low: float) -> None:
    """What kernels are given says the same as what the graph computes, to a rounding."""
    info, k, n = np.iinfo(kept), 130, 24
    q = RNG.integers(info.min, info.max + 1, (k, n)).astype(kept)
    count = -(-k // block) if block else 1
    scale, zero = RNG.random((count, n)).astype("float32"), np.float32(low)
    zeros = (RNG.integers(0, 9, (count, n)) + zero).astype("float32")
    each = [np.repeat(x, block or k, 0)[:k] for x in (scale, zeros)]
    parts = grouped(Numbers(q, each[1], each[0]))
    assert not isinstance(parts, str)
    (numbers, factors, *rest), group = parts
    assert numbers.dtype == np.int8
    assert group == (block or k)
    spread = [np.repeat(x, group, 0)[:k] for x in (factors, *rest)]
    value = (numbers.astype("float32") - (spread[1] if rest else 0)) * spread[0]
    np.testing.assert_array_equal(value, (q.astype("float32") - each[1]) * each[0])


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [
        (0.25, "float16"),
        (2.0**-24, "float16"),
        (0.1, "float32"),
        (2.0**-25, "float32"),
        (1e5, "float32"),
    ],
)
def test_scales_are_halves_if_that_loses_nothing(scale: float, dtype: str) -> None:
    scales = np.full((N, 1), 0.5, "float32")
    scales[N // 2] = scale
    x = rows("m", K)
    found: list[str] = []

    def seen(mod: Any) -> Any:
        bindings = [b for block in mod["main"].body.blocks for b in block.bindings]
        calls = [b.value for b in bindings if "dequantize" in str(b.value)]
        found.extend(str(call.args[1].ty.dtype) for call in calls[:1])
        return mod

    func = function(x, relay.nn.dense(x, relay.multiply(wide(), const(scales))))
    tvm_disc.build(func, passes={"after narrow-weights": seen})
    assert found == [dtype]
