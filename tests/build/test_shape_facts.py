"""Who profits from what is known of shapes, in whole programs: views, products, guards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.relax import op as R

import tvm_disc
from tests.relay_passes.propagate_helpers import module
from tvm_disc import relay
from tvm_disc.errors import BadInput, GuardFailed
from tvm_disc.relay.ops.references.nn import softmax
from tvm_disc.relay_passes import PropagateShapeConstraints


def added(first: Any, second: Any) -> Any:
    x, y = (relay.var(n, shape=(d, 4), dtype="float32") for n, d in (("x", first), ("y", second)))
    return relay.Function([x, y], relay.add(x, y))


@pytest.mark.parametrize("name", [relay.Any, relay.size_var], ids=["Any", "SizeVar"])
def test_dims_of_one_name_are_one_symbol(name: Any) -> None:
    program = tvm_disc.build(added(name("s"), name("s")))
    for n in (0, 1, 7, 64, 513):
        x = np.arange(4.0 * n, dtype="float32").reshape(n, 4)
        assert np.array_equal(np.asarray(program(x, x)), x + x)
    assert "\nguards: none\n" in program.explain()
    with pytest.raises(BadInput, match="input 'y' axis 0: expected s"):
        program(np.ones((3, 4), "float32"), np.ones((1, 4), "float32"))


def test_dims_of_other_names_may_broadcast() -> None:
    program = tvm_disc.build(added(relay.Any("s"), relay.Any("t")))
    x, y = np.ones((3, 4), "float32"), np.full((1, 4), 2, "float32")
    assert np.array_equal(np.asarray(program(x, y)), x + y)
    with pytest.raises(GuardFailed, match=r"input 'x' axis 0.*input 'y' axis 0"):
        program(x, np.ones((2, 4), "float32"))


# What is the operand itself under the symbols n and m.
IDENTITIES = {
    "slice": lambda s, x: R.strided_slice(x, [0, 1], [0, 0], [s["n"], 2**31 - 1]),
    "slice of more": lambda s, x: R.strided_slice(x, [0], [0], [s["n"] * 2 + 1]),
    "pad": lambda s, x: R.nn.pad(x, [0, 0, 0, 0]),
    "reshape": lambda s, x: R.reshape(x, relax.ShapeExpr([(s["n"] * 8) // 8, s["m"]])),
    "broadcast": lambda s, x: R.broadcast_to(x, relax.ShapeExpr([s["n"], s["m"]])),
    "transpose": lambda s, x: R.permute_dims(x, [0, 1]),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_what_is_the_operand_itself_costs_nothing(name: str) -> None:
    mod = module([["n", "m"]], lambda bb, s, x: R.nn.relu(bb.emit(IDENTITIES[name](s, x))))
    program = tvm_disc.build(mod)
    assert [k["ops"] for k in program._manifest["kernels"]] == [["nn.relu"]]
    for n, m in ((1, 1), (7, 5), (64, 3), (0, 4)):
        x = np.random.default_rng(n).standard_normal((n, m)).astype("float32")
        assert np.array_equal(np.asarray(program(x)), np.maximum(x, 0))


def test_products_of_rows_written_differently_are_merged() -> None:
    """b*s rows and s*b rows are the same rows: one product serves both weights."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((4, 8)).astype("float32") for _ in range(2)]

    def body(bb: Any, s: Any, x: Any) -> Any:
        b, t = s["b"], s["t"]
        rows = [bb.emit(R.reshape(x, relax.ShapeExpr([d, 4]))) for d in (b * t, t * b)]
        first, second = (
            bb.emit(R.matmul(r, relax.const(w))) for r, w in zip(rows, weights, strict=True)
        )
        return R.multiply(first, second)

    program = tvm_disc.build(module([["b", "t", 4]], body))
    assert sum("matmul" in k["ops"] for k in program._manifest["kernels"]) == 1
    for b, t in ((1, 1), (3, 5), (2, 16), (1, 65)):
        x = rng.standard_normal((b, t, 4)).astype("float32")
        rows = x.reshape(-1, 4)
        want = (rows @ weights[0]) * (rows @ weights[1])
        np.testing.assert_allclose(np.asarray(program(x)), want, rtol=2e-5, atol=1e-5)


