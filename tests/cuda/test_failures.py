"""Programs for a GPU where something is missing or fails: it is told, and they stay usable."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.cuda.helpers import built, has_driver
from tests.models import load, mlp, mlp_reference
from tests.relay.helpers import DATA
from tvm_disc.codegen.cuda import nvrtc
from tvm_disc.codegen.host.abi import TENSOR_HEADER_BYTES
from tvm_disc.errors import BadInput, DeviceError, Unsupported

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
    with pytest.raises(
        Unsupported, match="this NVRTC cannot compile for sm_90, only for sm_75, sm_80"
    ):
        built(mlp())


OPENING = ("cuInit", "cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuModuleGetFunction",
           "cuMemAlloc_v2", "cuMemcpyHtoD_v2", "cuDeviceGetDefaultMemPool")  # fmt: skip


def test_every_step_of_opening_may_fail(gpu: ctypes.CDLL, tmp_path: Path) -> None:
    """Each is told; the next call opens the device, and finds what was made already."""
    built(mlp()).save(tmp_path / "saved.so")
    x = np.linspace(-1, 1, 48, dtype="float32").reshape(3, 16)
    for call in OPENING:
        # A file of its own: the system loads one only once.
        program = tvm_disc.load(shutil.copy(tmp_path / "saved.so", tmp_path / f"{call}.so"))
        live = gpu.emulated_live()
        gpu.emulated_fail(call.encode(), 46)
        for _ in range(2):
            with pytest.raises(DeviceError, match=f"{call.partition('_')[0]}: status 46"):
                program(x)
        gpu.emulated_fail(call.encode(), 2)
        with pytest.raises(MemoryError):
            program(x)
        gpu.emulated_fail(b"", 0)
        np.testing.assert_allclose(program(x), mlp_reference(x), rtol=1e-5)
        assert gpu.emulated_live() - live < 5000  # the constants, once


def test_a_copy_that_fails(gpu: ctypes.CDLL) -> None:
    program = built(mlp())
    x = np.linspace(-1, 1, 48, dtype="float32").reshape(3, 16)
    program(x)
    live = gpu.emulated_live()
    for call, said in (
        ("cuMemcpyHtoDAsync_v2", "could not copy an input to the device: status 719"),
        ("cuStreamSynchronize", "could not finish the kernels of a call: status 719"),
    ):
        gpu.emulated_fail(call.encode(), 719)
        with pytest.raises(DeviceError, match=said):
            program(x)
        assert gpu.emulated_live() == live
    gpu.emulated_fail(b"", 0)
    np.testing.assert_allclose(program(x), mlp_reference(x), rtol=1e-5)


def test_a_tensor_of_another_device(gpu: ctypes.CDLL) -> None:
    program = built(mlp())
    x = np.linspace(-1, 1, 48, dtype="float32").reshape(3, 16)
    program(x)
    there = program._main.sent(x)
    # A tensor object, then DLPack's: data, and the device's type and number.
    number = ctypes.c_int32.from_address(there.__chandle__() + TENSOR_HEADER_BYTES + 12)
    number.value = 1
    with pytest.raises(BadInput, match="input 'x': expected a tensor on GPU 0, where the program"):
        program(there)
    number.value = 0
    found = program._main.fetched(program(there)).numpy()
    np.testing.assert_allclose(found, mlp_reference(x), rtol=1e-5)
