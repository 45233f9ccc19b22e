"""The constant section: alignment, packing into place, and what programs share."""

from __future__ import annotations

import weakref

import ml_dtypes
import numpy as np
import pytest

from tvm_disc.abi.formula import ALIGNMENT_BYTES
from tvm_disc.codegen.plan.constants import ProgramConstant
from tvm_disc.codegen.section import layout_constants, shared
from tvm_disc.schedules.gemm.layouts import PanelsOfB
from tvm_disc.schedules.packing import pack_constant

ARRAYS = [
    np.arange(7, dtype="float32"),
    np.zeros((0, 3), "int64"),
    np.array(True),
    np.arange(6, dtype="int8").reshape(2, 3).T,
    np.arange(5).astype(ml_dtypes.bfloat16),
]


def test_every_constant_lies_aligned_where_it_is_said_to() -> None:
    section, offsets = layout_constants([ProgramConstant(a) for a in ARRAYS])
    assert section.ctypes.data % ALIGNMENT_BYTES == 0
    for array, offset in zip(ARRAYS, offsets, strict=True):
        assert offset % ALIGNMENT_BYTES == 0
        assert section[offset : offset + array.nbytes].tobytes() == array.tobytes()


def test_weights_are_packed_into_place() -> None:
    weight = np.arange(15, dtype="float32").reshape(3, 5)
    constants = [
        ProgramConstant(weight),
        ProgramConstant(weight, PanelsOfB(4, 4)),
        ProgramConstant(weight[0]),
    ]
    section, offsets = layout_constants(constants)
    expected = pack_constant(PanelsOfB(4, 4), weight)
    found = section[offsets[1] : offsets[1] + constants[1].nbytes].view("float32")
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


def test_arrays_are_released_when_they_are_written() -> None:
    arrays = [np.full((3, 1000), k, "float32") for k in range(3)]
    kept = [weakref.ref(a) for a in arrays]
    constants = [
        ProgramConstant(a, p) for a, p in zip(arrays, (None, PanelsOfB(4, 4), None), strict=True)
    ]
    del arrays
    section, offsets = layout_constants(constants)
    assert all(ref() is None for ref in kept)
    assert [c.array.shape for c in constants] == [(3, 1000)] * 3
    for k, (constant, offset) in enumerate(zip(constants, offsets, strict=True)):
        found = section[offset : offset + constant.nbytes].view("float32")
        assert found.size == 3000 and np.all(found == k)
        with pytest.raises(AssertionError, match="a constant is written once"):
            constant.write(section[offset : offset + constant.nbytes])


def test_copies_of_a_constant_are_released() -> None:
    first, second = (ProgramConstant(np.ones((2, 2), "float32")) for _ in "ab")
    shared([[first], [second]])
    assert second.written and not first.written


def test_no_constants() -> None:
    section, offsets = layout_constants([])
    assert section.size == 0 and offsets == []


def test_programs_share_what_is_packed_alike() -> None:
    weight = np.arange(16, dtype="float32").reshape(4, 4)
    same = weight.copy()
    first = [ProgramConstant(weight), ProgramConstant(weight, PanelsOfB(2, 2))]
    second = [
        ProgramConstant(same, PanelsOfB(4, 4)),
        ProgramConstant(same, PanelsOfB(2, 2)),
        ProgramConstant(same.ravel()),
    ]
    constants, places = shared([first, second])
    assert places == [[0, 1], [2, 1, 3]]
    assert [c.packing for c in constants] == [None, PanelsOfB(2, 2), PanelsOfB(4, 4), None]


@pytest.mark.parametrize("other", ["int32", "float64"])
def test_equal_bytes_of_other_types_are_different(other: str) -> None:
    _, places = shared(
        [[ProgramConstant(np.zeros(4, "float32"))], [ProgramConstant(np.zeros(4, other))]]
    )
    assert places == [[0], [1]]
