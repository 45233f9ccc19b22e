"""Vectors that begin on lines: where, and that they cover every position once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm.ir import GlobalVar

from tvm_disc.codegen.host.packed import Arguments, packed
from tvm_disc.codegen.machine_code import compile_tir
from tvm_disc.codegen.target import resolve_target
from tvm_disc.tir.builder import Block, byte_offset, i64, ramp
from tvm_disc.tir.vector_split import Vectors, to_next_line

LANES = 16


def compiled(emit: Any) -> Any:
    module = tvm.IRModule({GlobalVar("f"): packed("f", emit)})
    return compile_tir(module, resolve_target())["f"]


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
def test_the_next_line_or_register(dtype: str, lanes: int) -> None:
    def emit(block: Block, args: Arguments) -> Any:
        buffer = block.declare("x", args.data(0, dtype), dtype)
        return to_next_line(buffer, args.integer(1), lanes)

    f, size = compiled(emit), np.dtype(dtype).itemsize
    step, x = min(64, lanes * size), tvm.runtime.tensor(np.zeros(256, dtype))  # begins a line
    for at in range(130):
        found = f(x, at)
        assert found == -(at * size) % step // size and found < lanes


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_address_between_elements_has_no_next_line(dtype: str) -> None:
    def emit(block: Block, args: Arguments) -> Any:
        moved = block.bind("moved", byte_offset(args.data(0, "int8"), args.integer(1), dtype))
        buffer = block.declare("x", moved, dtype)
        return to_next_line(buffer, i64(3), LANES)

    f, size = compiled(emit), np.dtype(dtype).itemsize
    x = tvm.runtime.tensor(np.zeros(256, np.int8))
    for skip in range(64):
        expected = 0 if skip % size else -(skip + 3 * size) % 64 // size
        assert f(x, skip) == expected


@pytest.mark.parametrize("led", [False, True])
@pytest.mark.parametrize("several", [1, 4])
def test_every_position_once(led: bool, several: int) -> None:
    def emit(block: Block, args: Arguments) -> None:
        counts = block.declare("counts", args.data(0, "int32"), "int32")
        begin, end, lead = (block.bind("given", args.integer(k)) for k in (1, 2, 3))
        vectors = Vectors(block, (begin, end), LANES, several, lead if led else None)
        one = tvm.tirx.const(1, "int32")
        with block.loop("k", vectors.wides) as k:
            at = ramp(vectors.wide(k), LANES * several)
            block.store(counts, at, counts[at] + tvm.tirx.Broadcast(one, LANES * several))
        with block.loop("j", vectors.singles()) as j:
            at, left = vectors.single(j, masked=True)
            with block.loop("lane", tvm.tirx.min(left, i64(LANES))) as lane:
                block.store(counts, at + lane, counts[at + lane] + one)

    f = compiled(emit)
    for begin in (0, 64):
        for size in (0, 1, 5, 15, 16, 17, 63, 64, 65, 79, 80, 200, 1031):
            for lead in (0, 1, 7, 15) if led else (0,):
                counts = tvm.runtime.tensor(np.zeros(1200, np.int32))
                f(counts, begin, begin + size, lead)
                expected = np.zeros(1200, np.int32)
                expected[begin : begin + size] = 1
                np.testing.assert_array_equal(counts.numpy(), expected)
