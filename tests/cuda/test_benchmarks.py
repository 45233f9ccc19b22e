"""The benchmarks that wait for a GPU: what they measure is what they say, as far as that shows."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from benchmarks import cuda_bandwidth, cuda_launch
from tests.cuda.helpers import built


def test_a_chain_has_as_many_kernels_as_it_says(gpu: ctypes.CDLL) -> None:
    program = built(cuda_launch.chain(4))
    x = np.ones((cuda_launch.ROWS, 8), "float32")
    program(x)
    before = gpu.emulated_launches()
    program(x)
    assert gpu.emulated_launches() == before + 4


def test_a_line_through_times() -> None:
    assert cuda_launch.line((1, 4, 16), (5.0, 11.0, 35.0)) == pytest.approx((2.0, 3.0))


def test_every_operator_moves_its_operand_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_bandwidth, "COLUMNS", 8)
    monkeypatch.setattr(cuda_bandwidth, "SAMPLE_S", 0.0)
    for name, source in cuda_bandwidth.programs().items():
        program = built(source)
        assert len(program.launches) == (name != "copy"), name  # the driver copies
        [(call, finish)] = cuda_bandwidth.contestants(program, 2, None).values()
        assert cuda_bandwidth.seconds(call, finish) > 0
