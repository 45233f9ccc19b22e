"""Literals over the memory of NumPy's arrays."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tvm_disc.support.literals import ALIGNMENT, Literals, aligned, as_literal, literal_value

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


def test_what_lies_as_tvm_wants_it_is_not_copied() -> None:
    array = aligned(np.ones((64, 64), "float32"))
    assert _address(literal_value(as_literal(array, "float32"))) == _address(array)


def test_memory_that_may_not_be_written_is_not_copied() -> None:
    array = aligned(np.arange(5000))
    array.flags.writeable = False
    assert _address(literal_value(as_literal(array, "int64"))) == _address(array)


@pytest.mark.parametrize("skip", [1, 4, 16, 32, 63])
def test_literals_lie_where_machine_code_of_tvm_may_read_them(skip: int) -> None:
    raw = aligned(np.zeros(1 << 16, "uint8"))[skip : skip + 40000].view("float32")
    found = literal_value(as_literal(raw, "float32"))
    assert _address(found) % ALIGNMENT == 0 != _address(raw) % ALIGNMENT


def test_a_module_makes_each_literal_once() -> None:
    literals, array = Literals(), np.ones((70, 80), "float32")
    assert literals(array).same_as(literals(array))
    turned = literals.turned(array, (1, 0))
    assert turned.shape == (80, 70) and literals.turned(array, (1, 0)) is turned
    assert _address(literal_value(literals(turned))) == _address(turned)


def test_memory_outlives_its_name() -> None:
    expr = as_literal(aligned(np.full((512, 512), 3.0, "float32")), "float32")
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
