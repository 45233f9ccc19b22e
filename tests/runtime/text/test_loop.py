"""Tokens of the compiled loop are those of the loop in Python, and its errors are designed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import tvm_disc
from tests.language_step import WIDTH, step_of
from tvm_disc.errors import BadInput, GuardFailed
from tvm_disc.runtime.text import loop
from tvm_disc.runtime.text.generate import generate
from tvm_disc.runtime.text.language import LanguageModel

LONGEST = 400


@cache
def model(vocabulary: int, recurrent: bool = True, dtype: str = "float32") -> LanguageModel:
    exe = tvm_disc.build(
        step_of(vocabulary, recurrent, dtype),
        constraints=[f"read <= {LONGEST}"],
        options=tvm_disc.Options(state=["past_*"]),
    )
    return tvm_disc.language_model(exe)


@pytest.fixture
def python() -> Iterator[None]:
    with mock.patch("tvm_disc.runtime.text.generate.has_loop", return_value=False):
        yield


def tokens(lm: LanguageModel, prompts: Any, most: int, **given: Any) -> np.ndarray:
    found = list(generate(lm, prompts, most, **given))
    return np.stack(found) if found else np.zeros((0, len(prompts)), np.int64)


def in_python(lm: LanguageModel, prompts: Any, most: int, **given: Any) -> np.ndarray:
    with mock.patch("tvm_disc.runtime.text.generate.has_loop", return_value=False):
        return tokens(lm, prompts, most, **given)


SAMPLING: list[dict[str, Any]] = [
    {},
    {"repetition_penalty": 1.5},
    {"temperature": 1.0},
    {"temperature": 0.6, "top_k": 3},
    {"temperature": 2.0, "top_k": 1000},
    {"temperature": 1.5, "top_p": 0.8},
    {"temperature": 1.5, "top_p": 0.95, "top_k": 5, "repetition_penalty": 1.2},
]
PROMPTS: list[list[list[int]]] = [
    [[1, 0, 1]],
    [[0], [1, 1, 1, 0]],
    [[1], [0, 1], [1, 0, 0, 1, 1], [0] * 17, [1] * 31],
]


@pytest.mark.parametrize("sampling", SAMPLING, ids=str)
@pytest.mark.parametrize("vocabulary", [2, 16, 97, 1500])
def test_tokens_are_those_of_python(vocabulary: int, sampling: dict[str, Any]) -> None:
    lm = model(vocabulary)
    assert loop.has_loop(lm.program)
    for prompts in PROMPTS:
        for ahead in (1, 5, 0):
            given = {"ahead": ahead, "seed": 7, **sampling}
            found = tokens(lm, prompts, 40, **given)
            np.testing.assert_array_equal(found, in_python(lm, prompts, 40, **given))


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("ahead", [1, 3, 0])
def test_rows_end_one_by_one(ahead: int, recurrent: bool) -> None:
    lm, prompts = model(16, recurrent), PROMPTS[2]
    free = tokens(lm, prompts, 60, temperature=1.0, seed=1)
    stop = sorted({int(token) for token in free[10]})
    given: dict[str, Any] = {"temperature": 1.0, "seed": 1, "stop": stop, "ahead": ahead}
    found = tokens(lm, prompts, 60, **given)
    np.testing.assert_array_equal(found, in_python(lm, prompts, 60, **given))
    assert len(found) <= 11 and set(found[-1]) <= set(stop)
    assert len(tokens(lm, prompts, 60, **{**given, "stop": stop[:1]})) > len(found)


@pytest.mark.parametrize("most", [0, 1, 2, 63, 64, 65, 300])
def test_any_number_of_tokens(most: int) -> None:
    found = tokens(model(97), [[3, 4]], most, ahead=0)
    assert len(found) == most
    np.testing.assert_array_equal(found, in_python(model(97), [[3, 4]], most))


def test_a_prompt_in_parts_and_padding_on_the_left() -> None:
    lm = model(97, recurrent=False)
    ids, mask = np.array([[9, 9, 4, 5, 6], [1, 2, 3, 4, 5]]), np.array([[0, 0, 1, 1, 1], [1] * 5])
    found = tokens(lm, ids, 30, mask=mask, chunk=2, ahead=0)
    np.testing.assert_array_equal(found[:, 0], tokens(lm, [[4, 5, 6]], 30)[:, 0])
    np.testing.assert_array_equal(found[:, 1], tokens(lm, [[1, 2, 3, 4, 5]], 30)[:, 0])


def test_a_long_run_returns_to_python_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = tokens(model(97), PROMPTS[1], 90, temperature=1.0, seed=2)
    monkeypatch.setattr(loop, "SECONDS", 1e-9)  # a native call ends after one token
    found = tokens(model(97), PROMPTS[1], 90, temperature=1.0, seed=2, ahead=0)
    np.testing.assert_array_equal(found, expected)


def test_equal_seeds_give_equal_tokens() -> None:
    draws = [tokens(model(97), [[1]], 30, temperature=1.0, seed=s)[:, 0] for s in (1, 1, 2)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


def test_a_saved_program_contains_the_loop(tmp_path: Path) -> None:
    lm = model(16)
    lm.program.save(tmp_path / "lm.so")
    loaded = tvm_disc.language_model(tvm_disc.load(tmp_path / "lm.so"))
    assert loop.has_loop(loaded.program)
    given: dict[str, Any] = {"temperature": 1.0, "seed": 3, "ahead": 0}
    expected = tokens(lm, PROMPTS[1], 30, **given)
    np.testing.assert_array_equal(tokens(loaded, PROMPTS[1], 30, **given), expected)


def test_other_programs_and_watched_ones_run_in_python(tmp_path: Path) -> None:
    double = model(16, True, "float64")
    assert not loop.has_loop(double.program)
    assert len(tokens(double, [[1, 2]], 5)) == 5
    lm = model(16)
    expected = tokens(lm, [[1, 2]], 5)
    with lm.program.record_shapes(tmp_path / "seen.jsonl"):
        assert not loop.has_loop(lm.program)
        np.testing.assert_array_equal(tokens(lm, [[1, 2]], 5), expected)
    assert loop.has_loop(lm.program)


def test_caches_that_drop_rows_run_in_python() -> None:
    options = tvm_disc.Options(state=["past_*"], state_window=LONGEST)
    lm = tvm_disc.language_model(tvm_disc.build(step_of(16), options=options))
    assert not loop.has_loop(lm.program)
    expected = tokens(model(16), [[1, 2]], 30)
    np.testing.assert_array_equal(tokens(lm, [[1, 2]], 30, ahead=0), expected)


@pytest.mark.parametrize("ahead", [1, 50, 0])
def test_tokens_before_a_failure_are_returned(ahead: int) -> None:
    """The guard of the step fails after LONGEST rows, and its error names the user's dim."""
    lm = model(16)
    made = generate(lm, [[1] * (LONGEST - 20)], 100, ahead=ahead)
    found = []
    with pytest.raises(GuardFailed, match=f"read <= {LONGEST}"):
        for word in made:
            found.append(word)
    assert len(found) == 22


