"""Integer division of data: total in every form and place, and built in bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay

N = relay.Any()
BUILD_SECONDS = 8.0  # of processor time; each takes less than one


def matrix(name: str, dtype: str) -> relay.Var:
    """An input of two dims that only the call knows."""
    return relay.var(name, shape=(N, N), dtype=dtype)


def built(function: relay.Function) -> Any:
    """The program, which must not take long."""
    begin = time.process_time()
    executable = tvm_disc.build(function)
    assert time.process_time() - begin < BUILD_SECONDS
    return executable


def exact(name: str, x: int, y: int) -> int:
    """The operator on integers; by zero it is zero."""
    if y == 0:
        return 0
    truncated = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    results = {"divide": truncated, "floor_divide": x // y, "floor_mod": x % y}
    return results.get(name, x - truncated * y)


def wanted(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What every element is to be; the quotient that does not fit wraps around."""
    values = [exact(name, int(x), int(y)) for x, y in zip(a.ravel(), b.ravel(), strict=True)]
    whole = np.array(values, dtype=object) & (2 ** (8 * a.itemsize) - 1)
    return whole.astype(f"u{a.itemsize}").view(a.dtype).reshape(a.shape)


def operands(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of numbers at a border."""
    kind = np.iinfo(dtype)
    few = [kind.min, kind.min + 1, 0, 1, 2, 3, 7, kind.max, *([-1, -2, -3] if kind.min else [])]
    a, b = np.meshgrid(np.array(few, dtype), np.array(few, dtype))
    return np.ascontiguousarray(a), np.ascontiguousarray(b)


NAMES = ("divide", "floor_divide", "floor_mod", "mod")


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32"])
@pytest.mark.parametrize("name", NAMES)
def test_matrices(name: str, dtype: str) -> None:
    x, y = matrix("x", dtype), matrix("y", dtype)
    executable = built(relay.Function([x, y], getattr(relay, name)(x, y)))
    a, b = operands(dtype)
    np.testing.assert_array_equal(executable(a, b), wanted(name, a, b))
    assert executable(a[:0], b[:0]).shape == (0, a.shape[1])


@pytest.mark.parametrize("divisor", [-8, -3, -1, 0, 1, 2, 7])
@pytest.mark.parametrize("name", NAMES)
def test_by_a_literal(name: str, divisor: int) -> None:
    x = matrix("x", "int32")
    result = getattr(relay, name)(x, relay.const(np.int32(divisor)))
    executable = built(relay.Function([x], result))
    a, _ = operands("int32")
    np.testing.assert_array_equal(executable(a), wanted(name, a, np.full_like(a, divisor)))


def _among_joins(x: relay.Var, y: relay.Var) -> Any:
    joined = relay.concatenate([relay.floor_mod(x, y), relay.floor_divide(x, y)], axis=0)
    both = relay.concatenate([y, y], axis=0)
    return relay.concatenate([relay.floor_mod(joined, both), relay.mod(joined, both)], axis=1)


def _chain(x: relay.Var, y: relay.Var) -> Any:
    value: Any = x
    for k in range(2, 14):
        value = relay.floor_divide(value, y) + relay.floor_mod(value, relay.const(np.int32(k)))
    return value


@pytest.mark.parametrize("make", [_among_joins, _chain])
def test_many_in_one_kernel(make: Callable[..., Any]) -> None:
    x, y = matrix("x", "int32"), matrix("y", "int32")
    executable = built(relay.Function([x, y], make(x, y)))
    a = np.arange(-6, 6, dtype="int32").reshape(3, 4)
    b = np.array([[3, -2, 0, 5]] * 3, "int32")
    divide, mod = (np.vectorize(lambda p, q, n=n: exact(n, int(p), int(q))) for n in NAMES[1:3])
    if make is _chain:
        value = a
        for k in range(2, 14):
            value = divide(value, b) + mod(value, np.full_like(value, k))
        want = value
    else:
        joined, both = np.concatenate([mod(a, b), divide(a, b)]), np.concatenate([b, b])
        want = np.concatenate([mod(joined, both), wanted("mod", joined, both)], axis=1)
    np.testing.assert_array_equal(executable(a, b), want)


@pytest.mark.parametrize("rank", [1, 2, 4, 6])
def test_coordinates_in_a_shape_that_is_data(rank: int) -> None:
    x = relay.var("x", shape=(N,), dtype="int32")
    shape = relay.var("s", shape=(rank,), dtype="int32")
    executable = built(relay.Function([x, shape], relay.unravel_index(x, shape)))
    dims = np.array([3, 4, 5, 2, 6, 7][:rank], "int32")
    places = np.arange(0, int(np.prod(dims)), max(1, int(np.prod(dims)) // 13), dtype="int32")
    want = np.array(np.unravel_index(places, tuple(dims)), "int32")
    np.testing.assert_array_equal(executable(places, dims), want)


@pytest.mark.parametrize("shape", [(N, 1), (N, 0), (1, N), (0, N), (1,), (0,)])
@pytest.mark.parametrize("name", ["sort", "argsort", "topk"])
def test_a_line_of_one_or_none_is_sorted(name: str, shape: tuple[Any, ...]) -> None:
    x = relay.var("x", shape=shape)
    options: dict[str, Any] = {"k": 5, "ret_type": "values"} if name == "topk" else {}
    executable = built(relay.Function([x], getattr(relay, name)(x, **options)))
    for n in (0, 1, 4):
        value = np.random.default_rng(n).random([d if isinstance(d, int) else n for d in shape])
        value = value.astype("float32")
        order = np.argsort(value if name != "topk" else -value, axis=-1, kind="stable")
        want = order if name == "argsort" else np.take_along_axis(value, order, -1)
        np.testing.assert_array_equal(executable(value), want[..., :5] if name == "topk" else want)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32"])
@pytest.mark.parametrize("name", NAMES)
def test_constants_are_divided_alike(name: str, dtype: str) -> None:
    a, b = operands(dtype)
    quotient = getattr(relay, name)(relay.const(a, dtype), relay.const(b, dtype))
    found = np.from_dlpack(built(relay.Function([], quotient))())
    np.testing.assert_array_equal(found, wanted(name, a, b))


def test_a_constant_that_no_integer_is_becomes_what_it_becomes_at_run_time() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 3e9, -2.7, 0.5], "float32")
    x = relay.var("x", shape=(N,))
    both = [relay.cast(v, "int32") for v in (x, relay.const(values))]
    found, folded = built(relay.Function([x], relay.Tuple(both)))(values)
    np.testing.assert_array_equal(found, folded)


def test_a_length_by_a_step_that_is_a_size() -> None:
    """Each kernel reads the length, which divides by the step, several times."""
    x = relay.var("x", shape=(N, N), dtype="float32")
    rows, step = (relay.take(relay.shape_of(x, "int64"), relay.const(k, "int64")) for k in (0, 1))
    end = relay.multiply(rows, step)
    up = relay.subtract(relay.add(end, step), relay.const(1, "int64"))
    count = relay.floor_divide(up, step)
    zero, one = relay.const(0, "int64"), relay.const(1, "int64")
    line = relay.multiply(relay.arange(zero, count, one, dtype="int64"), step)
    shifted = relay.add(line, relay.const(1, "int64"))
    exe = built(relay.Function([x], relay.Tuple([line, relay.cumsum(shifted, axis=0)])))
    for b, s in ((1, 1), (1, 7), (5, 13), (31, 2), (3, 257)):
        first, second = (np.asarray(r) for r in exe(np.zeros((b, s), "float32")))
        np.testing.assert_array_equal(first, np.arange(b) * s)
        np.testing.assert_array_equal(second, np.cumsum(np.arange(b) * s + 1))
