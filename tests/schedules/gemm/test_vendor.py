"""Products by a BLAS that the process holds: what they compute, when they are offered."""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import tirx
from tvm.ir import StringImm

import tvm_disc
from tvm_disc import Options, relay
from tvm_disc.abi import blas
from tvm_disc.codegen.target import resolve_target
from tvm_disc.compile import prepare
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.dispatch.choose import analytic
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.signature import group_key
from tvm_disc.schedules.dispatch.variant import SERIAL, Plan, Variant, feasible
from tvm_disc.schedules.gemm import vendor
from tvm_disc.schedules.gemm.vendor import calls_vendor, plan_vendor
from tvm_disc.schedules.group import Body, Group, Machine
from tvm_disc.schedules.select import variant_space
from tvm_disc.shape import Solver
from tvm_disc.support.debug import Trace
from tvm_disc.target.isa import isa_of
from tvm_disc.tir.builder import i64
from tvm_disc.tuning.entry import build_bench
from tvm_disc.tuning.measure import Effort, local_session, may_run

QUICK = Effort(rounds=1, round_ns=1e3, most_rounds=1, wait_s=0.0)


def matmul(relu: bool = False, dtype: str = "float32") -> Any:
    x = relay.var("x", shape=(relay.Any("m"), relay.Any("k")), dtype=dtype)
    y = relay.var("y", shape=(relay.Any("k"), relay.Any("n")), dtype=dtype)
    result = relay.nn.matmul(x, y)
    return relay.Function([x, y], relay.nn.relu(result) if relu else result)


def dense() -> Any:
    x = relay.var("x", shape=(relay.Any("m"), 16))
    weight = relay.const(np.ones((8, 16), "float32"))
    return relay.Function([x], relay.nn.dense(x, weight))


def front_of(source: Any) -> tuple[Any, Group, list[Variant]]:
    front = prepare(source, None, None, (), Options(threads=1), Trace(0, None))
    [kernel] = front.library.kernels()
    assert kernel.group is not None
    return front, kernel.group, variant_space(kernel.group, Solver(), front.machine).variants


