"""``Executable.verify``: equal results, the first wrong kernel, and what cannot be compared."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.codegen import verify as verifying
from tvm_disc.errors import BadInput, GuardFailed, Unsupported, WhyNot
from tvm_disc.frontends.original import original
from tvm_disc.runtime.observed.comparison import Comparison, Verified, difference
from tvm_disc.schedules.kernel import Plan
from tvm_disc.tir.index import product

WEIGHT = np.random.default_rng(0).standard_normal((8, 16)).astype("float32")
SIZES = (0, 1, 7, 64, 331)


def chain() -> Any:
    """A layer, a cumulative sum that no kernel joins, and a hyperbolic tangent."""
    x = rows("n", 16)
    h = relay.nn.relu(relay.nn.dense(x, relay.const(WEIGHT)))
    return function(x, relay.tanh(relay.cumsum(h, axis=0)))


def off_by(amount: float, wanted: str) -> Callable[..., Plan | WhyNot]:
    """A kernel template whose results are too large by ``amount`` if the group has ``wanted``."""

    def template(group: Any, solver: Any, machine: Any) -> Plan | WhyNot:
        shape = tuple(group.outputs[0].shape)
        if f"relax.{wanted}" not in [node.op for node in group.nodes]:
            return WhyNot("off by", f"no {wanted}")

        def emit(body: Any) -> None:
            with body.low.loop("k", body.hi - body.lo, begin=body.lo) as k:
                index = body.low.space.split(k, shape)
                for node, buffer in zip(group.outputs, body.outputs, strict=True):
                    value = body.low.at(node, index) + np.float32(amount)
                    body.low.store(buffer, k, value, node.dtype)

        return Plan(tasks=product(shape), work=product(shape), emit=emit)

    return template


def wrong(amount: float) -> tuple[Any, Any]:
    """A program with a wrong kernel, and its model."""
    options = tvm_disc.Options(templates=[("loop", off_by(amount, "tanh"))])
    model = chain()
    return tvm_disc.build(model, options=options), model


def test_equal_results_on_every_shape(rng: np.random.Generator) -> None:
    model = chain()
    exe = tvm_disc.build(model)
    for n in SIZES:
        found = exe.verify(rng.standard_normal((n, 16)).astype("float32"))
        assert found and found.kernel is None and found.notes == ()
        assert [c.reference for c in found.comparisons] == ["one kernel per operator"]
        assert str(found).startswith("one kernel per operator: equal, largest difference ")


def test_the_first_wrong_kernel_is_named(rng: np.random.Generator) -> None:
    exe, model = wrong(0.25)
    for n in SIZES[1:]:
        found = exe.verify(rng.standard_normal((n, 16)).astype("float32"))
        assert not found and found.kernel is not None
        assert found.kernel.operators == ("tanh",) and found.kernel.kernel in exe.kernels
        assert exe.launches[found.kernel.call] == found.kernel.kernel
        assert "of tanh: one kernel per operator: DIFFERENT, largest difference" in str(found)
    assert exe.verify(np.zeros((0, 16), "float32"))
    del model


def test_a_tolerance_accepts_it(rng: np.random.Generator) -> None:
    exe, model = wrong(1e-5)
    x = rng.standard_normal((7, 16)).astype("float32")
    assert exe.verify(x)
    assert not exe.verify(x, tolerance=0)
    del model


def test_later_kernels_are_not_blamed(rng: np.random.Generator) -> None:
    """The first kernel is wrong, and thereby the inputs of all others."""
    x = rows("n", 16)
    model = function(x, relay.exp(relay.cumsum(relay.tanh(x), axis=0)))
    options = tvm_disc.Options(templates=[("loop", off_by(0.5, "tanh"))])
    exe = tvm_disc.build(model, options=options)
    found = exe.verify(rng.standard_normal((5, 16)).astype("float32"))
    assert found.kernel is not None and found.kernel.call == 0
    assert found.kernel.operators == ("tanh",)


def test_kernels_of_joined_dims_and_without_operands(rng: np.random.Generator) -> None:
    """A matmul over b * s rows, and a range of s elements, are compared, too."""
    x = relay.var("x", shape=(relay.Any("b"), relay.Any("s"), 16), dtype="float32")
    h = relay.nn.dense(relay.reshape(x, (-1, 16)), relay.const(WEIGHT))
    size = relay.take(relay.shape_of(x), relay.const(1))
    steps = relay.arange(relay.cast(size, "int64"), dtype="int64")
    model = function(x, relay.Tuple([relay.tanh(relay.cumsum(h, axis=0)), relay.cumsum(steps)]))
    options = tvm_disc.Options(templates=[("loop", off_by(0.25, "tanh"))])
    exe = tvm_disc.build(model, options=options)
    for b, s in ((1, 1), (2, 7), (3, 64)):
        found = exe.verify(rng.standard_normal((b, s, 16)).astype("float32"))
        assert found.kernel is not None and found.kernel.operators[-1] == "tanh"
        assert found.notes == ()


def test_inputs_stay_as_they_are(rng: np.random.Generator) -> None:
    model = chain()
    x = rng.standard_normal((5, 32)).astype("float32")[:, ::2]
    before = x.copy()
    assert tvm_disc.build(model).verify(x=x)
    np.testing.assert_array_equal(x, before)


def test_results_that_are_tuples_and_sizes_from_data(rng: np.random.Generator) -> None:
    x = rows("n", 4)
    positions = relay.argwhere(relay.greater(x, relay.const(0.0, "float32")))
    model = function(x, relay.Tuple([positions, relay.split(x, 2, axis=1)[1]]))
    exe = tvm_disc.build(model)
    for n in SIZES:
        assert exe.verify(rng.standard_normal((n, 4)).astype("float32"))


def test_parameters_that_are_constants(rng: np.random.Generator) -> None:
    x, w = rows("n", 16), relay.var("w", shape=(8, 16), dtype="float32")
    model, params = function(x, w, relay.nn.dense(x, w)), {"w": WEIGHT.copy()}
    exe = tvm_disc.build(model, params=params)
    x_value = rng.standard_normal((7, 16)).astype("float32")
    assert exe.verify(x_value)
    del params
    gc.collect()
    with pytest.raises(BadInput, match="verify: the arrays of params no longer exist"):
        exe.verify(x_value)


# --- refusals --------------------------------------------------------------------------------


def test_a_model_that_is_gone(rng: np.random.Generator) -> None:
    exe = tvm_disc.build(chain())
    gc.collect()
    x = rng.standard_normal((7, 16)).astype("float32")
    with pytest.raises(BadInput, match=r"verify: its model no longer exists .* pass the model as"):
        exe.verify(x)
    assert exe.verify(x, source=chain())


def test_a_loaded_program(tmp_path: Any) -> None:
    exe = tvm_disc.build(chain())
    exe.save(tmp_path / "chain.so")
    with pytest.raises(Unsupported, match="verify: a loaded program has no model"):
        tvm_disc.load(tmp_path / "chain.so").verify(np.zeros((1, 16), "float32"))


def test_data_types() -> None:
    text = """
    #[version = "0.0.5"]
    type Box { Empty, Full(Tensor[(2), float32]) }
    def @main(%x: Tensor[(2), float32]) -> Box { Full(%x) }
    """
    with pytest.raises(
        Unsupported, match="programs that take or return data types are not supported"
    ):
        tvm_disc.build(text).verify(np.zeros(2, "float32"))


def test_a_ragged_program() -> None:
    x = relay.var("x", shape=(relay.Any(), relay.Any(), 4), dtype="float32")
    model = function(x, relay.tanh(x))
    exe = tvm_disc.build(model, ragged={"x": 1})
    with pytest.raises(Unsupported, match="verify: a ragged program has no version with one"):
        exe.verify(x=[np.ones((n, 4), "float32") for n in (1, 3)])


def test_nothing_that_was_compared_is_not_true() -> None:
    assert not Verified(())
    assert not Verified((Comparison("a", why="it raised"),))
    assert Verified((Comparison("a", why="it raised"), Comparison("b", 0.0)))


@pytest.mark.parametrize("tolerance", [-1, "x", None, True, float("nan")])
def test_a_tolerance_is_a_number(tolerance: Any) -> None:
    model = chain()
    with pytest.raises(BadInput, match="tolerance: expected a number, at least 0, found"):
        tvm_disc.build(model).verify(np.zeros((1, 16), "float32"), tolerance=tolerance)


def test_inputs_that_a_call_refuses() -> None:
    model = chain()
    exe = tvm_disc.build(model)
    with pytest.raises(BadInput, match="expected 1 input"):
        exe.verify()
    with pytest.raises((BadInput, GuardFailed), match="axis 1"):
        exe.verify(np.zeros((3, 5), "float32"))


# --- differences -----------------------------------------------------------------------------

A = np.array([1.0, -2.0, 4.0], "float32")
DIFFERENCES = [
    (A, A, 0.0),
    (A, A * 2, 0.5),
    (A * 0, A * 0, 0.0),
    (A, A * 0, np.inf),
    (A[:2], A, np.inf),
    (A.astype("float16"), A, np.inf),
    (np.float32([np.nan, 1]), np.float32([np.nan, 1]), 0.0),
    (np.float32([1, np.nan]), np.float32([np.nan, 1]), np.inf),
    (np.float32([1, np.nan]), np.float32([1, 1]), np.inf),
    (np.float32([np.inf, 1]), np.float32([-np.inf, 1]), np.inf),
    (np.int32([1, 2]), np.int32([1, 2]), 0.0),
    (np.int32([1, 2]), np.int32([1, 3]), np.inf),
    (A[:0], A[:0], 0.0),
]


@pytest.mark.parametrize(("found", "expected", "error"), DIFFERENCES, ids=range(len(DIFFERENCES)))
def test_differences(found: Any, expected: Any, error: float) -> None:
    assert difference(found, expected) == error


def test_a_difference_that_only_the_whole_program_has(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no kernel differs, the notes name the remaining causes."""
    model = chain()
    exe = tvm_disc.build(model)
    whole = verifying._Again.results
    monkeypatch.setattr(
        verifying._Again, "results", lambda self, inputs: [a + 1 for a in whole(self, inputs)]
    )
    found = exe.verify(rng.standard_normal((7, 16)).astype("float32"))
    assert not found and found.kernel is None
    assert found.notes[-1].startswith("No kernel of the main function differs from its operators.")


def test_relay_has_no_other_framework() -> None:
    assert original(chain()) is None


def test_options_of_the_build_are_kept(rng: np.random.Generator) -> None:
    model = chain()
    exe = tvm_disc.build(model, options=tvm_disc.Options(weights="int8", threads=1))
    assert exe.verify(rng.standard_normal((7, 16)).astype("float32"))
    assert replace(tvm_disc.Options(weights="int8"), fuse=False).weights == "int8"
