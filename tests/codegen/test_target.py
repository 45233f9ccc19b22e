"""Targets: what is accepted, what is added, what is refused."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import tvm_disc
from tests.models import mlp, mlp_reference
from tests.processor import run_on
from tvm_disc.codegen.target import host_cpu, resolve_target
from tvm_disc.errors import ArtifactError, Unsupported, WrongProcessor


@pytest.mark.parametrize(
    "target",
    [
        None,
        "llvm",
        "llvm -mcpu=x86-64-v3",
        {"kind": "llvm", "mcpu": "x86-64-v3"},
        tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"}),
        '{"kind": "llvm", "mcpu": "x86-64-v3"}',
        "llvm -mcpu=native -opt-level=1 -mattr=+avx2,+fma -cl-opt=-align-loops:int=32",
        "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4",
    ],
)
def test_accepted_forms(target: Any) -> None:
    resolved = resolve_target(target)
    assert resolved.kind.name == "llvm"
    assert "-enable-tbaa:bool=false" in [str(o) for o in resolved.attrs["cl-opt"]]


def test_other_kinds_are_refused() -> None:
    with pytest.raises(Unsupported, match="expected an llvm target, found 'cuda'"):
        resolve_target({"kind": "cuda"})


def test_llvm_works_at_its_second_level_unless_told() -> None:
    assert resolve_target(None).attrs["opt-level"] == 2
    assert resolve_target({"kind": "llvm", "opt-level": 3}).attrs["opt-level"] == 3


def test_options_have_the_types_of_tvm() -> None:
    attrs = resolve_target("llvm -mcpu=native -opt-level=1 -fast-math-nsz=0 -mattr=+avx2").attrs
    assert (attrs["mcpu"], attrs["opt-level"]) == (host_cpu(), 1)
    assert not attrs["fast-math-nsz"] and "+avx2" in list(attrs["mattr"])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("llvm -mcp=skylake", "unknown llvm option '-mcp=skylake'; expected one of cl-opt, device"),
        ("llvm -opt-level=fast", "-opt-level takes a value of type int, found 'fast'"),
        ("llvm -mcpu=x86-64v3", "unknown CPU 'x86-64v3' for .*; LLVM supports x86-64-v3"),
        (
            {"kind": "llvm", "mcpu": "skylake", "mtriple": "aarch64-linux-gnu"},
            "unknown CPU 'skylake'",
        ),
        ({"kind": "llvm", "mcpu": "znver9"}, "unknown CPU 'znver9' for .*; LLVM supports znver"),
        ('{"kind": "llvm", "mcpu": "znver9"}', "unknown CPU 'znver9' for .*; LLVM supports znver"),
        ("znver9", "found 'znver9'; if it is a CPU, did you mean znver. or znver"),
        ("cuba", "expected an llvm target, found 'cuba'$"),
        ({"kind": "llvm", "opt-level": "a"}, "Option 'opt-level': expected type 'int'"),
        ('{"kind": "llvm",', "is not JSON"),
        ("cuda -arch=sm_80", "expected an llvm target, found 'cuda'"),
    ],
)
def test_refused_in_words(target: Any, message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        resolve_target(target)


def test_a_cpu_without_wide_vectors() -> None:
    exe = tvm_disc.build(mlp(), target="llvm -mcpu=x86-64-v3")
    assert "zmm" not in exe.source("asm")
    run_on("x86-64-v3")
    for n in (1, 5, 17, 100):
        x = np.random.default_rng(n).standard_normal((n, 16)).astype("float32")
        np.testing.assert_allclose(exe(x), mlp_reference(x), rtol=1e-4, atol=1e-5)


def test_another_architecture_compiles() -> None:
    target = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76"}
    exe = tvm_disc.build(mlp(), target=target)
    assert "fmla" in exe.source("asm")
    message = r'the program is for aarch64, this machine is \w+; build .* target="llvm -mcpu='
    with pytest.raises(WrongProcessor, match=message):
        exe(np.zeros((1, 16), "float32"))


def test_an_object_for_another_architecture(tmp_path: Path) -> None:
    target = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76"}
    exe = tvm_disc.build(mlp(), target=target)
    path = tmp_path / "mlp.o"
    exe._code.module.write_to_file(str(path), "o")
    header = path.read_bytes()
    assert header[:6] == b"\x7fELF\x02\x01", "64 bits, little endian"
    kind, machine = struct.unpack_from("<HH", header, 16)
    assert (kind, machine) == (1, 183), "a relocatable object for AArch64"
    for symbol in (
        b"__tvm_ffi_main",
        b"__tvm_ffi_tvm_disc_bind",
        b"TVMFFITensorFromDLPackVersioned",
    ):
        assert symbol in header
    with pytest.raises(ArtifactError, match="found no no-such-gcc"):
        exe.save(tmp_path / "mlp.so", compiler="no-such-gcc")
    with pytest.raises(ArtifactError, match="cc could not"):
        exe.save(tmp_path / "mlp.so", compiler="cc")  # links for this machine only


def test_the_environment_stands_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISC_TARGET", "llvm -mcpu=x86-64-v3")
    assert str(resolve_target(None).attrs["mcpu"]) == "x86-64-v3"
    assert str(resolve_target("llvm -mcpu=haswell").attrs["mcpu"]) == "haswell"
    monkeypatch.setenv("DISC_TARGET", "cuda -arch=sm_80")
    with pytest.raises(Unsupported, match="expected an llvm target"):
        resolve_target(None)
