"""Sizes that shape arithmetic makes negative: right where defined, refused by name elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import GuardFailed, TypeMismatch

Make = Callable[[Any, Any], Any]


class Undefined(Exception):
    """The operator defines no result."""


def sized(k: int) -> int:
    """A size, which must not be negative."""
    if k < 0:
        raise Undefined
    return k


def const(*numbers: int) -> Any:
    return relay.const(np.array(numbers, "int64"))


def scalar(k: Any) -> Any:
    return relay.squeeze(k)


def widths(k: Any) -> Any:
    return relay.reshape(relay.concatenate([k, const(0)], axis=0), (1, 2))


def padded(mode: str) -> tuple[Make, Callable[[np.ndarray, int], Any]]:
    def make(x: Any, k: Any) -> Any:
        return relay.nn.pad(x, widths(k), relay.const(np.float32(0)), pad_mode=mode)

    def want(x: np.ndarray, k: int) -> Any:
        if -k > len(x):
            raise Undefined
        inner = x[max(-k, 0) :]
        before = max(k, 0)
        return np.pad(inner, (before, 0), mode=mode) if before else inner  # type: ignore[call-overload]

    return make, want


def floats(value: float) -> Any:
    return relay.const(np.full(1, value, "float32"))


ZERO, ONE = relay.const(np.float32(0)), relay.const(np.float32(1))
OPERATORS: dict[str, tuple[Make, Callable[[np.ndarray, int], Any]]] = {
    "full": (lambda x, k: relay.full(ONE, k, "float32"), lambda x, k: np.ones(sized(k))),
    "zeros": (lambda x, k: relay.zeros(k, "float32"), lambda x, k: np.zeros(sized(k))),
    "ones, two": (
        lambda x, k: relay.ones(relay.concatenate([k, k], axis=0), "float32"),
        lambda x, k: np.ones((sized(k), k)),
    ),
    "ones, summed": (
        lambda x, k: relay.sum(relay.ones(relay.concatenate([k, k], axis=0), "float32")),
        lambda x, k: sized(k) ** 2,
    ),
    "broadcast_to": (
        lambda x, k: relay.broadcast_to(floats(2), k),
        lambda x, k: np.full(sized(k), 2),
    ),
    "reshape": (
        lambda x, k: relay.reshape(relay.strided_slice(x, [3], [100], [1]), k),
        lambda x, k: x[3:][: sized(k)],
    ),
    "arange": (
        lambda x, k: relay.arange(
            relay.const(np.int64(0)), scalar(k), relay.const(np.int64(1)), dtype="int64"
        ),
        lambda x, k: np.arange(k),
    ),
    "tile": (lambda x, k: relay.tile(x, k), lambda x, k: np.tile(x, sized(k))),
    "repeat": (
        lambda x, k: relay.repeat(relay.zeros(k, "float32"), 2, 0),
        lambda x, k: np.zeros(2 * sized(k)),
    ),
    "strided_slice, its end": (
        lambda x, k: relay.strided_slice(x, const(0), k, const(1)),
        lambda x, k: x[:k],
    ),
    "strided_slice, its begin": (
        lambda x, k: relay.strided_slice(x, k, const(100), const(1)),
        lambda x, k: x[k:],
    ),
    "one_hot": (
        lambda x, k: relay.one_hot(const(0, 1), ONE, ZERO, scalar(k), -1, "float32"),
        lambda x, k: np.eye(2, sized(k)),
    ),
    # Below 1 Relay's topk returns all.
    "topk": (
        lambda x, k: relay.topk(x, scalar(k), ret_type="values"),
        lambda x, k: np.sort(x)[::-1][: k if k > 0 else len(x)],
    ),
    "split": (
        lambda x, k: relay.split(relay.zeros(k, "float32"), [1], 0)[1],
        lambda x, k: np.zeros(sized(k))[1:],
    ),
    "pad": padded("constant"),
    "pad edge": padded("edge"),
    "pad reflect": padded("reflect"),
}


def taken(name: str = "x") -> tuple[Any, Any]:
    """An input and the size n - 3."""
    x = relay.var(name, shape=(relay.Any(),))
    return x, relay.subtract(relay.shape_of(x, dtype="int64"), const(3))


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    make, want = OPERATORS[name]
    x, k = taken()
    exe = tvm_disc.build(relay.Function([x], make(x, k)))
    for n in range(7):
        value = np.arange(1, n + 1, dtype="float32")
        try:
            expected = np.asarray(want(value, n - 3))
        except Undefined:
            with pytest.raises(GuardFailed, match="input 'x' axis 0"):
                exe(value)
            continue
        got = np.asarray(exe(value))
        assert got.shape == expected.shape
        np.testing.assert_array_equal(got, expected)


BODIES: dict[str, Callable[[Any, Any], Any]] = {
    "a result": lambda x, k: relay.concatenate([relay.ones(k, "float32"), x], axis=0),
    "inside a kernel": lambda x, k: relay.multiply(relay.sum(relay.ones(k, "float32")), x),
    "several kernels": lambda x, k: relay.concatenate(
        [relay.sort(relay.ones(k, "float32")), relay.sort(x)], axis=0
    ),
}


@pytest.mark.parametrize("body", BODIES)
def test_a_branch_that_is_not_taken_refuses_nothing(body: str) -> None:
    x, k = taken()
    cond = relay.var("cond", shape=(), dtype="bool")
    exe = tvm_disc.build(relay.Function([x, cond], relay.If(cond, BODIES[body](x, k), x)))
    for n in (0, 1, 2, 3, 5, 64):
        value = np.sort(np.arange(1, n + 1, dtype="float32"))
        np.testing.assert_array_equal(exe(value, np.array(False)), value)
        if n < 3:
            with pytest.raises(GuardFailed, match=r"input 'x' axis 0.* must not be negative"):
                exe(value, np.array(True))
            continue
        head = {"inside a kernel": np.zeros(0)}.get(body, np.ones(n - 3))
        scale = n - 3 if body == "inside a kernel" else 1
        want = np.concatenate([head, value * scale])
        np.testing.assert_array_equal(exe(value, np.array(True)), want)


def test_a_function_that_is_called() -> None:
    """The size of a result in a loop's body is checked in the turn that makes the result."""
    x, _ = taken()
    i, y = relay.var("i", shape=(), dtype="int32"), relay.var("y", shape=(relay.Any(),))
    loop = relay.var("loop")
    less = relay.subtract(relay.shape_of(y, dtype="int64"), const(3))
    again = relay.Call(loop, [relay.add(i, relay.const(1)), relay.ones(less, "float32")])
    body = relay.If(relay.less(i, relay.const(2)), again, y)
    made = relay.Let(loop, relay.Function([i, y], body), relay.Call(loop, [relay.const(0), x]))
    exe = tvm_disc.build(relay.Function([x], made))
    for n in (6, 7, 9, 70):
        np.testing.assert_array_equal(exe(np.zeros(n, "float32")), np.ones(n - 6))
    for n in (0, 2, 3, 5):
        with pytest.raises(GuardFailed, match="must not be negative"):
            exe(np.zeros(n, "float32"))


