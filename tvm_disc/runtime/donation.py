"""Calls of programs whose results may take the memory of inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import tvm_ffi

from tvm_disc.abi.manifest import Manifest
from tvm_disc.runtime.arrays import as_array, as_tensor
from tvm_disc.typing import Argument, Arguments

# Input, result that takes its memory, and the reason if there is no such result.
Donated: TypeAlias = Sequence[tuple[str, int | None, str]]


# A result that takes the memory of an array keeps the array, which may itself be such a result.
# Such a chain is released recursively, so the system's stack limits its length.
MOST_KEPT = 2000
MOST_ADDRESSES = 1 << 16


class Donating:
    """A program's entry that passes donated inputs as tensor objects, whose memory results take.

    After ``MOST_KEPT`` calls on arrays at one address, the array is copied, so that the number of
    arrays that a result keeps is limited.

    Args:
        main: the compiled entry.
        names: the names of the inputs.
        donated: for each donated input its name, and the result that takes its memory, if any. A
            special version of the program may use another result.
    """

    def __init__(self, main: Callable[..., object], names: Sequence[str], donated: Donated) -> None:
        self.main = main
        self._donated = [names.index(name) for name, _, _ in donated]
        self._calls: dict[int, int] = {}  # number of calls by address

    def __call__(self, *args: Argument) -> object:
        """Call the program; read-only arrays are copied."""
        given: list[object] = list(args)
        for k in self._donated:
            if k < len(given) and not isinstance(given[k], tvm_ffi.Tensor):
                given[k] = self._tensor(given[k])
        return self.main(*given)

    def _tensor(self, value: object) -> object:
        """Return a tensor as TVM's object; other values are returned as they are."""
        if not hasattr(type(value), "__dlpack__"):
            return value
        if isinstance(value, np.ndarray) and not value.flags.writeable:
            value = value.copy()
        tensor = tvm_ffi.from_dlpack(as_tensor(value))
        calls, address = self._calls, tensor.data_ptr()
        count = calls.get(address, 0) + 1
        if count > MOST_KEPT:
            count, tensor = 0, tvm_ffi.from_dlpack(as_tensor(_copy(tensor)))
        elif len(calls) >= MOST_ADDRESSES:
            calls.clear()
        calls[address] = count
        return tensor


def preserved(manifest: Manifest, args: Arguments) -> Arguments:
    """Return arguments with copies of the donated ones, which calls then write into."""
    names = [name for name, _, _ in manifest.get("donated", ())]
    if not names:
        return args
    pairs = zip(manifest["inputs"], args, strict=True)
    return tuple([_copy(a) if name in names else a for (name, _, _), a in pairs])


def _copy(value: Argument) -> Argument:
    """Return a copy of a tensor; other values are returned as they are."""
    if not hasattr(type(value), "__dlpack__"):
        return value
    copy: Argument = as_array(tvm_ffi.from_dlpack(as_tensor(value))).copy()
    return copy


__all__ = ["Donating", "preserved"]
