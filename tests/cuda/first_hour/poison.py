"""Fill the free memory of the driver's default pool with bytes of 0xFF, on a real GPU.

Workspaces and results of the next calls are allocated from that memory: an element that no kernel
writes is then NaN, -1 or an invalid index, instead of what an earlier call left there.
"""

from __future__ import annotations

import ctypes
from functools import cache

_SIZES = (*[1 << 26] * 2, *[1 << 22] * 8, *[1 << 16] * 32)  # bytes


class Poison:
    """The driver, with the primary context of device 0."""

    def __init__(self) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)

    def _call(self, name: str, *args: object) -> None:
        status = getattr(self._driver, name)(*args)
        if status:
            raise RuntimeError(f"{name} failed with status {status}")

    def fill(self) -> None:
        """Fill free memory of the pool; wait for the device."""
        self._call("cuCtxSetCurrent", self._context)
        self._call("cuCtxSynchronize")
        taken = []
        for size in _SIZES:
            place = ctypes.c_void_p()
            self._call("cuMemAllocAsync", ctypes.byref(place), ctypes.c_size_t(size), None)
            self._call("cuMemsetD8Async", place, ctypes.c_ubyte(0xFF), ctypes.c_size_t(size), None)
            taken.append(place)
        for place in taken:
            self._call("cuMemFreeAsync", place, None)
        self._call("cuCtxSynchronize")


@cache
def poison() -> Poison:
    """Return the one of this process."""
    return Poison()
