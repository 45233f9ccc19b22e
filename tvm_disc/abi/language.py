"""Input names of one step of a language model; a program with these inputs is such a step."""

from __future__ import annotations

from collections.abc import Sequence

#: Inputs of a step, integers ``[batch, tokens]``: tokens, the attention mask, and positions.
IDS, MASK, POSITIONS = "ids", "mask", "positions"
#: Prefix of the inputs that are caches, which the step extends along an axis. The first cache is
#: the attention mask of the tokens that were read.
PAST = "past_"
#: Prefix of the inputs that are recurrent states of a fixed size. They are initially zero, and
#: results replace them.
RECURRENT = "recurrent_"


def is_step(inputs: Sequence[tuple[str, int, str]], results: Sequence[tuple[int, str]]) -> bool:
    """Return whether a program has the inputs and the logits of a step.

    Args:
        inputs: (name, rank, dtype) of each input.
        results: (rank, dtype) of each result; the first are the logits ``[batch, vocabulary]``.
    """
    found = {name: (rank, dtype) for name, rank, dtype in inputs}
    integers = all(found.get(name) == (2, "int64") for name in (IDS, MASK, POSITIONS))
    states = sum(name.startswith(RECURRENT) for name in found)
    return integers and results[:1] == [(2, "float32")] and len(results) == 1 + states


__all__ = ["IDS", "MASK", "PAST", "POSITIONS", "RECURRENT", "is_step"]
