"""Words that are generated from scores: greedy, sampled, stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import BadInput
from tvm_disc.runtime.text.choice import WordChoice, highest, most_probable
from tvm_disc.runtime.text.generate import generate

SCORES = np.log(np.array([0.5, 0.25, 0.15, 0.07, 0.03]))
WORDS = len(SCORES)


def fixed(ids: np.ndarray) -> np.ndarray:
    """The same scores for every word."""
    return np.broadcast_to(SCORES, (*ids.shape, WORDS))


def shares(rule: WordChoice, scores: np.ndarray = SCORES, rows: int = 20000) -> np.ndarray:
    random = np.random.default_rng(0)
    words = np.zeros((rows, 1), "int64")
    chosen = rule.choose(np.tile(scores, (rows, 1)), words, random)
    return np.bincount(chosen, minlength=len(scores)) / rows


@pytest.mark.parametrize(
    ("given", "kept", "temperature"),
    [
        ({}, 5, 1.0),
        ({"top_k": 2}, 2, 1.0),
        ({"top_k": 9}, 5, 1.0),
        ({"top_p": 0.5}, 1, 1.0),
        ({"top_p": 0.51}, 2, 1.0),
        ({"top_p": 0.95}, 4, 1.0),
        ({"top_k": 3, "top_p": 0.8}, 2, 1.0),
        ({"temperature": 0.5}, 5, 0.5),
        ({"temperature": 2.0, "top_k": 3}, 3, 2.0),
    ],
)
def test_probabilities(given: dict[str, Any], kept: int, temperature: float) -> None:
    found = shares(WordChoice(**{"temperature": 1.0, **given}))
    want = np.exp(SCORES / temperature)
    want[kept:] = 0
    assert not found[kept:].any()
    np.testing.assert_allclose(found, want / want.sum(), atol=0.015)


def sorted_words(logs: np.ndarray) -> np.ndarray:
    return np.argsort(-logs, kind="stable")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spread", [0.0, 1e-3, 1.0, 8.0, 500.0])
@pytest.mark.parametrize("words", [1, 2, 97, 5000])
def test_the_most_probable_words_are_those_of_a_sort(words: int, spread: float, dtype: str) -> None:
    rng = np.random.default_rng(words)
    for kind in range(3):
        scores = rng.standard_normal(words) * spread
        if kind == 1:
            scores = np.round(scores)  # ties
        elif kind == 2:
            scores[rng.random(words) < 0.4] = -np.inf
            scores[words // 2] = scores.max(initial=0.0, where=np.isfinite(scores))
        logs = (scores - scores.max()).astype(dtype)
        order = sorted_words(logs)
        for count in sorted({1, 2, 40, words} & set(range(1, words + 1))):
            expected = np.flatnonzero(logs >= logs[order[count - 1]])
            np.testing.assert_array_equal(highest(logs, count), expected)
        chances = np.exp(logs)
        total = chances.sum(dtype=np.float64)
        for share in (1e-9, 0.1, 0.5, 0.9, 0.999):
            kept = most_probable(logs, chances, share)
            assert set(kept) == set(order[: len(kept)])
            sums = chances[order].astype(np.float64).cumsum()
            assert sums[len(kept) - 1] >= share * total * (1 - 1e-12)
            assert len(kept) == 1 or sums[len(kept) - 2] < share * total * (1 + 1e-12)


@pytest.mark.parametrize("sampling", [{"top_k": 1}, {"top_p": 0.5}])
def test_scores_that_are_nearly_equal(sampling: dict[str, Any]) -> None:
    scores = np.array([[0, -1e-40, -2e-40, -1.0]], "float32")
    rule, random = WordChoice(temperature=1.0, **sampling), np.random.default_rng(0)
    found = {int(rule.choose(scores, np.zeros((1, 1), "int64"), random)[0]) for _ in range(40)}
    assert found <= {0, 1, 2}


@pytest.mark.parametrize("sampling", [{}, {"top_k": 2}, {"top_p": 0.9}])
def test_scores_that_are_infinite(sampling: dict[str, Any]) -> None:
    rule = WordChoice(temperature=1.0, **sampling)
    inf = np.inf
    rows = np.array([[-inf, 3.0, -inf, -inf], [0.0, inf, -inf, inf], [-inf] * 4], "float32")
    words, random = np.zeros((3, 1), "int64"), np.random.default_rng(0)
    found = np.stack([rule.choose(rows, words, random) for _ in range(50)], axis=1)
    assert set(found[0]) == {1} and set(found[1]) == {1, 3}
    assert set(found[2]) <= {0, 1, 2, 3}


@pytest.mark.parametrize("temperature", [1e-30, 1e-300])
def test_a_temperature_near_0_is_greedy(temperature: float) -> None:
    scores = np.random.default_rng(0).standard_normal((40, 300)).astype("float32")
    rule = WordChoice(temperature=temperature)
    found = rule.choose(scores, np.zeros((40, 1), "int64"), np.random.default_rng(1))
    np.testing.assert_array_equal(found, scores.argmax(-1))


def test_words_that_occurred_are_less_probable() -> None:
    scores = np.array([2.0, 1.0, -1.0])
    rule = WordChoice(repetition_penalty=2.0)
    words = np.array([[0, 2, 2]])
    assert rule.choose(scores[None], words, np.random.default_rng(0)).tolist() == [0]
    assert WordChoice(repetition_penalty=3.0).choose(
        scores[None], words, np.random.default_rng(0)
    ).tolist() == [1]


def test_seeds() -> None:
    draws = [
        np.stack(list(generate(fixed, np.zeros((3, 2), "int32"), 20, seed=s, temperature=1.0)))
        for s in (1, 1, 2)
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any() and draws[0].shape == (20, 3)


def test_rows_end_one_by_one() -> None:
    """A row that has ended repeats its stop word; the last row ends the generation."""
    order = {0: [1, 4, 2, 2], 1: [3, 3, 4, 0]}
    calls: list[tuple[int, ...]] = []

    def step(ids: np.ndarray) -> np.ndarray:
        at = len(calls)
        calls.append(ids.shape)
        return np.eye(WORDS)[[order[0][at], order[1][at]]]

    found = [w.tolist() for w in generate(step, np.ones((2, 6), "int64"), 9, stop=[4])]
    assert found == [[1, 3], [4, 3], [4, 4]]
    assert calls == [(2, 6), (2, 1), (2, 1)]


def test_a_program_with_caches_in_place() -> None:
    """Greedy words are those of the program that sees the whole text at once."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((11, 32)).astype("float32")
    ids = relay.var("ids", shape=(1, relay.Any()), dtype="int64")
    past = relay.var("past", shape=(1, relay.Any(), 32))
    new = relay.take(relay.const(table), ids, axis=0)
    now = relay.concatenate([past, new], axis=1)
    mean = relay.mean(now, axis=[1])
    scores = relay.nn.dense(relay.tanh(mean * relay.const(np.float32(7))), relay.const(table[::-1]))
    func = relay.Function([ids, past], relay.Tuple([scores, now]))
    exe = tvm_disc.build(func, options=tvm_disc.Options(state=["past"]))
    state = exe.state()
    prompt = np.array([[3, 1, 4]])
    text = prompt[0].tolist()
    for word in tvm_disc.generate(lambda x: state(ids=x), prompt, 12):
        seen = table[text].mean(0)
        assert word[0] == (np.tanh(seen * 7) @ table[::-1].T).argmax()
        text.append(int(word[0]))
    assert state.length == len(text) - 1


