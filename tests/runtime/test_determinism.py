"""The same inputs give the same bits: call after call, on any threads, beside other calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import load, rows
from tests.relay.helpers import DATA
from tvm_disc import relay
from tvm_disc.options import Options

MODELS = ("bert", "cnn", "dlrm")
THREADS = (1, 2, 3)
CALLERS, CALLS = 4, 3


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def product(*dims: Any) -> Any:
    """A product of two unknown matrices."""
    x, y = rows("m", "k"), rows("k", "n", name="y")
    return relay.Function([x, y], relay.nn.matmul(x, y))


def unary(make: Callable[[Any], Any], *dims: Any) -> Any:
    x = rows(*dims)
    return relay.Function([x], make(x))


def convolution() -> Any:
    x = rows("n", 8, "h", "w")
    weight = relay.const(normal(16, 8, 3, 3))
    return relay.Function([x], relay.nn.relu(relay.nn.conv2d(x, weight, padding=(1, 1))))


def scatter() -> Any:
    x, i, u = rows("n"), rows("m", name="i", dtype="int64"), rows("m", name="u")
    return relay.Function([x, i, u], relay.scatter_elements(x, i, u, axis=0, reduction="add"))


def attention() -> Any:
    q, k, v = (rows("b", "s", 32, name=n) for n in "qkv")
    scores = relay.nn.softmax(relay.nn.batch_matmul(q, k, transpose_b=True))
    return relay.Function([q, k, v], relay.nn.batch_matmul(scores, v, transpose_b=False))


def scattered(count: int, into: int) -> list[np.ndarray]:
    index = np.random.default_rng(1).integers(0, into, count)
    return [normal(into), index, normal(count, seed=2)]


# Large enough to be cut among threads, and sizes at which rows, columns or K are cut.
KERNELS: dict[str, tuple[Callable[[], Any], list[list[np.ndarray]]]] = {
    "product": (
        product,
        [[normal(m, k), normal(k, n, seed=1)] for m, k, n in ((3, 9000, 5), (200, 300, 170))],
    ),
    "softmax": (
        lambda: unary(relay.nn.softmax, "n", "m"),
        [[normal(700, 301)], [normal(2, 90001)]],
    ),
    "sum of columns": (
        lambda: unary(lambda x: relay.sum(x, axis=0), "n", "m"),
        [[normal(5000, 70)]],
    ),
    "sum of all": (lambda: unary(relay.sum, "n"), [[normal(1_000_003)]]),
    "mean of rows": (
        lambda: unary(lambda x: relay.mean(x, axis=1), "n", "m"),
        [[normal(900, 333)]],
    ),
    "running sum": (lambda: unary(lambda x: relay.cumsum(x, axis=0), "n"), [[normal(300_001)]]),
    "convolution": (convolution, [[normal(3, 8, 61, 47)]]),
    "scatter": (scatter, [scattered(200_000, 1000)]),
    "attention": (attention, [[normal(4, 130, 32, seed=s) for s in range(3)]]),
    "erf": (lambda: unary(relay.erf, "n"), [[normal(400_001)]]),
}


def bits(out: Any) -> list[bytes]:
    """All results, byte for byte."""
    return [np.asarray(a).tobytes() for a in (out if isinstance(out, tuple) else (out,))]


def elsewhere(array: np.ndarray) -> np.ndarray:
    """A copy that begins at no round address."""
    room = np.empty(array.nbytes + 64, np.uint8)
    first = -room.ctypes.data % 64 + array.itemsize
    copy = room[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def agree(exe: Any, inputs: list[np.ndarray]) -> list[bytes]:
    """The bits of a call, the same however it is made."""
    exe.threads = max(THREADS)
    wanted = bits(exe(*inputs))
    for count in (*THREADS, 1):
        exe.threads = count
        for _ in range(CALLS):
            assert bits(exe(*inputs)) == wanted, f"{count} threads"
        assert bits(exe(*map(elsewhere, inputs))) == wanted, f"{count} threads, other addresses"
    exe.threads = max(THREADS)
    with ThreadPoolExecutor(CALLERS) as pool:
        for found in pool.map(lambda _: bits(exe(*inputs)), range(CALLERS * CALLS)):
            assert found == wanted, "several callers"
    return wanted


def recorded(name: str) -> Iterator[dict[str, np.ndarray]]:
    """The recorded inputs of a model."""
    data = np.load(DATA / "models" / f"{name}.npz")
    for case in sorted({key.split(".")[0] for key in data.files}):
        yield {k.split(".")[1]: data[k] for k in data.files if k.startswith(f"{case}.")}


@pytest.mark.parametrize("name", MODELS)
def test_models_give_the_same_bits(name: str) -> None:
    module = load(DATA / "models" / f"{name}.relay")
    exe = tvm_disc.build(module, options=Options(threads=max(THREADS)))
    again = tvm_disc.build(module, options=Options(threads=max(THREADS))) if name == "dlrm" else exe
    for case in recorded(name):
        inputs = [case[n] for n, _, _ in exe.signature]
        wanted = agree(exe, inputs)
        assert bits(again(*inputs)) == wanted, "another build"


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_give_the_same_bits(name: str) -> None:
    make, cases = KERNELS[name]
    exe = tvm_disc.build(make(), options=Options(threads=max(THREADS)))
    for inputs in cases:
        agree(exe, inputs)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="without fork there are no children")
def test_a_child_gives_the_bits_of_its_parent() -> None:
    make, cases = KERNELS["product"]
    exe = tvm_disc.build(make(), options=Options(threads=2))
    wanted = bits(exe(*cases[1]))
    child = os.fork()
    if child == 0:
        os._exit(0 if bits(exe(*cases[1])) == wanted else 1)
    assert os.waitpid(child, 0)[1] == 0
