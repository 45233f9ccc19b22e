"""Profiles and times of programs that take bfloat16 arrays of NumPy."""

from __future__ import annotations

import ctypes

from tests.cuda.tensor.forced import built, numbers
from tests.models import function, rows
from tvm_disc import relay


def test_arrays_are_sent_to_the_device(gpu: ctypes.CDLL) -> None:
    x, w = rows("m", 64, dtype="bfloat16"), rows(32, 64, name="w", dtype="bfloat16")
    program, _ = built(function(x, w, relay.nn.dense(x, w)))
    found = program.profile(numbers("bfloat16", 8, 64), numbers("bfloat16", 32, 64), repeat=1)
    assert len(found.calls) == 1