def test_no_rows_and_no_words() -> None:
    assert list(generate(fixed, np.zeros((0, 2), int), 3)) == []
    assert list(generate(fixed, np.zeros((1, 2), int), 0)) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WordChoice(temperature=-1), "temperature: expected a number from 0 to 1e+06"),
        (lambda: WordChoice(top_p=0.0), "top_p: expected a number from 1e-09 to 1, found 0.0"),
        (lambda: WordChoice(top_k=-2), "top_k: expected 0 or a positive integer, found -2"),
        (lambda: WordChoice(repetition_penalty=0), "repetition_penalty: expected a number from"),
        (lambda: generate(fixed, np.zeros((1, 2)), 3), "prompt: expected integers [batch, length"),
        (lambda: generate(fixed, np.zeros((1, 0), int), 3), "prompt: expected integers [batch, "),
        (
            lambda: generate(fixed, np.zeros((1, 2), int), -1),
            "most: expected a number of tokens, at least 0",
        ),
        (
            lambda: generate(fixed, np.zeros((1, 2), int), 3, seed=-1),
            "seed: expected a non-negative integer, found -1",
        ),
        (
            lambda: next(generate(fixed, np.full((1, 2), 7), 3, repetition_penalty=2.0)),
            "prompt: expected token ids 0 .. 4, the vocabulary of the logits, found 7",
        ),
        (
            lambda: generate(fixed, np.zeros((1, 2), int), 3, heat=1.0),
            "generate: unknown heat; expected temperature, top_k, top_p, repetition_penalty",
        ),
        (
            lambda: next(generate(lambda ids: np.zeros(3), np.zeros((1, 2), int), 3)),
            "model: expected logits of shape [1, vocabulary] or [1, length, vocabulary], found [3]",
        ),
        (
            lambda: next(generate(lambda ids: fixed(ids) * np.nan, np.zeros((1, 2), int), 3)),
            "model: the logits that choose token 2 of the rows contain NaN",
        ),
    ],
)
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(BadInput) as failed:
        make()
    assert str(failed.value).startswith(message)
