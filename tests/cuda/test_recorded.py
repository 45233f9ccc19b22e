"""Every recorded model and fixture for a GPU: right in the emulator, and accepted by NVRTC."""

from __future__ import annotations

import ctypes
import os
import pickle
from functools import cache
from typing import Any

import pytest

import tvm_disc
from tests.cuda import cubin, emulator
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


@cache
def images(recorded: Recorded) -> list[nvrtc.Image]:
    """Its machine code, and the portable one; kept by what it is made of."""
    source = built(recorded)[1]
    told = (source, *map(str, (nvrtc.version(), nvrtc.OPTIONS, ARCHITECTURES)))
    path = emulator.folder() / f"images_{emulator.key_of(*told)}"
    if not path.exists():
        new = path.with_name(f"{path.name}_{os.getpid()}")
        new.write_bytes(pickle.dumps(nvrtc.compile_source(source, ARCHITECTURES)))
        new.replace(path)
    found: list[nvrtc.Image] = pickle.loads(path.read_bytes())
    return found


@pytest.mark.parametrize("recorded", RECORDED, ids=[r.name for r in RECORDED])
def test_recorded_results(recorded: Recorded, gpu: ctypes.CDLL) -> None:
    program, _ = built(recorded)
    for order in ORDERS:
        gpu.emulated_order(order)
        compare(recorded, program, MOST_CALLS)


@pytest.mark.skipif(not nvrtc.is_there(), reason="NVRTC is not installed: tvm_disc[cuda]")
@pytest.mark.parametrize("recorded", RECORDED, ids=[r.name for r in RECORDED])
def test_machine_code(recorded: Recorded) -> None:
    found = images(recorded)
    assert [(i.architecture, i.portable) for i in found] == [(80, False), (90, False), (80, True)]
    assert found[0].data.startswith(b"\x7fELF") and b".target sm_80" in found[2].data


@pytest.mark.skipif(not nvrtc.is_there(), reason="NVRTC is not installed: tvm_disc[cuda]")
def test_registers_have_room() -> None:
    """Of the recorded BERT: for sm_80 the compiler keeps one register of the largest tile in
    memory, so that a multiprocessor holds three blocks."""
    old, new, _ = images(next(r for r in RECORDED if r.name == "relay/models/bert.relay"))
    assert len(cubin.registers(old.data)) == len(cubin.frames(new.data)) > 20
    assert max(cubin.registers(old.data).values()) <= 65536 // (3 * 128)
    assert max(cubin.frames(old.data).values()) <= 8
    assert max(cubin.frames(new.data).values()) == 0


def test_no_fixture_is_left_out() -> None:
    """Each file with recorded calls is one of the programs above."""
    names = {r.path.with_suffix("") for r in RECORDED}
    assert {p.with_suffix("") for p in DATA.rglob("*.npz")} <= names
