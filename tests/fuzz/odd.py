"""Inputs that a module was not made for: another dim, or contents that nobody has."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.fuzz.case import Case

ODD_CALLS = 4  # calls with a dim that is another than in any world
WILD_CALLS = 3

# Positions, sizes and counts that data may give. A scalar may say how often a loop runs.
WILD_FLOATS = (
    np.nan, np.inf, -np.inf, -1.0, 0.0, -0.0, 1e9, -1e9, 3e38,
    1e-40, -1e-45, 5e-324, 1.1754944e-38,  # denormal, and the least that is not, in float32
)  # fmt: skip
WILD_COUNTS = (-9, -1, 0, 1, 9, 100)
# Sizes whose product passes 64 bits: two of 2^31 floats in bytes, two of 2^33 in elements.
WILD_SIZES = (2**31, 2**32, 2**33, 2**60, 2**62)
WILD_INTEGERS = (*WILD_COUNTS, -(2**31), 2**31 - 1, *WILD_SIZES, -(2**63), 2**62 + 1, 2**63 - 1)


def odd_worlds(case: Case) -> list[dict[str, np.ndarray]]:
    """Worlds in which one dim of one input is another."""
    rng = random.Random(case.seed)
    if not case.worlds:
        return []
    found = []
    axes = [(n, k) for n, a in case.worlds[0].items() for k in range(a.ndim)]
    for name, axis in rng.sample(axes, min(ODD_CALLS, len(axes))):
        world = dict(rng.choice(case.worlds))
        size = world[name].shape[axis]
        if not size:
            continue
        # One call of them without elements.
        others = (1, size + 1, max(size - 1, 1), 2 * size) if found else (0,)
        other = rng.choice([s for s in others if s != size])
        index = np.arange(other) % size
        found.append({**world, name: np.take(world[name], index, axis)})
    return found


def wild_worlds(case: Case) -> list[dict[str, np.ndarray]]:
    """Worlds in which some elements of one input are no numbers, or far from what they were."""
    rng = random.Random(case.seed + 1)
    found = []
    for world in rng.sample(case.worlds, min(WILD_CALLS, len(case.worlds))):
        names = [n for n, a in world.items() if a.size and a.dtype.kind in "iuf"]
        # Integers are positions more often than floats are.
        integers = [n for n in names if world[n].dtype.kind in "iu"]
        edges = sorted({e for a in world.values() for d in a.shape for e in around(d)})
        if any(world[n].ndim for n in integers) and rng.random() < 0.3:
            found.append({**world, **flood({n: world[n] for n in integers}, rng)})
        elif names:
            name = rng.choice(integers if integers and rng.random() < 0.6 else names)
            found.append({**world, name: wild(world[name], rng, edges)})
    return found


def around(size: int) -> tuple[int, ...]:
    """The positions at both ends of an axis, inside and just outside, counted from either."""
    return (-size - 1, -size, size - 1, size, size + 1)


def flood(arrays: dict[str, np.ndarray], rng: random.Random) -> dict[str, np.ndarray]:
    """Arrays of integers with the same number everywhere, most often a huge size."""
    number = rng.choice(WILD_SIZES if rng.random() < 0.7 else WILD_INTEGERS)
    found = {}
    for name, array in arrays.items():
        kind = np.iinfo(array.dtype)
        if array.ndim and kind.min <= number <= kind.max:
            found[name] = np.full_like(array, number)
    return found


def wild(array: np.ndarray, rng: random.Random, edges: Sequence[int] = ()) -> np.ndarray:
    """An array with one, some or all elements exchanged, or one number everywhere.

    ``edges`` are positions that are taken for integers as often as numbers far away.
    """
    flat = array.reshape(-1).copy()
    if rng.random() < 0.2:
        flat[:] = _number(array, rng, edges)
        return flat.reshape(array.shape)
    count = rng.choice((1, max(flat.size // 2, 1), flat.size))
    for at in rng.sample(range(flat.size), count):
        flat[at] = _number(array, rng, edges)
    return flat.reshape(array.shape)


def _number(array: np.ndarray, rng: random.Random, edges: Sequence[int]) -> Any:
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.array(rng.choice(WILD_FLOATS)).astype(array.dtype)
    values: Sequence[int] = WILD_INTEGERS if array.ndim else WILD_COUNTS
    if edges and rng.random() < 0.5:
        values = [*edges, 0]
    kind = np.iinfo(array.dtype)
    return rng.choice([v for v in values if kind.min <= v <= kind.max])
