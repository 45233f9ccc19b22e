"""Detection of repeated call sequences, such as a model's layers, which the page can fold."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

LEAST = 3  # minimum calls of a layer; folding shorter layers saves no space


@dataclass(frozen=True)
class Layer:
    """Consecutive kernel calls of one layer; the name is empty for calls outside of layers."""

    name: str
    calls: range


def layers(kernels: Sequence[Hashable]) -> list[Layer]:
    """Split the kernel calls of a program into layers, which are the repetitions of the longest
    repeated sequence, and the calls before and after them.
    """
    begin, period, count = _longest(kernels)
    if count < 2:
        return [Layer("", range(len(kernels)))]
    end = begin + period * count
    found = [Layer("", range(begin))] if begin else []
    found += [
        Layer(f"layer {k}", range(begin + k * period, begin + (k + 1) * period))
        for k in range(count)
    ]
    return [*found, Layer("", range(end, len(kernels)))] if end < len(kernels) else found


def _longest(kernels: Sequence[Hashable]) -> tuple[int, int, int]:
    """Return (begin, period, repetitions) of the repeated sequence that covers the most calls;
    among equals, of the sequence with the shortest period.
    """
    best, size = (0, 1, 1), len(kernels)
    for period in range(LEAST, size // 2 + 1):
        run = 0
        for at in range(period, size + 1):
            if at < size and kernels[at] == kernels[at - period]:
                run += 1
                continue
            count = run // period + 1
            if count > 1 and count * period > best[1] * best[2]:
                best = (at - run - period, period, count)
            run = 0
    return best
