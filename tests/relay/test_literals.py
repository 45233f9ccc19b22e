"""Operators of literals and of shape values: what references say of the same numbers."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.elements import shape_value
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import VALUES
from tvm_disc.relay.ops.literals import literal
from tvm_disc.relay.ops.table import OPS
from tvm_disc.shape import Solver

NUMBERS = (-7, -2, -1, 0, 1, 2, 3, 7, 2**40)
PAIRS = (
    "add subtract divide trunc_divide floor_divide floor_mod maximum minimum equal not_equal less "
    "less_equal greater greater_equal"
).split()
LEAST = np.array([-(2**63), -7, 7, 5], "int64")


def folded(name: str, *args: Any, **attrs: Any) -> Any:
    return literal(name, args, attrs, 64)


@pytest.mark.parametrize("name", PAIRS)
def test_a_shape_value_means_what_its_reference_says(name: str) -> None:
    ctx = Emitter(Solver())
    for a, b in product(NUMBERS, NUMBERS):
        operands = [Tensor((), "int64", constant=np.array(x)) for x in (a, b)]
        found = VALUES[name](ctx, operands, {})
        reference = OPS[name].reference
        assert found is not None and reference is not None
        with np.errstate(all="ignore"):
            expected = reference(np.array(a), np.array(b)).item()
        assert (type(found.item()), found.item()) == (type(expected), expected), (a, b)


def test_integers_are_divided_towards_zero_and_by_zero_to_zero() -> None:
    got = folded("divide", LEAST, np.array([2, 2, -2, 0], "int64"))
    np.testing.assert_array_equal(got, [-(2**62), -3, -3, 0])


def test_a_bfloat16_is_computed_in_float32_and_rounded() -> None:
    a, b = (np.array([x], ml_dtypes.bfloat16) for x in (1.0, 1 / 256))
    got = folded("add", a, b)
    assert got.dtype == a.dtype
    assert got == (a.astype("float32") + b.astype("float32")).astype(a.dtype)


@pytest.mark.parametrize(
    ("name", "args", "attrs"),
    [
        ("add", [np.ones(2, "float32"), np.ones(2, "float64")], {}),
        ("floor_mod", [np.array([5, 5]), np.array([2, 0])], {}),
        ("cast", [np.array([1, np.nan], "float32")], {"dtype": "int32"}),
        ("take", [np.arange(3), np.array([3])], {"axis": 0}),
        ("arange", [np.array(0), np.array(1 << 40), np.array(1)], {"dtype": "int64"}),
        (
            "strided_slice",
            [np.arange(3)],
            {"begin": (i64(0),), "end": (1,), "strides": (1,), "axes": (0,)},
        ),
        ("concatenate", [[np.ones(2, "float32"), np.ones(2, "int32")]], {"axis": 0}),
        ("nn.relu", [np.ones(2, "float32")], {}),
    ],
)
def test_what_kernels_have_a_rule_of_their_own_for_is_theirs(
    name: str, args: list[Any], attrs: dict[str, Any]
) -> None:
    assert folded(name, *args, **attrs) is None


def test_ranges_and_slices_that_fit() -> None:
    counted = folded("arange", np.array(1), np.array(8), np.array(3), dtype="int64")
    np.testing.assert_array_equal(counted, [1, 4, 7])
    lists = {"begin": (2,), "end": (-9,), "strides": (-1,), "axes": (0,)}
    np.testing.assert_array_equal(folded("strided_slice", counted, **lists), [7, 4, 1])


def test_a_shape_value_that_its_type_cannot_hold_stays_itself() -> None:
    ctx = Emitter(Solver())
    wide = Tensor((i64(1),), "int32", value=np.array([2**40], dtype=object))
    found = shape_value(ctx, OPS["negative"], [wide], {})
    assert found is not None and found.value is not None and found.value.item() == -(2**40)
