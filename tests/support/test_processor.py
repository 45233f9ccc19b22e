"""What this processor has, as LLVM and the system say, and what tests may hide of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import tvm_disc
from tests.models import mlp, mlp_reference
from tests.processor import AVX512, absent_for, needs
from tvm_disc.codegen.target import host_target, instruction_sets, resolve_target
from tvm_disc.errors import BadOption
from tvm_disc.support import processor
from tvm_disc.target.isa import isa_of

# What LLVM's CPUs have besides: instructions that code generation takes only if it is told to
# (cryptography, tiles, the system's own), what x86-64 always has, and how code is tuned.
UNASKED = """
64bit 64bit-mode adx aes amx-avx512 amx-bf16 amx-complex amx-fp16 amx-fp8 amx-int8 amx-movrs
amx-tf32 amx-tile avx512vp2intersect cldemote clflushopt clwb clzero cmov crc32 cx8 enqcmd ermsb
fsgsbase fsrm fxsr hreset invpcid kl lwp mmx movdir64b movdiri movrs mwaitx nopl pclmul pconfig pku
prefetchi prfchw ptwrite rdpid rdpru rdrnd rdseed serialize sha sha512 shstk sm3 sm4 sse sse2
tsxldtrk uintr usermsr vaes vpclmulqdq vzeroupper waitpkg wbnoinvd widekl x87 xsave xsavec xsaveopt
xsaves
""".split()
TUNING = re.compile(
    "(fast|slow|false-deps|no-bypass|prefer|tuning|use|lea|idiv|allow|pad|branch|sbb|macrofusion)"
)

only_x86 = pytest.mark.skipif(processor.architecture() != "x86_64", reason="asks CPUID")


@pytest.fixture(autouse=True)
def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is hidden here but by a test itself."""
    monkeypatch.delenv(processor.HIDDEN, raising=False)


def llvm(name: str, *args: Any) -> Any:
    return tvm.get_global_func(f"target.{name}")(*args)


def test_every_feature_of_every_cpu_is_known() -> None:
    machine = tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu"})
    unknown = set()
    for cpu in llvm("llvm_get_cpu_archlist", machine):
        target = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": str(cpu)}
        unknown |= {str(f) for f in llvm("llvm_get_cpu_features", tvm.target.Target(target))}
    unknown -= {*processor.X86, *UNASKED}
    assert sorted(name for name in unknown if not TUNING.match(name)) == []


def test_the_sets_of_aarch64_have_names_of_llvm() -> None:
    plain = {"kind": "llvm", "mtriple": "aarch64-linux-gnu"}
    known: set[str] = set()
    for cpu in llvm("llvm_get_cpu_archlist", tvm.target.Target(plain)):
        target = tvm.target.Target({**plain, "mcpu": str(cpu)})
        known |= {str(f) for f in llvm("llvm_get_cpu_features", target)}
    only_asked_for = {"f32mm", "f64mm", "sve2p1"}  # no CPU of LLVM's has them by default
    assert set(processor.AARCH64) - known == only_asked_for


@only_x86
def test_llvm_can_be_asked_for_every_set() -> None:
    assert set(processor.X86) <= {
        str(k) for k in tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    }


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_a_level_has_the_sets_that_llvm_gives_it(cpu: str) -> None:
    target = tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": cpu})
    assert set(instruction_sets(target)) == set(processor.PLAIN["x86_64"][cpu])


@only_x86
def test_the_system_says_the_same() -> None:
    flags = set(Path("/proc/cpuinfo").read_text().split("flags", 1)[1].splitlines()[0].split())
    names = {"sse4.1": "sse4_1", "sse4.2": "sse4_2", "sse3": "pni", "lzcnt": "abm", "bmi": "bmi1"}
    for name in (*processor.PLAIN["x86_64"]["x86-64-v3"], *AVX512):
        flag = {"sahf": "lahf_lm", **names}.get(name, name)
        assert (name in processor.features()) == (flag in flags), name


def test_what_works_here() -> None:
    target = processor.works_here()
    assert absent_for(resolve_target(target)) == []


@only_x86
def test_hidden_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    has = processor.features()
    monkeypatch.setenv(processor.HIDDEN, "avx*, fma")
    assert processor.features() == {f for f in has if not f.startswith("avx") and f != "fma"}
    assert processor.lacks(["sse3", "avx2", "fma"]) == ["avx2", "fma"]
    assert processor.works_here() == "llvm -mcpu=x86-64-v2"
    assert "fma" in absent_for("x86-64-v3")
    assert needs("fma").kwargs["reason"] == "needs fma, which this processor lacks"
    monkeypatch.setenv(processor.HIDDEN, "avx-512f")
    with pytest.raises(BadOption, match="DISC_WITHOUT: unknown instruction set 'avx-512f'"):
        processor.features()


@only_x86
@needs("avx2", "fma")
def test_this_machine_is_what_it_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(processor.HIDDEN, "avx*,fma")
    for target in (None, "llvm", "llvm -mcpu=native", "llvm -mcpu=native -mattr=+popcnt"):
        resolved = resolve_target(target)
        assert processor.lacks(instruction_sets(resolved)) == []
        assert isa_of(resolved).lanes_f32 == 4
    assert "-avx2" in host_target()["mattr"]
    exe = tvm_disc.build(mlp())
    assert "ymm" not in exe.source("asm")
    x = np.ones((5, 16), "float32")
    np.testing.assert_allclose(exe(x), mlp_reference(x), rtol=1e-4, atol=1e-5)
