"""How often a call waits for the device: once for each decision that is in the data, else never."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.cuda.helpers import built
from tests.cuda.recorded import RECORDED, Recorded
from tests.models import function, rows
from tvm_disc import relay

BY_NAME = {r.path.stem: r for r in RECORDED if "printed" in r.name}


def waited(gpu: ctypes.CDLL, program: Any, *arrays: np.ndarray) -> tuple[int, int]:
    """(waits, copies) of a call whose tensors are on the device."""
    there = [program._main.sent(np.asarray(a)) for a in arrays]
    program(*there)
    before = gpu.emulated_waits(), gpu.emulated_copies()
    program(*there)
    return gpu.emulated_waits() - before[0], gpu.emulated_copies() - before[1]


def program_of(recorded: Recorded) -> Any:
    """A recorded program."""
    return built(recorded.module())


@pytest.mark.parametrize("name", ["broadcast_any", "dense_bias_relu"])
def test_a_call_that_decides_nothing_waits_for_nothing(gpu: ctypes.CDLL, name: str) -> None:
    program = program_of(BY_NAME[name])
    inputs, _ = BY_NAME[name].calls()[0]
    assert waited(gpu, program, *inputs) == (0, 0)
    assert "on the device\n  calls do not wait for the GPU\n" in program.explain()


def test_a_branch_reads_its_condition(gpu: ctypes.CDLL) -> None:
    program = program_of(BY_NAME["if_tuple"])
    inputs, _ = BY_NAME["if_tuple"].calls()[0]
    assert waited(gpu, program, *inputs)[0] == 1
    assert "  waits for flag: reads the condition of a branch\n" in program.explain()


def test_a_loop_reads_its_condition_in_each_step(gpu: ctypes.CDLL) -> None:
    program = program_of(BY_NAME["while_concat"])
    for inputs, wanted in BY_NAME["while_concat"].calls()[:3]:
        there = [program._main.sent(np.asarray(a)) for a in inputs]
        program(*there)
        before, launches = gpu.emulated_waits(), gpu.emulated_launches()
        program(*there)
        conditions = gpu.emulated_launches() - launches
        waits = gpu.emulated_waits() - before
        assert 1 <= waits <= conditions and wanted
    told = [line for line in program.explain().splitlines() if "waits for" in line]
    assert len(told) == 1 and told[0].endswith("reads the condition of a loop, in each step")


def test_sizes_of_one_tensor_are_read_at_once(gpu: ctypes.CDLL) -> None:
    x = rows("n", "m")
    shape = relay.var("shape", shape=(3,), dtype="int64")
    program = built(function(x, shape, relay.exp(relay.reshape(x, shape))))
    value = np.linspace(-1, 1, 24, dtype="float32").reshape(4, 6)
    for dims in ((2, 3, 4), (1, 24, 1), (8, 1, 3)):
        given = np.array(dims, "int64")
        assert waited(gpu, program, value, given) == (1, 1)
        np.testing.assert_allclose(program(value, given), np.exp(value.reshape(dims)), rtol=1e-6)
    [told] = [line for line in program.explain().splitlines() if "waits for" in line]
    assert "reads the sizes " in told and told.count(",") >= 2


def test_a_size_that_is_counted_is_read_once(gpu: ctypes.CDLL) -> None:
    x = rows("n", 4)
    program = built(function(x, relay.argwhere(relay.greater(x, relay.const(0.0)))))
    value = np.linspace(-1, 1, 28, dtype="float32").reshape(7, 4)
    assert waited(gpu, program, value) == (1, 1)
    np.testing.assert_array_equal(program(value), np.argwhere(value > 0))
