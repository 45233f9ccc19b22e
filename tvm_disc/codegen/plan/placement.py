"""Offsets of storages of unknown size in one workspace.

Storages are placed one after another. Each begins at the highest end of those already placed whose
live ranges overlap. Storages that are live at the same time therefore never share bytes, whatever
the dims are. The offsets are sums and maxima that the program computes at run time.

The packing depends only on the order; for known sizes, some order results in the best packing.
Candidate orders come from packings for sample dims, in which gaps can be filled. The order with the
least waste in the worst sample is chosen.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from tvm_disc.abi.formula import ALIGNMENT_BYTES
from tvm_disc.codegen.plan.program import Slot

SAMPLE_SIZES = (1, 3, 16, 65, 128, 512)
MAX_SAMPLES = 36
GOOD_ENOUGH = 1.02  # acceptable workspace size, relative to a packing with known sizes
MOVES = 60_000  # number of steps of the search, times the number of storages


def sample_dims(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Yield sample dims: all combinations if there are few, otherwise random ones."""
    if len(SAMPLE_SIZES) ** len(names) <= MAX_SAMPLES:
        combinations = itertools.product(SAMPLE_SIZES, repeat=len(names))
        yield from (dict(zip(names, sizes, strict=True)) for sizes in combinations)
        return
    rng = np.random.default_rng(0)
    for _ in range(MAX_SAMPLES):
        yield {name: int(rng.choice(SAMPLE_SIZES)) for name in names}


def overlaps(lives: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return for each (first, last) live range the indices of overlapping ranges."""
    return [
        [j for j, (a, b) in enumerate(lives) if j != i and a <= last and first <= b]
        for i, (first, last) in enumerate(lives)
    ]


def best_order(sizes: np.ndarray, clashes: Sequence[Sequence[int]]) -> list[int]:
    """Return the order of placement.

    Args:
        sizes: bytes, with a row per storage and a column per sample.
        clashes: for each storage, the storages whose live ranges overlap its own.
    """
    by_time = list(range(len(clashes)))
    packed = [pack(column, clashes) for column in sizes.T]
    ideal = np.maximum([total for total, _ in packed], ALIGNMENT_BYTES)

    def waste(order: Iterable[int]) -> float:
        return float(np.max(stacked(list(order), sizes, clashes) / ideal))

    candidates = dict.fromkeys([tuple(by_time), *(tuple(order) for _, order in packed)])
    best = list(min(candidates, key=waste))
    return _improved(best, waste)


def _improved(order: list[int], waste: Callable[[Iterable[int]], float]) -> list[int]:
    """Improve an order by random moves of one storage, until its waste is at most
    ``GOOD_ENOUGH``.
    """
    rng = np.random.default_rng(0)
    least = waste(order)
    for _ in range(MOVES // max(1, len(order))):
        if least <= GOOD_ENOUGH:
            break
        moved = list(order)
        moved.insert(int(rng.integers(len(order))), moved.pop(int(rng.integers(len(order)))))
        found = waste(moved)
        if found <= least:  # moves with equal waste are also accepted, to leave plateaus
            order, least = moved, found
    return order


def pack(sizes: np.ndarray, clashes: Sequence[Sequence[int]]) -> tuple[int, list[int]]:
    """Pack storages of known sizes, the largest first, each into the lowest gap. Return the total
    bytes, and the storages by increasing offset.
    """
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
    """Return total bytes per sample if storages are placed in ``order``."""
    ends = np.zeros_like(sizes)
    for i in order:
        ends[i] = sizes[i]
        if clashes[i]:  # the end of a storage that is not placed yet is 0
            ends[i] += ends[clashes[i]].max(axis=0)
    return np.asarray(ends.max(axis=0))


def supports(order: Sequence[int], clashes: Sequence[Sequence[int]]) -> Mapping[int, list[int]]:
    """Return for each storage the storages that it is placed directly on.

    These are the storages that clash with it and precede it in ``order``, without those that are
    below another one of them.
    """
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
    """Return the slots without a slot above them; the size of the workspace is the maximum of their
    ends.
    """
    below = {k for slot in slots for k in slot.above}
    return [k for k in range(len(slots)) if k not in below]
