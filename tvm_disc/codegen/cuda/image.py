"""Device code as bytes behind the program's constants, and where in them it lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_disc.codegen.cuda.nvrtc import Image


@dataclass(frozen=True)
class Placed:
    """Where the host program finds the device's code.

    Attributes:
        constants_bytes: what lies before it, which goes to the device.
        names: of the functions, in order.
        images: (architecture, whether portable, offset), as the driver is to be asked.
    """

    constants_bytes: int
    names: tuple[str, ...]
    images: tuple[tuple[int, bool, int], ...]


def with_images(
    section: np.ndarray, names: Sequence[str], images: Sequence[Image]
) -> tuple[np.ndarray, Placed]:
    """The constants with the device's code behind them, and where everything lies."""
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
    return whole, Placed(section.nbytes, tuple(names), tuple(places))


def _aligned(size: int) -> int:
    return (size + 63) // 64 * 64


__all__ = ["Placed", "with_images"]
