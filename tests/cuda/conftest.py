"""Programs of these tests run in the emulator: see ``emulator.py``."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from tests.cuda import emulator


@pytest.fixture(autouse=True)
def gpu() -> Iterator[ctypes.CDLL]:
    """The emulated driver; device code is made for it, and kept for no other run."""
    with emulator.emulated() as driver:
        yield driver