@pytest.fixture(params=["library", "none"])
def library(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Whether the process has a BLAS."""
    if request.param == "none":
        monkeypatch.setattr(vendor, "symbols", lambda letter: (f"no_{letter}gemm",) * 4)
    elif not blas.expose():
        pytest.skip("this NumPy brings no BLAS of a known name")
    vendor._library.cache_clear()
    yield request.param == "library"
    vendor._library.cache_clear()


@pytest.mark.parametrize(("relu", "dtype"), [(False, "float32"), (True, "float64")])
def test_it_computes_the_product_with_and_without_a_library(
    relu: bool, dtype: str, library: bool, tmp_path: Path
) -> None:
    _, group, variants = front_of(matmul(relu, dtype))
    wanted = next(v for v in variants if calls_vendor(v.plan))
    key = group_key(group)
    path = tmp_path / "trees.json"
    path.write_text(json.dumps({key: {"run": wanted.to_json()}}))
    exe = tvm_disc.build(matmul(relu, dtype), options=Options(threads=1, dispatch=path))
    rng = np.random.default_rng(0)
    for m, k, n in ((1, 1, 1), (5, 7, 9), (64, 33, 100), (1, 200, 3), (130, 64, 48), (3, 0, 4)):
        x, y = (rng.uniform(-1, 1, s).astype(dtype) for s in ((m, k), (k, n)))
        expected = np.maximum(x @ y, 0) if relu else x @ y
        np.testing.assert_allclose(exe(x, y), expected, rtol=1e-5, atol=1e-5)


def one_row() -> Any:
    x, y = relay.var("x", shape=(1, relay.Any("k"))), relay.var("y", shape=(relay.Any("k"), 24))
    return relay.Function([x, y], relay.nn.matmul(x, y)), lambda k: ((1, k), (k, 24)), np.matmul


def one_column() -> Any:
    x, y = relay.var("x", shape=(relay.Any("m"), 9)), relay.var("y", shape=(9, 1))
    return relay.Function([x, y], relay.nn.matmul(x, y)), lambda m: ((m, 9), (9, 1)), np.matmul


def rows_that_lie_transposed() -> Any:
    x, y = relay.var("x", shape=(relay.Any("k"), 5)), relay.var("y", shape=(24, relay.Any("k")))
    product = relay.nn.matmul(x, y, transpose_a=True, transpose_b=True)
    return relay.Function([x, y], product), lambda k: ((k, 5), (24, k)), lambda x, y: x.T @ y.T


def one_row_that_is_repeated() -> Any:
    x, y = relay.var("x", shape=(8,)), relay.var("y", shape=(8, relay.Any("n")))
    rows = relay.broadcast_to(x, (5, 8))
    product = relay.nn.matmul(rows, y)
    return (
        relay.Function([x, y], product),
        lambda n: ((8,), (8, n)),
        lambda x, y: np.tile(x, (5, 1)) @ y,
    )


@pytest.mark.parametrize(
    "form", [one_row, one_column, rows_that_lie_transposed, one_row_that_is_repeated]
)
def test_a_library_is_told_how_operands_lie(
    form: Callable[[], Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """BLAS prints and computes nothing if a distance of rows is below their length."""
    if not blas.expose():
        pytest.skip("this NumPy brings no BLAS of a known name")
    source, shapes, reference = form()
    _, _, variants = front_of(source)
    [wanted, *_] = [v for v in variants if calls_vendor(v.plan)] or [None]
    assert wanted is not None or form is one_row_that_is_repeated
    options = Options(threads=1)
    if wanted is not None:
        [key] = tvm_disc.build(source, options=options).dispatch
        path = tmp_path / "trees.json"
        path.write_text(json.dumps({key: {"run": wanted.to_json()}}))
        options = Options(threads=1, dispatch=path)
    exe = tvm_disc.build(source, options=options)
    rng = np.random.default_rng(0)
    for size in (0, 1, 2, 7, 16, 65):
        x, y = (rng.uniform(-1, 1, s).astype("float32") for s in shapes(size))
        np.testing.assert_allclose(exe(x, y), reference(x, y), rtol=1e-5, atol=1e-5)
    assert "illegal" not in "".join(capfd.readouterr())


def test_times_of_a_library_need_one() -> None:
    front, group, variants = front_of(matmul())
    [bench] = build_bench([(group, variants)], Solver(), front.machine, front.target)
    session = local_session(bench)
    session.vendor = False
    times = session.time((5, 7, 9), QUICK).ns
    points = dict(zip(group.symbols(), (5, 7, 9), strict=True))
    for variant, ns in zip(variants, times, strict=True):
        cannot = calls_vendor(variant.plan) or not may_run(variant, points)
        assert math.isinf(ns) == cannot


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (lambda: matmul(True), "it requires a matrix product alone"),
        (lambda: matmul(dtype="float16"), "a result of one type, float32 or float64"),
        (dense, "a constant one is packed"),
    ],
)
def test_what_a_library_cannot_do_is_refused(source: Callable[[], Any], reason: str) -> None:
    assert reason in str(plan_vendor(front_of(source())[1], Solver()))


def test_a_library_is_never_proved() -> None:
    _, group, variants = front_of(matmul())
    plan: Any = plan_vendor(group, Solver())
    kept, refused = feasible([plan], Solver())
    assert not refused and kept[0].needs[0].text == "a BLAS library is loaded"
    assert any(calls_vendor(v.plan) for v in variants)


@pytest.mark.parametrize(
    ("call_ns", "expected"), [(CostModel().vendor_call_ns, False), (1.0, True)]
)
def test_the_model_chooses_a_library_only_by_constants_that_know_one(
    call_ns: float, expected: bool
) -> None:
    _, group, variants = front_of(matmul())
    model = replace(CostModel(), vendor_call_ns=call_ns)
    choice = analytic(group, variants, Solver(), model)
    assert any(calls_vendor(v.plan) for v in choice.variants) == expected
    assert any(v.safe for v in choice.variants) and CostModel().vendor_call_ns == 1e9


def test_the_reference_library_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes by the names of fast ones, but has nothing that only they have."""
    if not blas.expose():
        pytest.skip("this NumPy brings no BLAS of a known name")
    found = [n for n in blas.symbols("s") if hasattr(ctypes.CDLL(None), n)]
    blas.expose.cache_clear()
    for module in (blas, vendor):
        monkeypatch.setattr(module, "symbols", lambda letter: ("no", "no", found[0], "no"))
        monkeypatch.setattr(module, "MARKS", ("no_mark",))
    try:
        assert not blas.expose()
        assert answer_of_the_code() == 0
        blas.expose.cache_clear()
        for module in (blas, vendor):
            monkeypatch.setattr(module, "MARKS", ("no_mark", found[0]))
        assert blas.expose()
        assert answer_of_the_code() == 1
    finally:
        blas.expose.cache_clear()
        vendor._library.cache_clear()


def answer_of_the_code() -> int:
    """Whether a program finds a library that it takes."""
    vendor._library.cache_clear()
    source = Node("param", (), (i64(1),), "int32")
    result = Node("relax.abs", (source,), (i64(1),), "int32")
    group = Group("g", "loop", [result], [source], [result])

    def emit(body: Body) -> None:
        found = tirx.call_extern("int32", "disc.vendor.s.found")
        store = tirx.BufferStore(body.outputs[0], found, [i64(0)])
        library = StringImm(vendor._library("s"))
        body.block.add(tirx.AttrStmt(StringImm("disc"), "pragma_import_llvm", library, store))

    target = resolve_target(None)
    variant = Variant(Plan(i64(1), i64(1), emit), SERIAL)
    [bench] = build_bench([(group, [variant])], Solver(), Machine(isa_of(target), 1), target)
    tensors = local_session(bench).arguments({})(0)
    bench.module[bench.names[0]](*tensors)
    return int(tensors[1].numpy()[0])
