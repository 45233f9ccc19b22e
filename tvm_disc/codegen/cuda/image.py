"""Device code appended to the program's constants, and its offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_disc.codegen.cuda.nvrtc import Image
from tvm_disc.schedules.cuda.kernel import DeviceFunction


@dataclass(frozen=True)
class Placed:
    """Location of the device code in the constant section.

    Attributes:
        constants_bytes: bytes of the constants before the device code; only these are copied to the
            device.
        names: names of the device functions, in order.
        dynamic_bytes: bytes of dynamic shared memory of each function.
        images: (architecture, whether the code is PTX, byte offset) of each image.
    """

    constants_bytes: int
    names: tuple[str, ...]
    dynamic_bytes: tuple[int, ...]
    images: tuple[tuple[int, bool, int], ...]


def with_images(
    section: np.ndarray, code: Sequence[DeviceFunction], images: Sequence[Image]
) -> tuple[np.ndarray, Placed]:
    """Return the constants followed by the device code, and the layout."""
    at = _aligned(section.nbytes)
    places, parts = [], []
    for image in images:
        places.append((image.architecture, image.portable, at))
        parts.append((at, image.data))
        at = _aligned(at + len(image.data) + 1)
    raw = np.zeros(at + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    whole = raw[skip : skip + at]
    whole[: section.nbytes] = section
    for begin, data in parts:
        whole[begin : begin + len(data)] = np.frombuffer(data, np.uint8)
    names, dynamic = zip(*((f.name, f.room_bytes) for f in code), strict=True) if code else ((), ())
    return whole, Placed(section.nbytes, names, dynamic, tuple(places))


def _aligned(size: int) -> int:
    return (size + 63) // 64 * 64


__all__ = ["Placed", "with_images"]
