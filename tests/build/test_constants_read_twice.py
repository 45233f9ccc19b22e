"""A constant that is weights of a kernel, which lie packed, and another operand of it too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.relay.ops.table import OPS

SIZES = (1, 4, 7, 16, 17, 40)
Use = Callable[[Any, Any], Any]


def conv(x: Any, w: Any) -> Any:
    return relay.nn.conv2d(x, w, kernel_size=(3, 3), padding=(1, 1), channels=None)


def convolved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    reference = OPS["nn.conv2d"].reference
    assert reference is not None
    attrs = dict(conv(relay.var("x", shape=x.shape), relay.const(w)).attrs)
    return np.asarray(reference(x, w, **attrs))


# By what reads the weights, beside the kernel's product: of Relay, and of NumPy.
PRODUCTS: dict[str, tuple[Use, Use]] = {
    "itself": (lambda x, w: relay.nn.matmul(w, w), lambda x, w: w @ w),
    "itself, transposed": (lambda x, w: relay.nn.dense(w, w), lambda x, w: w @ w.T),
    "an addition": (lambda x, w: relay.nn.matmul(x, w) + w, lambda x, w: x @ w + w),
    "a factor": (lambda x, w: relay.nn.dense(x, w) * w, lambda x, w: (x @ w.T) * w),
    "a view": (
        lambda x, w: relay.nn.matmul(x, w) + relay.transpose(w),
        lambda x, w: x @ w + w.T,
    ),
    "twice": (lambda x, w: relay.nn.matmul(x, w) * w - w, lambda x, w: (x @ w) * w - w),
}


def check(use: Use, wanted: Use, weights: np.ndarray, narrow: bool = False) -> None:
    x = np.random.default_rng(1).standard_normal(weights.shape).astype("float32")
    dims = (relay.Any(), *weights.shape[1:])
    given = relay.cast(relay.const(weights), "float32") if narrow else relay.const(weights)
    for shape in (x.shape, dims):
        var = relay.var("x", shape=shape)
        exe = tvm_disc.build(relay.Function([var], relay.Tuple([use(var, given), var])))
        # A batch of unknown size may be 1: then what follows is broadcast.
        assert len(exe.launches) == 1 or shape is dims
        found = exe(x)[0]
        np.testing.assert_allclose(
            found, wanted(x, weights.astype("float32")), rtol=1e-3, atol=1e-3
        )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_of_a_product(name: str, size: int) -> None:
    weights = np.random.default_rng(0).standard_normal((size, size)).astype("float32")
    check(*PRODUCTS[name], weights)


@pytest.mark.parametrize("name", PRODUCTS)
def test_of_a_product_of_narrow_weights(name: str) -> None:
    weights = np.random.default_rng(0).integers(-5, 5, (24, 24)).astype("int8")
    check(*PRODUCTS[name], weights, narrow=True)


@pytest.mark.parametrize("size", SIZES)
def test_of_a_convolution(size: int) -> None:
    weights = np.random.default_rng(0).standard_normal((size, size, 3, 3)).astype("float32")
    check(lambda x, w: conv(w, w), lambda x, w: convolved(w, w), weights)
    check(lambda x, w: conv(x, w) + w, lambda x, w: convolved(x, w) + w, weights)


def test_of_a_product_in_a_batch() -> None:
    weights = np.random.default_rng(0).standard_normal((3, 5, 5)).astype("float32")
    check(
        lambda x, w: relay.nn.batch_matmul(w, w) + w,
        lambda x, w: w @ w.transpose(0, 2, 1) + w,
        weights,
    )
