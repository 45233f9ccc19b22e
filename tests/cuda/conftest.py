"""Programs of these tests run in the emulator: see ``emulator.py``."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Iterator

import pytest

from tests.cuda import emulator


@pytest.fixture(autouse=True)
def _compiler() -> None:
    if shutil.which("g++") is None:
        pytest.skip("the emulator needs g++")


@pytest.fixture(autouse=True)
def gpu(_compiler: None) -> Iterator[ctypes.CDLL]:
    """The emulated driver; device code is made for it, and kept for no other run."""
    with emulator.emulated() as driver:
        yield driver
