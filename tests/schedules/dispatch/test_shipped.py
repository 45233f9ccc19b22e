"""Shipped constants: which processors take which, and how they are fitted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

from tvm_disc.codegen.machine import machine_of
from tvm_disc.codegen.target import host_cpu, resolve_target
from tvm_disc.errors import BadInput
from tvm_disc.options import Options
from tvm_disc.schedules.dispatch.cost import cost_table, operations
from tvm_disc.schedules.dispatch.cost_model import NOT_FITTED, CostModel, Memory
from tvm_disc.schedules.dispatch.sampling import Points, Values
from tvm_disc.schedules.dispatch.shipped import (
    FOLDER,
    LEVELS,
    memory_for,
    model_for,
    read_constants,
    shipped,
)
from tvm_disc.schedules.dispatch.variant import Plan, Variant, variants_of
from tvm_disc.schedules.group import Machine
from tvm_disc.target.isa import Isa
from tvm_disc.target.known import Caches, caches_of_level, known_caches
from tvm_disc.target.processor import Processor
from tvm_disc.tir.builder import i64
from tvm_disc.tuning.calibrate import OF_THREADS, Sample, calibrate

FUTURE = Processor("nobody knows", Isa(8, 16, True), Caches(1 << 15, 3 << 20, 99 << 20), 2)


def machine_for(cpu: str) -> Machine:
    return machine_of(resolve_target(f"llvm -mcpu={cpu}"), Options())


@pytest.mark.parametrize("cpu", ["x86-64-v4", "cascadelake", "icelake-server"])
def test_a_build_takes_the_speeds_of_its_level_and_its_own_caches(cpu: str) -> None:
    model, level = machine_for(cpu).model, shipped("x86-64-v4")["model"]
    own = {"copied_ns": 0.0881} if cpu == "cascadelake" else {}  # its caches are 8-way
    assert {name: getattr(model, name) for name in level} == level | own
    assert "near_bytes" not in level
    caches = known_caches(cpu) or caches_of_level(Isa(16, 32, True))
    if cpu not in ("cascadelake", host_cpu()):
        assert model.near_bytes == caches.l2_bytes / 2


def test_machines_that_were_measured_keep_what_was_measured() -> None:
    """Whatever a table or the system says of their caches."""
    intel, amd = machine_for("cascadelake"), machine_for("znver4")
    assert intel.memory == Memory()
    assert amd.memory == Memory(run_tiles=32, stream_bytes=10 << 20)
    own = {"near_bytes": 509e3, "copied_ns": 0.0881}
    assert intel.model == CostModel(**shipped("x86-64-v4")["model"] | own)
    assert amd.model == CostModel(**shipped("znver4")["model"])
    for name, found in (("cascadelake", intel), ("znver4", amd)):
        strange = replace(FUTURE, name=name, isa=found.isa)
        assert (model_for(strange), memory_for(strange)) == (found.model, found.memory)


def test_a_processor_nobody_has_measured_goes_by_its_own_caches() -> None:
    model, memory = model_for(FUTURE), memory_for(FUTURE)
    assert model.near_bytes == 3 << 19 and memory.far_bytes == 99 << 20
    assert memory.prefetch_bytes == 3 << 20 and memory.stream_bytes < memory.far_bytes / 2
    assert model.op_ns == shipped("x86-64-v3")["model"]["op_ns"]
    assert memory.run_tiles > 0  # there are no registers that fill a line
    assert memory_for(replace(FUTURE, isa=Isa(16, 32, True))).run_tiles == 0


def test_a_processor_of_no_level_takes_the_plain_constants() -> None:
    isa = Isa(4, 32, True)
    plain = replace(FUTURE, isa=isa, caches=caches_of_level(Isa(16, 32, True)))
    assert model_for(plain) == CostModel()
    assert isa not in LEVELS


def test_every_shipped_constant_is_positive() -> None:
    names = [path.stem for path in FOLDER.glob("*.json")]
    assert {"x86-64-v3", "x86-64-v4", "cascadelake", "znver3", "znver4"} <= set(names)
    for name in names:
        model = model_for(replace(FUTURE, name=name, isa=Isa(4, 32, True)))
        assert model != CostModel() and all(v > 0 for v in vars(model).values())
        assert all(v >= 0 for v in shipped(name).get("memory", {}).values())


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


def test_fitting_finds_the_cost_of_a_unit() -> None:
    """Two plans of one kernel, as a transpose has: the fitted cost decides between them."""
    n = tirx.Var("n", "int64")
    machine = machine_of(tvm.target.Target("llvm"), Options(threads=1))
    plans = [
        Plan(i64(n), i64(0), lambda body: None, family=name, units={name: count})
        for name, count in (("far_ns", i64(n)), ("tile_ns", i64(n) + 1000))
    ]
    variants, dims = variants_of(plans, machine), np.geomspace(10, 1e6, 40).round()
    truth = replace(CostModel(), far_ns=0.3, tile_ns=0.2)
    times = cost_table(variants, {n: dims}, len(dims), truth)
    sample = Sample([n], variants, dims[:, None], times)
    found = calibrate([sample], CostModel())
    assert sample.score(found) < 0.2 * sample.score(CostModel())
    assert CostModel().far_ns / CostModel().tile_ns > found.far_ns / found.tile_ns > 1
    assert operations(plans[0], replace(truth, op_ns=0.1)).b.value == 3


def test_fitting_keeps_margins() -> None:
    n = tirx.Var("n", "int64")

    def doubted(points: Points, model: CostModel) -> Values:
        return np.asarray(points[n] * model.tile_doubt * model.op_ns)

    machine = machine_of(tvm.target.Target("llvm"), Options(threads=1))
    plans = [Plan(i64(n), i64(0), lambda body: None, family="doubted", cost=doubted)]
    variants, dims = variants_of(plans, machine), np.geomspace(10, 1e6, 40).round()
    truth = replace(CostModel(), tile_doubt=3.0)
    times = cost_table(variants, {n: dims}, len(dims), truth)
    found = calibrate([Sample([n], variants, dims[:, None], times)], CostModel())
    assert found.op_ns > CostModel().op_ns
    assert all(getattr(found, name) == getattr(CostModel(), name) for name in NOT_FITTED)


def test_the_files_of_a_processor_are_named() -> None:
    assert machine_for("cascadelake").constants == ("x86-64-v4.json", "cascadelake.json")
    assert machine_for("x86-64-v3").constants == ("x86-64-v3.json",)
    assert machine_for("nehalem").constants == ("x86-64-v2.json",) * ("x86-64-v2" in SHIPPED)


SHIPPED = {path.stem for path in FOLDER.glob("*.json")}
GOOD = '{"processor": "future", "measured on": "it", "model": {"op_ns": 1}, "memory": {}}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "future.json: cannot be read as JSON: Expecting property name .*; measure again"),
        ("[]", "expected a JSON object, found"),
        (GOOD.replace("model", "modell"), "expected model, found 'modell'; rename it"),
        (GOOD.replace("op_ns", "op_nss"), "model: expected op_ns or .*, found 'op_nss'; rename"),
        (GOOD.replace("future", "past"), "expected the name 'future' as .*, found 'past'; rename"),
        (GOOD.replace("1", '"1"'), "model.op_ns: expected a number above 0, found '1'; measure"),
        (GOOD.replace("1", "NaN"), "model.op_ns: expected a number above 0, found nan"),
        (GOOD.replace("1", "0"), "model.op_ns: expected a number above 0, found 0"),
        (GOOD.replace("1", "true"), "model.op_ns: expected a number above 0, found True"),
        (GOOD.replace('{"op_ns": 1}', "3"), "model: expected an object, found 3"),
        (
            GOOD.replace('"memory": {}', '"memory": {"run_tiles": 1.5}'),
            "memory.run_tiles: expected an integer of at least 0, found 1.5",
        ),
    ],
)
def test_damaged_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "future.json"
    path.write_text(GOOD)
    assert read_constants(path)["model"] == {"op_ns": 1}
    path.write_text(text)
    with pytest.raises(BadInput, match=message):
        read_constants(path)


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_the_shipped_files_are_valid(name: str) -> None:
    assert set(read_constants(FOLDER / f"{name}.json")) >= {"measured on", "model"}
