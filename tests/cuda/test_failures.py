"""Programs for a GPU where something is missing or fails: it is told, and they stay usable."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cuda.helpers import built
from tests.models import load, mlp
from tests.relay.helpers import DATA
from tvm_disc.codegen.cuda import nvrtc
from tvm_disc.errors import DeviceError, Unsupported

WITHOUT_DRIVER = """
import tempfile
import numpy as np, tvm_disc
from tests.cuda import emulator
from tests.models import mlp
tvm_disc.codegen.build.compile_source = emulator.compile_source
program = tvm_disc.build(mlp(), target="cuda")
with tempfile.TemporaryDirectory() as folder:
    program.save(f"{folder}/saved.so")
    loaded = tvm_disc.load(f"{folder}/saved.so")
for called in (program, program, loaded):
    try:
        called(np.zeros((1, 16), "float32"))
    except tvm_disc.errors.DeviceError as error:
        print(error)
"""


def has_driver() -> bool:
    """Whether the machine has NVIDIA's."""
    code = "import ctypes; ctypes.CDLL('libcuda.so.1')"
    return not subprocess.run([sys.executable, "-c", code], capture_output=True).returncode


@pytest.mark.skipif(has_driver(), reason="this machine has a driver")
def test_no_driver(root: Path) -> None:
    env = dict(os.environ, PYTHONPATH=str(root))
    command = [sys.executable, "-c", WITHOUT_DRIVER]
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=True)
    said = done.stdout.splitlines()
    assert len(said) == 3 and all("no driver: libcuda.so.1 was not found" in s for s in said)


def lstm() -> tuple[Any, list[np.ndarray], np.ndarray]:
    """A loop over tensors, its input for five steps, and its result."""
    recorded = np.load(DATA / "printed" / "lstm_while_dyn.npz")
    program = built(load(DATA / "printed" / "lstm_while_dyn.relay"))
    return program, [recorded["c1_in0"]], recorded["c1_out0"]


def test_out_of_memory_in_a_loop(gpu: ctypes.CDLL) -> None:
    program, inputs, wanted = lstm()
    program(*inputs)
    there = [program._main.sent(x) for x in inputs]
    before = gpu.emulated_live()
    failed = 0
    for room in range(64, 4096, 192):
        gpu.emulated_limit(before + room)
        try:
            program(*there)
        except MemoryError:
            failed += 1
        assert gpu.emulated_live() == before
    assert failed > 2
    gpu.emulated_limit(2**64 - 1)
    np.testing.assert_allclose(program(*inputs)[0], wanted, rtol=1e-4, atol=1e-5)


def test_a_kernel_that_fails_in_a_loop(gpu: ctypes.CDLL) -> None:
    program, inputs, wanted = lstm()
    there = [program._main.sent(x) for x in inputs]
    program(*there)
    before = gpu.emulated_live()
    gpu.emulated_refuse(719)
    with pytest.raises(DeviceError, match="719"):
        program(*there)
    assert gpu.emulated_live() == before
    gpu.emulated_refuse(0)
    np.testing.assert_allclose(program(*inputs)[0], wanted, rtol=1e-4, atol=1e-5)


def test_an_architecture_that_nvrtc_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvm_disc.codegen.build.compile_source", nvrtc.compile_source)
    monkeypatch.setattr(nvrtc, "_library", lambda: None)
    monkeypatch.setattr(nvrtc, "_known", lambda library: (75, 80))
    with pytest.raises(Unsupported, match="this NVRTC has no code for sm_90; it has sm_75, sm_80"):
        built(mlp())
