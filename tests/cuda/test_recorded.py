"""Every recorded model and fixture for a GPU: right in the emulator, and accepted by NVRTC."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import pytest

import tvm_disc
from tests.cuda import emulator
from tests.cuda.recorded import DATA, RECORDED, Recorded, compare
from tvm_disc.codegen.cuda import nvrtc

MOST_CALLS = 2
ORDERS = (0, 1)
ARCHITECTURES = (80, 90)


@cache
def built(recorded: Recorded) -> tuple[Any, str]:
    """A program in the emulator, and its device code."""
    emulator.sources()
    program = tvm_disc.build(recorded.module(), params=recorded.params(), target="cuda")
    [source] = emulator.sources()
    return program, source


@pytest.mark.parametrize("recorded", RECORDED, ids=[r.name for r in RECORDED])
def test_recorded_results(recorded: Recorded, gpu: ctypes.CDLL) -> None:
    program, _ = built(recorded)
    for order in ORDERS:
        gpu.emulated_order(order)
        compare(recorded, program, MOST_CALLS)


@pytest.mark.skipif(not nvrtc.is_there(), reason="NVRTC is not installed: tvm_disc[cuda]")
@pytest.mark.parametrize("recorded", RECORDED, ids=[r.name for r in RECORDED])
def test_machine_code(recorded: Recorded) -> None:
    images = nvrtc.compile_source(built(recorded)[1], ARCHITECTURES)
    assert [(i.architecture, i.portable) for i in images] == [(80, False), (90, False), (80, True)]
    assert images[0].data.startswith(b"\x7fELF") and b".target sm_80" in images[2].data


def test_no_fixture_is_left_out() -> None:
    """Each file with recorded calls is one of the programs above."""
    names = {r.path.with_suffix("") for r in RECORDED}
    assert {p.with_suffix("") for p in DATA.rglob("*.npz")} <= names
