"""The memory plan on hand-made regions, and what it gives on real programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

import tvm_disc
from tests.models import function, rows
from tvm_disc import compile, relay
from tvm_disc.abi.formula import evaluate, rounded
from tvm_disc.codegen import build
from tvm_disc.codegen.plan.formula import formula, under, workspace_formula
from tvm_disc.codegen.plan.memory import lifetimes, plan_region
from tvm_disc.codegen.plan.placement import best_order, overlaps, pack, supports
from tvm_disc.codegen.plan.program import Copy, Home, Region, Slot, Storage
from tvm_disc.errors import Unsupported


def storage(size: Any, home: Home = Home.WORKSPACE) -> Storage:
    return Storage(home, size, "s")


def chain(sizes: list[Any]) -> tuple[Region, list[Storage]]:
    """Each storage is copied into the next."""
    storages = [storage(s) for s in sizes]
    source = storage(tirx.IntImm("int64", 0), Home.INPUT)
    links = zip([source, *storages], storages, strict=False)
    return Region([Copy(a, b, b.size_bytes) for a, b in links]), storages


def workspace(region: Region, **dims: int) -> int:
    return evaluate(workspace_formula(region), dims)


def test_a_chain_needs_two_tensors() -> None:
    n = tirx.Var("n", "int64")
    region, _ = chain([n * 4] * 6)
    plan_region(region)
    for size in (0, 1, 16, 1000):
        assert workspace(region, n=size) == 2 * rounded(4 * size)


@pytest.mark.parametrize(("n", "m"), [(0, 3), (1, 1000), (5000, 1), (64, 65), (700, 701)])
def test_sizes_that_cannot_be_ordered_share_too(n: int, m: int) -> None:
    a, b = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    region, _ = chain([a, b, b * 3, a * 2])
    plan_region(region)
    alive = [rounded(n) + rounded(m), rounded(m) + rounded(3 * m), rounded(3 * m) + rounded(2 * n)]
    assert workspace(region, n=n, m=m) == max(alive)


def test_living_storages_never_share_bytes(rng: np.random.Generator) -> None:
    for _ in range(20):
        lives = [tuple(sorted(rng.integers(0, 12, 2).tolist())) for _ in range(15)]
        clashes = overlaps(lives)
        samples = rng.integers(0, 500, (15, 8))
        order = best_order(samples, clashes)
        below = supports(order, clashes)
        ends: dict[int, int] = {}
        begins: dict[int, int] = {}
        column = samples[:, 0]
        for i in order:
            begins[i] = max((ends[j] for j in below[i]), default=0)
            ends[i] = begins[i] + int(column[i])
        for i, others in enumerate(clashes):
            assert all(ends[j] <= begins[i] or ends[i] <= begins[j] for j in others)
        assert sorted(order) == list(range(15))


SWEEP = [(1, 1), (1, 7), (2, 16), (3, 33), (33, 1), (5, 64), (8, 128), (1, 512), (64, 100)]


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit", "cnn"])
def test_the_plan_is_near_one_that_knows_the_shape(
    name: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regions: list[Region] = []

    def keep(region: Region) -> None:
        regions.append(region)
        plan_region(region)

    monkeypatch.setattr(build, "plan_region", keep)
    monkeypatch.setattr(compile, "compile_program", lambda *_: None)
    mod = tvm.ir.load_json((data / "relax" / f"{name}.json").read_text(encoding="utf-8"))
    exe = tvm_disc.build(mod, options=tvm_disc.Options(load=False))
    lives = lifetimes(regions[0])
    names = sorted({d for _, dims, _ in exe.signature for d in dims if not d.isdigit()})
    for sizes in SWEEP:
        dims = dict(zip(names, (*sizes, sizes[1]), strict=False))
        known = [rounded(evaluate(formula(x.storage.size_bytes), dims)) for x in lives]
        clashes = overlaps([(x.first, x.last) for x in lives])
        ideal, _ = pack(np.array(known), clashes)
        assert workspace(regions[0], **dims) <= 1.1 * ideal, dims


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


def test_a_formula_grows_with_the_plan_and_no_faster() -> None:
    """Every size is made of the one before, twice, and lives beside all of them."""
    n, one = tirx.Var("n", "int64"), tirx.IntImm("int64", 1)
    sizes: list[Any] = [n]
    for _ in range(60):
        sizes.append(tirx.max(sizes[-1] + one, tirx.floordiv(sizes[-1] * 3, one * 2)))
    region, storages = chain(sizes)
    plan_region(region, used_later=storages[:30])
    text = workspace_formula(region)
    assert len(text) < 200 * len(sizes)
    other = under("n > 3", text, "align(n)")
    for dim in (0, 1, 7):
        known = [dim]
        for _ in range(60):
            known.append(max(known[-1] + 1, known[-1] * 3 // 2))
        least = sum(map(rounded, known[:30]))
        assert least <= evaluate(text, {"n": dim}) <= sum(map(rounded, known))
        assert evaluate(other, {"n": dim}) == (
            evaluate(text, {"n": dim}) if dim > 3 else rounded(dim)
        )


def test_steps_of_two_formulas_do_not_collide() -> None:
    """Both formulas name steps alike; a name is part of another, and of a dim."""
    one = "_a = n + 1; _a1 = _a * 2; _a1 + _a"
    other = "_a = n + 5; _a1 = _a * 3; max(_a1, n_a) + _a"
    for n in (0, 3, 4, 90):
        dims = {"n": n, "n_a": 50}
        want = 3 * (n + 1) if n > 3 else max(3 * (n + 5), 50) + n + 5
        assert evaluate(under("n > 3", one, other), dims) == want


def test_as_many_stacks_as_there_are_orders() -> None:
    """Slots that stand on any two of those below: 2^n ways down, each of another height."""
    dims = [tirx.Var(f"d{k}", "int64") for k in range(40)]
    slots = [Slot(d, tuple(j for j in (k - 1, k - 2) if j >= 0)) for k, d in enumerate(dims)]
    text = workspace_formula(Region([], slots=slots))
    ends = [0, 0]
    for k in range(40):
        ends.append(max(ends[-2:]) + rounded(k * 64))
    assert evaluate(text, {f"d{k}": k * 64 for k in range(40)}) == ends[-1]


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


def planned(rows_of_x: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A softmax between two products on four threads, as far as the plan."""
    monkeypatch.setattr(compile, "compile_program", lambda *_: None)
    x = rows(rows_of_x, 64)
    weights = [relay.const(np.ones(shape, "float32")) for shape in ((300, 64), (8, 300))]
    y = relay.nn.dense(relay.nn.softmax(relay.nn.dense(x, weights[0])), weights[1])
    return tvm_disc.build(function(x, y), options=tvm_disc.Options(threads=4, load=False))


