"""Products cut along K for the threads: what they compute, and when they are offered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import Options, relay
from tvm_disc.codegen.target import resolve_target
from tvm_disc.compile import prepare
from tvm_disc.schedules.dispatch.signature import group_key
from tvm_disc.schedules.dispatch.variant import Variant
from tvm_disc.support.debug import Trace
from tvm_disc.target.isa import isa_of
from tvm_disc.tuning.tune import tasks_of

RNG = np.random.default_rng(0)
ROWS = (1, 2, 8, 9, 10, 31, 109, 0)


def layer(k: int, n: int, plain: bool, dtype: str = "float32") -> tuple[Any, np.ndarray]:
    """A dense layer, alone or between element-wise operators."""
    w = RNG.standard_normal((n, k)).astype(dtype)
    x = relay.var("x", shape=(relay.Any("m"), k), dtype=dtype)
    if plain:
        return relay.Function([x], relay.nn.dense(x, relay.const(w, dtype))), w
    y = relay.nn.dense(relay.nn.relu(x), relay.const(w, dtype))
    z = relay.var("z", shape=(relay.Any("m"), n), dtype=dtype)
    y = relay.nn.relu(relay.add(relay.nn.bias_add(y, relay.const(w[:, 0], dtype)), z))
    return relay.Function([x, z], y), w


def task_of(source: Any, threads: int) -> Any:
    front = prepare(source, None, None, (), Options(threads=threads), Trace(0, None))
    [task] = [t for t in tasks_of(front, (), False) if t.group.kind == "dot"]
    return task


def fitting(n: int) -> int:
    """``n`` columns of a CPU with 16 lanes; as few panels on one with narrower vectors."""
    lanes = isa_of(resolve_target()).lanes_f32
    return n if lanes == 16 else max(3, n // 4)


def in_parts(task: Any) -> list[Variant]:
    return [v for v in task.variants if v.plan.family == "parts of K"]


@pytest.mark.parametrize(
    ("k", "n", "plain", "dtype"),
    [(3072, 64, True, "float32"), (1001, 48, False, "float32"), (2000, 21, True, "float64"),
     (257, 3, False, "float32")],
)  # fmt: skip
def test_parts_of_k_add_up(k: int, n: int, plain: bool, dtype: str, tmp_path: Path) -> None:
    n = fitting(n)
    source, w = layer(k, n, plain, dtype)
    task = task_of(source, 2)
    serial, wanted = in_parts(task)
    assert (serial.run.parts, wanted.run.parts) == (1, 2)
    path = tmp_path / "trees.json"
    path.write_text(json.dumps({group_key(task.group): {"run": wanted.to_json()}}))
    exe = tvm_disc.build(source, options=Options(threads=2, dispatch=path))
    assert "parts of K: 2" in exe.explain()
    for m in ROWS:
        x = RNG.standard_normal((m, k)).astype(dtype)
        z = RNG.standard_normal((m, n)).astype(dtype)
        left = x if plain else np.maximum(x, 0)
        expected = left.astype("float64") @ w.T.astype("float64")
        bound = np.abs(left).astype("float64") @ np.abs(w).T
        if not plain:
            expected = np.maximum(expected + w[:, 0] + z, 0)
            bound += np.abs(w[:, 0]) + np.abs(z)
        args = (x,) if plain else (x, z)
        first, second = exe(*args), exe(*args)
        assert np.all(np.abs(first - expected) <= bound * np.finfo(dtype).eps * (4 + k**0.5)), m
        assert first.tobytes() == second.tobytes()


def test_a_program_that_cuts_k() -> None:
    source, w = layer(8192, 48, True)
    exe = tvm_disc.build(source, options=Options(threads=2))
    for m in (1, 8, 300):
        x = RNG.standard_normal((m, 8192)).astype("float32")
        np.testing.assert_allclose(exe(x), x @ w.T, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize(("k", "n", "threads"), [(3072, 64, 1), (3072, 768, 2), (255, 64, 2)])
def test_where_k_is_whole(k: int, n: int, threads: int) -> None:
    assert in_parts(task_of(layer(k, n, True)[0], threads)) == []
