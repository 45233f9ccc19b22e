"""Generation of tokens, greedy or by sampling, with a program that returns the next token's
logits.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from tvm_disc.errors import BadInput, shown
from tvm_disc.runtime.inputs import MOST, integer
from tvm_disc.runtime.text.choice import WordChoice
from tvm_disc.runtime.text.language import LanguageModel, LanguageState, Prompts, padded
from tvm_disc.runtime.text.loop import CompiledLoop, has_loop
from tvm_disc.typing import Array

__all__ = ["generate"]

#: Maps new tokens to the logits of the next token.
Step: TypeAlias = "Callable[[Array], Array]"


def generate(
    model: Step | LanguageModel,
    prompt: Prompts,
    most: int,
    *,
    stop: Iterable[int] = (),
    mask: Array | None = None,
    chunk: int = 0,
    ahead: int = 1,
    seed: int | None = None,
    **sampling: float,
) -> Iterator[Array]:
    """Yield tokens ``int64[b]``, one for each row of a prompt, up to ``most`` times.

    Args:
        model: a result of ``tvm_disc.language_model``; or a function such as ``lambda ids:
            state(ids=ids)``, which maps new tokens ``int64[b, s]`` to logits ``[b, s, v]`` or ``[b,
            v]`` and appends the tokens to its caches. The first call passes the prompt, later calls
            the last token of each row.
        prompt: ``ids[b, s]``; for a language model also a list of prompts of different lengths.
        stop: tokens that end a row. A row that has ended repeats its last token; generation ends
            when all rows have ended.
        mask: the attention mask of a language model's prompt: 0 marks left padding.
        chunk: tokens of the prompt that one call reads, which limits temporary memory; 0 reads all.
        ahead: tokens that a language model generates in one native call before they are yielded; 0
            generates all.
        seed: the random seed; the same seed reproduces the same tokens.
        sampling: fields of :class:`WordChoice`; greedy by default.

    Raises:
        BadInput: a wrong argument, or logits that are NaN.

    Examples:
        >>> lm = tvm_disc.language_model(model)  # a causal LM of transformers
        >>> words = [int(w[0]) for w in tvm_disc.generate(lm, [[1, 2, 3]], 40, stop=[2])]
    """
    try:
        rule = WordChoice(**sampling)  # type: ignore[arg-type]
    except TypeError:
        known = WordChoice.__dataclass_fields__
        unknown = ", ".join(name for name in sampling if name not in known)
        raise BadInput(f"generate: unknown {unknown}; expected {', '.join(known)}") from None
    if isinstance(most, bool) or not isinstance(most, int) or most < 0:
        raise BadInput(f"most: expected a number of tokens, at least 0, found {shown(most)}")
    last = _stop_words(stop)
    chunk, ahead = integer("chunk", chunk, 0, MOST), integer("ahead", ahead, 0, MOST)
    try:
        random = np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise BadInput(f"seed: expected a non-negative integer, found {shown(seed)}") from None
    if isinstance(model, LanguageModel):
        words, kept = padded(prompt, mask)
        model.check(words, kept, most)
        if len(words) and most and has_loop(model.program):

            def begin() -> CompiledLoop:
                state, scores = model.read(words, kept, chunk)
                return CompiledLoop(state, model.program, scores, rule, last, random, words)

            return _in_native_calls(begin, most, ahead or most)
        step: Step = _Reader(model, kept, chunk)
    elif callable(model):
        if mask is not None:
            raise BadInput(
                "mask: expected None: the model is a function, and only language models read masks"
            )
        words, step = _prompt(prompt), _in_parts(model, chunk)
    else:
        raise BadInput(
            "model: expected a model that tvm_disc.language_model returned, or a function from "
            f"token ids to logits, found {type(model).__name__}"
        )
    return _words(step, words, most, last, rule, random)


def _stop_words(stop: Iterable[int]) -> list[int]:
    """Return the tokens that end a row."""
    try:
        found = sorted({operator.index(word) for word in stop})
    except TypeError:
        raise BadInput(f"stop: expected a sequence of token ids, found {shown(stop)}") from None
    if found and not -MOST <= found[0] <= found[-1] <= MOST:
        raise BadInput(f"stop: expected token ids that fit int64, found {shown(stop)}")
    return found


def _prompt(ids: object) -> Array:
    """Return the prompt of a function as ``int64[b, s]``."""
    try:
        words = np.asarray(ids)
    except (ValueError, TypeError, RecursionError):  # ragged or nested too deeply
        words = np.empty((), object)
    if words.ndim != 2 or words.dtype.kind not in "iu" or not words.shape[1]:
        found = f"{words.dtype}[{', '.join(map(str, words.shape))}]"
        raise BadInput(f"prompt: expected integers [batch, length >= 1], found {found}")
    return words.astype(np.int64)


def _in_parts(step: Step, chunk: int) -> Step:
    """Return a step that passes at most ``chunk`` tokens at a time; 0 passes all."""

    def parts(ids: Array) -> Array:
        scores = step(ids[:, :chunk])
        for first in range(chunk, ids.shape[1], chunk):
            scores = step(ids[:, first : first + chunk])
        return scores

    return parts if chunk else step


def _in_native_calls(begin: Callable[[], CompiledLoop], most: int, ahead: int) -> Iterator[Array]:
    """Yield the tokens of a compiled loop; one native call generates ``ahead`` tokens per row."""
    loop = begin()
    while most > 0 and not loop.ended:
        found = loop.run(min(ahead, most))
        most -= len(found)
        yield from found


class _Reader:
    """Calls a language model with new tokens; the first call reads the prompt."""

    def __init__(self, model: LanguageModel, mask: Array, chunk: int) -> None:
        self._model, self._mask, self._chunk = model, mask, chunk
        self._state: LanguageState | None = None

    def __call__(self, ids: Array) -> Array:
        if self._state is not None:
            return self._state(ids)
        self._state, scores = self._model.read(ids, self._mask, self._chunk)
        return scores


def _words(
    step: Step,
    words: Array,
    most: int,
    stop: Sequence[int],
    rule: WordChoice,
    random: np.random.Generator,
) -> Iterator[Array]:
    (rows, length), last = words.shape, np.array(stop, np.int64)
    ended, new = np.zeros(rows, bool), words
    for count in range(most if rows else 0):
        scores = np.asarray(step(new))
        found = list(scores.shape)
        scores = scores[:, -1] if scores.ndim == 3 else scores
        if scores.ndim != 2 or len(scores) != rows or not scores.shape[1]:
            raise BadInput(
                f"model: expected logits of shape [{rows}, vocabulary] or [{rows}, length, "
                f"vocabulary], found {found}"
            )
        scores = scores.astype(np.result_type(scores.dtype, np.float32), copy=False)
        if np.isnan(scores).any():
            raise BadInput(
                f"model: the logits that choose token {length + count} of the rows contain NaN"
            )
        chosen = rule.choose(scores, words, random)
        if len(last):
            chosen = np.where(ended, new[:, -1], chosen)
            ended |= np.isin(chosen, last)
        new = chosen[:, None]
        if rule.repetition_penalty != 1.0:
            words = np.concatenate([words, new], axis=1)
        yield chosen
        if ended.all():
            return
