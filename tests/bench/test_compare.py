"""Engines in turn: times, differences from the first peer, and who failed where."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from tvm_disc.bench.compare import (
    OURS,
    ComparisonEffort,
    ComparisonRow,
    Engine,
    difference,
    measure,
)
from tvm_disc.bench.points import Case
from tvm_disc.bench.report import ComparisonReport
from tvm_disc.bench.served import Served

ENGINES = Path(__file__).with_name("engines.py")


def measured(*names: str) -> tuple[ComparisonReport, list[ComparisonRow]]:
    """The first as ours, at one row and at three."""
    labels = [OURS, *names[1:]]
    heard: list[ComparisonRow] = []
    with ExitStack() as stack:
        served = {
            label: stack.enter_context(closing(Served(f"{ENGINES}:{name}", Path("m"), 1)))
            for label, name in zip(labels, names, strict=True)
        }
        cases = [Case({"n": n}, {"x": np.arange(1, n + 1, dtype="float32")}) for n in (1, 3)]
        found = measure(served, cases, ComparisonEffort(2, 0.001), heard.append)
    assert heard == found
    return ComparisonReport(
        "m.onnx", {"threads": "1"}, [Engine(e, "1.2", 0.5) for e in labels], found, 1e-4
    ), found


def test_times_and_differences() -> None:
    report, (one, three) = measured("right", "right", "wrong")
    assert one.point == {"n": 1} and three.shapes == {"x": (3,)}
    for row in (one, three):
        assert {name: len(turns) for name, turns in row.seconds.items()} == {
            OURS: 2, "right": 2, "wrong": 2,
        }  # fmt: skip
        assert row.reference == "right" and row.differences[OURS] == 0
        assert row.differences["wrong"] == pytest.approx(0.25)
    assert report.wrong == []
    assert "wrong at n=3: differs from right by 2.5e-01 of the largest element" in report.text()
    assert "over the best at each point: geometric mean" in report.text()


def test_our_own_wrong_result_is_marked() -> None:
    report, found = measured("wrong", "right")
    assert report.wrong == found
    assert "2.5e-01 DIFFERS" in report.text()


def test_a_peer_that_fails_is_named_and_the_rest_goes_on() -> None:
    report, (one, three) = measured("right", "refuses_one", "dies")
    assert one.failed["refuses_one"] == "ValueError: one row is too few"
    assert one.median("refuses_one") is None and three.median("refuses_one")
    assert "killed by signal 6" in one.failed["dies"]
    assert one.reference == "" and one.differences == {}
    assert three.reference == "refuses_one" and three.best_gain(["refuses_one", "dies"])
    text = report.text()
    assert "refuses_one at n=1: ValueError: one row is too few" in text
    assert "over refuses_one: geometric mean" in text and "(1 point)" in text


def test_forms() -> None:
    report, _ = measured("right", "wrong")
    table = [line for line in report.markdown().splitlines() if line.startswith("|")]
    assert table[0] == "| engine | version | ready after |"
    assert "| n | tvm_disc ms | wrong ms | over the best | difference |" in table
    assert table[-1].startswith("| 3 | ") and len({line.count("|") for line in table[-4:]}) == 1
    data = json.loads(report.to_json())
    assert [p["point"] for p in data["points"]] == [{"n": 1}, {"n": 3}]
    assert set(data["points"][0]["median_s"]) == {OURS, "wrong"}
    assert data["engines"][1]["version"] == "1.2"


def test_a_difference_without_end_is_null_in_json() -> None:
    row = ComparisonRow({"n": 1}, {"x": (1,)}, differences={OURS: float("inf")}, reference="right")
    report = ComparisonReport("m", {}, [Engine(OURS)], [row], 1e-4)
    assert json.loads(report.to_json())["points"][0]["differences"] == {OURS: None}
    assert "inf DIFFERS" in report.text()


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("found", "wanted", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([1.0, NAN], [1.0, NAN], 0.0),
        ([1.0, NAN], [1.0, 2.0], INF),
        ([1.0, 2.0], [1.0, NAN], INF),
        ([INF, 2.0], [-INF, 2.0], INF),
        ([], [], 0.0),
        ([1.0], [1.0, 2.0], INF),
    ],
)
def test_difference(found: list[float], wanted: list[float], error: float) -> None:
    assert difference([np.array(found)], [np.array(wanted)]) == error


def test_a_missing_result_differs() -> None:
    assert difference([], [np.ones(1)]) == INF
