"""The GPU of this machine; its name and architecture are the key of measured times."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm_disc.codegen.cuda.library import LIBRARIES
from tvm_disc.errors import BadInput
from tvm_disc.schedules.dispatch.records import processors_in
from tvm_disc.target.device import Device

DRIVER = "libcuda.so.1"
MAJOR, MINOR = 75, 76  # device attributes: compute capability
_KEY = re.compile(r".+; sm_(\d+)")


@dataclass(frozen=True)
class Card:
    """A GPU.

    Attributes:
        name: the driver's name, such as "NVIDIA H100 PCIe".
        architecture: its compute capability, such as 90.
    """

    name: str
    architecture: int

    @property
    def key(self) -> str:
        """The key of its records."""
        return f"{self.name}; sm_{self.architecture}"


def local_card() -> Card | None:
    """Return device 0 of this machine; None without a driver or device."""
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        return None
    count, name = ctypes.c_int(0), ctypes.create_string_buffer(256)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return None
    numbers = []
    for which in (MAJOR, MINOR):
        number = ctypes.c_int(0)
        if driver.cuDeviceGetAttribute(ctypes.byref(number), which, 0):
            return None
        numbers.append(number.value)
    if driver.cuDeviceGetName(name, len(name), 0):
        return None
    return Card(name.value.decode(errors="replace"), 10 * numbers[0] + numbers[1])


def has_library() -> bool:
    """Return whether programs find cuBLASLt on this machine."""
    for name in LIBRARIES:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


def card_of_records(path: Path, device: Device) -> str:
    """Return the key of a GPU whose records are in the file and that runs code for ``device``, or
    "".

    If there are several, the key of this machine's GPU is returned.

    Raises:
        BadInput: there are several, and none of them is this machine's GPU.
    """
    cards = [c for c in processors_in(path) if runs_code_of(c, device.architectures)]
    here = local_card() if len(cards) > 1 else None
    if here is not None and here.key in cards:
        return here.key
    if len(cards) > 1:
        raise BadInput(
            f"records: expected times of one GPU that runs code for {device.name}, found several "
            f"in {path}: {', '.join(cards)}; use one file per GPU"
        )
    return cards[0] if cards else ""


def runs_code_of(key: str, architectures: Sequence[int]) -> bool:
    """Return whether a GPU, given by its key, runs machine code for one of the architectures."""
    match = _KEY.fullmatch(key)
    if match is None:
        return False
    own = int(match[1])
    return any(a <= own and a // 10 == own // 10 for a in architectures)


__all__ = [
    "DRIVER",
    "MAJOR",
    "MINOR",
    "Card",
    "card_of_records",
    "has_library",
    "local_card",
    "runs_code_of",
]
