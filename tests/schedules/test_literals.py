"""Literals of other types among floats: what becomes of a clip's bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx

import tvm_disc
from tests.relay_passes.propagate_helpers import module
from tvm_disc.schedules.scalars import cast, is_literal_number
from tvm_disc.tir.builder import const, dtype_of


@pytest.mark.parametrize(
    ("literal", "dtype", "expected"),
    [(tirx.IntImm("int64", 6), "float32", 6.0), (const(0.1, "float64"), "float32", None),
     (const(-2.5, "float32"), "float64", -2.5), (const(float("inf"), "float64"), "float32", None)],
)  # fmt: skip
def test_a_literal_stays_one(literal: Any, dtype: str, expected: float | None) -> None:
    value = cast(literal, dtype)
    assert is_literal_number(value) and dtype_of(value) == dtype
    wanted = float(np.float32(literal.value)) if expected is None else expected
    assert value.value == wanted


@pytest.mark.parametrize(
    ("literal", "dtype"),
    [(tirx.IntImm("int64", (1 << 60) + 1), "float32"), (const(1e300, "float64"), "float32"),
     (const(2.5, "float64"), "int32"), (const(1.0, "float64"), "float16")],
)  # fmt: skip
def test_what_a_literal_would_not_say_exactly_is_left_to_the_cast(literal: Any, dtype: str) -> None:
    assert isinstance(cast(literal, dtype), tirx.Cast)


def test_a_clip_keeps_nan_and_both_bounds() -> None:
    exe = tvm_disc.build(module([("n",)], lambda bb, symbols, x: bb.emit(relax.op.clip(x, 0, 6))))
    for size in (0, 1, 7, 8, 37):
        x = np.linspace(-3, 9, size, dtype="float32")
        x[size // 2 : size // 2 + 1] = np.nan
        x[:1], x[-1:] = -0.0, np.inf
        np.testing.assert_array_equal(exe(x), np.clip(x, 0, 6))
