"""What is known of a program's dims reaches its kernels: rests, index width, likely values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.codegen.machine import machine_of
from tvm_disc.codegen.target import resolve_target
from tvm_disc.compile import prepare
from tvm_disc.options import Options
from tvm_disc.relay_passes.dim_facts import GroupFacts
from tvm_disc.schedules.dispatch.sampling import with_likely
from tvm_disc.shape import Solver
from tvm_disc.support.debug import Trace
from tvm_disc.tuning.shapes import program_points

LANES = machine_of(resolve_target(None), Options()).lanes


def bodies(function: Any, constraints: Sequence[str]) -> str:
    """The TIR of the kernels' bodies."""
    front = prepare(function, None, None, constraints, Options(), Trace(0, None))
    found = [
        str(func)
        for kernel in front.library.kernels()
        for gv, func in kernel.funcs.items()
        if "_body" in gv.name_hint
    ]
    return "\n".join(found)


def relu() -> Any:
    x = relay.var("x", shape=(relay.Any("n"), relay.Any("s")), dtype="float32")
    return relay.Function([x], relay.nn.relu(x))


def rows() -> Any:
    """One row for each n: vectors lie along it."""
    x = relay.var("x", shape=(relay.Any("n"), relay.Any("s")), dtype="float32")
    scaled = relay.multiply(x, relay.const(2.0))
    return relay.Function([x], relay.multiply(scaled, relay.sum(scaled, axis=1, keepdims=True)))


@pytest.mark.parametrize("function", [relu, rows])
def test_a_whole_number_of_vectors_has_no_masked_rest(function: Any) -> None:
    assert "masked" in bodies(function(), [])
    assert "masked" in bodies(function(), [f"s % {LANES // 2} == 0"])
    assert "masked" not in bodies(function(), ["s % 16 == 0"])
    assert "masked" not in bodies(function(), ["s == 48"])


def test_a_whole_number_of_steps_has_no_second_loop() -> None:
    assert "jt" in bodies(relu(), [f"s % {LANES} == 0"])
    assert "jt" not in bodies(relu(), [f"s % {4 * LANES} == 0"])


@pytest.mark.parametrize("function", [relu, rows])
def test_the_numbers_without_rests(function: Any) -> None:
    program = tvm_disc.build(function(), constraints=["s % 16 == 0"])
    plain = tvm_disc.build(function())
    for n, s in ((1, 16), (7, 48), (3, 64), (2, 4112), (5, 0)):
        x = np.random.default_rng(s).standard_normal((n, s)).astype("float32")
        assert np.array_equal(np.asarray(program(x)), np.asarray(plain(x)))
    with pytest.raises(Exception, match="s % 16 == 0"):
        program(np.ones((2, 17), "float32"))


def biased() -> Any:
    """Rows (n, m) of k elements, of which the bias knows m alone: rows are split."""
    x = relay.var("x", shape=(relay.Any("n"), relay.Any("m"), relay.Any("k")), dtype="float32")
    y = relay.var("y", shape=(relay.Any("m"), 1), dtype="float32")
    return relay.Function([x, y], relay.add(x, y))


SMALL = ["n <= 500", "m <= 600"]


def test_divisions_of_small_indices_are_32_bits_wide() -> None:
    assert 'Cast("int64"' not in bodies(biased(), [])
    assert 'Cast("int64"' not in bodies(biased(), SMALL[:1])
    assert 'Cast("int64"' not in bodies(biased(), ["n <= 500", "m <= 5000000"])
    assert 'Cast("int64"' in bodies(biased(), SMALL)


def test_the_numbers_with_32_bits() -> None:
    program = tvm_disc.build(biased(), constraints=SMALL)
    for n, m, k in ((1, 1, 1), (3, 7, 5), (17, 2, 64), (500, 600, 1), (2, 3, 0)):
        x = np.random.default_rng(k).standard_normal((n, m, k)).astype("float32")
        y = np.arange(m, dtype="float32").reshape(m, 1)
        assert np.array_equal(np.asarray(program(x, y)), x + y)
    with pytest.raises(Exception, match="500"):
        program(np.ones((501, 1, 1), "float32"), np.ones((1, 1), "float32"))


