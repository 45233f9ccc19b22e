"""Random sequences of actions on states and on copies of their caches, which stay equal."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

SEEDS, STEPS = range(4), 60
MOST = 6  # states at a time


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
