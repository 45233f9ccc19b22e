"""The memory plan on hand-made regions, and what it gives on real programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import tirx

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.codegen.formula import evaluate, formula, workspace_formula
from tvm_disc.codegen.memory import plan_region
from tvm_disc.codegen.program import Copy, Home, Region, Storage
from tvm_disc.errors import Unsupported
from tvm_disc.shape import Solver


def storage(size: Any, home: Home = Home.WORKSPACE) -> Storage:
    return Storage(home, size, "s")


def chain(sizes: list[Any]) -> tuple[Region, list[Storage]]:
    """Each storage is copied into the next."""
    storages = [storage(s) for s in sizes]
    source = storage(tirx.IntImm("int64", 0), Home.INPUT)
    links = zip([source, *storages], storages, strict=False)
    return Region([Copy(a, b, b.size_bytes) for a, b in links]), storages


def test_a_chain_needs_two_slots() -> None:
    solver = Solver()
    n = solver.symbol("n")
    region, storages = chain([n * 4] * 6)
    plan_region(region, solver)
    assert [s.slot for s in storages] == [0, 1, 0, 1, 0, 1]
    assert len(region.slots) == 2


def test_ordered_sizes_share_the_larger() -> None:
    solver = Solver()
    n = solver.symbol("n")
    region, _ = chain([n * 4, n, n * 8, n * 2])
    plan_region(region, solver)
    assert [formula(s) for s in region.slots] == ["(n * 8)", "(n * 2)"]


def test_unordered_sizes_share_at_run_time() -> None:
    solver = Solver()
    n, m = solver.symbol("n"), solver.symbol("m")
    region, _ = chain([n, m, m * 3])
    plan_region(region, solver)
    assert len(region.slots) == 2
    text = workspace_formula(region)
    for sizes in ({"n": 1, "m": 1000}, {"n": 5000, "m": 1}):
        ideal = max(sizes["n"], 3 * sizes["m"]) + sizes["m"]
        assert ideal <= evaluate(text, sizes) <= ideal + 2 * 64


@pytest.mark.parametrize("dims", [{"n": 0, "m": 3}, {"n": 7, "m": 1}, {"n": 64, "m": 65}])
def test_formula_evaluates_as_the_expression(dims: dict[str, int]) -> None:
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    n_, m_ = dims["n"], dims["m"]
    cases = [
        (tirx.max(n * 4 + m, tirx.IntImm("int64", 9)), max(n_ * 4 + m_, 9)),
        (tirx.floordiv(n + 3, tirx.IntImm("int64", 4)), (n_ + 3) // 4),
        (tirx.Select(tirx.EQ(n, tirx.IntImm("int64", 7)), m, n), m_ if n_ == 7 else n_),
        (tirx.min(n, m) - m, min(n_, m_) - m_),
    ]
    for expr, expected in cases:
        assert evaluate(formula(expr), dims) == expected


def test_formula_refuses_what_is_no_size() -> None:
    with pytest.raises(Unsupported, match="no formula"):
        formula(tirx.exp(tirx.Var("x", "float32")))
    with pytest.raises(ValueError, match="not arithmetic"):
        evaluate("[n]", {"n": 1})


def test_a_chain_of_kernels_keeps_two_tensors() -> None:
    x = rows("?", 8)
    y: Any = x
    for _ in range(10):
        y = relay.nn.softmax(relay.transpose(y, axes=(1, 0)))
    exe = tvm_disc.build(function(x, y), options=tvm_disc.Options(fuse=False))
    assert exe.workspace_bytes({"x": (1000, 8)}) <= 4 * (1000 * 8 * 4 + 64)
    value = np.random.default_rng(0).standard_normal((5, 8)).astype("float32")
    expected = value
    for _ in range(10):
        expected = expected.T
        e = np.exp(expected - expected.max(-1, keepdims=True))
        expected = e / e.sum(-1, keepdims=True)
    np.testing.assert_allclose(exe(value), expected, rtol=1e-4, atol=1e-5)
