"""Language models: a compiled step, its caches and recurrent states, and prompt processing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tvm_disc.abi.language import IDS, MASK, PAST, POSITIONS, RECURRENT
from tvm_disc.errors import BadInput, shown
from tvm_disc.runtime.arrays import numpy_dtype
from tvm_disc.typing import Array

if TYPE_CHECKING:
    from tvm_disc.runtime.executable import Executable
    from tvm_disc.runtime.profile import Profile

Prompts: TypeAlias = "Array | Sequence[Sequence[int]]"


class LanguageModel:
    """A program that maps tokens to logits of the next token, over caches that it extends in place.

    ``tvm_disc.language_model`` makes it; ``tvm_disc.generate`` generates tokens with it.

    Args:
        program: has the inputs ``ids``, ``mask`` and ``positions``, caches ``past_*`` if any, and
            recurrent states ``recurrent_*`` if any. Its results are the logits ``[batch,
            vocabulary]`` of the next token, and the new recurrent states.
        positions: maximum number of tokens of a sequence; 0 if there is no limit.

    Raises:
        BadInput: the program has other inputs.
    """

    def __init__(self, program: Executable, positions: int = 0) -> None:
        self.program, self.positions = program, positions
        signature = {name: (dims, dtype) for name, dims, dtype in program.signature}
        caches = [n for n in signature if n.startswith(PAST) and not n.endswith("_length")]
        self._recurrent = {n: s for n, s in signature.items() if n.startswith(RECURRENT)}
        known = {IDS, MASK, POSITIONS, *caches, *self._recurrent}
        other = [n for n in signature if n not in known and not n.endswith("_length")]
        missing = [n for n in (IDS, MASK, POSITIONS) if n not in signature]
        if other or missing:
            raise BadInput(
                "language_model: expected a program with the inputs ids, mask, positions, past_* "
                f"and recurrent_*, found {', '.join(signature) or 'no inputs'}"
            )
        self._batch = signature[caches[0]][0][0] if caches else ""
        self.one_by_one = signature[IDS][0][1] == "1"
        self.vocabulary = int(program.results[0][0][-1])

    def __repr__(self) -> str:
        limit = f", {self.positions} positions" if self.positions else ""
        return f"<tvm_disc language model of {self.vocabulary} tokens{limit}>"

    def read(self, words: Array, mask: Array, chunk: int = 0) -> tuple[LanguageState, Array]:
        """Return a state that has read a prompt, and the logits of the next token of each row.

        Args:
            words: ``int64[batch, length]``.
            mask: 0 for padding, which must be on the left of each row; 1 for tokens.
            chunk: maximum number of tokens that one call of the program reads; 0 reads all at once.
                Programs with recurrent states read one token per call.
        """
        state = LanguageState(self, len(words))
        step = 1 if self.one_by_one else (chunk or words.shape[1])
        scores = np.zeros((len(words), self.vocabulary), np.float32)
        for first in range(0, words.shape[1], step):
            part = slice(first, first + step)
            scores = state(words[:, part], mask[:, part])
        return state, scores

    def check(self, words: Array, mask: Array, most: int) -> None:
        """Raise BadInput if a token is not in the vocabulary, or if a sequence would exceed the
        limit of positions.
        """
        outside = words[((words < 0) | (words >= self.vocabulary)) & (mask != 0)]
        if len(outside):
            raise BadInput(
                f"prompt: expected token ids 0 .. {self.vocabulary - 1}, the vocabulary of the "
                f"model, found {outside[0]}"
            )
        longest = int(mask.sum(1).max(initial=0))
        if self.positions and longest + most - 1 > self.positions:
            raise BadInput(
                f"prompt: the model has {self.positions} positions; found {longest} tokens of a "
                f"prompt and {most} to generate; shorten the prompt, or generate fewer tokens"
            )

    def _states(self, batch: int) -> dict[str, Array]:
        return {
            name: np.zeros((batch, *map(int, dims[1:])), numpy_dtype(dtype))
            for name, (dims, dtype) in self._recurrent.items()
        }


class LanguageState:
    """Caches and recurrent states of a language model, for the tokens that a batch has read."""

    def __init__(self, model: LanguageModel, batch: int) -> None:
        program, sizes = model.program, {}
        if model._batch and not model._batch.isdecimal():
            sizes = {model._batch: batch}
        self._caches = program.state(**sizes) if model._batch else None
        self._call = program if self._caches is None else self._caches
        self._recurrent = model._states(batch)
        self._read = np.zeros((batch, 1), np.int64)  # number of read tokens per row

    def __call__(self, words: Array, mask: Array | None = None) -> Array:
        """Read tokens ``[batch, length]``, and return the logits ``[batch, vocabulary]`` of the
        next token of each row.
        """
        mask = np.ones(words.shape, np.int64) if mask is None else mask
        found = self._call(**self._given(words, mask))
        self._read = self._read + mask.sum(1, keepdims=True)
        scores, *states = found if self._recurrent else [found]
        # A row that has read only padding keeps its initial recurrent state, which is zero.
        started = self._read[:, 0] > 0
        for name, state in zip(self._recurrent, states, strict=True):
            made = np.array(state)
            made[~started] = 0
            self._recurrent[name] = made
        return np.asarray(scores)

    def run(
        self,
        given: Mapping[str, Array],
        most: int,
        steps: Callable[[dict[str, Array], dict[str, int]], int],
    ) -> None:
        """Prepare the inputs, and call ``steps``, which runs up to ``most`` steps of one token per
        row.

        Args:
            given: the inputs ``ids``, ``mask`` and ``positions``; ``positions`` is filled here.
            steps: receives all inputs by name, and the number of rows of each cache. It replaces
                the recurrent states in the inputs, and returns the number of steps.
        """
        given[POSITIONS][...] = self._read

        def made(caches: Mapping[str, Array], lengths: dict[str, int]) -> int:
            inputs = {**given, **self._recurrent, **caches}
            count = steps(inputs, lengths)
            self._read = self._read + count
            self._recurrent = {name: inputs[name] for name in self._recurrent}
            return count

        if self._caches is None:
            made({}, {})
        else:
            self._caches.run({**given, **self._recurrent}, most, made)

    def profile(self, words: Array, repeat: int = 30) -> Profile:
        """Time calls that read ``words``, kernel by kernel; the state does not change.

        Args:
            words: ``int64[batch, length]``.
            repeat: the number of calls whose times are kept.
        """
        return self._call.profile(
            **self._given(words, np.ones(words.shape, np.int64)), repeat=repeat
        )

    def _given(self, words: Array, mask: Array) -> dict[str, Array]:
        positions = np.maximum(self._read + np.cumsum(mask, 1) - 1, 0)
        given = {IDS: words, MASK: mask, POSITIONS: positions, **self._recurrent}
        return {n: np.ascontiguousarray(x) for n, x in given.items()}


def padded(prompt: Prompts, mask: Array | None) -> tuple[Array, Array]:
    """Return prompts ``int64[batch, length]`` with padding on the left, and their mask.

    Padding repeats the first token of its row, so that no additional token counts as occurred.

    Args:
        prompt: an array ``[batch, length]``, or a sequence of prompts of any lengths.
        mask: 0 for tokens of an array that are padding, which must be on the left.

    Raises:
        BadInput: a prompt is empty or has other elements than integers, or the mask is wrong.
    """
    rows = list(_rows(prompt))
    length = max(map(len, rows), default=1)
    shape = (len(rows), length)
    if mask is None:
        kept = np.array([[k >= length - len(r) for k in range(length)] for r in rows], np.int64)
        kept = kept.reshape(shape)
    else:
        kept = _checked_mask(mask, shape)
    words = np.empty(shape, np.int64)
    for row, given, real in zip(words, rows, kept, strict=True):
        row[length - len(given) :] = given
        row[real == 0] = row[int(real.argmax())]
    return words, kept


def _rows(prompt: Prompts) -> Iterator[Array]:
    if hasattr(prompt, "shape"):
        array = np.asarray(prompt)
        if array.ndim != 2 or array.dtype.kind not in "iu" or not array.shape[1]:
            found = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
            raise BadInput(
                f"prompt: expected integers [batch, length >= 1], found {found}"
                + (": pass a batch of one as prompt[None]" if array.ndim == 1 else "")
            )
        yield from array
        return
    if not isinstance(prompt, list | tuple):
        raise BadInput(f"prompt: expected an array or a list of prompts, found {shown(prompt)}")
    for k, words in enumerate(prompt):
        try:
            row = np.asarray(words)
        except (ValueError, TypeError, RecursionError):  # ragged or nested too deeply
            row = np.empty((), object)
        if row.ndim != 1 or row.dtype.kind not in "iu" or not len(row):
            raise BadInput(
                f"prompt: row {k}: expected a list of one or more token ids, found {shown(words)}"
            )
        yield row


def _checked_mask(mask: Array, shape: tuple[int, ...]) -> Array:
    kept = np.asarray(mask)
    if kept.shape != shape or kept.dtype.kind not in "iub":
        found = f"{kept.dtype}[{', '.join(map(str, kept.shape))}]"
        raise BadInput(
            f"mask: expected integers of the prompt's shape {list(shape)}, found {found}"
        )
    kept = (kept != 0).astype(np.int64)
    wrong = (np.diff(kept, axis=1) < 0).any(1) | ~kept.any(1)
    if wrong.any():
        raise BadInput(
            f"mask: row {int(wrong.argmax())}: expected zeros (padding) on the left, then one or "
            f"more ones (tokens), found {shown(kept[int(wrong.argmax())].tolist())}"
        )
    return np.asarray(kept)


__all__ = [
    "IDS",
    "MASK",
    "PAST",
    "POSITIONS",
    "RECURRENT",
    "LanguageModel",
    "LanguageState",
    "padded",
]
