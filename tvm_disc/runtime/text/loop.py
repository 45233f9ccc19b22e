"""The compiled loop over tokens: the step of a language model and the choice of the next token in
one native call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tvm_disc.abi.entries import GENERATE, TENSOR_WORDS, arguments_of, tensor_words
from tvm_disc.abi.generation import (
    DONE,
    NOT_A_NUMBER,
    SCRATCH_BYTES,
    SCRATCH_MORE,
    PlanWord,
)
from tvm_disc.abi.language import IDS, MASK, POSITIONS, RECURRENT
from tvm_disc.errors import BadInput
from tvm_disc.runtime.text.choice import WordChoice
from tvm_disc.typing import Array

if TYPE_CHECKING:
    from tvm_disc.runtime.executable import Executable
    from tvm_disc.runtime.text.language import LanguageState

#: Time limit of a native call, in seconds: Python handles signals only between native calls.
SECONDS = 0.1
#: Minimum number of tokens for which a native call reserves memory.
FEW = 64


class CompiledLoop:
    """Generates tokens from a state that has read a prompt.

    Args:
        state: reads the generated tokens; a token is read when the next one is generated.
        program: a program that contains the loop, see :func:`has_loop`.
        scores: logits of the next token, ``float32[batch, vocabulary]``.
        rule: how tokens are chosen.
        stop: tokens that end a row.
        random: draws one number for each row and token.
        prompt: ``int64[batch, length]``.
    """

    def __init__(
        self,
        state: LanguageState,
        program: Executable,
        scores: Array,
        rule: WordChoice,
        stop: Sequence[int],
        random: np.random.Generator,
        prompt: Array,
    ) -> None:
        rows, vocabulary = scores.shape
        self._state, self._program, self._random = state, program, random
        self._generate = program.function(GENERATE)
        self._read, self._status = prompt.shape[1], DONE
        self._failure: Exception | None = None
        self._scores = np.array(scores, np.float32)
        self._inputs: dict[str, Array] = {
            IDS: np.ascontiguousarray(prompt[:, -1:], np.int64),
            MASK: np.ones((rows, 1), np.int64),
            POSITIONS: np.empty((rows, 1), np.int64),
        }
        self._stop, self._ended = np.array(stop, np.int64), np.zeros(rows, np.uint8)
        self._occurred = _occurred(prompt, vocabulary) if rule.repetition_penalty != 1 else None
        self._scratch = np.empty(SCRATCH_BYTES * vocabulary + SCRATCH_MORE, np.uint8)
        self._draws = np.empty((0, rows))
        self._tensors: _Tensors | None = None
        self._plan = np.zeros(len(PlanWord), np.int64)
        self._point(
            {
                PlanWord.TOKENS: self._inputs[IDS],
                PlanWord.POSITIONS: self._inputs[POSITIONS],
                PlanWord.SCORES: self._scores,
                PlanWord.ENDED: self._ended,
                PlanWord.STOPS: self._stop,
                PlanWord.SCRATCH: self._scratch,
                PlanWord.OCCURRED: self._occurred,
            }
        )
        self._plan[[PlanWord.READY, PlanWord.BATCH, PlanWord.VOCABULARY]] = 1, rows, vocabulary
        self._plan[[PlanWord.STOP_COUNT, PlanWord.TOP_K]] = len(stop), min(rule.top_k, vocabulary)
        self._plan[PlanWord.TIME_LIMIT] = int(SECONDS * 1e9)
        numbers = rule.temperature, rule.top_p, rule.repetition_penalty
        self._plan.view(np.float64)[[PlanWord.TEMPERATURE, PlanWord.TOP_P, PlanWord.PENALTY]] = (
            numbers
        )

    def run(self, most: int) -> Array:
        """Return the next tokens, ``int64[n, batch]`` with ``n`` at most ``most``.

        ``n`` is less than ``most`` if all rows end, or if a step fails. The next call raises the
        error of the failed step. If the first step of a call fails, the step is repeated from
        Python; ``n`` is 0 if it succeeds then.

        Raises:
            BadInput: the logits contain NaN.
        """
        found = self._native(most, 0)
        while len(found) < most and not self.ended and self._failure is None:
            found = np.concatenate([found, self._native(most - len(found), len(found))])
        return found

    @property
    def ended(self) -> bool:
        """Whether every row has ended."""
        return bool(self._ended.all())

    def _native(self, most: int, before: int) -> Array:
        """Return the tokens of one native call; this call of :meth:`run` already has ``before``
        tokens.
        """
        most = min(most, max(FEW, self._read))  # buffers grow by at most 2x
        chosen = np.empty((most, len(self._ended)), np.int64)
        if len(self._draws) < most:
            more = self._random.random((most - len(self._draws), len(self._ended)))
            self._draws = np.concatenate([self._draws, more])
        self._point({PlanWord.CHOSEN: chosen, PlanWord.DRAWS: self._draws})
        self._plan[[PlanWord.MOST, PlanWord.CHOSEN_COUNT, PlanWord.STEPS]] = most, 0, 0
        self._status, self._failure = DONE, None
        self._state.run(self._inputs, most - int(self._plan[PlanWord.READY]), self._steps)
        count = int(self._plan[PlanWord.CHOSEN_COUNT])
        self._draws = self._draws[count:]
        self._read += count
        if self._status == NOT_A_NUMBER:
            self._plan[PlanWord.READY] = 1
            self._failure = BadInput(
                f"model: the logits that choose token {self._read} of the rows contain NaN"
            )
        if self._failure is not None and not count + before:
            self._repeat(self._failure)
        return chosen[:count]

    def _repeat(self, failure: Exception) -> None:
        """Raise ``failure`` if the logits contain NaN. Otherwise repeat the failed step by a call
        from Python, which succeeds or raises an error with the user's names.
        """
        if self._status == NOT_A_NUMBER:
            raise failure
        self._scores[...] = self._state(np.array(self._inputs[IDS]))
        self._plan[PlanWord.READY] = 1

    def _steps(self, arrays: dict[str, Array], lengths: Mapping[str, int]) -> int:
        """Run the loop on the inputs of a step; return the number of steps."""
        if self._tensors is None or not self._tensors.hold(arrays):
            self._tensors = _Tensors(self._program, arrays, lengths, self._scores)
            self._point(self._tensors.places())
        self._plan[[PlanWord.ARGUMENT_COUNT, PlanWord.LENGTH_COUNT, PlanWord.RECURRENT_COUNT]] = (
            self._tensors.counts()
        )
        self._tensors.lengths[:] = list(lengths.values())
        try:
            main, *_ = self._program.entries()
            self._status = int(self._generate(main, self._plan.ctypes.data))
        except Exception as error:
            self._failure = error
        made = int(self._plan[PlanWord.STEPS])
        if made % 2:
            self._tensors.swap(arrays)
        return made

    def _point(self, arrays: Mapping[int, Array | None]) -> None:
        """Write the arrays' addresses to the plan; the caller must keep the arrays alive."""
        for word, array in arrays.items():
            self._plan[word] = 0 if array is None else array.ctypes.data


