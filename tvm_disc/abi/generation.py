"""Layout of the plan of a generation loop: the words that Python, or C++, passes to it.

A word is an int64, an address or the bits of a float64. ``codegen/generation/loop.c`` reads the
plan; arrays are contiguous.
"""

from __future__ import annotations

from enum import IntEnum


class PlanWord(IntEnum):
    """The words of a plan."""

    # The arguments of the step: an array of TVM's Any values, and their number.
    ARGUMENTS, ARGUMENT_COUNT = 0, 1
    # int64[batch]: inputs of a step, the last token of each row and its position.
    TOKENS, POSITIONS = 2, 3
    # int64[n]: the sizes of inputs that grow by one with each step, the lengths of caches.
    LENGTHS, LENGTH_COUNT = 4, 5
    # Addresses of tensors in pairs: an input, and the result that is the next step's input.
    RECURRENT, RECURRENT_COUNT = 6, 7
    # float32[batch, vocabulary]: scores of the next token; READY is 1 if they were not used yet.
    SCORES, READY, BATCH, VOCABULARY = 8, 9, 10, 11
    # Most tokens to choose; results: tokens int64[most, batch], their number, and that of steps.
    MOST, CHOSEN, CHOSEN_COUNT, STEPS = 12, 13, 14, 15
    # int64[n]: tokens that end a row; uint8[batch]: rows that have ended.
    STOPS, STOP_COUNT, ENDED = 16, 17, 18
    # Fields of ``WordChoice``; the first three are float64.
    TEMPERATURE, TOP_P, PENALTY, TOP_K = 19, 20, 21, 22
    # uint8[batch, vocabulary]: tokens that occurred, or 0; float64[most, batch]: of [0, 1).
    OCCURRED, DRAWS = 23, 24
    # Scratch memory of SCRATCH_BYTES for each token of the vocabulary, and SCRATCH_MORE.
    SCRATCH = 25
    # Nanoseconds after which the loop ends before its next step; 0 for no limit.
    TIME_LIMIT = 26


SCRATCH_BYTES = 24
BINS = 1024
SCRATCH_MORE = 16 * BINS + 64

# Results of the loop; it fails if a step does.
DONE, NOT_A_NUMBER = 0, 1

# Tokens of the last bin have a log probability that is lower than the highest by RANGE or more.
RANGE = 32


def constants() -> dict[str, int]:
    """Return the words and constants by name, which ``loop.c`` expects as macros."""
    return {word.name: int(word) for word in PlanWord} | {
        "PLAN_WORDS": len(PlanWord),
        "SCRATCH_BYTES": SCRATCH_BYTES,
        "SCRATCH_MORE": SCRATCH_MORE,
        "BINS": BINS,
        "DONE": DONE,
        "NOT_A_NUMBER": NOT_A_NUMBER,
        "RANGE": RANGE,
    }


__all__ = [
    "DONE",
    "NOT_A_NUMBER",
    "SCRATCH_BYTES",
    "SCRATCH_MORE",
    "PlanWord",
    "constants",
]
