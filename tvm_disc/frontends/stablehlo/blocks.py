"""Traversal of MLIR blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def results_of(block: Any) -> list[Any]:
    """Return the values that the last operation of a block returns."""
    return list(list(block.operations)[-1].operation.operands)


def symbol_of(attribute: object) -> str:
    """Return the name of the function that an attribute refers to."""
    return str(attribute).lstrip("@").strip('"')


def outer_reads(blocks: Sequence[object]) -> list[Any]:
    """Return the values that the blocks or their nested regions read, but do not define."""
    inside: set[Any] = set()
    found: dict[Any, None] = {}
    for op in _nested(blocks, inside):
        for value in op.operands:
            if value not in inside:
                found[value] = None
    return list(found)


def _nested(blocks: Sequence[Any], inside: set[Any]) -> Iterator[Any]:
    """Yield all operations in order, and add the values that they define to ``inside``."""
    for block in blocks:
        inside.update(block.arguments)
        for op in block.operations:
            operation = op.operation
            yield operation
            for region in operation.regions:
                yield from _nested(list(region.blocks), inside)
            inside.update(operation.results)


__all__ = ["outer_reads", "results_of", "symbol_of"]
