"""What random ONNX graphs and JAX functions share: drawing, and the loop over seeds."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Unusable(Exception):
    """A step has no operands that it can use, or a result that the program cannot use."""


class Draws:
    """Random choices of one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def chance(self, p: float) -> bool:
        """True with a probability."""
        return bool(self.rng.random() < p)

    def pick(self, items: Sequence[Any]) -> Any:
        """One of the items."""
        if not len(items):
            raise Unusable
        return items[int(self.rng.integers(len(items)))]


def campaign(
    seeds: range, seconds: float, what: str, judged: Callable[[int], tuple[str, str] | None]
) -> Counter[str]:
    """Judge seeds until the time is over, print what is found, and count the kinds of verdicts."""
    begin, kinds = time.monotonic(), Counter[str]()
    for number, seed in enumerate(seeds, 1):
        if time.monotonic() - begin > seconds:
            break
        found = judged(seed)
        kinds[found[0] if found else "right"] += 1
        if number % 25 == 0:
            print(f"{number} {what}, {time.monotonic() - begin:.0f} s", flush=True)
        if found:
            print(json.dumps([seed, *found]), flush=True)
    print(kinds)
    return kinds
