"""Attributes and types exchanged for others that may make sense: what campaigns had found."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz import exchange
from tests.quick_code import quick_target
from tests.relay.samples import samples_of
from tvm_disc.relay.ops.table import OPS


# Rows that once gave sums for means, or an internal error.
@pytest.mark.parametrize("name", ["nn.bias_add", "nn.global_avg_pool2d"])
def test_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISC_TARGET", quick_target())
    assert exchange.problems(OPS[name]) == {}


def test_attributes_of_a_sample_are_exchanged_for_others_of_their_kind() -> None:
    assert exchange.others("axis", True) == [False]
    assert exchange.others("axis", 2) == [0, 1, 3, 5, -1, -2]
    assert (2, 0) in exchange.others("axes", (0, 0)) and (0,) in exchange.others("axes", (0, 0))
    assert "NHWC" in exchange.others("data_layout", "NCHW")
    assert exchange.others("axis", None) == [0, 1, -1, (0,), (1,), (-1,)]


def test_every_operand_of_a_sample_gets_every_other_type() -> None:
    kinds = [types for _, _, types in exchange.changes(OPS["nn.bias_add"]) if types]
    for position in (0, 1):
        found = {t[position] for t in kinds if position in t}
        assert found == set(exchange.TYPES)


@pytest.mark.parametrize(
    ("name", "told"),
    [("exp", "float32"), ("shape_of", "expected float32(3,)"), ("less", "bool")],
)
def test_what_differs_is_told(name: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = OPS[name]
    monkeypatch.setattr(exchange, "_meaning", lambda *_: np.zeros(3, "float32"))
    found = exchange.judge(row, (samples_of(row)[0], {}, {}), lambda stage: None)
    assert told in found
