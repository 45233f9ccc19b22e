"""Products by instructions of warpgroups: layouts, edges, other GPUs, graphs, and mistakes."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from typing import Any

import pytest

import tvm_disc
from tests.cuda import cubin, emulator
from tests.cuda.forced import check_all
from tests.cuda.tensor.forced import (
    CAPABILITY,
    ONLY,
    check_layouts,
    layouts,
    numbers,
    only_group_tile,
    product,
)
from tests.models import function, rows
from tvm_disc import Options, relay
from tvm_disc.codegen.cuda import nvrtc
from tvm_disc.schedules.cuda.tensor.template import GROUP_TILES

# (m, n, k): less than a tile, a prime number of rows, an edge in every dim, more than the stages
SIZES = ((1, 8, 8), (67, 64, 64), (136, 200, 328), (130, 264, 72), (3, 8, 0))
ODD = ((1, 1, 1), (5, 3, 7), (130, 66, 33))  # instructions of warps


def device_functions() -> list[str]:
    return "".join(emulator.sources()).split('extern "C" __global__ ')[1:]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("pair", GROUP_TILES, ids=lambda p: f"{p[1].m}x{p[1].n}/{p[1].parts}")
def test_every_layout(gpu: ctypes.CDLL, pair: Any, dtype: str) -> None:
    """Operands by rows and by columns, in a batch, with an epilogue."""
    gpu.emulated_device(CAPABILITY)
    emulator.sources()
    with only_group_tile(pair):
        program = tvm_disc.build(layouts(dtype), target=ONLY)
    code = device_functions()
    n = pair[1].n
    for form in ("01", "00", "11"):
        assert sum(f"group_multiply_{dtype}_{n}_{form}(" in text for text in code) == 1
    check_layouts(gpu, program, dtype, (*SIZES, *ODD))


def test_other_gpus_use_instructions_of_warps(gpu: ctypes.CDLL) -> None:
    with only_group_tile(GROUP_TILES[1]):
        program = tvm_disc.build(product(), target="cuda")
    a, b = numbers("bfloat16", 72, 64), numbers("bfloat16", 64, 64)
    for capability in (80, CAPABILITY):
        gpu.emulated_device(capability)
        check_all(gpu, program, [a, b], [a.astype("f8") @ b.astype("f8").T], 1.0)
    assert "warpgroups: if" in program.explain()
    assert "compute capability 9.0" in program.explain()


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "cuda -arch=sm_89"])
def test_code_for_other_gpus_has_none(target: str) -> None:
    emulator.sources()
    program = tvm_disc.build(product(), target=target)
    assert "warpgroups" not in program.explain()
    assert not any("disc_tensor_group" in text for text in device_functions())


@pytest.mark.parametrize(("dtype", "tf32"), [("float32", True), ("float32", False)])
def test_other_types_have_none(dtype: str, tf32: bool) -> None:
    program = tvm_disc.build(product(dtype), target=ONLY, options=Options(tf32=tf32))
    assert "warpgroups" not in program.explain()


def test_a_graph_launches_with_the_same_memory(gpu: ctypes.CDLL) -> None:
    gpu.emulated_device(CAPABILITY)
    with only_group_tile(GROUP_TILES[2]):
        program = tvm_disc.build(product(), target=ONLY, options=Options(cuda_graphs=2))
    a, b = numbers("bfloat16", 136, 64), numbers("bfloat16", 72, 64)
    for _ in range(3):
        check_all(gpu, program, [a, b], [a.astype("f8") @ b.astype("f8").T], 1.0)


@pytest.mark.skipif(not nvrtc.is_there(), reason="needs NVRTC")
def test_sums_are_in_registers() -> None:
    """No tile uses local memory; the code for other GPUs compiles, too."""
    bias = rows("n", name="b", dtype="bfloat16")
    x, z = rows("m", 768, dtype="bfloat16"), rows("n", 768, name="z", dtype="bfloat16")
    for pair in GROUP_TILES:
        emulator.sources()
        with only_group_tile(pair):
            made = relay.nn.relu(relay.nn.dense(x, z) + bias)
            tvm_disc.build(function(x, z, bias, made), target=ONLY)
        [source] = emulator.sources()
        image = nvrtc.compile_source(source, [CAPABILITY])[0].data
        kernels = [
            re.search(r"(k\d+_\w+)\(", text)[1]  # type: ignore[index]
            for text in source.split('extern "C" __global__ ')[1:]
            if "disc_tensor_group_multiply" in text
        ]
        found = cubin.frames(image)
        assert kernels and all(found[k] == 0 for k in kernels), (pair, found)


MISTAKES = {
    "a fence": ("group_fence", "lambda self: None"),
    "a wait for copies": ("wait", "lambda self, groups: None"),
    "a wait for products": ("group_wait", "lambda self, groups: None"),
    "too little memory": ("room_bytes", "property(lambda self: 50000 if self.group else 0)"),
}
SCRIPT = """
from unittest import mock
from tests.cuda import emulator
from tests.cuda.tensor import forced as own
from tvm_disc.schedules.cuda.tensor.template import GROUP_TILES
from tvm_disc.schedules.cuda.tensor.instructions import Instructions
from tvm_disc.schedules.cuda.tensor.warpgroup import GroupKnobs
import tvm_disc
name, replacement = {mistake!r}
place = GroupKnobs if name == "room_bytes" else Instructions
with emulator.emulated() as gpu, own.only_group_tile(GROUP_TILES[1]):
    gpu.emulated_device(own.CAPABILITY)
    with mock.patch.object(place, name, eval(replacement)):
        program = tvm_disc.build(own.product(), target=own.ONLY)
    a, b = own.numbers("bfloat16", 64, 512), own.numbers("bfloat16", 128, 512)
    wanted = a.astype("f8") @ b.astype("f8").T
    for order in (0, 1, 5):
        gpu.emulated_order(order)
        if not abs(program(a, b).astype("f8") - wanted).max() < 1:
            raise SystemExit(7)
"""


@pytest.mark.parametrize("name", MISTAKES)
def test_the_emulator_finds_mistakes(name: str) -> None:
    script = SCRIPT.format(mistake=MISTAKES[name])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode in (7, -6), done.stderr.decode()[-2000:]
