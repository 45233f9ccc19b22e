"""A saved program: self-contained, readable without running, refused when it is not ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tvm_disc
from tests.models import mlp, mlp_reference
from tvm_disc.codegen import export
from tvm_disc.errors import ArtifactError

# A process that has TVM's runtime library and nothing of any compiler.
RUN = """
import os, sys
os.environ["TVM_USE_RUNTIME_LIB"] = "1"
import numpy as np
import tvm_ffi, tvm.runtime
module = tvm.runtime.load_module(sys.argv[1])
for n in (1, 7, 64):
    x = np.load(sys.argv[2])[:n]
    np.save(f"{sys.argv[3]}{n}.npy", np.from_dlpack(module["main"](x)))
assert not [m for m in sys.modules if m.startswith(("tvm_disc", "tvm.relax"))]
"""


def test_runs_with_the_runtime_alone(saved: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((64, 16)).astype("float32")
    np.save(tmp_path / "x.npy", x)
    args = [sys.executable, "-c", RUN, str(saved), str(tmp_path / "x.npy"), str(tmp_path / "y")]
    done = subprocess.run(args, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for n in (1, 7, 64):
        found = np.load(tmp_path / f"y{n}.npy")
        np.testing.assert_allclose(found, mlp_reference(x[:n]), rtol=1e-4, atol=1e-5)


def test_refers_to_no_virtual_machine(saved: Path) -> None:
    content = saved.read_bytes()
    for word in (b"vm.builtin", b"relax.vm", b"relax.Executable", b"vm_load_executable"):
        assert word not in content


def test_loads_with_its_signature(saved: Path) -> None:
    exe = tvm_disc.load(saved)
    assert exe.signature == [("x", ("x_0", "16"), "float32")]
    x = np.ones((3, 16), "float32")
    np.testing.assert_allclose(exe(x), mlp_reference(x), rtol=1e-4, atol=1e-5)
    assert "kernel calls" in exe.explain()


def test_a_loaded_program_is_not_saved_again(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="copy its file"):
        tvm_disc.load(saved).save(tmp_path / "again.so")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no such file"):
        tvm_disc.load(tmp_path / "nothing.so")


def test_foreign_file(tmp_path: Path) -> None:
    path = tmp_path / "text.so"
    path.write_text("not a library")
    with pytest.raises(ArtifactError, match="not a program saved by tvm_disc"):
        tvm_disc.load(path)


def test_another_abi_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "new.so"
    with monkeypatch.context() as patched:
        patched.setattr(export, "ABI_VERSION", 9)
        tvm_disc.build(mlp()).save(path)
    with pytest.raises(ArtifactError, match=r"ABI version 9.*compile the model again"):
        tvm_disc.load(path)


def test_no_linker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    exe = tvm_disc.build(mlp())
    monkeypatch.setattr(export, "COMPILERS", ("no-such-compiler",))
    with pytest.raises(ArtifactError, match="needs a C compiler"):
        exe.save(tmp_path / "x.so")
