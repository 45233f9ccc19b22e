"""A few random programs with caches; ``python -m tests.fuzz.graphs.held`` runs more."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz.graphs import held
from tests.quick_code import quick_target

SEEDS = (2, 5, 13)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISC_TARGET", quick_target())


@pytest.mark.parametrize("seed", SEEDS)
def test_states_and_donations_agree_with_numpy(seed: int) -> None:
    assert held.judge(seed, lambda stage: None, steps=12) is None


def test_the_programs_have_caches_of_both_kinds() -> None:
    slots = [c.slots for seed in SEEDS for c in held.make(seed).caches]
    assert 0 in slots and any(slots)


def test_a_wrong_cache_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    updated = held.Cache.updated
    monkeypatch.setattr(
        held.Cache, "updated", lambda c, *given: updated(c, *given) + np.ones((), c.dtype)
    )
    found = held.judge(2, lambda stage: None, steps=12)
    assert found is not None and found[0] == "state: wrong"


def test_an_array_of_an_earlier_call_that_changes_is_seen() -> None:
    kept, array = held.Kept(), np.zeros(3)
    kept.add([array])
    kept.check()
    array[0] = 1
    with pytest.raises(held.Wrong, match="an earlier call"):
        kept.check()
    kept.check([array])
