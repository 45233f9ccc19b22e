"""CPython's layout of NumPy arrays, and conversion of nested results."""

from __future__ import annotations

import ctypes
import math
import operator
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import tvm_ffi

from tvm_disc.abi import numpy_layout
from tvm_disc.errors import BadInput
from tvm_disc.typing import Array, RuntimeTensor

NDARRAY = np.ndarray
# Properties of this interpreter that the entry for NumPy arrays reads: CPython 3.14 added a word
# before the items of a tuple.
_LAYOUT = (ctypes.c_int64 * 2)(id(np.ndarray), tuple.__basicsize__)
LAYOUT = ctypes.addressof(_LAYOUT)
EMPTY = np.empty
SHAPES = operator.attrgetter("shape")
# maximum number of input shapes whose result shapes are cached
REMEMBERED = 4096
# Larger results are allocated by the program and not by NumPy, which does not align them to cache
# lines. For larger results, stores that cross cache lines cost more than the few microseconds that
# the program's allocation takes.
LINES_BYTES = 192 << 10


def not_direct(*_: int) -> int:
    """Stub of the entry for NumPy arrays, for programs without one; 1 means "not handled"."""
    return 1


@cache
def arrays_are_readable() -> bool:
    """Return whether this interpreter's arrays have the layout that compiled programs read."""
    if sys.implementation.name != "cpython" or sys.byteorder != "little":
        return False
    array, other = np.zeros((2, 3), "float32"), np.zeros(1)
    word = ctypes.c_int64.from_address
    known = word(id(array) + numpy_layout.OBJECT_TYPE).value == id(np.ndarray)
    shape = word(id(array) + numpy_layout.SHAPE).value if known else 0
    pair = (array, other)
    items = id(pair) + tuple.__basicsize__
    return (
        shape != 0
        and word(id(pair) + numpy_layout.LENGTH).value == 2
        and [word(items).value, word(items + 8).value] == [id(array), id(other)]
        and word(id(array) + numpy_layout.DATA).value == array.ctypes.data
        and ctypes.c_int32.from_address(id(array) + numpy_layout.NDIM).value == 2
        and [word(shape).value, word(shape + 8).value] == [2, 3]
        and word(id(array) + numpy_layout.DTYPE).value == id(array.dtype)
        and ctypes.c_int32.from_address(id(array) + numpy_layout.FLAGS).value & 0xFFFF
        == array.flags.num & 0xFFFF
        and ctypes.c_int32.from_address(id(array.dtype) + numpy_layout.DTYPE_NUMBER).value
        == array.dtype.num
        and all(
            np.dtype(name).num in numbers for name, numbers in numpy_layout.TYPE_NUMBERS.items()
        )
    )


def check_writable(position: int, tensor: object) -> None:
    """Raise BadInput for an output that cannot be written."""
    if not hasattr(type(tensor), "__dlpack__"):
        raise BadInput(f"output {position}: expected a tensor, found {type(tensor).__name__}")
    if isinstance(tensor, np.ndarray) and not tensor.flags.writeable:
        raise BadInput(f"output {position}: expected a tensor to write into, found a read-only one")
    if isinstance(tensor, np.ma.MaskedArray):
        raise BadInput(f"output {position}: expected a tensor, found a masked array")


def leaves(tree: Any) -> list[Any]:
    """Return the tensors of a nested result, in order."""
    # `isinstance` would read the value's `__class__`, which may run user code.
    if issubclass(type(tree), tuple | list):
        return [leaf for item in tree for leaf in leaves(item)]
    return [tree]


def written_tensors(out: object, count: int) -> list[Any]:
    """Return the tensors of the argument ``out``, which must be ``count`` writable tensors.

    Raises:
        BadInput: the number of tensors is not ``count``, or a tensor is not writable.
    """
    try:
        outputs = leaves(out)
    except RecursionError:
        raise BadInput(
            "out: expected tensors nested like the results, found deeper nesting"
        ) from None
    if len(outputs) != count:
        expected = "1 tensor" if count == 1 else f"{count} tensors"
        raise BadInput(f"out: expected {expected}, found {len(outputs)}")
    for k, tensor in enumerate(outputs):
        check_writable(k, tensor)
    return outputs


def nested(arrays: Sequence[object], tree: Any) -> Any:
    """Return ``arrays`` nested like ``tree``, whose leaves are positions."""
    if isinstance(tree, int):
        return arrays[tree]
    return tuple([nested(arrays, t) for t in tree])


def remember(
    known: dict[tuple[tuple[int, ...] | int, ...], object],
    args: Sequence[Any],
    result: tuple[Array, ...] | Array,
    plain: bool,
) -> None:
    """Cache the shapes and dtypes of small results by the shapes of NumPy inputs.

    Args:
        plain: whether the program has one input and one result; a cache entry is then not a list.
    """
    if all(type(a) is np.ndarray for a in args):
        if len(known) >= REMEMBERED:
            known.clear()
        fields = [(a.shape, a.dtype) for a in leaves(result)]
        if all(math.prod(shape) * dtype.itemsize < LINES_BYTES for shape, dtype in fields):
            known[args[0].shape if plain else tuple(a.shape for a in args)] = (
                fields[0] if plain else fields
            )


def as_array(tensor: RuntimeTensor) -> Array:
    """Return a tensor as a NumPy array that shares its memory."""
    try:
        return np.from_dlpack(tensor)
    except (RuntimeError, BufferError):  # bfloat16: NumPy's DLPack reader does not support it
        import ml_dtypes

        own = tvm_ffi.from_dlpack(tensor)
        return np.from_dlpack(own._create_view(own.shape, "uint16")).view(ml_dtypes.bfloat16)


def as_tensor(array: object) -> object:
    """Return an array in a form that programs accept; bfloat16, which has no DLPack export,
    becomes a TVM tensor.
    """
    if not isinstance(array, np.ndarray) or array.dtype.name != "bfloat16":
        return array
    return tvm_ffi.from_dlpack(array.view(np.uint16))._create_view(array.shape, "bfloat16")


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a name; bfloat16 comes from ml_dtypes."""
    if name != "bfloat16":
        return np.dtype(name)
    import ml_dtypes

    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


# Conversion of TVM tensors to the caller's type of tensor, by the type of the first input.
CONVERTERS: dict[type, Callable[[Any], Any]] = {np.ndarray: as_array}


def converter(first: object) -> Callable[[Any], Any]:
    """Return the result conversion for callers whose first input is ``first``, and cache it by
    type.
    """
    kind = type(first)
    if isinstance(first, np.ndarray):
        CONVERTERS[kind] = as_array
    elif kind.__module__.partition(".")[0] == "torch":
        import torch

        CONVERTERS[kind] = torch.from_dlpack
    elif kind.__module__.partition(".")[0] in ("jax", "jaxlib"):
        import jax

        CONVERTERS[kind] = jax.dlpack.from_dlpack
    else:
        CONVERTERS[kind] = _unchanged
    return CONVERTERS[kind]


def _unchanged(tensor: RuntimeTensor) -> object:
    return tensor


_FIELD: Callable[[Any, int], Any] = tvm_ffi.get_global_func("ffi.ArrayGetItem")


def converted_tree(result: object, tree: Any, convert: Callable[[object], object]) -> Any:
    """Return nested TVM arrays of tensors as nested tuples; ``tree`` has the same nesting."""
    if isinstance(tree, int):
        return convert(result)
    # Iteration over a TVM array takes microseconds per field; the accessor function is faster.
    return tuple([converted_tree(_FIELD(result, k), t, convert) for k, t in enumerate(tree)])
