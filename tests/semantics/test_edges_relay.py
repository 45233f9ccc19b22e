"""Indices, integers and sizes at the edge of what Relay's operators take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay


def program(make: Callable[..., Any], *operands: np.ndarray) -> list[np.ndarray]:
    """What one program gives for several results; first dims are open."""
    variables = [
        relay.var(f"x{k}", shape=(relay.Any(), *x.shape[1:]), dtype=str(x.dtype))
        for k, x in enumerate(operands)
    ]
    exe = tvm_disc.build(relay.Function(variables, relay.Tuple(make(*variables))))
    return [np.asarray(found) for found in exe(*operands)]


TABLE = np.arange(12, dtype="float32").reshape(4, 3)
READS: dict[str, Callable[[Any, Any], Any]] = {
    "take clip": lambda x, i: relay.take(x, i, axis=0, mode="clip"),
    "take wrap": lambda x, i: relay.take(x, i, axis=0, mode="wrap"),
    "take fast": lambda x, i: relay.take(x, i, axis=0, mode="fast"),
    "take of the flat tensor": lambda x, i: relay.take(x, i),
    "gather": lambda x, i: relay.gather(x, 0, relay.broadcast_to(relay.expand_dims(i, 1), (3, 3))),
    "gather_nd": lambda x, i: relay.gather_nd(x, relay.expand_dims(i, 0)),
    "adv_index": lambda x, i: relay.adv_index([x, i]),
}
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    how: lambda x, i, how=how: relay.scatter_nd(
        x, relay.expand_dims(i, 0), relay.full(relay.const(-1.0), (3, 3), "float32"), how
    )
    for how in ("update", "add", "max")
}


@pytest.mark.parametrize("name", [*READS, *WRITES])
def test_indices_outside(name: str) -> None:
    make = {**READS, **WRITES}[name]
    x, i = relay.var("x", shape=(relay.Any(), 3)), relay.var("i", shape=(3,), dtype="int64")
    exe = tvm_disc.build(relay.Function([x, i], make(x, i)))
    for index in (4, -1, -5, 99999, 1 << 40, (1 << 63) - 1, -(1 << 63)):
        got = np.asarray(exe(TABLE, np.full(3, index)))
        allowed = np.concatenate([TABLE.ravel(), TABLE.ravel() - 3, TABLE.ravel() - 1, [-1.0]])
        assert np.isin(got, allowed).all(), (name, index, got)
    if name.startswith("take clip"):
        np.testing.assert_array_equal(exe(TABLE, np.array([-9, 9, 1])), TABLE[[0, 3, 1]])
    if name.startswith("take wrap"):
        np.testing.assert_array_equal(exe(TABLE, np.array([-9, 9, 1])), TABLE[[3, 1, 1]])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_integers_by_zero(dtype: str) -> None:
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    a = np.array([7, 0, least, most, least, 9], dtype)
    b = np.array([0, 0, 0, 0, -1 if least else 1, 2], dtype)
    names = ("divide", "floor_divide", "mod", "floor_mod")
    for name, got in zip(
        names, program(lambda v, w: [getattr(relay, n)(v, w) for n in names], a, b), strict=True
    ):
        quotient = name.endswith("divide")
        assert (got[:4] == 0).all(), (name, got)
        assert got[4] == (least if quotient else 0), (name, got)
        assert got[5] == (4 if quotient else 1), (name, got)


def test_empty_axes() -> None:
    x = np.zeros((0, 3), "float32")

    def make(v: Any) -> list[Any]:
        return [
            relay.sum(v, axis=0),
            relay.prod(v, axis=0),
            relay.max(v, axis=0),
            relay.min(v, axis=0),
            relay.mean(v, axis=0),
            relay.argmax(v, axis=0),
            relay.nn.softmax(v, axis=0),
            relay.concatenate([v, v], axis=0),
        ]

    found = program(make, x)
    for got, want in zip(found[:6], (0.0, 1.0, -np.inf, np.inf, np.nan, 0), strict=True):
        np.testing.assert_array_equal(got, np.full(3, want))
    assert [f.shape for f in found[6:]] == [(0, 3), (0, 3)]


@pytest.mark.parametrize("last", [False, True])
def test_ties(last: bool) -> None:
    x = np.array([[1, 3, 3], [2, 2, 2], [0, -0.0, -1]], "float32")
    most, order, top = program(
        lambda v: [
            relay.argmax(v, axis=1, select_last_index=last),
            relay.argsort(v, axis=1, dtype="int64"),
            relay.topk(v, k=2, axis=1, ret_type="indices", dtype="int64"),
        ],
        x,
    )
    np.testing.assert_array_equal(most, [2, 2, 1] if last else [1, 0, 0])
    np.testing.assert_array_equal(order, np.argsort(x, axis=1, kind="stable"))
    np.testing.assert_array_equal(top, [[1, 2], [0, 1], [0, 1]])
