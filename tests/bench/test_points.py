"""The sweep: dims by name, ranges, dims that must agree, and inputs for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.bench.points import Sweep, cases_of, sweep_of
from tvm_disc.errors import BadInput


def sweep(*constraints: str) -> Sweep:
    """``x[b, s] + y[c, s]`` with a table of ids."""
    x, y = rows("b", "s"), rows("c", "s", name="y")
    ids = rows("b", name="ids", dtype="int64")
    body = relay.Tuple([relay.add(x, y), relay.exp(relay.cast(ids, "float32"))])
    inputs = [("x", ("b", "s"), "float32"), ("y", ("c", "s"), "float32"), ("ids", ("b",), "int64")]
    return sweep_of(function(x, y, ids, body), inputs, constraints)


def test_all_combinations_in_order() -> None:
    found = sweep().points({"b": [4, 1], "s": [3, 9]}, 6)
    assert [(p["b"], p["s"]) for p in found] == [(4, 3), (4, 9), (1, 3), (1, 9)]


def test_a_dim_that_may_be_compared_with_one_follows_it() -> None:
    (point,) = sweep().points({"b": [5]}, 6)
    assert point["c"] == 5
    (point,) = sweep().points({"c": [5]}, 6)
    assert point["b"] == 5
    (point,) = sweep().points({"b": [5], "c": [1]}, 6)
    assert (point["b"], point["c"]) == (5, 1)


def test_a_range_gives_its_ends_and_some_between() -> None:
    found = [p["s"] for p in sweep().points({"s": range(1, 129)}, 6)]
    assert found == [1, 3, 7, 18, 49, 128]
    assert [p["s"] for p in sweep().points({"s": range(3, 6)}, 6)] == [3, 4, 5]
    assert [p["s"] for p in sweep().points({"s": range(100)}, 1)] == [1]


def test_nothing_told_lets_all_grow() -> None:
    found = sweep().points({}, 6)
    assert [p["s"] for p in found] == [1, 4, 16, 64] == [p["b"] for p in found]
    assert [p["s"] for p in sweep("2 <= s <= 10").points({}, 6)] == [2, 3, 6, 10]


def test_a_constraint_bounds_what_nothing_is_told_of() -> None:
    (point,) = sweep("s >= 8").points({"b": [2]}, 6)
    assert point["s"] == 8


def test_dims_by_input_and_axis() -> None:
    assert sweep().points({"x.1": [7], "y.0": [1]}, 6)[0]["s"] == 7


def test_dims_that_are_sums() -> None:
    x, y = rows("b"), rows("c", name="y")
    both = function(x, y, relay.concatenate([x, y], axis=0))
    made = sweep_of(both, [("x", ("b",), "float32"), ("y", ("b + 2",), "float32")], ())
    (point,) = made.points({"b": [3]}, 6)
    assert made.shapes(point) == [(3,), (5,)]


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"z": [1]}, r"--dims: there is no dim 'z'; dynamic dims: b, s, c, x\.0"),
        ({"x.5": [1]}, "there is no dim 'x.5'"),
        ({"s": []}, "--dims: s: expected at least one value, found none"),
        ({"s": [-1]}, "--dims: s: expected values of at least 0, found"),
    ],
)
def test_what_is_no_dim_is_refused(told: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        sweep().points(told, 6)


def arrays(made: Sweep, point: Any, **ranges: tuple[int, int]) -> dict[str, np.ndarray]:
    (case,) = cases_of(made, [point], ranges)
    assert case.point == point
    return dict(case.arrays)


def test_inputs() -> None:
    made = sweep()
    (point,) = made.points({"b": [50], "s": [3]}, 6)
    found = arrays(made, point)
    assert {n: a.shape for n, a in found.items()} == {"x": (50, 3), "y": (50, 3), "ids": (50,)}
    assert found["ids"].dtype == np.int64 and set(found["ids"]) == {0, 1}
    ids = arrays(made, point, ids=(3, 9))["ids"]
    assert ids.min() >= 3 and 5 < ids.max() <= 9
    again = arrays(made, point)
    np.testing.assert_array_equal(found["x"], again["x"])


def test_a_type_of_no_file_is_refused() -> None:
    x = rows("n", dtype="bfloat16")
    with pytest.raises(BadInput, match="input 'x': expected a NumPy type, found bfloat16"):
        sweep_of(function(x, relay.exp(x)), [("x", ("n",), "bfloat16")], ())
