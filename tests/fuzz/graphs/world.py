"""Values of a random graph, each known by its array in every world of a few sizes of dims.

A dim is the tuple of its sizes in all worlds, so equal dims are known to be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Dim = tuple[int, ...]
WORLDS = 8
FEW_BITS, MOST = 4096.0, 2048.0  # numbers on which comparisons and roundings are exact
LARGE = {"float16": 200.0, "float32": 1e5, "float64": 1e5}
MOST_ELEMENTS = 20_000
MOST_RANK = 5


@dataclass(eq=False)
class Value:
    """A name of the graph and its arrays by world; None where the operator is undefined."""

    name: str
    arrays: list[np.ndarray | None]

    @property
    def first(self) -> np.ndarray:
        """Its array in the first world that defines it."""
        return next(a for a in self.arrays if a is not None)

    @property
    def dtype(self) -> str:
        """The element type."""
        return str(self.first.dtype)

    @property
    def kind(self) -> str:
        """The kind of the element type: one of "fiub"."""
        return str(self.first.dtype.kind)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return int(self.first.ndim)

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Sizes by axis and world, -1 where the value is undefined."""
        shapes = [(-1,) * self.rank if a is None else a.shape for a in self.arrays]
        return tuple(zip(*shapes, strict=True)) if self.rank else ()

    def fixed(self, axis: int) -> int | None:
        """The size of an axis if it is the same in all worlds."""
        sizes = {s for s in self.dims[axis] if s >= 0}
        return sizes.pop() if len(sizes) == 1 else None

    @property
    def exact(self) -> bool:
        """Whether all numbers have few bits, so that no rounding decides a comparison."""
        if self.kind != "f":
            return True
        for a in self.arrays:
            if a is None:
                continue
            wide = a.astype("float64")
            if not np.isfinite(wide).all() or np.abs(wide).max(initial=0) > MOST:
                return False
            scaled = wide * (FEW_BITS if a.dtype != np.float16 else 16)
            if (scaled != np.round(scaled)).any():
                return False
        return True

    def within(self, low: float, high: float) -> bool:
        """Whether every element is in [low, high]."""
        arrays = [a for a in self.arrays if a is not None]
        return all(a.size == 0 or (a.min() >= low and a.max() <= high) for a in arrays)


def usable(arrays: Sequence[np.ndarray | None]) -> bool:
    """Whether arrays of a result may be used: one rank and type, of bounded size and values."""
    defined = [a for a in arrays if a is not None]
    if 2 * len(defined) < len(arrays) or len({(a.ndim, a.dtype) for a in defined}) != 1:
        return False
    if defined[0].ndim > MOST_RANK or max(a.size for a in defined) > MOST_ELEMENTS:
        return False
    if defined[0].dtype.kind == "f":
        limit = LARGE[str(defined[0].dtype)]
        wide = [a.astype("float64") for a in defined]
        return all(np.isfinite(a).all() and np.abs(a).max(initial=0) < limit for a in wide)
    if defined[0].dtype.kind in "iu":
        return all(np.abs(a.astype("float64")).max(initial=0) < 2**40 for a in defined)
    return defined[0].dtype.kind == "b"


def basic_dims(rng: np.random.Generator) -> list[Dim]:
    """Sizes of four symbols in all worlds: small ones, 1, 0, and beside multiples of 16."""
    pick = lambda *of: int(rng.choice(of))  # noqa: E731
    worlds = [
        [int(v) for v in rng.permutation([2, 3, 5, 7])],
        [1, 1, 1, 1],
        [pick(1, 2), 1, pick(2, 4), 1],
        [int(v) for v in rng.permutation([15, 16, 17, 3])],
        [int(v) for v in rng.permutation([0, 1, 3, 4])],
        [pick(2, 4, 6)] * 4,
        [int(v) for v in rng.permutation([100, 2, 3, 1])],
        [pick(1, 5, 8, 11, 13) for _ in range(4)],
    ]
    return [tuple(w[k] for w in worlds) for k in range(4)]


def numbers(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> np.ndarray:
    """Random contents of few bits."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if kind == "f":
        return np.asarray(rng.integers(-8, 9, shape) / 4).astype(dtype)
    return np.asarray(rng.integers(0 if kind == "u" else -6, 7, shape)).astype(dtype)


def special(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """The array with some special values: NaN, infinities, zeros, ends of the integer type."""
    if array.dtype.kind == "b" or not array.size:
        return array
    info = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
    values = [0.0, -0.0, np.nan, np.inf, -np.inf] if info is None else [info.min, info.max, 0, 1]
    drawn = rng.choice(np.array(values, array.dtype), array.shape)
    return np.asarray(np.where(rng.random(array.shape) < 0.2, drawn, array))
