"""``x - max(x)`` of products so large that what rounding takes from them is above 100."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay

SCALES = (1e3, 1e11, 1e18, 1e30)
LENGTHS = (1, 2, 7, 16, 33, 64, 1000)


def _own(x: Any) -> Any:
    e = relay.exp(relay.subtract(x, relay.max(x, axis=-1, keepdims=True)))
    return relay.divide(e, relay.sum(e, axis=-1, keepdims=True))


def _expanded(x: Any) -> Any:
    most = relay.expand_dims(relay.max(x, axis=-1), axis=1)
    e = relay.exp(relay.subtract(x, most))
    return relay.divide(e, relay.expand_dims(relay.sum(e, axis=-1), axis=1))


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def _log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max(-1, keepdims=True)
    return np.asarray(x - np.log(np.exp(x).sum(-1, keepdims=True)))


FORMS: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "softmax": (relay.nn.softmax, _softmax),
    "log_softmax": (relay.nn.log_softmax, _log_softmax),
    "own": (_own, _softmax),
    "expanded": (_expanded, _softmax),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("factor", ["constant", "input"])
def test_a_row_of_products_and_its_maximum(form: str, dtype: str, factor: str) -> None:
    build, meant = FORMS[form]
    x = relay.var("x", shape=(relay.Any(), relay.Any()), dtype=dtype)
    k = relay.var("k", shape=(), dtype=dtype)
    third = np.asarray(0.3, dtype)
    by = relay.const(third, dtype) if factor == "constant" else k
    params = [x] if factor == "constant" else [x, k]
    exe = tvm_disc.build(relay.Function(params, build(relay.multiply(x, by))))
    for length in LENGTHS:
        for scale in SCALES:
            a = (np.random.default_rng(length).standard_normal((5, length)) * scale).astype(dtype)
            given = {"x": a} if factor == "constant" else {"x": a, "k": third}
            expected = meant((a * third).astype("float64"))
            np.testing.assert_allclose(exe(**given), expected, rtol=1e-5, atol=1e-5)


def test_rows_masked_before_they_are_scaled() -> None:
    """Every key of a row masked by the lowest finite number: all weights are equal."""
    x = relay.var("x", shape=(relay.Any(), relay.Any()))
    m = relay.var("m", shape=(relay.Any(), relay.Any()))
    scaled = relay.multiply(relay.add(x, m), relay.const(np.float32(0.3)))
    exe = tvm_disc.build(relay.Function([x, m], relay.nn.softmax(scaled)))
    for length in LENGTHS:
        a = np.random.default_rng(length).standard_normal((3, length)).astype("float32")
        mask = np.zeros_like(a)
        mask[1] = -3e38
        expected = _softmax(((a + mask) * np.float32(0.3)).astype("float64"))
        np.testing.assert_allclose(exe(a, mask), expected, rtol=1e-5, atol=1e-6)