def test_a_provable_size_has_no_guard() -> None:
    """Sizes that the solver proves cost nothing: no guard, one kernel."""
    x = relay.var("x", shape=(relay.Any(), 4))
    n = relay.take(relay.shape_of(x, dtype="int64"), const(0), axis=0)
    sizes = [
        relay.add(n, const(2)),
        relay.maximum(relay.subtract(n, const(3)), const(0)),
        relay.floor_divide(relay.add(n, const(1)), const(2)),
        relay.subtract(n, relay.minimum(n, const(8))),
    ]
    for size in sizes:
        y = relay.add(relay.full(ONE, size, "float32"), ONE)
        exe = tvm_disc.build(relay.Function([x], y))
        assert "\nguards: none\n" in exe.explain()
        assert len(exe.kernels) == 1


def test_a_size_that_is_always_negative() -> None:
    x, _ = taken()
    size = relay.subtract(const(-1), relay.shape_of(x, dtype="int64"))
    with pytest.raises(tvm_disc.DiscError, match="must not be negative"):
        tvm_disc.build(relay.Function([x], relay.zeros(size, "float32")))
    with pytest.raises(TypeMismatch, match="axis 0 of the result would have size -2"):
        tvm_disc.build(relay.Function([x], relay.zeros(const(-2), "float32")))


def test_relax_results() -> None:
    """Operators without a shape rule of their own are checked by their inferred type."""
    n = tirx.Var("n", "int64")
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([n], "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.zeros(relax.ShapeExpr([n - 3]), "float32"))
            out = builder.emit_output(relax.op.cumsum(y, 0))
        builder.emit_func_output(out)
    exe = tvm_disc.build(builder.get())
    for k in (3, 4, 7, 64):
        assert np.asarray(exe(np.ones(k, "float32"))).shape == (k - 3,)
    for k in (0, 1, 2):
        with pytest.raises(GuardFailed, match=r"input 'x' axis 0.* must not be negative"):
            exe(np.ones(k, "float32"))
