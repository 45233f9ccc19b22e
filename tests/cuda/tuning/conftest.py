"""A clock for the emulated driver."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from tests.cuda.tuning.timed import BEST, Clock


@pytest.fixture
def clock(gpu: ctypes.CDLL) -> Iterator[Clock]:
    found = Clock(BEST)
    gpu.emulated_times(found.entry)
    yield found
    gpu.emulated_times(None)
