"""Batches of items of different lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

LENGTHS = (0, 1, 2, 7, 13, 36, 37, 64)


def pack(lengths: Sequence[int], rng: Any, *rest: int) -> list[np.ndarray]:
    """One random item per length."""
    return [rng.standard_normal((n, *rest)).astype("float32") for n in lengths]


def batches(rng: Any, count: int, most: int = 12) -> list[list[int]]:
    """Random lengths, with the special cases first."""
    fixed = [[], [0], [1], [0, 0, 3], [64, 1, 0, 5], [37] * 3]
    return fixed + [list(rng.choice(LENGTHS, rng.integers(0, most))) for _ in range(count)]
