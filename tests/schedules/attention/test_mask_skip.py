"""Keys that a mask hides from a block of queries are left out, and nobody notices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.schedules.attention.cases import (
    CLOSE,
    FACTS,
    LOWEST,
    attend,
    compile_one,
    planned,
    qkv,
    random,
    reference,
    tensor,
)
from tvm_disc import relay

LENGTHS = ((7, 129), (8, 127), (8, 128), (9, 131), (40, 200), (73, 513), (50, 1100))
LEFT_OUT = "masked keys: skipped"


def causal(m: int, n: int) -> np.ndarray:
    return np.tri(m, n, n - m, dtype=bool)


def padding(m: int, n: int) -> np.ndarray:
    return np.tile((np.arange(n) >= n // 4) & (np.arange(n) < n - n // 3), (m, 1))


def window(m: int, n: int) -> np.ndarray:
    distance = np.arange(n)[None] - np.arange(m)[:, None] * max(n // m, 1)
    return np.asarray(np.abs(distance) < 20)


def nothing(m: int, n: int) -> np.ndarray:
    """Rows that see nothing beside rows that see one key."""
    return np.asarray((np.arange(n) == n // 2)[None] & (np.arange(m) % 3 > 0)[:, None])


KINDS: tuple[Callable[[int, int], np.ndarray], ...] = (causal, padding, window, nothing)


@pytest.fixture(scope="module")
def additive() -> Any:
    mask = tensor("mask", "?", 1, "?", "?")
    inputs = qkv(16, 16)
    facts = [*FACTS, "mask.0 == q.0", "mask.2 == q.2", "mask.3 == k.2"]
    return compile_one([*inputs, mask], attend(*inputs, chain=lambda s: s + mask), facts)


@pytest.mark.parametrize("low", [LOWEST, -np.inf, -10000.0, -100.0])
def test_additive(additive: Any, low: float) -> None:
    assert LEFT_OUT in additive.explain()
    for kind in KINDS:
        for m, n in LENGTHS:
            arrays = random(m, n, 16, 16)
            mask = np.where(kind(m, n), 0, low).astype("float32")[None, None]
            mask = np.concatenate([mask, mask[:, :, ::-1]])
            got, expected = additive(*arrays, mask), reference(*arrays, mask)
            # A score beside -10000 keeps three digits, whoever adds them.
            rows = np.tile((mask == 0).any(-1), (1, 3, 1)) if low == -10000 else ...
            np.testing.assert_allclose(got[rows], expected[rows], **CLOSE["float32"])


@pytest.mark.parametrize("operand", [0, 1, 2])
@pytest.mark.parametrize("special", [np.nan, np.inf, 1e30])
def test_what_hidden_keys_hold_is_not_lost(additive: Any, operand: int, special: float) -> None:
    for m, n in ((9, 131), (73, 513)):
        arrays = random(m, n, 16, 16)
        arrays[operand][0, 1, -1, 3] = special
        mask = np.tile(np.where(causal(m, n), 0, LOWEST).astype("float32"), (2, 1, 1, 1))
        mask[..., -1] = LOWEST
        with np.errstate(over="ignore", invalid="ignore"):
            expected = reference(*arrays, mask)
            scores = arrays[0] @ arrays[1].swapaxes(-1, -2) + mask
        got = additive(*arrays, mask)
        finite = np.isfinite(scores).all(-1, keepdims=True) & np.isfinite(expected)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
        np.testing.assert_allclose(got[finite], expected[finite], **CLOSE["float32"])


def test_chosen_between() -> None:
    """A boolean mask before a scaling: the chain is ``where(mask, s, -inf) / 2``."""
    mask = tensor("mask", "?", 1, 1, "?", dtype="bool")
    inputs = qkv(12, 20, "float64")
    low, two = relay.const(-np.inf, "float64"), relay.const(2.0, "float64")

    def hide(s: Any) -> Any:
        return relay.where(mask, s, low) / two

    facts = [*FACTS, "mask.0 == q.0", "mask.3 == k.2"]
    body = attend(*inputs, chain=hide, scale=0.6, dtype="float64")
    program = compile_one([*inputs, mask], body, facts)
    assert LEFT_OUT in program.explain()
    for m, n in LENGTHS:
        q, k, v = random(m, n, 12, 20, "float64")
        keep = np.tile(padding(1, n), (2, 1, 1, 1))
        s = np.where(keep, q @ k.swapaxes(-1, -2) * 0.3, -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        expected = e / e.sum(-1, keepdims=True) @ v
        np.testing.assert_allclose(program(q, k, v, keep), expected, **CLOSE["float64"])


KEPT: dict[str, Callable[[Any, Any], Any]] = {
    "a chain that only scales": lambda s, m: s * relay.const(np.float32(0.5)),
    "a mask that multiplies": lambda s, m: s * m,
    "a chain that is not linear": lambda s, m: relay.tanh(s) + m,
}


@pytest.mark.parametrize("case", KEPT)
def test_every_key_is_computed_for(case: str) -> None:
    mask = tensor("mask", "?", 1, "?", "?")
    inputs = qkv(8, 8)
    facts = [*FACTS, "mask.0 == q.0", "mask.2 == q.2", "mask.3 == k.2"]
    body = attend(*inputs, chain=lambda s: KEPT[case](s, mask))
    said = planned([*inputs, mask], body, facts)
    assert "template: attention" in said and LEFT_OUT not in said
    added = attend(*inputs, chain=lambda s: s + mask)
    assert LEFT_OUT in planned([*inputs, mask], added, facts)