def test_scratch_is_for_as_many_threads_as_find_work(monkeypatch: pytest.MonkeyPatch) -> None:
    dynamic = planned("n", monkeypatch)
    sizes = {n: dynamic.workspace_bytes({"x": (n, 64)}) for n in (0, 1, 7, 64, 1000, 5000)}
    for n in (1, 64, 5000):
        known = planned(n, monkeypatch).workspace_bytes({"x": (n, 64)})
        assert sizes[n] <= 1.1 * known, n
    assert sizes[0] <= sizes[1] < sizes[7] < sizes[64] < sizes[1000] == sizes[5000]
    assert 4 * sizes[1] < sizes[1000]


def convolution(dims: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two convolutions, as far as the plan; the second keeps its sums between K blocks."""
    monkeypatch.setattr(compile, "compile_program", lambda *_: None)
    # Known sizes may decide for another layout, which takes other memory.
    without = tuple((name, make) for name, make in compile.PASSES if name != "layout")
    monkeypatch.setattr(compile, "PASSES", without)
    x = rows(dims[0], 24, *dims[1:])
    shapes = ((80, 24, 3, 3), (20, 80, 3, 3))
    weights = [relay.const(np.ones(shape, "float32")) for shape in shapes]
    y = relay.nn.conv2d(x, weights[0], padding=(1, 1), channels=80, kernel_size=(3, 3))
    y = relay.nn.conv2d(relay.nn.relu(y), weights[1], channels=20, kernel_size=(3, 3))
    return tvm_disc.build(function(x, y), options=tvm_disc.Options(threads=2, load=False))


def test_a_convolution_takes_panels_as_wide_as_its_images(monkeypatch: pytest.MonkeyPatch) -> None:
    dynamic = convolution(("b", "h", "w"), monkeypatch)
    for b, h, w in ((1, 3, 3), (1, 4, 4), (3, 5, 3), (1, 7, 9), (4, 6, 6), (2, 23, 23)):
        shape = {"x": (b, 24, h, w)}
        known = convolution((b, h, w), monkeypatch).workspace_bytes(shape)
        assert dynamic.workspace_bytes(shape) <= 1.1 * known, shape
