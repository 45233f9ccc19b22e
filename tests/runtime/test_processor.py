"""Programs for processors that are not this one: refused by name, before any of their code runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import tvm_disc
from tests.models import mlp, mlp_reference
from tests.processor import needs, run_on
from tests.runtime.entries import CALLS, X, entries
from tvm_disc.errors import WrongProcessor
from tvm_disc.support import processor
from tvm_disc.support.processor import HIDDEN
from tvm_disc.tuning.entry import require_machine

pytestmark = pytest.mark.skipif(processor.architecture() != "x86_64", reason="about x86-64")
V3 = "llvm -mcpu=x86-64-v3"
# What the tests hide; a processor that has none of it says the same.
WITHOUT = "avx*,fma"
LACKS = (
    r"this processor lacks avx, .*fma, avx2.* \(for x86-64-v3\); build the program with "
    r'target="llvm -mcpu=x86-64.*"'
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "v3.so"
    tvm_disc.build(mlp(), target=V3).save(path)
    return path


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HIDDEN, WITHOUT)


@pytest.mark.parametrize(
    "use",
    [
        lambda exe: exe(X),
        lambda exe: exe(x=X),
        lambda exe: exe(X, out=np.zeros((3, 10), "float32")),
        lambda exe: exe.bind(X),
        lambda exe: exe.profile(X),
        lambda exe: exe.ready(),
        lambda exe: exe.threads,
        lambda exe: exe.keep_memory(0),
        lambda exe: exe.memory_statistics(),
        lambda exe: exe.record_shapes("log").__enter__(),
    ],
    ids="call name out bind profile ready threads keep statistics record".split(),
)
@pytest.mark.usefixtures("without")
def test_every_use_of_a_program_in_memory(
    use: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where shapes are recorded
    exe = program()
    with pytest.raises(WrongProcessor, match=LACKS):
        use(exe)


def program(kept: list[Any] = []) -> Any:  # noqa: B006
    """One that was compiled for x86-64-v3 and never called."""
    if not kept:
        kept.append(tvm_disc.build(mlp(), target=V3, options=tvm_disc.Options(load=False)))
    return kept[0]


def test_a_program_in_memory_for_what_this_processor_has_not() -> None:
    """Without any help of the variable, where there is no AVX-512."""
    exe = tvm_disc.build(mlp(), target="llvm -mcpu=x86-64-v4")
    assert "zmm" in exe.source("asm")
    missing = processor.lacks(processor.PLAIN["x86_64"]["x86-64-v4"])
    if not missing:
        np.testing.assert_allclose(exe(X), mlp_reference(X), rtol=1e-4, atol=1e-5)
        return
    with pytest.raises(WrongProcessor, match=rf"lacks {', '.join(missing)} \(for x86-64-v4\)"):
        exe(X)


def test_attributes_of_a_target_count() -> None:
    missing = processor.lacks(["avx512bf16", "avxvnni"])
    exe = tvm_disc.build(mlp(), target="llvm -mcpu=x86-64-v2 -mattr=+avxvnni,+avx512bf16")
    if missing:
        with pytest.raises(
            WrongProcessor, match=rf"{missing[-1]}.*\(for x86-64-v2 \+avxvnni \+avx"
        ):
            exe(X)
    plain = tvm_disc.build(mlp(), target="llvm -mcpu=x86-64-v4 -mattr=-avx512f,-avx512dq")
    run_on("x86-64-v3")
    np.testing.assert_allclose(plain(X), mlp_reference(X), rtol=1e-4, atol=1e-5)


@needs(*processor.PLAIN["x86_64"]["x86-64-v3"])
def test_a_saved_program(saved: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    np.testing.assert_allclose(tvm_disc.load(saved)(X), mlp_reference(X), rtol=1e-4, atol=1e-5)
    # The system's loader keeps what it has loaded: another file, to be asked once more.
    again = tmp_path / "again.so"
    again.write_bytes(saved.read_bytes())
    monkeypatch.setenv(HIDDEN, WITHOUT)
    with pytest.raises(WrongProcessor, match=f"again.so: {LACKS}"):
        tvm_disc.load(again)


def test_the_processor_itself_is_asked(tmp_path: Path) -> None:
    """CPUID in the library says what LLVM says in Python, for everything that LLVM may use."""
    missing = processor.lacks(processor.X86)
    every = ",".join(f"+{name}" for name in processor.X86)
    exe = tvm_disc.build(mlp(), target=f"llvm -mcpu=x86-64 -mattr={every}")
    exe.save(tmp_path / "every.so")
    with pytest.raises(WrongProcessor) as caught:
        tvm_disc.load(tmp_path / "every.so")
    found = str(caught.value).partition(" lacks ")[2].partition(" (for ")[0]
    assert found.split(", ") == missing


@pytest.mark.parametrize("hidden", ["", WITHOUT])
def test_nothing_else_leads_into_the_code(saved: Path, hidden: str, tmp_path: Path) -> None:
    """Each export, under TVM's runtime alone: all of them ask first."""
    names = entries(saved)
    assert {"main", "tvm_disc_bind", "tvm_disc_pool", "tvm_disc_direct"} <= set(names)
    if not hidden:
        run_on("x86-64-v3")
        names = ["main", "main_level_0"]
    environment = {**os.environ, "TVM_USE_RUNTIME_LIB": "1", HIDDEN: hidden}
    command = [sys.executable, "-c", CALLS, str(saved), *names]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(names)
    for name, line in zip(names, lines, strict=True):
        assert line.startswith(f"{name} {'this processor lacks avx' if hidden else 'ran'}"), line


@needs(*processor.PLAIN["x86_64"]["x86-64-v3"])
def test_a_saved_program_calls_as_fast_as_one_in_memory(saved: Path) -> None:
    """The way in is one jump through a table, and no question."""
    done = subprocess.run(
        ["objdump", "-d", "--disassemble=__tvm_ffi_main", saved], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    code = [line for line in done.stdout.splitlines() if line.startswith("    ")]
    assert len([line for line in code if "nop" not in line]) <= 3, done.stdout


@pytest.mark.usefixtures("without")
def test_tuning_runs_code_here(tmp_path: Path) -> None:
    with pytest.raises(WrongProcessor, match=LACKS):
        tvm_disc.tune(mlp(), records=tmp_path / "r.jsonl", target=V3, points=1, progress=False)


def test_tuning_on_other_machines_asks_what_they_are() -> None:
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v4"})
    require_machine(target, "cascadelake")
    message = r'znver3, lacks avx512f, .* \(for x86-64-v4\); tune with target="llvm -mcpu=znver3"'
    with pytest.raises(WrongProcessor, match=message):
        require_machine(target, "znver3")
