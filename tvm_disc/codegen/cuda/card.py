"""The GPU of this machine, as its driver names it: what measured times are kept under."""

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
MAJOR, MINOR = 75, 76  # attributes of a device: its compute capability
_KEY = re.compile(r".+; sm_(\d+)")


@dataclass(frozen=True)
class Card:
    """A GPU.

    Attributes:
        name: as the driver has it, such as "NVIDIA H100 PCIe".
        architecture: its compute capability, such as 90.
    """

    name: str
    architecture: int

    @property
    def key(self) -> str:
        """What records of its times begin with."""
        return f"{self.name}; sm_{self.architecture}"


def local_card() -> Card | None:
    """Device 0 of this machine; None where there is no driver or no device."""
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
    """Whether programs find a library of products on this machine."""
    for name in LIBRARIES:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


def card_of_records(path: Path, device: Device) -> str:
    """The key of the one card in a file of records that runs code for a device, or of this
    machine's, where there are several; empty where there is none.

    Raises:
        BadInput: there are several others.
    """
    cards = [c for c in processors_in(path) if runs_code_of(c, device.architectures)]
    here = local_card() if len(cards) > 1 else None
    if here is not None and here.key in cards:
        return here.key
    if len(cards) > 1:
        raise BadInput(
            f"records: expected times of one GPU that runs code for {device.name}, found several "
            f"in {path}: {', '.join(cards)}; keep them in files of their own"
        )
    return cards[0] if cards else ""


def runs_code_of(key: str, architectures: Sequence[int]) -> bool:
    """Whether a card of records runs machine code for one of the architectures."""
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
