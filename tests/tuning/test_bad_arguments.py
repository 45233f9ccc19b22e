"""`tune`: what is refused, and what is said."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.errors import BadInput, TypeMismatch

X = rows("n", 4)
GOOD = {"n": [1, 2]}

ARGUMENTS = [
    ({"records": 5}, "records: expected a path, found 5"),
    ({"records": "/proc/none/r.jsonl"}, "records: /proc/none/r.jsonl: No such file"),
    ({"shapes": 5}, "shapes: expected a mapping from dims to values or the path of a log, found 5"),
    ({"shapes": {"q": [1]}}, "shapes: there is no dim 'q'; dynamic dims: n, x.0"),
    (
        {"shapes": {"n": ["a"]}},
        r"shapes: n: expected a list of integers of at least 1, found \['a'\]",
    ),
    ({"shapes": {"n": 5}}, "shapes: n: expected a list of integers of at least 1, found 5"),
    ({"shapes": {"n": [1.5]}}, "shapes: n: expected a list of integers of at least 1"),
    ({"shapes": {"n": [0]}}, "shapes: n: expected a list of integers of at least 1"),
    ({"shapes": {"n": [2**64]}}, "shapes: n: expected a list of integers of at least 1"),
    ({"shapes": "/none"}, "shapes: /none: "),
    ({"shapes": sys.executable}, "expected recorded shapes, one JSON object a line, found none"),
    ({"points": 0}, "points: expected an integer of at least 1, found 0"),
    ({"points": "a"}, "points: expected an integer of at least 1, found 'a'"),
    ({"budget_s": "a"}, "budget_s: expected seconds, at least 0, found 'a'"),
    ({"budget_s": -1}, "budget_s: expected seconds, at least 0, found -1"),
    ({"weights": 5}, "weights: expected a mapping from dims to weights, found 5"),
    ({"shapes": GOOD, "weights": {"q": [1, 1]}}, "weights: there is no dim 'q'; dynamic dims: n"),
    (
        {"shapes": GOOD, "weights": {"n": [1]}},
        "weights: n: expected a list of 2 numbers, one for each value of n, found 1",
    ),
    (
        {"shapes": GOOD, "weights": {"n": [-1, 1]}},
        "weights: n: expected finite numbers of at least 0",
    ),
    ({"shapes": GOOD, "weights": {"n": ["a", 1]}}, "weights: n: expected a list of 2 numbers"),
    ({"effort": 5}, "effort: expected an Effort, found 5"),
]


@pytest.mark.parametrize(("given", "message"), ARGUMENTS, ids=range(len(ARGUMENTS)))
def test_arguments(tmp_path: Any, given: dict[str, Any], message: str) -> None:
    full = {"records": tmp_path / "r.jsonl", "progress": False, **given}
    with pytest.raises(BadInput, match=message):
        tvm_disc.tune(function(X, relay.exp(X)), **full)


def test_records_and_sources_that_are_none(tmp_path: Any) -> None:
    with pytest.raises(BadInput, match="Is a directory"):
        tvm_disc.tune(function(X, relay.exp(X)), records=tmp_path, progress=False)
    with pytest.raises(TypeMismatch, match="source: expected"):
        tvm_disc.tune(5, records=tmp_path / "r.jsonl")
