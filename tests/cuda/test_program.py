"""The host program of a GPU: memory, streams, saved libraries and what is refused."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi

import tvm_disc
from tests.models import TREES, function, mlp, mlp_reference, rows
from tvm_disc import relay
from tvm_disc.abi.entries import CLOSE
from tvm_disc.codegen.cuda import nvrtc
from tvm_disc.errors import BadInput, DeviceError, GuardFailed, Unsupported


@pytest.fixture(scope="module")
def source() -> Any:
    """A small program."""
    return mlp()


def built(source: Any, target: Any = "cuda", **options: Any) -> Any:
    """For a device."""
    return tvm_disc.build(source, target=target, options=tvm_disc.Options(**options))


X = np.linspace(-1, 1, 48, dtype="float32").reshape(3, 16)


def test_tensors_of_the_device_are_not_copied(gpu: ctypes.CDLL, source: Any) -> None:
    program = built(source)
    program(X)
    there = program._main.sent(X)
    copies, waits = gpu.emulated_copies(), gpu.emulated_waits()
    result = program(there)
    assert (gpu.emulated_copies(), gpu.emulated_waits()) == (copies, waits)
    assert "cuda" in str(result.device)
    here = np.from_dlpack(program._main.fetched(result))
    np.testing.assert_allclose(here, mlp_reference(X), rtol=1e-5)


def test_everything_is_given_back(gpu: ctypes.CDLL, source: Any) -> None:
    program = built(source)
    program(X)
    before = gpu.emulated_live()
    for n in (1, 4, 100):
        program(np.zeros((n, 16), "float32"))
    assert gpu.emulated_live() == before
    kept = program(program._main.sent(X))
    assert gpu.emulated_live() > before
    del kept
    assert gpu.emulated_live() == before


def test_constants_go_with_the_program(gpu: ctypes.CDLL) -> None:
    """Kernels may still be under way on streams, and results outlive it."""
    gc.collect()
    before = gpu.emulated_live()
    program = built(mlp())
    with tvm_ffi.use_raw_stream(tvm_ffi.device("cuda:0"), 23):
        result = program(program._main.sent(X))
    found = np.empty((3, 10), "float32")
    assert gpu.emulated_live() > before + found.nbytes
    del program
    gc.collect()
    assert gpu.emulated_live() == before + found.nbytes
    place, size = (ctypes.c_uint64(n) for n in (found.ctypes.data, found.nbytes))
    assert gpu.cuMemcpyDtoHAsync_v2(place, ctypes.c_uint64(result.data_ptr()), size, None) == 0
    np.testing.assert_allclose(found, mlp_reference(X), rtol=1e-5)
    del result
    assert gpu.emulated_live() == before


def test_programs_of_one_file_share_what_is_on_the_device(
    gpu: ctypes.CDLL, source: Any, tmp_path: Path
) -> None:
    built(source).save(tmp_path / "program.so")
    gc.collect()
    before = gpu.emulated_live()
    one, other = (tvm_disc.load(tmp_path / "program.so") for _ in range(2))
    for program in (one, other):
        np.testing.assert_allclose(program(X), mlp_reference(X), rtol=1e-5)
    live = gpu.emulated_live()
    del one, program
    gc.collect()
    copies = gpu.emulated_copies()
    np.testing.assert_allclose(other(X), mlp_reference(X), rtol=1e-5)
    assert gpu.emulated_live() == live > before and gpu.emulated_copies() == copies + 2
    del other
    gc.collect()
    assert gpu.emulated_live() == before


def test_a_closed_program_opens_again(gpu: ctypes.CDLL, source: Any, tmp_path: Path) -> None:
    built(source, cuda_graphs=1).save(tmp_path / "program.so")
    program = tvm_disc.load(tmp_path / "program.so")
    close = program._code.function(CLOSE)
    close()  # it was never open
    for _ in range(2):
        np.testing.assert_allclose(program(X), mlp_reference(X), rtol=1e-5)
        close()
        close()


def test_results_into_tensors_of_the_caller(source: Any) -> None:
    program = built(source)
    out = np.zeros((3, 10), "float32")
    assert program(X, out=out) is out
    np.testing.assert_allclose(out, mlp_reference(X), rtol=1e-5)


def test_a_saved_library(gpu: ctypes.CDLL, source: Any, tmp_path: Path) -> None:
    program = built(source, "cuda -arch=sm_80,sm_90")
    program.save(tmp_path / "program.so")
    loaded = tvm_disc.load(tmp_path / "program.so")
    for capability in (80, 86, 90):
        gpu.emulated_device(capability)
        np.testing.assert_array_equal(tvm_disc.load(tmp_path / "program.so")(X), program(X))
    np.testing.assert_array_equal(loaded(X), program(X))


def test_one_unit_of_code(source: Any) -> None:
    options = tvm_disc.Options(cache=False)
    program = tvm_disc.build(source, target="cuda", options=options)
    np.testing.assert_allclose(program(X), mlp_reference(X), rtol=1e-5)


def test_a_profile_waits_for_each_kernel(gpu: ctypes.CDLL, source: Any) -> None:
    program = built(source)
    assert program.profile(program._main.sent(X)).total_ns


def test_a_device_without_code_is_named(gpu: ctypes.CDLL, source: Any) -> None:
    program = built(source, "cuda -arch=sm_90")
    gpu.emulated_device(75)
    with pytest.raises(DeviceError, match=r"no code for Emulated GPU \(sm_75\).*for sm_90; build"):
        program(X)
    gpu.emulated_device(90)  # and the program stays usable
    np.testing.assert_allclose(program(X), mlp_reference(X), rtol=1e-5)


def test_newer_devices_take_portable_code(gpu: ctypes.CDLL, source: Any) -> None:
    program = built(source)
    gpu.emulated_device(120)
    np.testing.assert_allclose(program(X), mlp_reference(X), rtol=1e-5)


def test_no_device(gpu: ctypes.CDLL, source: Any) -> None:
    gpu.emulated_count(0)
    program = built(source)
    with pytest.raises(DeviceError, match="no GPU: the driver finds no device"):
        program(X)


def test_out_of_memory(gpu: ctypes.CDLL, source: Any) -> None:
    program = built(source)
    there = program._main.sent(X)
    gpu.emulated_limit(gpu.emulated_live() + 8)
    with pytest.raises(MemoryError, match="out of memory for"):
        program(there)
    gpu.emulated_limit(2**64 - 1)
    np.testing.assert_allclose(program(X), mlp_reference(X), rtol=1e-5)


def test_a_kernel_that_fails(gpu: ctypes.CDLL, source: Any) -> None:
    program = built(source)
    there = program._main.sent(X)
    live = gpu.emulated_live()
    gpu.emulated_refuse(700)
    with pytest.raises(DeviceError, match="could not launch a kernel: status 700"):
        program(there)
    assert gpu.emulated_live() == live
    gpu.emulated_refuse(0)
    np.testing.assert_allclose(program(X), mlp_reference(X), rtol=1e-5)


def test_tensors_of_the_host_beside_those_of_the_device() -> None:
    x, y = rows("n", 4), rows("n", 4, name="y")
    program = built(function(x, y, relay.add(x, y)))
    a = np.ones((2, 4), "float32")
    program(a, a)
    with pytest.raises(BadInput, match="input 'y': expected a tensor on the GPU"):
        program(program._main.sent(a), a)


def test_a_tensor_of_the_device_for_the_processor(source: Any) -> None:
    there = built(source)
    there(X)
    with pytest.raises(BadInput, match="input 'x': expected a tensor on the CPU"):
        tvm_disc.build(source)(there._main.sent(X))


def test_guards_come_before_the_first_launch(gpu: ctypes.CDLL) -> None:
    x, y = rows("n", 4), rows("n", 4, name="y")
    program = built(function(x, y, relay.add(x, y)))
    program(np.ones((2, 4), "float32"), np.ones((2, 4), "float32"))
    launches = gpu.emulated_launches()
    with pytest.raises((GuardFailed, BadInput), match="input 'y' axis 0"):
        program(np.ones((2, 4), "float32"), np.ones((3, 4), "float32"))
    assert gpu.emulated_launches() == launches


def test_unknown_architectures(source: Any) -> None:
    with pytest.raises(Unsupported, match=r"expected an architecture of NVIDIA's GPUs .*'sm_42'"):
        built(source, "cuda -arch=sm_42")
    with pytest.raises(Unsupported, match="unknown option '-model=a100' of cuda"):
        built(source, "cuda -model=a100")
    with pytest.raises(Unsupported, match="expected one GPU target that lists all architectures"):
        tvm_disc.build(source, target=["cuda", "llvm"])


def test_data_types_are_refused() -> None:
    with pytest.raises(Unsupported, match="not supported on a GPU"):
        built(TREES)


def test_without_nvrtc(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvm_disc.codegen.build.compile_source", nvrtc.compile_source)
    monkeypatch.setattr(nvrtc, "_places", lambda: ["nowhere.so"])
    nvrtc._loaded.cache_clear()
    try:
        with pytest.raises(Unsupported, match=r"NVRTC, which was not found; .*tvm_disc\[cuda\]"):
            built(source)
    finally:
        nvrtc._loaded.cache_clear()


def test_targets_by_the_names_of_cards(gpu: ctypes.CDLL, source: Any) -> None:
    x = np.ones((3, 16), "float32")
    for target in ("nvidia/nvidia-a100", {"tag": "nvidia/nvidia-a100", "host": "llvm"}):
        np.testing.assert_allclose(built(source, target)(x), mlp_reference(x), rtol=1e-5)
    with pytest.raises(Unsupported, match=r"'nvidia/nvidia-a1000'; did you mean nvidia/nvidia-a10"):
        built(source, "nvidia/nvidia-a1000")
    with pytest.raises(Unsupported, match=r"expected an architecture .*sm_70.* found 'sm_50'"):
        built(source, "nvidia/geforce-gtx-750-ti")


@pytest.mark.parametrize("graphs", [0, 1])
def test_hundreds_of_operands(gpu: ctypes.CDLL, graphs: int) -> None:
    x, numbers = rows(1, 2), [np.full((1, 2), k, "float32") for k in range(300)]
    parts = [part for k in numbers for part in (x, relay.const(k))]
    program = built(function(x, relay.concatenate(parts, 0)), cuda_graphs=graphs)
    assert len(program.kernels) == 1
    for first in (-1, -2, -2):
        a = np.full((1, 2), first, "float32")
        wanted = np.concatenate([part for k in numbers for part in (a, k)], 0)
        np.testing.assert_array_equal(program(a), wanted)


def test_more_operands_than_a_kernel_has() -> None:
    several = [rows(1, name=f"x{k}") for k in range(4100)]
    said = (
        "concat.* at most 4091 operands, results and dims in all, found 4100, 1 and 0; "
        "split the operator"
    )
    with pytest.raises(Unsupported, match=said):
        built(function(*several, relay.concatenate(several, 0)))
