"""Calls of programs for a device with arrays of the host: copies there and back.

Only where every tensor of a call is a NumPy array; a call with tensors of the device copies none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tvm_ffi

from tvm_disc.abi.entries import DOWNLOAD, UPLOAD
from tvm_disc.locks import Lock
from tvm_disc.runtime.arrays import leaves

Tensor: TypeAlias = Any
_CODES = {"i": 0, "u": 1, "f": 2, "V": 4, "c": 5, "b": 6}


class OnDevice:
    """A program's entry that also takes arrays of the host.

    Args:
        main: the compiled entry, which takes tensors of the device.
        function: the program's other functions, by name.
        inputs: how many tensors a call takes, before those for results.
        outputs: the nested positions of its results.
    """

    def __init__(
        self, main: Callable[..., Any], function: Callable[[str], Any], inputs: int, outputs: Any
    ) -> None:
        self.main, self.inputs, self.outputs = main, inputs, outputs
        self.upload, self.download = function(UPLOAD), function(DOWNLOAD)

    def __call__(self, *args: Any) -> Any:
        """Call, with copies there and back if all tensors are NumPy arrays."""
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
        """A copy on the device."""
        compact = np.ascontiguousarray(array).reshape(array.shape)
        kind, dims = described(array)
        place = compact.ctypes.data
        return self.upload(kind, array.ndim, dims.ctypes.data, compact.nbytes, place)

    def fetched(self, tensor: Tensor) -> Tensor:
        """A copy on the host."""
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
    """What ``UPLOAD`` is told of an array: its dtype and rank as a word, and its dims."""
    code = _CODES[array.dtype.kind] | array.dtype.itemsize * 8 << 8 | 1 << 16
    return code << 32 | array.ndim, np.array([*array.shape, 0], np.int64)


_users: Counter[int] = Counter()
_holding = Lock()


def closed_by_the_last(state: int, close: Callable[[], Any]) -> Callable[[], None]:
    """What a program does when it goes: the last one that has a state closes it.

    Programs that were loaded from one file are one library, with one state.
    """
    with _holding:
        _users[state] += 1

    def finish() -> None:
        # Held until it is closed: who comes next opens it again.
        with _holding:
            _users[state] -= 1
            if not _users[state]:
                close()

    return finish


def is_of_device(error: Exception) -> bool:
    """Whether a program's error is one of the device, or of its driver."""
    return "DeviceError" in (type(error).__name__, getattr(error, "kind", ""))


_FIELD: Callable[[Any, int], Any] = tvm_ffi.get_global_func("ffi.ArrayGetItem")


def _tree(result: Any, tree: Any) -> Any:
    """A nested result as nested tuples."""
    if isinstance(tree, int):
        return result
    return tuple(_tree(_FIELD(result, k), t) for k, t in enumerate(tree))


def nested_array(tensors: Sequence[Tensor], tree: Any) -> Any:
    """Tensors as a compiled entry gives them: nested arrays of TVM's."""
    if isinstance(tree, int):
        return tensors[tree]
    return tvm_ffi.convert([nested_array(tensors, t) for t in tree])


__all__ = ["OnDevice", "closed_by_the_last", "described", "is_of_device"]
