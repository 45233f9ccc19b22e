"""Calls of GPU programs with host arrays: copies to the device and back.

Copies are made only if every tensor of a call is a NumPy array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tvm_ffi

from tvm_disc.abi.entries import DOWNLOAD, UPLOAD
from tvm_disc.runtime.arrays import leaves
from tvm_disc.support.locks import Lock
from tvm_disc.typing import RuntimeTensor

Tensor: TypeAlias = Any
_CODES = {"i": 0, "u": 1, "f": 2, "V": 4, "c": 5, "b": 6}


class OnDevice:
    """A GPU program's entry that also takes host arrays.

    Args:
        main: the compiled entry, which takes device tensors.
        function: returns another function of the program by its name.
        inputs: number of input tensors of a call; further arguments are tensors for results.
        outputs: the nested positions of its results.
    """

    def __init__(
        self, main: Callable[..., Any], function: Callable[[str], Any], inputs: int, outputs: int
    ) -> None:
        self.main, self.inputs, self.outputs = main, inputs, outputs
        self.upload, self.download = function(UPLOAD), function(DOWNLOAD)

    def __call__(self, *args: Any) -> Any:
        """Call the program; copy inputs and results if all tensors are NumPy arrays."""
        tensors = [a for a in args if not isinstance(a, int)]
        if not tensors or not all(isinstance(a, np.ndarray) for a in tensors):
            return self.main(*args)
        there = [a if isinstance(a, int) else self.sent(a) for a in args]
        result = self.main(*there)
        for array, tensor in zip(args[self.inputs :], there[self.inputs :], strict=True):
            if isinstance(array, np.ndarray):
                self._fetch(tensor, array)
        if len(tensors) > self.inputs:
            return result
        fetched = [self.fetched(t) for t in leaves(_tree(result, self.outputs))]
        return nested_array(fetched, self.outputs)

    def sent(self, array: np.ndarray) -> Tensor:
        """Return a copy on the device."""
        compact = np.ascontiguousarray(array).reshape(array.shape)
        kind, dims = described(array)
        place = compact.ctypes.data
        return self.upload(kind, array.ndim, dims.ctypes.data, compact.nbytes, place)

    def fetched(self, tensor: Tensor) -> Tensor:
        """Return a copy on the host."""
        dtype = str(tensor.dtype)
        array = np.empty(tuple(tensor.shape), "uint16" if dtype == "bfloat16" else dtype)
        self._fetch(tensor, array)
        found = tvm_ffi.from_dlpack(array)
        return found._create_view(found.shape, dtype) if dtype == "bfloat16" else found

    def _fetch(self, tensor: Tensor, array: np.ndarray) -> None:
        target = array if array.flags.c_contiguous else np.empty(array.shape, array.dtype)
        self.download(tensor, target.ctypes.data, target.nbytes)
        if target is not array:
            array[...] = target


def described(array: np.ndarray) -> tuple[int, np.ndarray]:
    """Return the arguments of ``UPLOAD`` for an array: dtype and rank in one word, and the dims."""
    code = _CODES[array.dtype.kind] | array.dtype.itemsize * 8 << 8 | 1 << 16
    return code << 32 | array.ndim, np.array([*array.shape, 0], np.int64)


_users: Counter[int] = Counter()
_holding = Lock()


def closed_by_the_last(state: int, close: Callable[[], object]) -> Callable[[], None]:
    """Return a finalizer of a program, which calls ``close`` if no other program uses the state.

    Programs that were loaded from one file share one library and its state.
    """
    with _holding:
        _users[state] += 1

    def finish() -> None:
        # The lock is held during `close`, because another thread may load a program, which opens
        # the state again.
        with _holding:
            _users[state] -= 1
            if not _users[state]:
                close()

    return finish


def is_of_device(error: Exception) -> bool:
    """Return whether a program's error comes from the device or its driver."""
    return "DeviceError" in (type(error).__name__, getattr(error, "kind", ""))


_FIELD: Callable[[Any, int], Any] = tvm_ffi.get_global_func("ffi.ArrayGetItem")


def _tree(result: RuntimeTensor, tree: int) -> RuntimeTensor:
    """Return a nested result as nested tuples."""
    if isinstance(tree, int):
        return result
    return tuple(_tree(_FIELD(result, k), t) for k, t in enumerate(tree))


def nested_array(tensors: Sequence[Tensor], tree: Any) -> Any:
    """Return tensors as the nested TVM arrays that a compiled entry returns."""
    if isinstance(tree, int):
        return tensors[tree]
    return tvm_ffi.convert([nested_array(tensors, t) for t in tree])


__all__ = ["OnDevice", "closed_by_the_last", "described", "is_of_device"]
