"""A saved library in a C++ program, which finds the emulated driver by its name."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import tvm_disc
from tests.cuda import emulator
from tests.cuda.helpers import built, has_driver
from tests.models import mlp, mlp_reference

ROOT = Path(__file__).resolve().parents[2]
SIZES = (1, 7, 64, 0)


def _package(name: str) -> Path:
    spec = find_spec(name)
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


@cache
def executable() -> Path:
    """The C++ program, compiled once."""
    ffi, runtime = _package("tvm_ffi"), _package("tvm") / "lib"
    headers = [f"-I{ROOT / 'tvm_disc' / 'cpp'}", f"-isystem{ffi / 'include'}"]
    options = ["-std=c++17", "-O0", "-w", *headers]
    libraries = ["-Wl,--no-as-needed", "-ltvm_ffi", "-ltvm_runtime", "-ldl"]
    paths = [f"{flag}{p}" for p in (ffi / "lib", runtime) for flag in ("-L", "-Wl,-rpath,")]
    source = (ROOT / "tests" / "cuda" / "on_device.cc").read_text()
    header = (ROOT / "tvm_disc" / "cpp" / "tvm_disc.h").read_text()
    return emulator.made("on_device", "", source, [*options, *paths], libraries, header)


def run(saved: Path, *sizes: int, driver: Path | None) -> subprocess.CompletedProcess[str]:
    """The program on a saved library, with a driver in a folder where the system looks for it."""
    env = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    if driver is not None:
        env["LD_LIBRARY_PATH"] = str(driver)
    words = [str(executable()), str(saved), "16", *map(str, sizes)]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=env)


@pytest.mark.parametrize("graphs", [0, 2])
def test_runs_every_shape(tmp_path: Path, graphs: int) -> None:
    options = tvm_disc.Options(cuda_graphs=graphs)
    tvm_disc.build(mlp(), target="cuda", options=options).save(tmp_path / "program.so")
    folder = tmp_path / "driver"
    folder.mkdir()
    (folder / "libcuda.so.1").symlink_to(emulator.driver()._name)
    done = run(tmp_path / "program.so", *SIZES, *SIZES, driver=folder)
    assert done.returncode == 0, done.stderr
    refused, *lines = done.stdout.splitlines()
    assert refused == "refused: input 'x': expected a tensor on the GPU"
    assert len(lines) == 2 * len(SIZES)
    for n, line in zip(SIZES * 2, lines, strict=True):
        head, _, total = line.partition(", sum ")
        assert head == f"{n}x16 -> {n} 10 on GPU"
        x = (np.arange(n * 16) % 7 - 3).astype("float32").reshape(n, 16)
        np.testing.assert_allclose(float(total), mlp_reference(x).sum(), rtol=1e-4)


@pytest.mark.skipif(has_driver(), reason="this machine has a driver")
def test_without_a_driver(tmp_path: Path) -> None:
    built(mlp()).save(tmp_path / "program.so")
    done = run(tmp_path / "program.so", 1, driver=None)
    assert done.returncode == 1 and "error: no driver: libcuda.so.1 was not found" in done.stderr
