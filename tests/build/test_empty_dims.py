"""Dims of zero and one, known when the program is built: no template divides by them, no loop
runs around nothing, and a product of nothing is zero."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import TypeMismatch

N = relay.Any()


def program(make: Callable[..., Any], *shapes: tuple[Any, ...]) -> Any:
    """``make`` of float32 inputs."""
    params = [relay.var(f"x{k}", shape=s) for k, s in enumerate(shapes)]
    return tvm_disc.build(relay.Function(params, make(*params)))


def ones(*shape: int) -> np.ndarray:
    """As an input."""
    return np.ones(shape, "float32")


@pytest.mark.parametrize(
    ("shape", "kernel", "options", "wanted"),
    [
        ((N, 8, 1, 1), (16, 8, 1, 1), {}, (16, 1, 1)),
        ((N, 8, 1, 1), (16, 2, 1, 1), {"groups": 4}, (16, 1, 1)),
        ((1, 8, 1, 1), (16, 8, 1, 1), {}, (16, 1, 1)),
        ((N, 0, 4, 4), (16, 0, 1, 1), {}, (16, 4, 4)),
        ((N, 8, 4, 4), (0, 8, 1, 1), {}, (0, 4, 4)),
        ((N, 8, 0, 4), (16, 8, 1, 1), {}, (16, 0, 4)),
        ((N, 8, 0, 4), (16, 8, 3, 3), {"padding": (1, 1)}, (16, 0, 4)),
        ((N, 8, 2, 2), (16, 8, 3, 3), {}, (16, 0, 0)),
        ((0, 8, N, N), (16, 8, 3, 3), {}, (16, 1, 1)),
    ],
)
def test_convolutions(shape: Any, kernel: Any, options: Any, wanted: tuple[int, ...]) -> None:
    weight = relay.const(np.ones(kernel, "float32"))
    executable = program(lambda x: relay.nn.conv2d(x, weight, **options), shape)
    for batch in (1, 3):
        found = executable(
            ones(
                *(d if isinstance(d, int) else batch for d in shape[:1]),
                *(d if isinstance(d, int) else 3 for d in shape[1:]),
            )
        )
        assert found.shape[1:] == wanted
        inner = int(np.prod(kernel[1:]))
        assert (found == inner).all()


def test_a_transposed_convolution_without_channels() -> None:
    weight = relay.const(np.ones((0, 5, 2, 2), "float32"))
    executable = program(
        lambda x: relay.nn.conv2d_transpose(x, weight, channels=5, kernel_size=(2, 2)),
        (N, 0, 4, 4),
    )
    np.testing.assert_array_equal(executable(ones(3, 0, 4, 4)), np.zeros((3, 5, 5, 5), "float32"))


PRODUCTS = [
    (relay.nn.matmul, (0, N), (N, 0)),
    (relay.nn.matmul, (N, 0), (0, N)),
    (relay.nn.matmul, (N, 4), (4, 0)),
    (relay.nn.dense, (N, 0), (4, 0)),
    (relay.nn.dense, (0, 4), (N, 4)),
    (relay.nn.batch_matmul, (0, N, N), (0, N, N)),
    (relay.nn.batch_matmul, (N, N, 0), (N, N, 0)),
]


@pytest.mark.parametrize(("operator", "a", "b"), PRODUCTS)
def test_products(operator: Any, a: Any, b: Any) -> None:
    executable = program(lambda x, y: relay.nn.relu(operator(x, y)), a, b)
    x, y = (ones(*(d if isinstance(d, int) else 3 for d in s)) for s in (a, b))
    wanted = x @ (y if operator is relay.nn.matmul else np.swapaxes(y, -1, -2))
    np.testing.assert_array_equal(executable(x, y), wanted)


def test_a_product_of_slices_that_are_empty() -> None:
    def make(y: Any) -> Any:
        nothing = relay.strided_slice(y, [2], [9], axes=[0])
        return relay.nn.matmul(nothing, relay.transpose(nothing))

    assert program(make, (2, N))(ones(2, 5)).shape == (0, 0)


@pytest.mark.parametrize("shapes", [((N,), (4, N)), ((N, 3), (N,))])
def test_dense_wants_matrices(shapes: Any) -> None:
    with pytest.raises(TypeMismatch, match=r"nn\.dense.*rank 2 or more, found rank 1"):
        program(relay.nn.dense, *shapes)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda x: relay.transpose(relay.exp(x)),
    "reshape and transpose": lambda x: relay.transpose(relay.exp(relay.reshape(x, (-1, 4)))),
    "softmax": lambda x: relay.nn.softmax(x, axis=0),
    "sum": lambda x: relay.sum(x, axis=1),
    "sort": lambda x: relay.sort(x, axis=0),
    "cumsum": lambda x: relay.cumsum(x, axis=0),
}


@pytest.mark.parametrize("name", VIEWS)
def test_no_loop_runs_around_nothing(name: str) -> None:
    executable = program(VIEWS[name], (N, N))
    executable(ones(3, 4))
    begin = time.process_time()
    assert executable(np.zeros((0, 1 << 40), "float32")).size == 0
    assert time.process_time() - begin < 1
