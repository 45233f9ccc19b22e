"""Layout of the plan of a generation loop, the array of words through which a caller in Python or
C++ and the compiled loop exchange data.

A word is an int64, an address or the bits of a float64. ``codegen/generation/loop.c`` reads the
plan and writes results to it; arrays are contiguous.
"""

from __future__ import annotations

from enum import IntEnum


class PlanWord(IntEnum):
    """The words of a plan."""

    # The arguments of the step: an array of TVM's Any values, and their number.
    ARGUMENTS, ARGUMENT_COUNT = 0, 1
    # int64[batch] each: two inputs of a step, the last token of each row and its position.
    TOKENS, POSITIONS = 2, 3
    # int64[n]: the lengths of the caches, which are sizes of inputs and grow by one with each step.
    LENGTHS, LENGTH_COUNT = 4, 5
    # Addresses of tensors in pairs: an input, and the result that is the next step's input.
    RECURRENT, RECURRENT_COUNT = 6, 7
    # float32[batch, vocabulary]: logits of the next token. READY is 1 if no token was chosen from
    # them.
    SCORES, READY, BATCH, VOCABULARY = 8, 9, 10, 11
    # Maximum number of tokens per row. Results: tokens int64[most, batch], and the numbers of
    # chosen tokens per row and of steps.
    MOST, CHOSEN, CHOSEN_COUNT, STEPS = 12, 13, 14, 15
    # int64[n]: tokens that end a row; uint8[batch]: rows that have ended.
    STOPS, STOP_COUNT, ENDED = 16, 17, 18
    # Fields of ``WordChoice``; the first three are float64.
    TEMPERATURE, TOP_P, PENALTY, TOP_K = 19, 20, 21, 22
    # uint8[batch, vocabulary]: whether a token occurred, or address 0; float64[most, batch]: random
    # numbers in [0, 1).
    OCCURRED, DRAWS = 23, 24
    # Scratch memory of vocabulary * SCRATCH_BYTES + SCRATCH_MORE bytes.
    SCRATCH = 25
    # Nanoseconds after which the loop ends before its next step; 0 for no limit.
    TIME_LIMIT = 26


SCRATCH_BYTES = 24
BINS = 1024
SCRATCH_MORE = 16 * BINS + 64

# Return values of the loop. If a step fails, the loop returns an error instead.
DONE, NOT_A_NUMBER = 0, 1

# The last bin contains all tokens whose log probability is lower than the highest by RANGE or more.
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
