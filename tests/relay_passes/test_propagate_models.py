"""`PropagateShapeConstraints` on models exported from PyTorch: symbols, guards, numbers, time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_disc
from benchmarks.encoder import encoder
from tests.relay_passes.propagate_helpers import (
    cases,
    load,
    lost,
    machine,
    operators,
    symbols_of,
)
from tvm_disc.relay_passes import PropagateShapeConstraints

# model: its symbols, and the ranges of them that remain to be checked
MODELS: dict[str, tuple[set[str], set[str]]] = {
    "bert": ({"b", "s"}, {"s <= T.int64(64)"}),
    "bert_torch": (
        {"s23", "s27"},
        {"T.int64(1) <= s23", "T.int64(1) <= s27", "s27 <= T.int64(64)"},
    ),
    "cnn": ({"b", "h", "w"}, set()),
    "crnn": ({"b", "w"}, set()),
    "gpt2": ({"b", "s"}, {"s <= T.int64(64)"}),
    "t5": ({"b", "s"}, set()),
    "vit": ({"b"}, set()),
    "vit_hw": ({"b", "h", "w"}, set()),
}
CLOSE = {"rtol": 2e-5, "atol": 2e-5}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("portable", [True, False])
def test_symbols_and_guards(name: str, portable: bool) -> None:
    symbols, ranges = MODELS[name]
    propagate = PropagateShapeConstraints(portable=portable)
    mod = propagate(load(name))
    relax.analysis.well_formed(mod)
    assert lost(mod) == []
    assert symbols_of(mod) == symbols
    inputs = {str(v.name) for v, place in propagate.solver.symbols() if place.startswith("input")}
    assert inputs == symbols
    assert {str(g.cond) for g in propagate.solver.guards} == ranges
    arithmetic = {"shape_of", "shape_to_tensor", "tensor_to_shape", "gather_nd", "index_tensor"}
    # T5 gathers its position bias by computed buckets, CRNN's loop counts to a dim; everything
    # else only computed shapes, or gathered its own mask.
    allowed = {"t5": {"gather_nd"}, "crnn": {"shape_to_tensor"}}.get(name, set())
    assert arithmetic & set(operators(mod)) <= allowed


@pytest.mark.parametrize("name", MODELS)
def test_numbers_of_the_compiled_model(name: str) -> None:
    with tvm_disc.compile.compile_counter() as count:
        program = tvm_disc.build(load(name))
    for inputs, expected in cases(name):
        got = program(*inputs)
        np.testing.assert_allclose(np.asarray(got), expected, **CLOSE)
    assert count == [1]


def test_tvms_own_pipeline_compiles_the_bert_it_cannot_compile() -> None:
    mod = load("bert_torch")
    target = tvm.target.Target("llvm")
    with pytest.raises((tvm.error.InternalError, AssertionError, TypeError, ValueError)):
        relax.build(mod, target)
    pipeline = tvm.transform.Sequential(
        [PropagateShapeConstraints(), relax.get_default_pipeline(target)]
    )
    built = relax.build(mod, target, relax_pipeline=pipeline)
    vm = relax.VirtualMachine(built, tvm.cpu())
    for inputs, expected in cases("bert_torch"):
        got = vm["main"](*(tvm.runtime.tensor(x) for x in inputs))
        np.testing.assert_allclose(_array(got), expected, **CLOSE)


def _array(value: Any) -> np.ndarray:
    return np.asarray((value if hasattr(value, "numpy") else value[0]).numpy())


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_onnx_models_run_in_tvms_own_machine(name: str) -> None:
    call = machine(PropagateShapeConstraints()(load(name)))
    for inputs, expected in cases(name):
        np.testing.assert_allclose(call(*inputs), expected, **CLOSE)


@pytest.mark.parametrize("name", ["bert", "bert_torch", "gpt2"])
def test_a_text_longer_than_the_position_table_is_refused(name: str) -> None:
    program = tvm_disc.build(load(name))
    too_long = [np.zeros((1, 65), "int64"), np.ones((1, 65), "int64")]
    with pytest.raises(Exception, match="64"):
        program(*too_long)


def test_inputs_that_disagree_are_refused() -> None:
    program = tvm_disc.build(load("t5"))
    with pytest.raises(Exception, match="input 'mask' axis 1"):
        program(np.zeros((1, 3), "int64"), np.ones((1, 4), "int64"))


def test_user_constraints_reach_the_model() -> None:
    propagate = PropagateShapeConstraints(["s == 16", "ids.0 == 2"], portable=False)
    assert symbols_of(propagate(load("t5"))) == set()
    with pytest.raises(tvm_disc.errors.ShapeConflict, match="65"):
        PropagateShapeConstraints(["s == 65"])(load("bert"))


def test_work_is_linear() -> None:
    """Proof steps of 48 layers are at most 4.6 times those of 12."""

    def steps(layers: int) -> int:
        propagate = PropagateShapeConstraints(portable=False)
        propagate(encoder(layers))
        return int(propagate.solver.steps)

    assert steps(48) <= 4.6 * steps(12)