def test_a_guard_makes_the_next_one_unnecessary() -> None:
    """The product needs k == h; after it the rest needs nothing more."""

    def body(bb: Any, s: Any, x: Any, w: Any) -> Any:
        y = bb.emit(R.matmul(x, w))
        z = bb.emit(R.matmul(x, bb.emit(R.add(w, w))))
        square = bb.emit(R.reshape(w, relax.ShapeExpr([s["k"], 2, 2])))
        return R.add(bb.emit(R.add(y, z)), bb.emit(R.sum(square)))

    mod = module([["n", "k"], ["h", 4]], body)
    propagate = PropagateShapeConstraints(portable=False)
    propagate(mod)
    # Equal input dims became one symbol, which is all that was needed.
    assert propagate.solver.guards == []
    assert propagate.solver.known("k == h") is True
    with pytest.raises(BadInput, match="input 'x1' axis 0: expected k"):
        tvm_disc.build(mod)(np.ones((2, 3), "float32"), np.ones((5, 4), "float32"))


def test_dims_that_a_constraint_makes_equal_are_one_in_composite_operators() -> None:
    """What a softmax of ``y`` yields has the dims of ``x``, although ``y`` was declared apart."""
    x, y = (relay.var(n, shape=(relay.Any(), relay.Any()), dtype="float32") for n in "xy")
    model = relay.Function([x, y], relay.add(relay.nn.softmax(y), x))
    program = tvm_disc.build(model, constraints=("x.0 == y.0", "x.1 == y.1"))
    assert [k["kind"] for k in program._manifest["kernels"]] == ["row"]
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (7, 5), (64, 33), (3, 257), (0, 4)):
        a, b = (rng.standard_normal((n, m)).astype("float32") for _ in "ab")
        np.testing.assert_allclose(program(a, b), softmax(b, axis=1) + a, rtol=1e-5, atol=1e-6)
    with pytest.raises(GuardFailed, match="x_1 == y_1 must hold"):
        program(np.ones((3, 4), "float32"), np.ones((3, 1), "float32"))


def test_a_dim_that_another_operator_makes_known_is_so_everywhere() -> None:
    """The product says that rows have four elements: the row before it is one kernel with that."""
    x = relay.var("x", shape=(relay.Any(), relay.Any()), dtype="float32")
    w = relay.var("w", shape=(relay.Any(), 4), dtype="float32")
    row = relay.add(relay.nn.softmax(x), relay.exp(x))
    program = tvm_disc.build(relay.Function([x, w], relay.nn.dense(row, w)))
    assert [k["kind"] for k in program._manifest["kernels"]] == ["row", "dot"]
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (7, 5), (64, 33), (0, 4)):
        a, b = rng.standard_normal((n, 4)).astype("float32"), np.ones((m, 4), "float32")
        np.testing.assert_allclose(program(a, b), (softmax(a, axis=1) + np.exp(a)) @ b.T, rtol=1e-5)
    with pytest.raises(GuardFailed, match=r"axis 1 \(x_1\) must equal 4"):
        program(np.ones((3, 5), "float32"), np.ones((2, 4), "float32"))


def test_a_chain_over_three_dims_that_may_broadcast_compiles() -> None:
    """Its dims were spelled operator by operator, and lowering them took minutes."""
    x, y, z = (relay.var(n, shape=(relay.Any(),), dtype="float32") for n in "xyz")
    low = relay.minimum(z, x)
    kept = relay.where(relay.greater_equal(x, y), x, y)
    chosen = relay.where(relay.equal(low, kept), low, kept)
    model = relay.Function([x, y, z], relay.divide(low, relay.exp(chosen)))
    program = tvm_disc.build(model)
    assert len(program.explain()) < 12000
    rng = np.random.default_rng(0)
    for sizes in ((5, 5, 5), (1, 5, 5), (5, 1, 5), (7, 7, 1), (1, 1, 4), (1, 1, 1), (0, 1, 0)):
        a, b, c = (rng.standard_normal(n).astype("float32") for n in sizes)
        wanted = np.minimum(c, a) / np.exp(
            np.where(np.minimum(c, a) == np.maximum(a, b), np.minimum(c, a), np.maximum(a, b))
        )
        np.testing.assert_allclose(program(a, b, c), wanted, rtol=1e-5)
    with pytest.raises(GuardFailed, match=r"input 'x' axis 0.*input 'y' axis 0"):
        program(np.ones(3, "float32"), np.ones(2, "float32"), np.ones(3, "float32"))


def test_a_function_carries_facts_about_its_inputs() -> None:
    x = relay.var("x", shape=(relay.Any("n"), 4), dtype="float32")
    function = relay.Function([x], relay.nn.relu(x), attrs={"constraints": ("n <= 8",)})
    program = tvm_disc.build(function)
    assert program(np.ones((8, 4), "float32")).shape == (8, 4)
    with pytest.raises(GuardFailed, match="n <= 8"):
        program(np.ones((9, 4), "float32"))
