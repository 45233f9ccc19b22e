"""Literals over the memory of NumPy's arrays."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tvm_disc.literals import as_literal, literal_value

DTYPES = ["bool", "int8", "uint8", "int32", "int64", "uint16", "float16", "float32", "float64"]


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (70, 80)])
@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_a_literal_is_the_array(dtype: str, shape: tuple[int, ...]) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    array = np.random.default_rng(0).integers(0, 2, shape).astype(kind)
    expr = as_literal(array, dtype)
    assert str(expr.ty.dtype) == dtype
    found = literal_value(expr)
    assert found.shape == shape
    assert found.tobytes() == array.tobytes()


def _address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_large_arrays_are_not_copied() -> None:
    array = np.ones((64, 64), "float32")
    assert _address(literal_value(as_literal(array, "float32"))) == _address(array)


def test_memory_that_may_not_be_written_is_not_copied() -> None:
    array = np.frombuffer(bytes(range(256)) * 64, "uint8")
    assert _address(literal_value(as_literal(array, "uint8"))) == _address(array)


def test_memory_outlives_its_name() -> None:
    expr = as_literal(np.full((512, 512), 3.0, "float32"), "float32")
    np.full((512, 512), 5.0, "float32")
    np.testing.assert_array_equal(literal_value(expr), 3.0)


@pytest.mark.parametrize("array", [np.ones((64, 128), "float32")[:, ::2], np.ones((99, 99)).T])
def test_other_layouts_are_copied(array: np.ndarray) -> None:
    expr = as_literal(array, array.dtype.name)
    np.testing.assert_array_equal(literal_value(expr), array)


def test_another_element_type_is_converted() -> None:
    expr = as_literal(np.arange(5000), "float32")
    assert str(expr.ty.dtype) == "float32"
    np.testing.assert_array_equal(literal_value(expr), np.arange(5000))


def test_unaligned_memory() -> None:
    raw = np.arange(4 * 5000 + 1, dtype="uint8")[1:].view("float32")
    expr = as_literal(raw, "float32")
    assert literal_value(expr).tobytes() == raw.tobytes()
