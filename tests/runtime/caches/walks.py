"""Caches that calls copy, and random sequences of actions on states, to which they stay equal."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

SEEDS, STEPS = range(4), 60
MOST = 6  # states at a time


@dataclass
class Copies:
    """Keys and values along axis 2, which every call of a program copies; ``kept`` is what a state
    keeps of new rows.
    """

    exe: Any
    caches: list[np.ndarray]
    kept: Callable[[np.ndarray], np.ndarray] = np.asarray

    @classmethod
    def of(cls, exe: Any, *dims: int, **more: Any) -> Copies:
        """Return caches without rows, of ``[batch, heads, rows, depth]``."""
        batch, heads, depth = dims
        return cls(exe, [np.zeros((batch, heads, 0, depth), "float32")] * 2, **more)

    def __call__(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, *more: np.ndarray) -> Any:
        result, *self.caches = self.exe(q, self.kept(k), self.kept(v), *more, *self.caches)
        return result

    def truncate(self, count: int) -> None:
        self.caches = [np.ascontiguousarray(c[:, :, :count]) for c in self.caches]

    def fork(self) -> Copies:
        return replace(self, caches=list(self.caches))


def same(state: Any, copies: Copies) -> None:
    """Compare the caches of a state with copies."""
    for name, want in zip(("past_k", "past_v"), copies.caches, strict=True):
        found = state.cache(name)
        assert found.dtype == want.dtype
        np.testing.assert_array_equal(found, want)


def walk(
    begin: Callable[[random.Random], tuple[Any, Any]],
    call: Callable[[random.Random, Any, Any], None],
    same: Callable[[Any, Any], None],
    seed: int,
    steps: int = STEPS,
    cut: bool = True,
) -> None:
    """Call, truncate, reset and fork states and copies at random.

    Args:
        begin: returns a state and its copies, which have ``truncate`` and ``fork``, too.
        call: calls both with equal arguments, and compares the results.
        same: compares their caches.
        cut: whether states are truncated to any number of rows.
    """
    draw = random.Random(seed)
    pairs = [begin(draw)]
    for _ in range(steps):
        state, copies = draw.choice(pairs)
        action = draw.random()
        if action < 0.6 or (action < 0.75 and not cut):
            call(draw, state, copies)
        elif action < 0.75:
            count = draw.randint(0, state.length)
            state.truncate(count)
            copies.truncate(count)
        elif action < 0.8:
            state.reset()
            copies.truncate(0)
        elif len(pairs) < MOST:
            pairs.append((state.fork(), copies.fork()))
        else:
            del pairs[draw.randrange(1, MOST)]
        for pair in pairs:
            same(*pair)


def in_threads(one: Callable[[int, int], None]) -> None:
    """Run ``one(seed, steps)`` for several seeds at once."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: one(seed, 25), range(10, 18)))
