"""Programs of these tests run in the emulator: see ``emulator.py``."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from tests.cuda import emulator


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[ctypes.CDLL]:
    """The emulated driver; device code is made for it, and kept for no other run."""
    monkeypatch.setattr("tvm_disc.codegen.build.compile_source", emulator.compile_source)
    driver = emulator.driver()
    driver.emulated_device(80)
    driver.emulated_count(1)
    driver.emulated_order(0)
    driver.emulated_refuse(0)
    driver.emulated_limit(2**64 - 1)
    yield driver
    driver.emulated_refuse(0)
    driver.emulated_limit(2**64 - 1)
