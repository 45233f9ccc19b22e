"""Growing a decision tree on a table of costs, to lose the least time against the best variant.

The loss of a variant at a point is its time over the best one's, less one, weighted by how often
the point is met. Everything is deterministic: ties go to the first variant, feature and border.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_disc.schedules.points import Values
from tvm_disc.schedules.tree import Leaf, Split, Tree
from tvm_disc.schedules.variant import MOST_VARIANTS

_DIGITS = 9  # sums are compared to this many digits, so that their order does not matter


@dataclass(frozen=True)
class Limits:
    """How large a tree may get.

    ``gain``: the mean loss that a further variant, and ``split_gain`` that a further question,
    must save; ``run_gain``: the same for a question between runs of one plan, whose code is there
    anyhow, if such are asked at all; ``depth``: most questions on a path; ``variants``: most
    variants kept.
    """

    gain: float = 0.01
    split_gain: float = 0.001
    depth: int = 6
    variants: int = MOST_VARIANTS
    run_gain: float | None = None


def losses(costs: Values, weights: Values) -> Values:
    """Weighted relative loss of every variant at every point; the weights sum to one."""
    best = np.maximum(costs.min(axis=1, keepdims=True), 1e-3)
    # An infinite cost (a variant that must not run) stays comparable in sums.
    relative = np.minimum(costs / best - 1, 1e6)
    return np.asarray(relative * (weights / weights.sum())[:, None], np.float64)


def keep(loss: Values, safe: npt.NDArray[np.bool_], limits: Limits) -> list[int]:
    """The variants worth their code: greedily those that lower the mean loss most.

    The first is a safe one, which serves every shape.
    """
    totals = np.where(safe, np.round(loss.sum(axis=0), _DIGITS), np.inf)
    chosen = [int(np.argmin(totals))]
    current = loss[:, chosen[0]]
    while len(chosen) < min(limits.variants, loss.shape[1]):
        left = np.round(np.minimum(current[:, None], loss).sum(axis=0), _DIGITS)
        k = int(np.argmin(left))
        if current.sum() - left[k] < limits.gain:
            break
        chosen.append(k)
        current = np.minimum(current, loss[:, k])
    return chosen


def grow(loss: Values, features: Values, limits: Limits) -> Tree:
    """The tree over ``features`` (points x features) for a loss table (points x variants)."""
    order = np.argsort(features, axis=0, kind="stable")
    return _grow(loss, features, order, limits.depth, limits.split_gain)


def _grow(
    loss: Values, features: Values, order: npt.NDArray[np.intp], depth: int, gain: float
) -> Tree:
    rows = order[:, 0] if order.shape[1] else np.arange(len(loss))
    totals = np.round(loss[rows].sum(axis=0), _DIGITS)
    leaf = Leaf(int(np.argmin(totals)))
    if depth == 0 or totals.min() - loss[rows].min(axis=1).sum() < gain:
        return leaf
    best = _best_split(loss, features, order)
    if best is None or totals.min() - best[0] < gain:
        return leaf
    _, feature, at = best
    goes = features[:, feature] < at
    below, rest = (
        _grow(loss, features, np.stack([c[goes[c] == side] for c in order.T], axis=1), *limit)
        for side, limit in ((True, (depth - 1, gain)), (False, (depth - 1, gain)))
    )
    return below if below == rest else Split(feature, at, below, rest)


def _best_split(
    loss: Values, features: Values, order: npt.NDArray[np.intp]
) -> tuple[float, int, int] | None:
    """(loss after it, feature, border) of the question that leaves the least loss."""
    best: tuple[float, int, int] | None = None
    for f in range(order.shape[1]):
        rows = order[:, f]
        values = features[rows, f]
        sums = np.cumsum(loss[rows], axis=0)
        left = sums[:-1].min(axis=1)
        right = (sums[-1] - sums[:-1]).min(axis=1)
        border = values[1:] > values[:-1]
        total = np.where(border, np.round(left + right, _DIGITS), np.inf)
        if not len(total):
            continue
        k = int(np.argmin(total))
        if np.isfinite(total[k]) and (best is None or total[k] < best[0]):
            best = (float(total[k]), f, _between(values[k], values[k + 1]))
    return best


def _between(low: float, high: float) -> int:
    """A border above ``low`` and at most ``high``, half-way in their logarithms."""
    middle = int(np.ceil(np.sqrt(max(low, 1.0) * max(high, 1.0))))
    return int(min(max(middle, int(low) + 1), int(high)))
