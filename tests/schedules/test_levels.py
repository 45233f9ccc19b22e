"""Shipped constants: which processors take which, and how they are fitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

from tvm_disc.codegen.target import resolve_target
from tvm_disc.compile import machine_of
from tvm_disc.options import Options
from tvm_disc.schedules.cost import cost_table
from tvm_disc.schedules.cost_model import CostModel, Memory
from tvm_disc.schedules.emit import i64
from tvm_disc.schedules.gemm_tile import Isa
from tvm_disc.schedules.levels import FOLDER, LEVELS, memory_for, model_for
from tvm_disc.schedules.variant import Plan, Variant, variants_of
from tvm_disc.tune.calibrate import OF_THREADS, Sample, calibrate


@pytest.mark.parametrize("cpu", ["x86-64-v4", "cascadelake", "icelake-server"])
def test_a_build_takes_the_constants_of_its_level(cpu: str) -> None:
    machine = machine_of(resolve_target(f"llvm -mcpu={cpu}"), Options())
    assert machine.model == model_for(Isa(16, 32, True)) != CostModel()
    assert (FOLDER / "x86-64-v4.json").is_file()


def test_a_processor_that_was_measured_has_constants_of_its_own() -> None:
    machine = machine_of(resolve_target("llvm -mcpu=znver4"), Options())
    assert machine.model == model_for(machine.isa, "znver4") != model_for(machine.isa)
    assert machine.isa == Isa(16, 32, True)
    assert model_for(machine.isa, "znver9") == model_for(machine.isa)


def test_a_processor_of_no_level_takes_the_plain_constants() -> None:
    assert model_for(Isa(4, 32, True)) == CostModel()
    assert Isa(4, 32, True) not in LEVELS


def test_memory_is_walked_as_the_processor_or_its_level_wants() -> None:
    """One that ships nothing of it takes the default, not another processor's."""
    own = machine_of(resolve_target("llvm -mcpu=znver4"), Options()).memory
    level = machine_of(resolve_target("llvm -mcpu=haswell"), Options()).memory
    assert own == memory_for(Isa(16, 32, True), "znver4") and own.turn_tiles > 0
    assert level == memory_for(Isa(8, 16, True)) and level.turn_tiles > 0
    assert machine_of(resolve_target("llvm -mcpu=cascadelake"), Options()).memory == Memory()
    assert memory_for(Isa(4, 32, True)) == Memory()


def test_every_shipped_constant_is_positive() -> None:
    shipped = [path.stem for path in FOLDER.glob("*.json")]
    assert {"x86-64-v3", "x86-64-v4", "znver4"} <= set(shipped)
    for name in shipped:
        model = model_for(Isa(4, 32, True), name)
        assert model != CostModel() and all(v > 0 for v in vars(model).values())


def loops() -> tuple[Any, list[Variant], np.ndarray]:
    """A dim, a loop over it by one and by two threads, and values of the dim."""
    n = tirx.Var("n", "int64")
    machine = machine_of(tvm.target.Target("llvm"), Options(threads=2))
    plan = Plan(i64(n), i64(n) * 8, lambda body: None, family="f")
    return n, variants_of([plan], machine), np.geomspace(10, 1e7, 40).round()


def test_threads_must_gain_more_than_waking_them_costs() -> None:
    n, variants, dims = loops()
    model = replace(CostModel(), wake_ns=50000.0, parallel=1.0)
    serial, parallel = cost_table(variants, {n: dims}, len(dims), model).T
    half = cost_table(variants[:1], {n: np.ceil(dims / 2)}, len(dims), model)[:, 0]
    np.testing.assert_allclose(parallel, half + 50000)
    chosen = dims[parallel < serial]
    assert len(chosen) and serial[dims < chosen[0]].max() < 2 * 50000 + 1000


def test_fitting_finds_when_threads_pay() -> None:
    n, variants, dims = loops()
    truth = replace(CostModel(), wake_ns=9000.0)
    times = cost_table(variants, {n: dims}, len(dims), truth)
    sample = Sample([n], variants, dims[:, None], times)
    found = calibrate([sample], CostModel())
    assert sample.score(found) < 0.1 * sample.score(CostModel())
    assert found.wake_ns > 4 * CostModel().wake_ns
    assert calibrate([sample], CostModel()) == found
    assert calibrate([sample], CostModel(), OF_THREADS).wake_ns == CostModel().wake_ns
