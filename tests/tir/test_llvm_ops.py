"""LLVM functions that TIR code calls: accuracy of what is built on them, and where they exist."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

from benchmarks import vecmath as bench
from tests import processor
from tvm_disc.codegen.target import resolve_target
from tvm_disc.schedules.math import functions
from tvm_disc.target.isa import Isa
from tvm_disc.tir import integers, llvm_ops

AVX512 = Isa(lanes_f32=16, registers=32, fma=True)
need_avx512 = processor.needs(*processor.AVX512)


def sample() -> np.ndarray:
    """Every 1009th bit pattern, denormals and the ends of the tables' pieces."""
    bits = np.arange(0, 1 << 32, 1009, dtype=np.uint64).astype(np.uint32)
    ends = (np.arange(33) / 8).astype(np.float32).view(np.uint32)
    near = (ends[:, None].astype(np.int64) + np.arange(-40, 40)).clip(0).astype(np.uint32).ravel()
    x = np.concatenate([bits, near, near | np.uint32(1 << 31), SPECIAL.view(np.uint32)])
    return np.resize(x, -(-x.size // 128) * 128).view(np.float32)


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 88.72284, 88.7229, -103.98], np.float32)


@need_avx512
@pytest.mark.parametrize("lanes", [16, 64])
@pytest.mark.parametrize("name", ["exp", "erf"])
def test_accuracy(name: str, lanes: int) -> None:
    x = sample()
    error = bench.ulp_error(
        bench.run_native(functions.MATH[name], x, lanes), bench.reference(name, x)
    )
    assert error.max() <= functions.ULP_BOUND[name], x[int(np.argmax(error))]


@need_avx512
def test_erf_is_one_beyond_its_table() -> None:
    x = np.linspace(3.875, 100, 1024, dtype=np.float32)
    assert (bench.run_native(functions.erf, x, 64) == 1).all()
    assert (bench.run_native(functions.erf, -x, 64) == -1).all()


@need_avx512
def test_gelu_formula_is_finite() -> None:
    x = sample()
    got = bench.run_native(lambda v: v * functions.erf(v), x, 16)
    finite = np.isfinite(x)
    assert np.isfinite(got[finite]).all()


@need_avx512
@pytest.mark.parametrize(
    "name,instruction", [("exp", "vscalefps"), ("erf", "vpermps"), ("erf", "vreduceps")]
)
def test_becomes_one_instruction(name: str, instruction: str) -> None:
    text = bench.native_module(functions.MATH[name], 64).inspect_source("asm")
    assert instruction in text
    assert "disc." not in text


@need_avx512
def test_a_remainder_is_of_the_nearest_multiple() -> None:
    ties = np.arange(-64, 64, dtype=np.float32) / 8
    edge = np.array([np.inf, -np.inf, np.nan, 1e-40, 3e38, -0.0], np.float32)
    x = np.concatenate([ties, np.nextafter(ties, np.float32(9)), np.resize(edge, 32)])
    got = bench.run_native(lambda v: llvm_ops.remainder(v, 2), x, 16)
    wide = x.astype(np.float64)
    expected = np.where(np.isinf(x), 0.0, wide - np.rint(4 * np.where(np.isinf(x), 0, wide)) / 4)
    np.testing.assert_array_equal(got, expected.astype(np.float32))


@pytest.mark.parametrize(
    "isa,lanes",
    [(None, 16), (Isa(8, 16, True), 16), (AVX512, 1), (AVX512, 8), (AVX512, 144)],
)
def test_absent_elsewhere(isa: Isa | None, lanes: int) -> None:
    if isa is None:
        assert not llvm_ops.has_native(lanes)
        return
    with llvm_ops.tuned_for(isa):
        assert not llvm_ops.has_native(lanes)
    assert not llvm_ops.has_native(lanes)


def test_portable_code_calls_nothing() -> None:
    x = tirx.Var("x", "float32x16")
    assert "disc." not in str(functions.exp(x))
    with llvm_ops.tuned_for(AVX512):
        assert "disc.scale.v16" in str(functions.exp(x))
        assert "disc.lookup.v16" in str(functions.erf(x))


def test_link_adds_only_what_is_called() -> None:
    plain: Any = resolve_target("llvm -mcpu=x86-64-v2")
    name = tvm.ir.GlobalVar("f")
    empty = tirx.PrimFunc([], tirx.Evaluate(tirx.const(0)))
    mod = llvm_ops.link(tvm.IRModule({name: empty}), plain)
    assert mod[name].same_as(empty)
    divides = tirx.PrimFunc([], tirx.Evaluate(integers.floor_mod(*[tirx.const(7, "int32")] * 2)))
    mod = llvm_ops.link(tvm.IRModule({name: divides}), plain)
    assert "@disc.div.floor_mod.int32.v1(" in mod[name].body.value.value
    assert "floor_divide" not in mod[name].body.value.value
