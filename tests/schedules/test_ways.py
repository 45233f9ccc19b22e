"""The ways of loops, rows and transposes as variants: all compute the same, and who may run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tests.schedules.variants import bench_of, results
from tvm_disc import Options, relay
from tvm_disc.codegen.target import resolve_target
from tvm_disc.schedules.dispatch.cost import cost_table
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.sampling import evaluate
from tvm_disc.target.isa import isa_of
from tvm_disc.tir.builder import i64
from tvm_disc.tuning.entry import Bench

LANES = isa_of(resolve_target()).lanes_f32
SIZES = (1, 3, LANES - 1, LANES, 37)


def transpose(m: Any = "m") -> Any:
    x = rows("n", m)
    return function(x, relay.transpose(relay.nn.relu(x)))


def bias(m: Any = "m") -> Any:
    x, b = rows("n", m), rows(m, name="b")
    return relay.Function([x, b], relay.add(relay.nn.relu(x), b))


def softmax(m: Any = "m") -> Any:
    x = rows("n", m)
    return function(x, relay.nn.softmax(x))


def total(m: Any = "m") -> Any:
    x = rows("n", m)
    return function(x, relay.sum(x, axis=1))


def ways(found: dict[str, Any]) -> set[str]:
    """The texts of variants without the number of threads."""
    return {text.rpartition(", ")[0] for text in found}


@pytest.mark.parametrize(("source", "count"), [(transpose, 5), (bias, 2), (softmax, 2), (total, 2)])
def test_every_way_computes_the_same(source: Callable[[], Any], count: int) -> None:
    bench = bench_of(source())
    met: set[str] = set()
    for n in SIZES:
        for m in SIZES:
            found = results(bench, (n, m))
            met |= {way for way in ways(found) if not way.startswith("stages")}
            first, *others = found.values()
            assert np.isfinite(first).all()
            for other in others:
                np.testing.assert_allclose(other, first, rtol=2e-5, atol=1e-6)
    assert len(met) == count - (source is transpose and LANES < 8)


@pytest.mark.parametrize("source", [transpose, bias, softmax, total])
def test_a_way_runs_where_its_needs_are_met(source: Callable[[], Any]) -> None:
    """Short rows in lanes need as many rows as there are lanes; tiles, sides that fill them."""
    bench = bench_of(source())
    turn = slice(None, None, -1 if source is transpose else 1)  # rows of the result
    few, many = (ways(results(bench, (n, 2)[turn])) for n in (LANES - 1, LANES))
    assert any("rows_at_once" in way for way in many - few)
    assert not any("walk=tiles" in way for way in many)
    long = ways(results(bench, (LANES, 2 * LANES)))
    assert any("walk=tiles" in way for way in long) == (source is transpose)


def explained(source: Any, target: Any = None) -> str:
    options = Options(cache=False, threads=1)
    return tvm_disc.build(source, target=target, options=options).explain()


# Described machines, whose constants are shipped: a choice is the same wherever the test runs.
CPUS = ("znver3", "znver4", "cascadelake", "x86-64-v3", "x86-64-v4")
# The constants measured on a Zen 3 put a broadcast over short rows below one row in each lane.
ONE_BY_ONE = {(bias, "znver3")}


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("source", [bias, softmax, total])
def test_rows_of_unknown_length_may_go_across_lanes(source: Callable[..., Any], cpu: str) -> None:
    target = {"kind": "llvm", "mcpu": cpu, "mtriple": "x86_64-linux-gnu"}
    across = "rows_at_once" in explained(source("m"), target)
    assert across == ((source, cpu) not in ONE_BY_ONE)
    assert "rows_at_once" not in explained(source(64), target)


def test_sides_that_fill_no_tile() -> None:
    assert (
        "transpose not used: both axes that it exchanges must have at least 4 elements"
        in explained(transpose(3))
    )
    assert f"it requires that both axes of the tile have {LANES} elements" in explained(
        transpose(LANES - 1)
    )
    assert "it requires that" not in explained(transpose(LANES))


@pytest.mark.parametrize(
    ("source", "strided"), [(bias, 2), (softmax, 3), (total, 1)], ids=["bias", "softmax", "sum"]
)
def test_the_model_counts_what_code_reads_and_writes_by_lane(
    source: Callable[..., Any], strided: int
) -> None:
    """Values that are kept between loops are adjacent, and so are those of a row."""
    bench = bench_of(source())
    found = {id(v.plan): v.plan for v in bench.variants if not v.plan.stages}
    along, across = found.values()
    sizes = (np.float64(48), np.float64(5))
    points = dict(zip(bench.group.symbols(), sizes, strict=True))
    count = lambda size: float(evaluate(i64(size), points))  # noqa: E731
    assert count(along.strided) == 0 and count(across.strided) == strided * 48 * 5
    assert count(along.loops) >= 48 and count(across.loops) == 0


@pytest.mark.parametrize("source", [bias, softmax, total])
def test_coefficients_alone_decide_which_way_short_rows_go(source: Callable[..., Any]) -> None:
    """Costly loops move the limit up, costly accesses by lane down; no number of a template."""
    bench = bench_of(source())
    found = [longest(bench, *costs) for costs in ((5.0, 0.1), (1.0, 0.1), (1.0, 0.8), (0, 9))]
    assert found == sorted(found, reverse=True)
    assert found[0] > 4 and found[-1] == 0


def longest(bench: Bench, pass_ns: float, strided_ns: float) -> int:
    """The longest row of up to 16 elements for which the model puts one row in each lane."""
    model = replace(CostModel(), pass_ns=pass_ns, strided_ns=strided_ns)
    lengths = np.arange(1.0, 17.0)
    points = dict(zip(bench.group.symbols(), (np.full(16, 4096.0), lengths), strict=True))
    serial = [v for v in bench.variants if v.run.parts == 1 and not v.plan.stages]
    costs = cost_table(serial, points, 16, model)
    return int(max(lengths[costs[:, 1] < costs[:, 0]], default=0))