def test_what_is_told_of_a_dim() -> None:
    solver = Solver()
    s, t = solver.symbol("s", "input 'x' axis 0"), solver.symbol("t", "input 'x' axis 1")
    solver.assume("s % 24 == 0", "test")
    solver.assume("t <= 64", "test")
    solver.assume("likely(t, [8, 16])", "test")
    solver.assume("t // 4 == s // 6", "test")
    told = ["d1 // 24 * 24 == d1", "d1 // 6 == d0 // 4", "d0 <= 64", "likely(d0, [8, 16])"]
    assert GroupFacts(solver).about([t, s]) == [*told, "d1 % 8 == 0", "d1 <= 96"]
    assert GroupFacts(solver).about([t]) == ["d0 <= 64", "likely(d0, [8, 16])"]


def test_only_equations_are_told_where_data_gives_a_dim() -> None:
    solver = Solver()
    s, t = solver.symbol("s", "input 'x' axis 0"), solver.symbol("t", "input 'x' axis 1")
    found = solver.symbol("found", "nonzero")
    solver.assume("s <= 48", "test")
    solver.assume("s // 3 == t // 2", "test")
    solver.assume("found // 5 == t // 7", "test")
    assert GroupFacts(solver).about([s]) == []
    assert GroupFacts(solver).about([t, s]) == ["d0 // 2 == d1 // 3"]
    assert GroupFacts(solver).about([t, found]) == []


def test_windows_that_are_equal_by_a_check_are_attended_to() -> None:
    """Half of ``b * h`` on one side, ``b`` times half of ``h`` on the other."""
    x = relay.var("x", shape=(relay.Any("b"), relay.Any("h"), 16, 16), dtype="float32")
    q = relay.reshape(x, newshape=(-1, 32, 16))
    scores = relay.nn.batch_matmul(q, q)
    half = relay.strided_slice(x, begin=[0], end=[1 << 40], strides=[2], axes=[1])
    mask = relay.tile(relay.sum(half, axis=[2, 3], keepdims=True), reps=(1, 1, 32, 32))
    masked = relay.reshape(relay.reshape_like(scores, mask) + mask, newshape=(-1, 32, 32))
    result = relay.nn.batch_matmul(relay.nn.softmax(masked), q, transpose_b=False)
    program = tvm_disc.build(relay.Function([x], result))
    assert "template: attention" in program.explain()
    for b, h in ((1, 2), (3, 4), (2, 16)):
        given = np.random.default_rng(h).standard_normal((b, h, 16, 16)).astype("float32")
        rows = given.reshape(-1, 32, 16)  # what is added to a whole row does not matter
        products = rows @ rows.transpose(0, 2, 1)
        weights = np.exp(products - products.max(-1, keepdims=True))
        want = weights / weights.sum(-1, keepdims=True) @ rows
        np.testing.assert_allclose(np.asarray(program(given)), want, rtol=1e-3, atol=1e-4)


def test_likely_values_weigh_more() -> None:
    solver = Solver()
    n, m = solver.symbol("n"), solver.symbol("m")
    solver.likely(n, [128, 256])
    sampled = {n: np.array([1.0, 10.0, 100.0]), m: np.array([2.0, 20.0, 200.0])}
    points, weights = with_likely(sampled, solver)
    assert list(points[n][:3]) == [1, 10, 100] and set(points[n][3:]) == {128, 256}
    assert list(points[m]) == [2, 20, 200, 2, 20, 200]
    assert weights[3:].sum() > weights[:3].sum()
    same, ones = with_likely({m: sampled[m]}, solver)
    assert list(same[m]) == [2, 20, 200] and list(ones) == [1, 1, 1]


def test_likely_values_are_tuned_where_no_shapes_are_given() -> None:
    solver = Solver()
    n = solver.symbol("n", "input 'x' axis 0")
    inputs = [("x", (n, 4), "float32")]
    assert len(program_points(inputs, solver, None, None, 8)) == 8
    solver.assume("likely(n, [128, 256])", "test")
    points = program_points(inputs, solver, None, None, 8)
    assert sorted(p[n] for p in points) == [128, 256]
    given = program_points(inputs, solver, {"n": [3]}, None, 8)
    assert [p[n] for p in given] == [3]


def test_likely_values_reach_the_kernels() -> None:
    front = prepare(relu(), None, None, ["likely(s, [128, 256])"], Options(), Trace(0, None))
    (kernel,) = front.library.kernels()
    assert kernel.group is not None
    assert [str(f.values) for f in kernel.group.facts] == ["(128, 256)"]
