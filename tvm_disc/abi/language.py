"""Inputs of the step of a language model, by which its programs are recognized."""

from __future__ import annotations

from collections.abc import Sequence

#: Inputs of a step, all of integers ``[batch, tokens]``: tokens, whether each is read, its
#: position.
IDS, MASK, POSITIONS = "ids", "mask", "positions"
#: Inputs that results extend along an axis. The first is the mask of the tokens that were read.
PAST = "past_"
#: Inputs that results replace: states of a fixed size, which are zero at first.
RECURRENT = "recurrent_"


def is_step(inputs: Sequence[tuple[str, int, str]], results: Sequence[tuple[int, str]]) -> bool:
    """Return whether a program has the inputs and the scores of a step.

    Args:
        inputs: (name, rank, dtype) of each.
        results: (rank, dtype) of each; the first are the scores ``[batch, vocabulary]``.
    """
    found = {name: (rank, dtype) for name, rank, dtype in inputs}
    integers = all(found.get(name) == (2, "int64") for name in (IDS, MASK, POSITIONS))
    states = sum(name.startswith(RECURRENT) for name in found)
    return integers and results[:1] == [(2, "float32")] and len(results) == 1 + states


__all__ = ["IDS", "MASK", "PAST", "POSITIONS", "RECURRENT", "is_step"]
