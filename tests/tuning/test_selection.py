"""Measured times choose between all that a kernel can be: libraries, threads, stages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.processor import run_on
from tvm_disc import Options, relay
from tvm_disc.abi.blas import expose
from tvm_disc.codegen.machine import context_of
from tvm_disc.compile import prepare
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.learn import choose_measured, library_known
from tvm_disc.schedules.dispatch.records import Journal, Record
from tvm_disc.schedules.dispatch.tree import leaves
from tvm_disc.schedules.dispatch.variant import SERIAL, Variant
from tvm_disc.schedules.gemm.vendor import calls_vendor
from tvm_disc.shape import Solver
from tvm_disc.support.debug import Trace
from tvm_disc.tuning.tune import Task, tasks_of

OPTIONS = Options(threads=2)
POINTS = [(a * b, b, b + 1) for b in (2, 4, 8, 16, 32, 64) for a in (1, 2)]
# Of the points: between them variants that are alike are as good as each other.
SMALL, LARGE = POINTS[3], POINTS[9]


def var(name: str, *dims: Any) -> Any:
    return relay.var(name, shape=[relay.Any(d) if isinstance(d, str) else d for d in dims])


def matmul() -> Any:
    x, y = var("x", "m", "k"), var("y", "k", "n")
    return relay.Function([x, y], relay.nn.matmul(x, y))


def softmax() -> Any:
    x = var("x", "m", "n")
    return relay.Function([x], relay.nn.softmax(x))


def attention() -> Any:
    q, k, v = (var(n, "b", "s", 24) for n in "qkv")
    weights = relay.nn.softmax(relay.nn.batch_matmul(q, k, transpose_b=True))
    return relay.Function([q, k, v], relay.nn.batch_matmul(weights, v, transpose_b=False))


def products(dims: tuple[int, ...]) -> list[np.ndarray]:
    m, k, n = dims
    return [uniform(m, k), uniform(k, n)]


def uniform(*dims: int) -> np.ndarray:
    return np.random.default_rng(sum(dims)).uniform(-1, 1, dims).astype("float32")


def normalized(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return normalized(q @ k.transpose(0, 2, 1)) @ v


def vendor(v: Variant) -> bool:
    return calls_vendor(v.plan)


def staged(v: Variant) -> bool:
    return bool(v.plan.stages)


def parallel(v: Variant) -> bool:
    return v.run != SERIAL


# (program, what is fast where dims are small and slow elsewhere, its inputs, what it computes)
CHOICES: dict[str, tuple[Any, Callable[[Variant], bool], Any, Any]] = {
    "a library or our product": (matmul, vendor, products, np.matmul),
    "one thread or all": (softmax, parallel, lambda d: [uniform(*d[:2])], normalized),
    "rows in stages or stitched": (softmax, staged, lambda d: [uniform(*d[:2])], normalized),
    "attention in stages or fused": (
        attention,
        staged,
        lambda d: [uniform(d[0], d[1], 24) + k for k in range(3)],
        attended,
    ),
}


def records(path: Path, task: Task, front: Any, small: Variant, large: Variant) -> None:
    """Times by which one variant is the best up to a size and another beyond it."""
    count = len(task.group.symbols())
    journal = Journal(path, context_of(front.target))
    for point in dict.fromkeys(p[:count] for p in POINTS):
        below = np.prod(point) < np.prod([20] * count)
        for variant in task.variants:
            best = variant is (small if below else large)
            journal.write(Record(task.key, variant.key, point, 1e3 if best else 1e4))
    journal.close()


@pytest.mark.parametrize("name", CHOICES)
def test_times_choose_between(name: str, tmp_path: Path) -> None:
    source, fast, inputs, expected = CHOICES[name]
    if fast is vendor and not expose():
        pytest.skip("this NumPy brings no BLAS of a known name")
    front = prepare(source(), None, None, (), OPTIONS, Trace(0, None))
    [task] = tasks_of(front, (), True)
    small = next(v for v in task.variants if fast(v))
    large = next(v for v in task.variants if not fast(v))
    path = tmp_path / "records.jsonl"
    records(path, task, front, small, large)
    exe = tvm_disc.build(source(), options=Options(threads=2, records=path))
    for dims, variant in ((SMALL, small), (LARGE, large)):
        args = inputs(dims)
        np.testing.assert_allclose(exe(*args), expected(*args), rtol=1e-4, atol=1e-5)
        [line] = exe.profile(*args, repeat=1).lines()
        assert line.variant == str(variant)


def convolution() -> Any:
    x = relay.var("x", shape=(relay.Any("n"), relay.Any("h"), relay.Any("w"), 16))
    weight = relay.const(uniform(16, 16, 3, 3))
    return relay.Function(
        [x],
        relay.nn.conv2d(
            x, weight, strides=(2, 2), padding=(1, 1), channels=16, kernel_size=(3, 3),
            data_layout="NHWC", kernel_layout="OIHW",
        ),
    )  # fmt: skip


@pytest.mark.parametrize(("copy_bytes", "families"), [(9215, 1), (9216, 2)])
def test_small_weights_are_kept_in_two_layouts(
    copy_bytes: int, families: int, tmp_path: Path
) -> None:
    """9216 bytes are 16 x 16 x 3 x 3 float32 weights."""
    target = {"kind": "llvm", "mcpu": "x86-64-v4"}
    run_on("x86-64-v4")
    front = prepare(convolution(), None, target, (), OPTIONS, Trace(0, None))
    [task] = tasks_of(front, (), True)
    direct, product = (
        next(v for v in task.variants if v.plan.family == family and v.run == SERIAL)
        for family in ("channel window", "pixel gemm")
    )
    path = tmp_path / "records.jsonl"
    records(path, task, front, direct, product)
    options = Options(threads=2, records=path, copy_bytes=copy_bytes)
    exe = tvm_disc.build(convolution(), target=target, options=options)
    used = set()
    for dims in (SMALL, LARGE):
        x = uniform(*dims, 16)
        [line] = exe.profile(x, repeat=1).lines()
        used.add(line.variant)
        plain = tvm_disc.build(convolution(), options=OPTIONS)(x)
        np.testing.assert_allclose(exe(x), plain, rtol=1e-4, atol=1e-5)
    assert len(used) == families


def _chosen(without_library: bool) -> tuple[Any, list[Variant]]:
    """(what is chosen, the variants) where times follow the work, and a library halves them."""
    front = prepare(matmul(), None, None, (), OPTIONS, Trace(0, None))
    [task] = tasks_of(front, (), True)
    found: dict[tuple[int, ...], dict[str, float]] = {}
    for dims in POINTS:
        ns = 100.0 + 0.05 * float(np.prod(dims))
        found[dims] = {
            v.key: ns * (0.5 if vendor(v) else 1.0 + 0.1 * k)
            for k, v in enumerate(task.variants)
            if not (without_library and vendor(v))
        }
    model = front.machine.model
    return choose_measured(task.group, task.variants, Solver(), model, found), task.variants


@pytest.mark.skipif(not expose(), reason="no library to call")
@pytest.mark.parametrize("without", [True, False])
def test_a_library_is_chosen_only_where_it_was_measured(without: bool) -> None:
    choice, variants = _chosen(without)
    assert any(map(vendor, variants))
    inside = [choice.variants[k] for k in leaves(choice.tree)]
    assert any(map(vendor, inside)) is not without


def test_a_regressor_starts_from_what_a_library_takes() -> None:
    model = CostModel()
    known = library_known(model)
    assert model.vendor_call_ns > 1e6 > known.vendor_call_ns
    assert library_known(known) is known  # constants that were measured stay
