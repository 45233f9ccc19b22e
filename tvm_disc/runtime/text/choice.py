"""Choice of the next token from logits: greedy, or sampling among the most probable tokens.

Sorting the logits of a whole vocabulary can take longer than a step of the model. Sampling
therefore counts tokens and adds up their probabilities in bins of logits, and sorts only the tokens
of the bin that contains the limit of ``top_k`` or ``top_p``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvm_disc.errors import BadInput, shown
from tvm_disc.typing import Array

__all__ = ["WordChoice", "highest", "most_probable"]

BINS = 1024
#: The last bin contains all tokens whose log probability is lower than the highest by RANGE or
#: more.
RANGE = 32.0


@dataclass(frozen=True)
class WordChoice:
    """How the next token is chosen from logits, in this order.

    Attributes:
        repetition_penalty: for tokens that occurred before, positive logits are divided by this
            number and negative ones multiplied (Keskar et al., 2019); 1 changes nothing.
        temperature: divisor of the logits; 0 takes the token with the highest logit.
        top_k: keep the tokens with the ``top_k`` highest logits, and tokens with the same logit as
            the last of them; 0 keeps all.
        top_p: keep the most probable tokens until their probabilities add up to ``top_p`` (Holtzman
            et al., 2020); 1 keeps all.

    Raises:
        BadInput: a number is out of range.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        _within("temperature", self.temperature, 0.0, 1e6)
        _within("top_p", self.top_p, 1e-9, 1.0)
        _within("repetition_penalty", self.repetition_penalty, 1e-6, 1e6)
        if isinstance(self.top_k, bool) or not isinstance(self.top_k, int) or self.top_k < 0:
            raise BadInput(f"top_k: expected 0 or a positive integer, found {shown(self.top_k)}")

    def choose(self, scores: Array, words: Array, random: np.random.Generator) -> Array:
        """Return tokens ``int64[b]``, one for each row of the logits ``scores[b, v]``; ``words[b,
        s]`` are the tokens that occurred before.
        """
        if self.repetition_penalty != 1.0:
            scores = self._penalized(scores, words)
        if self.temperature == 0:
            return np.asarray(scores.argmax(-1))
        draws = random.random(len(scores))
        return np.array([self._drawn(*each) for each in zip(scores, draws, strict=True)], np.int64)

    def _penalized(self, scores: Array, words: Array) -> Array:
        """Return a copy of the logits in which tokens that occurred have lower logits."""
        scores = np.array(scores)
        for row, seen in zip(scores, words, strict=True):
            known = np.unique(seen)
            outside = known[(known < 0) | (known >= len(row))]
            if len(outside):
                raise BadInput(
                    f"prompt: expected token ids 0 .. {len(row) - 1}, the vocabulary of the "
                    f"logits, found {outside[0]}"
                )
            part = row[known]
            by = np.where(part > 0, 1 / self.repetition_penalty, self.repetition_penalty)
            row[known] = part * by
        return scores

    def _drawn(self, scores: Array, draw: float) -> int:
        """Return the token that a uniform number ``draw`` in [0, 1) selects, by inverse transform
        sampling.
        """
        top = scores.max()
        if not np.isfinite(top):
            highest_words = np.flatnonzero(scores == top)
            return int(highest_words[_place(np.ones(len(highest_words)), draw)])
        with np.errstate(over="ignore"):
            logs = (scores - top) / max(self.temperature, float(np.finfo(np.float32).tiny))
        kept = None
        if 0 < self.top_k < len(logs):
            kept = highest(logs, self.top_k)
            logs = logs[kept]
        chances = np.exp(logs)
        if self.top_p < 1.0:
            probable = most_probable(logs, chances, self.top_p)
            kept, chances = probable if kept is None else kept[probable], chances[probable]
        place = _place(chances, draw)
        return place if kept is None else int(kept[place])


def _place(chances: Array, draw: float) -> int:
    """Return the position at which the cumulative sum of ``chances`` exceeds ``draw`` times their
    sum.
    """
    sums = np.cumsum(chances, dtype=np.float64)
    return int(np.searchsorted(sums, draw * sums[-1], side="right"))


def _bins(logs: Array) -> Array:
    """Return the bin of each token; bin 0 has the highest logits. ``logs`` are at most 0."""
    spread = max(min(RANGE, -float(logs.min(initial=0.0))), 1e-30)
    scaled = logs * logs.dtype.type(-BINS / spread)
    return np.asarray(np.minimum(scaled, BINS - 1), np.int64)


def highest(logs: Array, count: int) -> Array:
    """Return the positions of the ``count`` highest numbers, and of all numbers equal to the lowest
    of these.

    Args:
        logs: numbers of which the highest is 0; may contain minus infinity.
        count: 1 to ``len(logs)``.
    """
    bins = _bins(logs)
    counts = np.bincount(bins, minlength=BINS).cumsum()
    last = int(np.searchsorted(counts, count))
    inside = logs[bins == last]
    missing = len(inside) - (count - (int(counts[last - 1]) if last else 0))
    return np.flatnonzero(logs >= np.partition(inside, missing)[missing])


def most_probable(logs: Array, chances: Array, share: float) -> Array:
    """Return the positions of the most probable tokens, whose probabilities add up to ``share``.

    A token is kept if the more probable tokens add up to less than ``share``. Tokens of equal
    probability are in the order of their positions.

    Args:
        logs: as for :func:`highest`.
        chances: ``exp(logs)``.
        share: fraction of the sum of ``chances``, in (0, 1].
    """
    bins = _bins(logs)
    sums = np.bincount(bins, weights=chances, minlength=BINS).cumsum()
    limit = share * sums[-1]
    last = int(np.searchsorted(sums, limit))
    inside = np.flatnonzero(bins == last)
    inside = inside[np.argsort(-logs[inside], kind="stable")]
    own = chances[inside].astype(np.float64)
    before = (sums[last - 1] if last else 0.0) + np.cumsum(own) - own
    return np.concatenate([np.flatnonzero(bins < last), inside[before < limit]])


def _within(name: str, value: object, low: float, high: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not isinstance(value, int | float) or not low <= value <= high:
        raise BadInput(f"{name}: expected a number from {low:g} to {high:g}, found {shown(value)}")
