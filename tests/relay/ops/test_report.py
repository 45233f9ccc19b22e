"""The table of operators: what it says of each, and that the document has all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.relay.ops import report
from tests.relay.samples import SAMPLES
from tvm_disc.relay.ops.refused import REFUSED
from tvm_disc.relay.ops.table import OPS


def line(mode: str, **found: object) -> dict[tuple[str, str], dict[str, object]]:
    return {("exp", mode): {"name": "exp", "mode": mode, **found}}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (line("all", ran=5), "fully"),
        ({**line("all", refused="no"), **line("data", ran=5)}, "fully, kernel known"),
        ({**line("all", wrong="no"), **line("some", ran=5)}, "partly"),
        (line("none", ran=2), "static"),
        (line("all", refused="no"), "not run"),
        (line("import", widest="all"), "fully (imported)"),
        ({}, "not run"),
    ],
)
def test_verdicts(found: dict[tuple[str, str], dict[str, object]], words: str) -> None:
    assert report.verdict(found, "exp") == words


def test_at_least_five_combinations_with_0_and_1() -> None:
    dims = [c[0] for c in report.combinations(OPS["nn.dense"])]
    assert len(dims) >= 5
    assert {0, 1} <= {v for d in dims for v in d.values()}


def test_an_operator_runs_with_all_dims_open(tmp_path: Path) -> None:
    (found,) = report.examined(OPS["add"], ["all"])
    assert found["ran"] == len(report.combinations(OPS["add"]))
    path = tmp_path / "found.jsonl"
    known: dict[object, object] = {}
    report._recorder(path, known)(found)
    assert report.read(path) == known == {("add", "all"): found}
    assert "| add | fully |" in report.table(report.read(path))


def test_every_operator_has_a_line_and_every_refusal_its_reason() -> None:
    text = report.table({})
    for name in OPS:
        assert f"\n| {name} | " in text
    for name, why in REFUSED.items():
        assert f"| {name} | refused: {why} |" in text


def test_operators_that_do_not_run_keep_their_lines() -> None:
    kept = report.rows_of("| operator | dims |\n| abs | fully | 6 | float32 | elemwise |\n")
    text = report.table(line("all", ran=5), kept)
    assert "\n| abs | fully | 6 | float32 | elemwise |\n" in text
    assert "\n| exp | fully | 5 |" in text and "operators: 2 fully; " in text


def test_a_wrong_result_is_not_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> int:
        raise AssertionError("exp at n=1")

    monkeypatch.setattr(report, "run", wrong)
    (found,) = report.examined(OPS["exp"], ["all"])
    assert found == {"name": "exp", "mode": "all", "wrong": "exp at n=1"}


def test_every_operator_has_five_combinations_with_0_and_1() -> None:
    """But for those that have no dims to vary."""
    for name in ("max", "argmin", "broadcast_to", "nn.cross_entropy", "vision.yolo_reorg"):
        every = report.combinations(OPS[name])
        assert len(every) >= 5, name
        assert {0, 1} <= {v for c in every for env in c for v in env.values()}, name
    for name in ("full", "zeros", "random.normal", "random.threefry_generate"):
        dims = [d for s in SAMPLES[name] for d in (s.out[-1] if "random" in name else s.out)]
        assert report._counted(OPS[name]) >= 5 and {0, 1} <= set(dims), name
