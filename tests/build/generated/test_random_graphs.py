"""Random graphs: fused, unfused and NumPy agree."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pytest

from tests.build.generated import random_graphs
from tests.build.generated.random_graphs import campaign, check, compare, failure, smallest
from tests.build.generated.random_steps import BASIC, Maker
from tvm_disc import relay
from tvm_disc.schedules.loops.template import _Loop

CHUNKS, GRAPHS = 20, 5
SECONDS_PER_CHUNK = 5.0  # on a slow machine fewer graphs are tried, at least one


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_graphs_agree(chunk: int) -> None:
    end = time.monotonic() + SECONDS_PER_CHUNK
    for seed in range(chunk * GRAPHS, (chunk + 1) * GRAPHS):
        assert failure(seed) is None
        if time.monotonic() > end:
            break


def test_graphs_are_reproducible() -> None:
    first, second = Maker(7).make(), Maker(7).make()
    assert relay.astext(first.function()) == relay.astext(second.function())
    for a, b in zip(first.inputs(0).values(), second.inputs(0).values(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("found", "wanted", "message"),
    [
        (np.zeros(3, "float32"), np.zeros(3, "int32"), r"result 0: float32\(3,\), expected int32"),
        (np.zeros((2, 1)), np.zeros(2), r"result 0: float64\(2, 1\), expected float64\(2,\)"),
        (np.array([1.0]), np.array([1.1]), "result 0: off by 0.1"),
        (np.array([1]), np.array([2]), "result 0: off by 1"),
    ],
)
def test_differences_are_told(found: np.ndarray, wanted: np.ndarray, message: str) -> None:
    problem = compare(found, wanted)
    assert problem is not None
    with pytest.raises(AssertionError, match=message):
        _fail(problem)


def _fail(message: str) -> None:
    raise AssertionError(message)


def test_equal_results_are_no_difference() -> None:
    assert compare(np.array([np.nan, 1.0]), np.array([np.nan, 1.00001])) is None


def test_a_wrong_kernel_is_told_by_its_smallest_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two outputs of one kernel, swapped: no value is wrong alone, two of them are."""
    store = _Loop._store

    def swapped(self: _Loop, low: Any, outputs: Any, *rest: Any) -> None:
        store(self, low, outputs[::-1], *rest)

    monkeypatch.setattr(_Loop, "_store", swapped)
    made = Maker(1)
    x = made.input([BASIC[0]])
    values = [made.call(name, [x.expr], x.dims) for name in ("exp", "tanh", "abs")]
    made.graph.values += values
    made.graph.outputs = values
    function, problem = smallest(made.graph, True, "all of it")
    assert problem.startswith("world 0: result 0: off by")
    text = relay.astext(function)
    assert "exp(" in text and "tanh(" in text and "abs(" not in text


def test_a_write_beyond_a_result_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Careless:
        """Doubles its input, and writes one element more."""

        def __call__(self, x0: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
            if out is not None:
                assert isinstance(out.base, np.ndarray)
                out.base[random_graphs.GUARD_BYTES + out.nbytes] = 0
            return x0 + x0

    made = Maker(1)
    x = made.input([BASIC[0]])
    doubled = made.call("add", [x.expr, x.expr], x.dims)
    monkeypatch.setattr(random_graphs.tvm_disc, "build", lambda *_, **__: Careless())
    problem = check(made.graph, made.graph.function([doubled]), fuse=True)
    assert problem == "world 0: result 0: written beyond its 12 bytes"


def test_a_campaign_survives_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def report(seed: int) -> str | None:
        if seed == 2:
            os._exit(7)
        return "wrong" if seed == 3 else None

    monkeypatch.setattr(random_graphs, "failure", report)
    monkeypatch.setattr(random_graphs, "BATCH", 3)
    found = dict(campaign(range(6), jobs=2))
    assert [seed for seed, told in sorted(found.items()) if told is None] == [0, 1, 4, 5]
    assert found[3] == "wrong"
    assert found[2] is not None and found[2].startswith(
        "seed 2: the process ended with 7\n#[version"
    )
    assert str(found[2]).endswith("random_graphs --seed 2 --count 1")
