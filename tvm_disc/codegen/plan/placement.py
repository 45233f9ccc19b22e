"""Where storages of unknown size lie in one workspace.

Storages are placed one after another; each begins where the highest of those already placed that
live at the same time ends. Bytes are then never shared by two living storages, whatever the dims
are, and the offsets are sums and maxima that the program computes when it runs.

How tight the packing is depends on the order alone: for known sizes there is always an order that
gives the best packing. The order is found by packing for sample dims, with the gap-filling that
only known sizes allow, and keeping the order that is best over all samples at its worst.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from tvm_disc.abi.formula import ALIGNMENT_BYTES
from tvm_disc.codegen.plan.program import Slot

SAMPLE_SIZES = (1, 3, 16, 65, 128, 512)
MAX_SAMPLES = 36
GOOD_ENOUGH = 1.02  # times what a planner that knows the sizes needs
MOVES = 60_000  # steps of the search, shared by the storages


def sample_dims(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Values for dims: every combination while there are few, then diagonals of them."""
    if len(SAMPLE_SIZES) ** len(names) <= MAX_SAMPLES:
        combinations = itertools.product(SAMPLE_SIZES, repeat=len(names))
        yield from (dict(zip(names, sizes, strict=True)) for sizes in combinations)
        return
    rng = np.random.default_rng(0)
    for _ in range(MAX_SAMPLES):
        yield {name: int(rng.choice(SAMPLE_SIZES)) for name in names}


def overlaps(lives: Sequence[tuple[int, int]]) -> list[list[int]]:
    """For each (first, last) step the others that live at the same time."""
    return [
        [j for j, (a, b) in enumerate(lives) if j != i and a <= last and first <= b]
        for i, (first, last) in enumerate(lives)
    ]


def best_order(sizes: np.ndarray, clashes: Sequence[Sequence[int]]) -> list[int]:
    """The order in which to place; ``sizes`` has a row per storage and a column per sample."""
    by_time = list(range(len(clashes)))
    packed = [pack(column, clashes) for column in sizes.T]
    ideal = np.maximum([total for total, _ in packed], ALIGNMENT_BYTES)

    def waste(order: Iterable[int]) -> float:
        return float((stacked(list(order), sizes, clashes) / ideal).max())

    candidates = dict.fromkeys([tuple(by_time), *(tuple(order) for _, order in packed)])
    best = list(min(candidates, key=waste))
    return _improved(best, waste)


def _improved(order: list[int], waste: Callable[[Iterable[int]], float]) -> list[int]:
    """A better order by moving one storage at a time, until little is wasted."""
    rng = np.random.default_rng(0)
    least = waste(order)
    for _ in range(MOVES // max(1, len(order))):
        if least <= GOOD_ENOUGH:
            break
        moved = list(order)
        moved.insert(int(rng.integers(len(order))), moved.pop(int(rng.integers(len(order)))))
        found = waste(moved)
        if found <= least:  # equal too: the way down may lead over a plain
            order, least = moved, found
    return order


def pack(sizes: np.ndarray, clashes: Sequence[Sequence[int]]) -> tuple[int, list[int]]:
    """Total bytes, and the storages from the lowest up: largest first into the lowest gap."""
    offsets: dict[int, int] = {}
    for i in sorted(range(len(sizes)), key=lambda k: (-sizes[k], k)):
        at = 0
        for begin, end in sorted(
            (offsets[j], offsets[j] + sizes[j]) for j in clashes[i] if j in offsets
        ):
            if at + sizes[i] <= begin:
                break
            at = max(at, end)
        offsets[i] = at
    total = max((at + sizes[i] for i, at in offsets.items()), default=0)
    return int(total), sorted(offsets, key=lambda i: (offsets[i], i))


def stacked(
    order: Sequence[int], sizes: np.ndarray, clashes: Sequence[Sequence[int]]
) -> np.ndarray:
    """Total bytes per sample when storages are placed in ``order``."""
    ends = np.zeros_like(sizes)
    for i in order:
        ends[i] = sizes[i]
        if clashes[i]:  # what has not been placed yet ends at 0
            ends[i] += ends[clashes[i]].max(axis=0)
    return np.asarray(ends.max(axis=0))


def supports(order: Sequence[int], clashes: Sequence[Sequence[int]]) -> Mapping[int, list[int]]:
    """For each storage those directly below it: what these stand on is lower still."""
    position = {i: k for k, i in enumerate(order)}
    under: dict[int, set[int]] = {}
    direct: dict[int, list[int]] = {}
    for i in order:
        below = [j for j in clashes[i] if position[j] < position[i]]
        reached = set().union(*(under[j] for j in below)) if below else set()
        direct[i] = sorted((j for j in below if j not in reached), key=position.__getitem__)
        under[i] = reached | set(below)
    return direct


def tops(slots: Sequence[Slot]) -> list[int]:
    """The slots on which nothing stands; the highest of their ends is the workspace's size."""
    below = {k for slot in slots for k in slot.above}
    return [k for k in range(len(slots)) if k not in below]
