"""Truth values in vectors: what is not 0 is true, and views of them cost nothing."""

import numpy as np
import pytest
from tvm import tirx

import tvm_disc
from tvm_disc import relay
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import Block, truth
from tvm_disc.tir.index import IndexSpace

LENGTHS = (0, 1, 7, 15, 16, 37, 64, 1031)


def _values(dtype: str, n: int) -> np.ndarray:
    special = [0, 1, 3, 0, 2]
    if dtype.startswith("float"):
        special = [0.0, -0.0, 1.0, np.nan, -2.0, np.inf, -np.inf, 1e-3, 0.0]
    elif dtype == "int64":
        special = [0, 1, -1, 2**40, -(2**62), 0]
    return np.resize(np.array(special, dtype), n)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "int32", "int64", "uint8"]
)
def test_cast_to_bool_is_not_zero(dtype: str) -> None:
    x = relay.var("x", shape=(relay.Any(),), dtype=dtype)
    b = relay.cast(x, "bool")
    fields = [b, relay.cast(b, dtype), relay.logical_not(b)]
    exe = tvm_disc.build(relay.Function([x], relay.Tuple(fields)))
    for n in LENGTHS:
        value = _values(dtype, n)
        expected = value.astype("bool")
        found = [np.asarray(y) for y in exe(value)]
        np.testing.assert_array_equal(found[0], expected)
        np.testing.assert_array_equal(found[1], expected.astype(dtype))
        np.testing.assert_array_equal(found[2], ~expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "bool"])
def test_positions_of_what_is_not_zero(dtype: str) -> None:
    x = relay.var("x", shape=(relay.Any(),), dtype=dtype)
    exe = tvm_disc.build(relay.Function([x], relay.argwhere(x)))
    for n in LENGTHS:
        value = _values(dtype, n)
        np.testing.assert_array_equal(exe(value), np.argwhere(value))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_what_is_no_number_belongs_behind_all_numbers(dtype: str, right: bool) -> None:
    row, x = (relay.var(v, shape=(relay.Any(),), dtype=dtype) for v in ("row", "x"))
    exe = tvm_disc.build(relay.Function([row, x], relay.searchsorted(row, x, right=right)))
    values = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1, 2, 2.5, 9], dtype)
    for ending in ([], [np.inf], [np.nan], [np.inf, np.nan, np.nan]):
        for count in (0, 1, 2, 5, 16):
            given = np.array([*np.arange(count), *ending], dtype)
            wanted = np.searchsorted(given, values, "right" if right else "left")
            np.testing.assert_array_equal(exe(given, values), wanted, f"{given}")


@pytest.mark.parametrize("lanes", [1, 16])
def test_a_settled_truth_value_is_not_tested_again(lanes: int) -> None:
    # Every view of a mask settles it; tests of tests made LLVM's time grow by a factor each.
    solver = Solver()
    block = Block()
    low = Lowering(block, IndexSpace(lambda a, b: bool(solver.known_eq(a, b))), solver)
    value = tirx.Var("x", "int64" if lanes == 1 else f"int64x{lanes}")
    first = low.settle("mask", truth(value))
    assert low.settle("view", first).same_as(first)
