"""Groups computed in stages, and products by a library: what they compute, when they are used."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import Options, relay
from tvm_disc.compile import prepare
from tvm_disc.debug import Trace
from tvm_disc.schedules import vendor
from tvm_disc.schedules.group import Group
from tvm_disc.schedules.kernel import Kernel
from tvm_disc.schedules.select import variant_space
from tvm_disc.schedules.variant import Variant, feasible
from tvm_disc.schedules.vendor import calls_vendor, plan_vendor
from tvm_disc.shape import Solver
from tvm_disc.tune.entry import Bench, build_bench
from tvm_disc.tune.measure import Effort, local_session
from tvm_disc.tune.tune import tasks_of

QUICK = Effort(rounds=1, round_ns=1e3, most_rounds=1)


def var(name: str, *dims: Any) -> Any:
    return relay.var(name, shape=[relay.Any(d) if isinstance(d, str) else d for d in dims])


def attention() -> Any:
    q, k, v = (var(n, "b", "s", 24) for n in "qkv")
    scores = relay.nn.batch_matmul(q, k, transpose_b=True) * relay.const(np.float32(0.3))
    weights = relay.nn.softmax(scores)
    return relay.Function([q, k, v], relay.nn.batch_matmul(weights, v, transpose_b=False))


def softmax() -> Any:
    x = var("x", "m", "n")
    return relay.Function([x], relay.nn.softmax(x))


def matmul(relu: bool = False, dtype: str = "float32") -> Any:
    x = relay.var("x", shape=(relay.Any("m"), relay.Any("k")), dtype=dtype)
    y = relay.var("y", shape=(relay.Any("k"), relay.Any("n")), dtype=dtype)
    result = relay.nn.matmul(x, y)
    return relay.Function([x, y], relay.nn.relu(result) if relu else result)


def bench_of(source: Any) -> Bench:
    front = prepare(source, None, None, (), Options(threads=2), Trace(0, None))
    [task] = tasks_of(front, (), vendor.expose())
    [bench] = build_bench([(task.group, task.variants)], Solver(), front.machine, front.target)
    return bench


def results(bench: Bench, dims: tuple[int, ...]) -> dict[str, np.ndarray]:
    """What every variant leaves, by its text."""
    points = {s: np.float64(d) for s, d in zip(bench.group.symbols(), dims, strict=True)}
    tensors = local_session(bench).arguments(points)
    found = {}
    for k, name in enumerate(bench.names):
        args = tensors(k)
        out = args[len(bench.group.params)]
        out.copyfrom(np.full(out.shape, np.nan, out.dtype))
        bench.module[name](*args, *dims)
        found[str(bench.variants[k])] = out.numpy()
    return found


@pytest.mark.parametrize(
    ("source", "family", "shapes"),
    [
        (attention, "stages", [(1, 1), (2, 7), (3, 36), (1, 200), (2, 49)]),
        (softmax, "stages", [(1, 1), (3, 5), (2, 1000), (70, 17), (1, 5000)]),
        (matmul, "vendor", [(1, 1, 1), (5, 7, 9), (64, 33, 100), (1, 200, 3), (130, 64, 48)]),
        (lambda: matmul(True), "stages", [(1, 1, 1), (5, 7, 9), (64, 33, 100), (2, 200, 3)]),
    ],
    ids=["attention", "softmax", "matmul", "matmul, relu"],
)
def test_every_variant_computes_the_same(
    source: Callable[[], Any], family: str, shapes: list[tuple[int, ...]]
) -> None:
    bench = bench_of(source())
    assert family in {v.plan.family for v in bench.variants}
    for dims in shapes:
        found = list(results(bench, dims).values())
        for other in found[1:]:
            np.testing.assert_allclose(other, found[0], rtol=2e-5, atol=1e-6)


def kernel_with(source: Any, wanted: Callable[[Variant], bool]) -> tuple[Any, Any]:
    """A program whose one kernel runs a variant always, and its tree."""
    exe = tvm_disc.build(source, options=Options(threads=2))
    front = prepare(source, None, None, (), Options(threads=2), Trace(0, None))
    [kernel] = front.library.kernels()
    assert isinstance(kernel, Kernel) and kernel.group is not None
    space = variant_space(kernel.group, Solver(), front.machine)
    variant = next(v for v in space.variants if wanted(v))
    [key] = exe.dispatch
    return {key: {"run": variant.to_json()}}, kernel


@pytest.mark.parametrize("name", ["stages", "vendor"])
def test_a_tree_may_name_them(name: str, tmp_path: Any) -> None:
    source = attention() if name == "stages" else matmul()
    tree, _ = kernel_with(source, lambda v: v.plan.family == name)
    path = tmp_path / "trees.json"
    path.write_text(json.dumps(tree))
    exe = tvm_disc.build(source, options=Options(threads=2, dispatch=path))
    assert exe.dispatch == tree
    rng = np.random.default_rng(0)
    for m, n in ((1, 1), (7, 5), (33, 64), (100, 3)):
        if name == "vendor":
            x, y = (rng.uniform(-1, 1, s).astype("float32") for s in ((m, 9), (9, n)))
            np.testing.assert_allclose(exe(x, y), x @ y, rtol=1e-5, atol=1e-5)
            continue
        q, k, v = (rng.uniform(-1, 1, (n, m, 24)).astype("float32") for _ in range(3))
        scores = np.exp(np.einsum("bid,bjd->bij", q, k) * np.float32(0.3))
        expected = np.einsum("bij,bjd->bid", scores / scores.sum(-1, keepdims=True), v)
        np.testing.assert_allclose(exe(q, k, v), expected, rtol=2e-5, atol=1e-6)


def test_without_a_library_another_variant_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(vendor, "_names", lambda letter: ("no_such_gemm",) * 4)
    vendor._library.cache_clear()
    try:
        tree, _ = kernel_with(matmul(), lambda v: calls_vendor(v.plan))
        path = tmp_path / "trees.json"
        path.write_text(json.dumps(tree))
        exe = tvm_disc.build(matmul(), options=Options(threads=2, dispatch=path))
        for m in (1, 5, 64):
            x, y = np.ones((m, 9), "float32"), np.ones((9, 4), "float32")
            np.testing.assert_array_equal(exe(x, y), np.full((m, 4), 9.0))
    finally:
        vendor._library.cache_clear()


def test_times_of_a_library_need_one(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_of(matmul())
    session = local_session(bench)
    session.vendor = False
    times = session.time((5, 7, 9), QUICK)
    for variant, ns in zip(bench.variants, times, strict=True):
        assert math.isinf(ns) == calls_vendor(variant.plan)


def _group(source: Any) -> Group:
    front = prepare(source, None, None, (), Options(threads=2), Trace(0, None))
    [kernel] = front.library.kernels()
    assert kernel.group is not None
    return kernel.group


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (lambda: matmul(True), "more than a matrix product"),
        (lambda: matmul(dtype="float16"), "no such product of float16"),
        (
            lambda: relay.Function(
                [x := var("x", "m", 16)],
                relay.nn.dense(x, relay.const(np.ones((8, 16), "float32"))),
            ),
            "a constant weight is packed",
        ),
    ],
)
def test_what_a_library_cannot_do_is_refused(source: Callable[[], Any], reason: str) -> None:
    assert reason in str(plan_vendor(_group(source()), Solver()))


def test_a_library_is_never_proved() -> None:
    plan: Any = plan_vendor(_group(matmul()), Solver())
    kept, refused = feasible([plan], Solver())
    assert not refused and kept[0].needs[0].text == "a BLAS library is loaded"


def test_many_rows_are_not_cut() -> None:
    x = var("x", 1000, "n")
    front = prepare(
        relay.Function([x], relay.nn.softmax(x)), None, None, (), Options(threads=2), Trace(0, None)
    )
    [kernel] = front.library.kernels()
    assert kernel.group is not None
    space = variant_space(kernel.group, Solver(), front.machine)
    assert {v.plan.family for v in space.variants} == {"row"}
