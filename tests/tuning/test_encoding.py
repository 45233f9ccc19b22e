"""Variants as numbers for the regressor: different ones have different rows."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_disc.schedules.dispatch.learn import encoded
from tvm_disc.schedules.dispatch.variant import SERIAL, Knobs, Plan, Run, Variant
from tvm_disc.tir.builder import i64


@dataclass(frozen=True)
class Walk(Knobs):
    walk: str
    rows: int = 1


@dataclass(frozen=True)
class Many(Knobs):
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0
    e: int = 0
    f: int = 0
    g: int = 0
    h: int = 0
    last: float = 0


@dataclass(frozen=True)
class Loose(Knobs):
    cut: Any = None


def variant(family: str, knobs: Knobs, run: Run = SERIAL) -> Variant:
    plan = Plan(i64(1), i64(1), lambda body: None, family=family, knobs=knobs)
    return Variant(plan, run)


def test_variants_of_different_keys_differ() -> None:
    walks = [Walk(w, r) for w in ("along", "across", "agnol", "") for r in (1, 8)]
    loose = [Loose(v) for v in (None, 0, 1, 1.5, True, "1", [1, 2], [2, 1])]
    knobs = [*walks, *loose, Many(), Many(last=1), Many(last=2)]
    families, runs = ("rows", "swor", "sums"), (SERIAL, Run(2), Run(4))
    # Letters that add up to the same, and knobs behind the eighth, told nothing apart once.
    found = [variant(f, k, r) for f, k, r in itertools.product(families, knobs, runs)]
    rows = {row.tobytes() for row in encoded(found)}
    assert len(rows) == len({v.key for v in found}) == len(found)


def test_a_number_keeps_its_order() -> None:
    rows = encoded([variant("gemm", Walk("along", r)) for r in (1, 4, 16)])
    [column] = [c for c in rows.T if len(set(c)) > 1]
    assert column.tolist() == [1, 4, 16]


def test_a_knob_that_a_variant_lacks_is_missing_not_zero() -> None:
    rows = encoded([variant("rows", Walk("along", 0)), variant("gemm", Knobs())])
    assert np.isnan(rows).sum(axis=1).tolist() == [0, 1]


def test_the_encoding_does_not_depend_on_what_ran_before() -> None:
    found = [variant(f, Walk(w)) for f in ("b", "a") for w in ("y", "x")]
    first, again = encoded(found), encoded(list(reversed(found)))
    np.testing.assert_array_equal(first, again[::-1])