@pytest.mark.parametrize("ahead", [1, 0])
def test_scores_that_are_not_numbers(ahead: int) -> None:
    lm = model(2)
    state = np.full((1, WIDTH), np.nan, np.float32)
    with mock.patch.object(LanguageModel, "_states", return_value={"recurrent_0": state}):
        made = generate(lm, [[1, 0]], 4, ahead=ahead)
        with pytest.raises(BadInput, match="that choose token 2 of the rows contain NaN"):
            next(made)


@pytest.mark.parametrize(
    "stop", [{5, 6}, frozenset((5,)), iter([6]), np.array([5, 6], "uint8"), {5: 1}]
)
def test_stop_tokens_of_any_kind(stop: Any) -> None:
    lm = model(16)
    given: dict[str, Any] = {"temperature": 1.0, "seed": 1, "top_k": 2**70}
    kinds = [6] if isinstance(stop, Iterator) else sorted(map(int, stop))
    found = tokens(lm, [[1, 2]], 40, stop=stop, **given)
    np.testing.assert_array_equal(found, in_python(lm, [[1, 2]], 40, stop=kinds, **given))
    assert set(found[:-1, 0]).isdisjoint(int(k) for k in kinds)


@pytest.mark.parametrize(
    "stop", [2, None, [2.5], ["2"], [float("nan")], [[1, 2], [3, 4]], np.zeros((3, 0)), [2**64]]
)
def test_wrong_stop_tokens(stop: Any) -> None:
    with pytest.raises(BadInput, match="stop: expected"):
        generate(model(2), [[1]], 3, stop=stop)


def test_refusals() -> None:
    for wrong in (-1, 1.5, True, "all"):
        with pytest.raises(BadInput, match="ahead: expected"):
            generate(model(2), [[1]], 3, ahead=wrong)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"expected token ids 0 \.\. 1"):
        generate(model(2), [[2]], 3)


@pytest.mark.parametrize("machine", ["aarch64-linux-gnu", "x86_64-linux-gnu"])
def test_other_architectures_contain_the_loop(machine: str) -> None:
    target = {"kind": "llvm", "mtriple": machine}
    options = tvm_disc.Options(state=["past_*"])
    exe = tvm_disc.build(step_of(16), target=target, options=options)
    text = exe.source("ll")
    assert "@__tvm_ffi_tvm_disc_generate" in text and "disc.generate" not in text
