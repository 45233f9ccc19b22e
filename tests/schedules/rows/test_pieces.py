"""Long reductions in pieces: right, equal however many threads run them, offered where they fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import Options, relay
from tvm_disc.compile import prepare
from tvm_disc.schedules.dispatch.variant import Variant
from tvm_disc.schedules.select import variant_space
from tvm_disc.shape import Solver
from tvm_disc.support.debug import Trace

SHAPES = [(1, 1), (0, 7), (16, 63), (33000, 1), (1, 70001), (3001, 33), (517, 257), (40, 9000)]


def matrix(dtype: str = "float32") -> Any:
    return relay.var("x", shape=[relay.Any("m"), relay.Any("n")], dtype=dtype)


def function(make: Callable[[Any], Any], dtype: str = "float32") -> Any:
    x = matrix(dtype)
    return relay.Function([x], make(x))


def variants_of(source: Any, threads: int = 2) -> list[Variant]:
    front = prepare(source, None, None, (), Options(threads=threads), Trace(0, None))
    [kernel] = front.library.kernels()
    assert kernel.group is not None
    return variant_space(kernel.group, Solver(), front.machine).variants


def in_pieces(source: Any, path: Path) -> Any:
    """The program that always takes the pieces, on two threads."""
    wanted = next(v for v in variants_of(source) if v.plan.stages and v.run.parts == 2)
    [key] = tvm_disc.build(source, options=Options(threads=2)).dispatch
    trees = path / "trees.json"
    trees.write_text(json.dumps({key: {"run": wanted.to_json()}}))
    return tvm_disc.build(source, options=Options(threads=2, dispatch=trees))


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype("float64")


REDUCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "all": (lambda x: relay.sum(x), lambda x: wide(x).sum()),
    "columns": (lambda x: relay.sum(x, axis=[0]), lambda x: wide(x).sum(0)),
    "mean of squares": (
        lambda x: relay.sqrt(relay.mean(x * x, axis=[0], keepdims=True)),
        lambda x: np.sqrt((wide(x) ** 2).sum(0, keepdims=True) / len(x)),
    ),
    "sum and largest of rows": (
        lambda x: relay.sum(x, axis=[1]) * relay.const(2.0) + relay.max(x, axis=[1]),
        lambda x: wide(x).sum(1) * 2 + x.max(1, initial=-np.inf),
    ),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_pieces_are_right_and_the_same_on_any_number_of_threads(name: str, tmp_path: Path) -> None:
    make, reference = REDUCTIONS[name]
    exe = in_pieces(function(make), tmp_path)
    assert len(exe.kernels) == 1
    rng = np.random.default_rng(1)
    for shape in SHAPES:
        x = rng.standard_normal(shape, dtype=np.float32) + np.float32(0.1)
        with np.errstate(all="ignore"):
            expected = reference(x)
        exe.threads = 2
        found = exe(x)
        np.testing.assert_allclose(found, expected, rtol=3e-6, atol=1e-4, err_msg=str(shape))
        exe.threads = 1
        np.testing.assert_array_equal(exe(x), found)


def test_a_sum_is_as_accurate_as_in_one_piece(tmp_path: Path) -> None:
    exe = in_pieces(function(relay.sum), tmp_path)
    x = np.random.default_rng(2).uniform(0, 1, (3000, 1000)).astype("float32")
    assert abs(float(exe(x)) / wide(x).sum() - 1) < 2**-23
    x[7, 7] = np.inf
    assert exe(x) == np.inf
    x[2000, 7] = np.nan
    assert np.isnan(exe(x))


@pytest.mark.parametrize(
    "source",
    [
        function(lambda x: relay.argmax(x, axis=[0])),
        function(lambda x: relay.mean(x, axis=[0]), "int32"),
        function(lambda x: relay.sum(x, axis=[0]), "float16"),
        function(relay.nn.softmax),
    ],
    ids=["a position", "a mean of whole numbers", "sums of half floats", "a value per element"],
)
def test_what_cannot_be_reduced_again_is_left_whole(source: Any) -> None:
    assert not any("pieces" in v.plan.key for v in variants_of(source))


def test_one_thread_and_small_reductions_are_left_whole() -> None:
    assert len(variants_of(function(relay.sum), threads=1)) == 1
    x = relay.var("x", shape=[100, 100])
    assert not any(v.plan.stages for v in variants_of(relay.Function([x], relay.sum(x))))


def test_many_short_rows_are_not_cut() -> None:
    """A piece costs what beginning a row costs: the model chose pieces of one element each."""
    x = relay.var("x", shape=(relay.Any(), relay.Any()), dtype="float32")
    exe = tvm_disc.build(relay.Function([x], relay.sum(x, axis=1)), options=Options(threads=2))
    for shape in ((8192, 1), (8192, 7), (3000, 33), (1 << 16, 2)):
        given = np.ones(shape, "float32")
        np.testing.assert_array_equal(exe(given), given.sum(axis=1))
        [line] = exe.profile(given, repeat=1).lines()
        assert "pieces" not in line.variant, (shape, line.variant)
