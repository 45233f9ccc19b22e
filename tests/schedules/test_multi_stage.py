"""Groups computed in stages: what they compute, when they are offered."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.schedules.variants import bench_of, results
from tvm_disc import Options, relay
from tvm_disc.compile import prepare
from tvm_disc.errors import Unsupported
from tvm_disc.schedules.dispatch.variant import Plan, Variant
from tvm_disc.schedules.group import Group, Machine
from tvm_disc.schedules.multi_stage import staged_plans
from tvm_disc.schedules.select import variant_space
from tvm_disc.shape import Solver
from tvm_disc.support.debug import Trace
from tvm_disc.target.isa import Isa


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


@pytest.mark.parametrize(
    ("source", "shapes"),
    [
        (attention, [(1, 1), (2, 7), (3, 36), (1, 200), (2, 49)]),
        (softmax, [(1, 1), (3, 5), (2, 1000), (70, 17), (1, 5000)]),
    ],
    ids=["attention", "softmax"],
)
def test_every_variant_computes_the_same(
    source: Callable[[], Any], shapes: list[tuple[int, ...]]
) -> None:
    bench = bench_of(source())
    assert "stages" in {v.plan.family for v in bench.variants}
    for dims in shapes:
        found = list(results(bench, dims).values())
        for other in found[1:]:
            np.testing.assert_allclose(other, found[0], rtol=2e-5, atol=1e-6)


def front_of(source: Any, threads: int = 2) -> tuple[Group, list[Variant]]:
    """The group of the program's one kernel, and its variants."""
    front = prepare(source, None, None, (), Options(threads=threads), Trace(0, None))
    [kernel] = front.library.kernels()
    assert kernel.group is not None
    return kernel.group, variant_space(kernel.group, Solver(), front.machine).variants


def test_a_tree_may_name_stages(tmp_path: Path) -> None:
    _, variants = front_of(attention())
    wanted = next(v for v in variants if v.plan.stages)
    [key] = tvm_disc.build(attention(), options=Options(threads=2)).dispatch
    path = tmp_path / "trees.json"
    path.write_text(json.dumps({key: {"run": wanted.to_json()}}))
    exe = tvm_disc.build(attention(), options=Options(threads=2, dispatch=path))
    assert exe.dispatch == {key: {"run": wanted.to_json()}}
    rng = np.random.default_rng(0)
    for b, s in ((1, 1), (5, 7), (2, 33), (3, 100), (1, 0), (1, 1500)):
        q, k, v = (rng.uniform(-1, 1, (b, s, 24)).astype("float32") for _ in range(3))
        scores = np.exp(np.einsum("bid,bjd->bij", q, k) * np.float32(0.3))
        expected = np.einsum("bij,bjd->bid", scores / scores.sum(-1, keepdims=True), v)
        np.testing.assert_allclose(exe(q, k, v), expected, rtol=2e-5, atol=1e-6)
    # Scores of any size would take memory with the square of the length: the tile serves those.
    front = prepare(attention(), None, None, (), Options(threads=2), Trace(0, None))
    most = front.machine.memory.scores_bytes
    long = math.isqrt(most // 4) + 800
    sizes = {n: exe.workspace_bytes(dict.fromkeys("qkv", (1, n, 24))) for n in (700, long)}
    assert sizes[700] > 700 * 700 * 4 and sizes[long] < most


def rows(count: Any) -> Any:
    x = var("x", count, "n")
    return relay.Function([x], relay.nn.softmax(x))


def test_stages_of_attention_and_of_rows() -> None:
    [plan] = [v.plan for v in front_of(attention())[1] if v.plan.stages and v.run.parts == 1]
    assert [s.group.kind for s in plan.stages] == ["dot", "row", "dot"]
    [plan] = [v.plan for v in front_of(rows("m"))[1] if v.plan.stages and v.run.parts == 1]
    assert [s.group.kind for s in plan.stages] == ["row", "row", "loop"]


@pytest.mark.parametrize(("source", "threads"), [(rows(1000), 2), (rows("m"), 1)])
def test_rows_enough_for_the_threads_are_not_cut(source: Any, threads: int) -> None:
    _, variants = front_of(source, threads)
    assert {v.plan.family for v in variants} == {"row"}


def test_a_stage_that_no_template_takes_leaves_the_whole() -> None:
    group, variants = front_of(attention())

    def refuse(part: Group) -> Plan:
        raise Unsupported(f"{part.name}: not here")

    machine = Machine(Isa(16, 32, True), 2)
    assert staged_plans(group, Solver(), machine, refuse) == []
    assert any(not v.plan.stages for v in variants)
