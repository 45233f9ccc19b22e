"""Programs of these tests run in the emulator: see ``emulator.py``."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.cuda import emulator
from tests.cuda.helpers import worth_a_call


@pytest.fixture(autouse=True)
def _compiler() -> None:
    if shutil.which("g++") is None:
        pytest.skip("the emulator needs g++")


@pytest.fixture(autouse=True)
def gpu(_compiler: None) -> Iterator[ctypes.CDLL]:
    """The emulated driver; device code is made for it, and kept for no other run."""
    with emulator.emulated() as driver:
        yield driver


@cache
def fake_library() -> ctypes.CDLL:
    """cuBLASLt, as far as programs call it: see ``blas.cc``."""
    source = (Path(__file__).parent / "blas.cc").read_text()
    options = ("-O1", "-std=c++17", "-fPIC", "-shared", "-Wl,-soname,libcublasLt.so.13")
    loaded = ctypes.CDLL(str(emulator.compiled("blas", source, *options)))
    loaded.fake_stream.restype = ctypes.c_uint64
    return loaded


@pytest.fixture
def blas(gpu: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> Iterator[ctypes.CDLL]:
    """The fake library, found by programs that are built meanwhile; all products are large."""
    worth_a_call(monkeypatch, 1)
    fake = fake_library()
    fake.fake_present(True)
    yield fake
    fake.fake_present(False)
    fake.fake_unable(False)
    assert fake.fake_alive() == 0
