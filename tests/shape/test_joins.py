"""Broadcasts of many unrelated dims: a symbol for each joined dim, work linear in their number."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

import tvm_disc
from tvm_disc import relay
from tvm_disc.codegen.plan.kernels import substitute
from tvm_disc.errors import GuardFailed
from tvm_disc.options import Options
from tvm_disc.shape import Solver
from tvm_disc.shape.products import LONG


def joined(count: int) -> tuple[Solver, list[Any], list[Any]]:
    """Return a solver, dims, and the broadcast of the first two, three, ... of them."""
    solver = Solver()
    dims = [solver.symbol(f"d{k}", f"input 'x{k}' axis 0") for k in range(count)]
    found = [dims[0]]
    for dim in dims[1:]:
        found.append(solver.broadcast_dim(found[-1], dim, "add"))
    return solver, dims, found[1:]


def value(solver: Solver, dim: Any, sizes: dict[Any, int]) -> int:
    """Return the value of a dim, with definitions expanded."""
    names = dict(sizes)
    for symbol, definition in solver.definitions.items():
        names[symbol] = number(definition, names)
    return number(dim, names)


def number(expr: Any, names: dict[Any, int]) -> int:
    literals = {v: tirx.IntImm("int64", n) for v, n in names.items()}
    return int(tvm.sym.Analyzer().simplify(substitute(expr, literals)))


def program(count: int, width: int = 4) -> Any:
    inputs = [relay.var(f"x{k}", shape=(relay.Any(), width)) for k in range(count)]
    total = inputs[0]
    for x in inputs[1:]:
        total = relay.add(total, x)
    return relay.Function(inputs, total)


def test_a_long_join_has_the_size_of_the_broadcast() -> None:
    """All sizes of 0 to 3 for which the guards hold, exhaustively."""
    count = LONG + 2
    solver, dims, found = joined(count)
    assert all(isinstance(j, tirx.Var) == (k + 2 > LONG) for k, j in enumerate(found))
    checked = 0
    for sizes in product(range(4), repeat=count):
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            continue
        checked += 1
        want = wide.pop() if wide else 1
        assert value(solver, found[-1], dict(zip(dims, sizes, strict=True))) == want
    assert checked == 1 + 3 * (2**count - 1)


def test_the_same_dims_in_any_order_are_one_symbol() -> None:
    solver, dims, found = joined(LONG + 2)
    other = solver.broadcast_dim(found[-3], dims[-1], "mul")
    again = solver.broadcast_dim(other, dims[-2], "mul")
    assert again.same_as(found[-1])
    assert solver.known_eq(again, found[-1]) is True


def test_a_join_keeps_the_range_of_its_dims() -> None:
    solver = Solver()
    dims = [solver.symbol(f"d{k}", f"input 'x{k}' axis 0") for k in range(LONG + 2)]
    for k, dim in enumerate(dims):
        solver.assume_range(dim, 1, 8 + k, "user")
    out = dims[0]
    for dim in dims[1:]:
        out = solver.broadcast_dim(out, dim, "add")
    assert solver.range_of(out) == (1, 8 + LONG + 1)
    assert solver.known_le(out, 8 + LONG) is None


def test_work_is_linear_in_the_number_of_dims() -> None:
    """In units of the budget, over all queries of a walk."""

    def units(count: int, monkeypatch: pytest.MonkeyPatch) -> int:
        spent = 0
        leave = tvm_disc.shape.budget.Budget.__exit__

        def counted(self: Any, *error: Any) -> None:
            nonlocal spent
            if self.outermost:
                spent += self.limit - self.left
            leave(self, *error)

        monkeypatch.setattr(tvm_disc.shape.budget.Budget, "__exit__", counted)
        joined(count)
        monkeypatch.undo()
        return spent

    with pytest.MonkeyPatch.context() as patch:
        ten, forty = units(10, patch), units(40, patch)
    assert forty <= 5 * ten


def test_programs_over_many_shapes() -> None:
    count = LONG + 4
    exe = tvm_disc.build(program(count))
    rng = np.random.default_rng(0)
    cases = [[n] * count for n in (1, 5, 0, 33)]
    cases += [[7 if rng.random() < 0.4 else 1 for _ in range(count)] for _ in range(8)]
    for sizes in cases:
        xs = [rng.standard_normal((n, 4)).astype("float32") for n in sizes]
        want = xs[0]
        for x in xs[1:]:
            want = want + x
        np.testing.assert_array_equal(exe(*xs), want)
        shapes = {f"x{k}": x.shape for k, x in enumerate(xs)}
        assert exe.workspace_bytes(shapes) >= 0


def test_kernels_of_long_joins_are_shared() -> None:
    """Every add beyond the first joins has the same dims, whatever their history."""

    def kernels(count: int) -> int:
        return len(tvm_disc.build(program(count)).kernels)

    assert kernels(LONG + 12) == kernels(LONG + 4) == LONG + 1


def test_the_workspace_is_described_once_for_all_premises() -> None:
    """The special version has a premise for each pair of inputs."""
    few, many = (tvm_disc.build(program(count)) for count in (8, 24))
    lengths = [len(exe._manifest["workspace_bytes"]) for exe in (few, many)]
    assert lengths[1] <= 5 * lengths[0] <= 5 * 8_000
    alike = {f"x{k}": (5, 4) for k in range(8)}
    general = tvm_disc.build(program(8), options=Options(versions=False))
    for shapes in ({**alike, "x7": (1, 4)}, {**alike, "x0": (1, 4), "x3": (1, 4)}):
        assert few.workspace_bytes(shapes) == general.workspace_bytes(shapes) > 0
    assert few.workspace_bytes(alike) < general.workspace_bytes(alike)


def test_a_join_inside_of_a_branch() -> None:
    inputs = [relay.var(f"x{k}", shape=(relay.Any(),)) for k in range(LONG + 3)]
    flag = relay.var("flag", shape=(), dtype="bool")
    total = inputs[0]
    for x in inputs[1:]:
        total = relay.add(total, x)
    both = relay.If(flag, relay.sum(relay.exp(total)), relay.sum(relay.negative(total)))
    exe = tvm_disc.build(relay.Function([flag, *inputs], both))
    xs = [np.full(n, 0.1, "float32") for n in (1, 6, 1, 6, 6, 1, 6)[: len(inputs)]]
    total = sum(xs[1:], xs[0])
    np.testing.assert_allclose(exe(np.array(True), *xs), np.exp(total).sum(), 1e-5)
    np.testing.assert_allclose(exe(np.array(False), *xs), -total.sum(), 1e-5)


def test_dims_that_cannot_be_joined_are_refused_by_name() -> None:
    count = LONG + 3
    exe = tvm_disc.build(program(count))
    xs = [np.zeros((5, 4), "float32") for _ in range(count - 1)]
    message = (
        rf"the broadcast of input 'x0' axis 0 \(\w+\) and {count - 2} other dims \(\w+\) must "
        rf"equal input 'x{count - 1}' axis 0 \(\w+\), or one of them must be 1"
    )
    with pytest.raises(GuardFailed, match=message):
        exe(*xs, np.zeros((6, 4), "float32"))


def test_a_later_fact_cannot_contradict_a_join() -> None:
    solver, _, found = joined(LONG + 1)
    with pytest.raises(tvm_disc.errors.ShapeConflict, match="at least 0"):
        solver.assume(found[-1] + 1 <= 0, "user")
