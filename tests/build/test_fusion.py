"""Merged kernels give the numbers of the unfused program, at every shape."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.build.generated.random_graphs import overrun
from tests.models import rows
from tests.relay.helpers import run
from tvm_disc import relay

RNG = np.random.default_rng(0)
SHAPES = [(1, 1), (3, 7), (2, 16), (5, 15), (33, 64), (4, 0)]


def weight(*shape: int) -> Any:
    return relay.const(RNG.standard_normal(shape).astype("float32"))


def scalar(value: float) -> Any:
    return relay.const(np.float32(value))


def norm(x: Any, axis: int) -> Any:
    return relay.subtract(x, relay.mean(x, axis=axis, keepdims=True))


GRAPHS: dict[str, Callable[[Any, Any], list[Any]]] = {
    "several outputs": lambda x, y: [relay.exp(relay.add(x, y)), relay.add(x, y), relay.tanh(x)],
    "a row and its sibling": lambda x, y: [relay.tanh(x), relay.nn.softmax(x)],
    "two rows": lambda x, y: [relay.sum(x, axis=1), relay.mean(x, axis=1), norm(x, 1)],
    "two columns": lambda x, y: [relay.sum(x, axis=0), relay.tanh(x), norm(x, 0)],
    "shared out": lambda x, y: [relay.sum(relay.negative(x), 0), relay.sum(relay.negative(x), 1)],
    "a view after a row": lambda x, y: [
        relay.exp(relay.reshape(relay.nn.softmax(x), newshape=(-1,)))
    ],
    "tied rows and columns": lambda x, y: [
        relay.divide(
            relay.add(relay.exp(x), relay.tanh(relay.sum(y, axis=0))),
            relay.sum(relay.exp(x), axis=1, keepdims=True),
        ),
        relay.multiply(relay.sum(relay.exp(x), axis=0), relay.tanh(relay.sum(y, axis=0))),
    ],
    "last position beside a dim of one": lambda x, y: [
        relay.argmin(relay.expand_dims(x, axis=2), axis=1, select_last_index=True)
    ],
    "last position of the smallest": lambda x, y: [relay.argmin(x, axis=1, select_last_index=True)],
}
NO_EMPTY_ROWS = {"a row and its sibling", "a view after a row", "last position of the smallest"}
NO_EMPTY_ROWS.add("last position beside a dim of one")


def inputs(shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(shape[0])
    return {n: (rng.integers(-8, 9, shape) / 4).astype("float32") for n in ("x", "y")}


@pytest.mark.parametrize("name", GRAPHS)
def test_numbers(name: str) -> None:
    x, y = rows("b", "s"), rows("b", "s", name="y")
    made = GRAPHS[name](x, y)
    body = relay.Tuple(made) if len(made) > 1 else made[0]
    func = relay.Function(relay.free_vars(body), body)
    exe = tvm_disc.build(func)
    for shape in SHAPES:
        if name in NO_EMPTY_ROWS and shape[1] == 0:
            continue
        given = {n: a for n, a in inputs(shape).items() if n in [s[0] for s in exe.signature]}
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the mean of nothing
            wanted = run(func, given)
        found = exe(**given)
        assert overrun(exe, given, found) is None
        pairs = zip(found, wanted, strict=True) if len(made) > 1 else [(found, wanted)]
        for f, w in pairs:
            np.testing.assert_allclose(f, w, rtol=1e-5, atol=1e-5, err_msg=f"{name} {shape}")


@pytest.mark.parametrize("widths", [(16, 32, 48), (5, 16, 3)])
def test_products_stored_in_parts(widths: tuple[int, ...]) -> None:
    """Widths that fill vectors, and widths that do not."""
    x = rows("b", 8)
    parts = [relay.nn.relu(relay.nn.dense(x, weight(n, 8))) for n in widths]
    func = relay.Function([x], relay.Tuple(parts))
    exe = tvm_disc.build(func)
    assert len(exe.launches) == 1
    for n in (1, 7, 16, 65, 0):
        given = {"x": RNG.standard_normal((n, 8)).astype("float32")}
        for found, wanted in zip(exe(**given), run(func, given), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_several_views_of_a_product() -> None:
    x = rows("b", "s", 8)
    y = relay.nn.dense(relay.reshape(x, newshape=(-1, 8)), weight(16, 8))
    cube = relay.reshape(relay.power(y, scalar(3)), newshape=(-1, 4, 16))
    func = relay.Function([x], relay.tanh(relay.add(relay.reshape(y, newshape=(-1, 4, 16)), cube)))
    exe = tvm_disc.build(func)
    assert len(exe.launches) == 1
    for b, s in ((1, 4), (3, 8), (2, 20), (0, 4)):
        given = {"x": RNG.standard_normal((b, s, 8)).astype("float32")}
        np.testing.assert_allclose(exe(**given), run(func, given), rtol=1e-4, atol=1e-5)


def test_a_long_chain_of_functions_is_one_kernel() -> None:
    """Code that doubles with every function of a function would not be compiled in a lifetime."""
    x = rows("b", 8)
    y = x
    for _ in range(16):
        y = relay.add(relay.tanh(y), relay.multiply(relay.sigmoid(y), scalar(0.5)))
    func = relay.Function([x], y)
    exe = tvm_disc.build(func)
    assert len(exe.launches) == 1
    for n in (0, 1, 7, 16, 65):
        given = {"x": RNG.standard_normal((n, 8)).astype("float32")}
        np.testing.assert_allclose(exe(**given), run(func, given), rtol=1e-5, atol=1e-6)