class _Tensors:
    """The arguments of a step: inputs, and result tensors in separate memory.

    A recurrent state is a result, and an input of the next step: the two tensors are swapped after
    each step.
    """

    def __init__(
        self,
        program: Executable,
        arrays: Mapping[str, Array],
        lengths: Mapping[str, int],
        scores: Array,
    ) -> None:
        self._arrays = dict(arrays)
        self._spare = {n: np.empty_like(x) for n, x in arrays.items() if n.startswith(RECURRENT)}
        self.lengths = np.array(list(lengths.values()), np.int64)
        numbers = {name: k for k, name in enumerate(lengths)}
        inputs = [(name, dtype) for name, _, dtype in program.signature]
        types = dict(inputs)
        shapes = [
            self.lengths[numbers[name] :][:1] if name in numbers else _sizes(arrays[name])
            for name, _ in inputs
        ]
        data = [self.lengths if name in numbers else arrays[name] for name, _ in inputs]
        results = [scores, *self._spare.values()]
        dtypes = [dtype for _, dtype in inputs] + ["float32", *(types[n] for n in self._spare)]
        self._shapes = [*shapes, *map(_sizes, results)]  # kept alive: the plan has their addresses
        self._words = np.array(
            [
                tensor_words(array.ctypes.data, shape.ctypes.data, len(shape), dtype)
                for array, shape, dtype in zip([*data, *results], self._shapes, dtypes, strict=True)
            ],
            np.int64,
        )
        self._arguments = arguments_of(self._words)
        places = {name: k for k, (name, _) in enumerate(inputs)}
        first = len(inputs) + 1
        pairs = [(places[name], first + k) for k, name in enumerate(self._spare)]
        step = 8 * TENSOR_WORDS
        self._pairs = self._words.ctypes.data + step * np.array(pairs, np.int64).reshape(-1, 2)

    def hold(self, arrays: Mapping[str, Array]) -> bool:
        """Return whether the arguments refer to ``arrays``."""
        return all(self._arrays[name] is array for name, array in arrays.items())

    def swap(self, arrays: dict[str, Array]) -> None:
        """Swap the recurrent inputs with their results, after an odd number of steps."""
        for name, spare in self._spare.items():
            self._spare[name], self._arrays[name] = self._arrays[name], spare
            arrays[name] = spare

    def places(self) -> dict[int, Array]:
        """Return the arrays that the plan refers to."""
        return {
            PlanWord.ARGUMENTS: self._arguments,
            PlanWord.LENGTHS: self.lengths,
            PlanWord.RECURRENT: self._pairs,
        }

    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of arguments, lengths and recurrent states."""
        return len(self._arguments), len(self.lengths), len(self._pairs)


def has_loop(program: Executable) -> bool:
    """Return whether a program contains the loop and has no observer, which would miss the loop's
    calls.
    """
    if program.observers:
        return False
    try:
        program.function(GENERATE)
    except AttributeError:
        return False
    return True


def _sizes(array: Array) -> Array:
    return np.array(array.shape, np.int64)


def _occurred(prompt: Array, vocabulary: int) -> Array:
    """Return whether each token of the vocabulary occurs in each row, as uint8."""
    found = np.zeros((len(prompt), vocabulary), np.uint8)
    np.put_along_axis(found, prompt, 1, axis=1)
    return found


__all__ = ["CompiledLoop", "has_loop"]
