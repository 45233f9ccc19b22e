"""What ``make emulate`` runs in emulators, here on this very processor."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tvm_disc
from tests.emulation.__main__ import (
    PROCESSORS,
    TOLERANCE,
    Failed,
    Processor,
    attempt,
    build_replay,
    is_native,
    look,
    missing,
)
from tests.emulation.recorded import MODELS, Case, recorded_cases, write_cases

NATIVE = next((p for p in PROCESSORS if is_native(p.arch)), PROCESSORS[0])
TOOLS = [f"{NATIVE.triple}-{tool}" for tool in ("g++", "objdump")]
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]
built = pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)}")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_replay(NATIVE.arch, NATIVE.triple, tmp_path_factory.mktemp("replay"))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "dlrm.so"
    tvm_disc.build(MODELS / "dlrm.relay").save(path)
    return path


def cases() -> list[Case]:
    return recorded_cases("dlrm", ["d", "c"])


@built
def test_every_recorded_shape_agrees(program: Path, saved: Path, tmp_path: Path) -> None:
    write_cases(cases(), tmp_path / "cases")
    printed, problem = attempt([program, saved, tmp_path / "cases", TOLERANCE])
    assert problem == ""
    shapes = ["1x13,1x4", "7x13,7x4", "64x13,64x4", "513x13,513x4"]
    assert [line.split()[0] for line in printed.splitlines()] == shapes
    assert all(float(line.split()[1]) < TOLERANCE for line in printed.splitlines())


@built
def test_what_disagrees_is_said(program: Path, saved: Path, tmp_path: Path) -> None:
    first, second, third, last = cases()
    wrong = [
        replace(first, outputs=[first.outputs[0] + 1]),
        replace(second, outputs=[second.outputs[0][:-1]]),
        replace(third, outputs=[np.full_like(third.outputs[0], np.nan)]),
        last,
    ]
    write_cases(wrong, tmp_path / "cases")
    printed, problem = attempt([program, saved, tmp_path / "cases", TOLERANCE])
    assert [line.endswith("WRONG") for line in printed.splitlines()] == [True, True, True, False]
    assert "ended with code 1" in problem


@built
def test_instructions_of_another_processor_are_found(saved: Path) -> None:
    assert " instructions name " in look(replace(NATIVE, uses="ret", lacks=None), saved)
    with pytest.raises(Failed, match="instructions name ret, the first: "):
        look(replace(NATIVE, uses="ret", lacks="ret"), saved)
    with pytest.raises(Failed, match="no instruction names %qmm"):
        look(replace(NATIVE, uses="%qmm"), saved)


def test_what_is_missing_is_named_with_its_command() -> None:
    foreign = Processor("new", "riscv128", "generic", "any", "", "")
    packages, fetch = missing([foreign])
    names = "g++-riscv128-linux-gnu binutils-riscv128-linux-gnu qemu-user"
    assert packages == f"apt-get install {names}"
    assert fetch.endswith("-m tests.emulation --fetch")
