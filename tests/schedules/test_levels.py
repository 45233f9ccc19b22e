"""Shipped constants: which processors take which, and how they are fitted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import tirx

from tvm_disc.codegen.target import resolve_target
from tvm_disc.compile import machine_of
from tvm_disc.options import Options
from tvm_disc.schedules.cost import cost_table
from tvm_disc.schedules.cost_model import CostModel
from tvm_disc.schedules.emit import i64
from tvm_disc.schedules.gemm_tile import Isa
from tvm_disc.schedules.levels import FOLDER, LEVELS, model_for
from tvm_disc.schedules.variant import Plan, variants_of
from tvm_disc.tune.calibrate import OF_THREADS, Sample, calibrate


@pytest.mark.parametrize("cpu", ["x86-64-v4", "cascadelake", "znver4"])
def test_a_build_takes_the_constants_of_its_level(cpu: str) -> None:
    machine = machine_of(resolve_target(f"llvm -mcpu={cpu}"), Options())
    assert machine.model == model_for(Isa(16, 32, True)) != CostModel()
    assert (FOLDER / "x86-64-v4.json").is_file()


def test_a_processor_of_no_level_takes_the_plain_constants() -> None:
    assert model_for(Isa(4, 32, True)) == CostModel()
    assert Isa(4, 32, True) not in LEVELS


def test_every_shipped_constant_is_positive() -> None:
    for isa in LEVELS:
        assert all(v > 0 for v in vars(model_for(isa)).values())


def test_fitting_finds_when_threads_pay() -> None:
    n = tirx.Var("n", "int64")
    machine = machine_of(tvm.target.Target("llvm"), Options(threads=2))
    plan = Plan(i64(n), i64(n) * 8, lambda body: None, family="f")
    variants = variants_of([plan], machine)
    dims = np.geomspace(10, 1e6, 40).round()[:, None]
    points = {n: dims[:, 0]}
    truth = replace(CostModel(), wake_ns=9000.0)
    times = cost_table(variants, points, len(dims), truth)
    sample = Sample([n], variants, dims, times)
    found = calibrate([sample], CostModel())
    assert sample.score(found) < 0.1 * sample.score(CostModel())
    assert found.wake_ns > 4 * CostModel().wake_ns
    assert calibrate([sample], CostModel()) == found
    assert calibrate([sample], CostModel(), OF_THREADS).wake_ns == CostModel().wake_ns
