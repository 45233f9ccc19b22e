"""Detection of repeated call sequences, such as a model's layers, which descriptions fold."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LEAST = 3  # minimum calls of a layer; folding shorter layers saves no space


@dataclass(frozen=True)
class Layer:
    """Consecutive kernel calls of one layer; the name is empty for calls outside of layers."""

    name: str
    calls: range


def layers(kernels: Sequence[Hashable]) -> list[Layer]:
    """Split the kernel calls of a program into layers, which are the repetitions of the sequence
    that covers the most calls, and the calls before and after them.
    """
    begin, period, count = _longest(
        range(len(kernels)), LEAST, lambda at, before: kernels[at] == kernels[before]
    )
    if count < 2:
        return [Layer("", range(len(kernels)))]
    end = begin + period * count
    found = [Layer("", range(begin))] if begin else []
    found += [
        Layer(f"layer {k}", range(begin + k * period, begin + (k + 1) * period))
        for k in range(count)
    ]
    return [*found, Layer("", range(end, len(kernels)))] if end < len(kernels) else found


def repetitions(calls: Sequence[Mapping[str, object]]) -> dict[int, tuple[int, int]]:
    """Return the repeated sequences of calls: the first call of a sequence -> (calls of one
    repetition, number of repetitions).

    Two calls are equal if they differ only in their constants, and in operands that are results of
    calls at the same distance.
    """
    found: dict[int, tuple[int, int]] = {}
    rest = [range(len(calls))]
    while rest:
        part = rest.pop()
        begin, period, count = _longest(part, 1, lambda at, before: _alike(calls, at, before))
        if period * (count - 1) >= LEAST:
            found[begin] = period, count
            rest += [range(part.start, begin), range(begin + period * count, part.stop)]
    return found


def _alike(calls: Sequence[Mapping[str, Any]], at: int, before: int) -> bool:
    one, other = calls[at], calls[before]
    fields = one.keys() | other.keys()
    return all(one.get(f) == other.get(f) for f in fields - {"reads"}) and all(
        a == b or (isinstance(a, int) and isinstance(b, int) and a - b == at - before)
        for a, b in zip(one["reads"], other["reads"], strict=True)
    )


def _longest(part: range, least: int, same: Callable[[int, int], bool]) -> tuple[int, int, int]:
    """Return (begin, period, repetitions) of the repeated sequence that covers the most calls of a
    part; among equals, of the sequence with the shortest period, which is at least ``least``.
    """
    best = (part.start, 1, 1)
    for period in range(least, len(part) // 2 + 1):
        run = 0
        for at in range(part.start + period, part.stop + 1):
            if at < part.stop and same(at, at - period):
                run += 1
                continue
            count = run // period + 1
            if count > 1 and count * period > best[1] * best[2]:
                best = (at - run - period, period, count)
            run = 0
    return best
