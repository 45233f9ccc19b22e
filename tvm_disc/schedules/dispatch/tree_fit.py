"""Fit a decision tree to a table of costs; minimize the time lost against the best variant.

The loss of a variant at a point is its time divided by the time of the best variant, minus one,
multiplied by the weight of the point. The result is deterministic: of equal candidates the first
variant, feature and threshold is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_disc.schedules.dispatch.sampling import Values
from tvm_disc.schedules.dispatch.tree import Leaf, Split, Tree
from tvm_disc.schedules.dispatch.variant import MOST_VARIANTS

# If no single split helps and the remaining mean loss is at least AHEAD_LOSS, pairs of splits are
# tried, with at most AHEAD_CUTS thresholds per feature for the first split of a pair.
AHEAD_LOSS = 0.02
AHEAD_CUTS = 5
AHEAD_POINTS = 192  # largest number of points that are used for pairs of splits
MOST_SHARED = 24  # most variants kept, counting also those that share a body
SHARED_GAIN = 0.1  # least gain of a variant whose body is already kept, relative to ``Limits.gain``
_DIGITS = 9  # sums are rounded to this many digits, so that the order of additions does not matter


@dataclass(frozen=True)
class Limits:
    """Limits of a tree's size.

    Attributes:
        gain: least reduction of the mean loss by an additional variant.
        split_gain: least reduction of the mean loss by an additional split.
        depth: largest number of splits on a path.
        variants: largest number of bodies kept.
        run_gain: as ``split_gain``, for splits between runs of one plan, which add no code; None
            excludes these splits.
        copy_bytes: largest size of a layout of weights that a kernel keeps in addition to others,
            if its plan sets ``joins_if_small``.
    """

    gain: float = 0.01
    split_gain: float = 0.001
    depth: int = 6
    variants: int = MOST_VARIANTS
    run_gain: float | None = None
    copy_bytes: int = 0


def losses(costs: Values, weights: Values) -> Values:
    """Return the weighted relative loss of each variant at each point; weights sum to one."""
    best = np.maximum(costs.min(axis=1, keepdims=True), 1e-3)
    # keep sums finite if a cost is infinite because the variant's needs are not met
    relative = np.minimum(costs / best - 1, 1e6)
    return np.asarray(relative * (weights / weights.sum())[:, None], np.float64)


def keep(
    loss: Values,
    safe: npt.NDArray[np.bool_],
    limits: Limits,
    bodies: npt.NDArray[np.intp] | None = None,
) -> list[int]:
    """Return the indices of variants whose reduction of the mean loss justifies their code size.

    The selection is greedy. The first variant is a safe one: its plan has no needs. ``bodies[i]``
    is the number of the body that variant i runs; by default all bodies differ. A variant of a new
    body is added if all variants of that body together reduce the loss by ``limits.gain``. A
    variant of a kept body needs little code, so ``SHARED_GAIN`` times that reduction is enough.
    """
    bodies = np.arange(loss.shape[1]) if bodies is None else bodies
    totals = np.where(safe, np.round(loss.sum(axis=0), _DIGITS), np.inf)
    chosen = [int(np.argmin(totals))]
    current = loss[:, chosen[0]]
    while len(chosen) < min(MOST_SHARED, loss.shape[1]):
        left = np.round(np.minimum(current[:, None], loss).sum(axis=0), _DIGITS)
        gain = np.round(current.sum() - left, _DIGITS)
        kept, least = set(bodies[chosen]), limits.gain * SHARED_GAIN
        pays = np.isin(bodies, bodies[chosen]) & (gain >= least)
        for body in set(bodies) - kept if len(kept) < limits.variants else ():
            own = bodies == body
            together = current.sum() - np.minimum(current, loss[:, own].min(axis=1)).sum()
            pays[own] = (gain[own] >= least) & (np.round(together, _DIGITS) >= limits.gain)
        if not pays.any():
            break
        k = int(np.argmax(np.where(pays, gain, -np.inf)))
        chosen.append(k)
        current = np.minimum(current, loss[:, k])
    return chosen


MOST = 2**63 - 1


def grow(loss: Values, features: Values, limits: Limits) -> Tree:
    """Return a tree over ``features`` (points x features) with a small sum of ``loss`` (points x
    variants).

    The tree is grown greedily, with a lookahead of one more split (:func:`_best_pair`). The leaves
    are indices of variants.
    """
    order = np.argsort(features, axis=0, kind="stable")
    return _grow(loss, features, order, limits.depth, limits.split_gain)


def _grow(
    loss: Values, features: Values, order: npt.NDArray[np.intp], depth: int, gain: float
) -> Tree:
    rows = order[:, 0] if order.shape[1] else np.arange(len(loss))
    totals = np.round(loss[rows].sum(axis=0), _DIGITS)
    leaf = Leaf(int(np.argmin(totals)))
    if depth == 0 or np.min(totals) - np.min(loss[rows], axis=1).sum() < gain:
        return leaf
    best = _best_split(loss, features, order)
    if (best is None or np.min(totals) - best[0] < gain) and depth > 1:
        left = np.min(totals) - np.min(loss[rows], axis=1).sum()
        best = _best_pair(loss, features, order) if left >= AHEAD_LOSS else None
    if best is None or np.min(totals) - best[0] < gain:
        return leaf
    _, feature, at = best
    goes = features[:, feature] < at
    below, rest = (
        _grow(loss, features, _rows(order, goes == side), depth - 1, gain) for side in (True, False)
    )
    # Thresholds must fit in 64 bits; no dim is larger.
    at = min(max(at, -MOST), MOST)
    return below if below == rest else Split(feature, at, below, rest)


def _rows(order: npt.NDArray[np.intp], kept: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Return the sort order of each feature, restricted to the points in ``kept``."""
    columns = order.T
    rows: npt.NDArray[np.intp] = columns[kept[columns]].reshape(len(columns), -1).T
    return rows


def _best_pair(
    loss: Values, features: Values, order: npt.NDArray[np.intp]
) -> tuple[float, int, int] | None:
    """Return (remaining loss, feature, threshold) of the split after which one more split on each
    side reduces the loss most; None if no feature has two values.

    The remaining loss is that after all three splits. Such a lookahead is needed if a variant is
    best only between two thresholds, because then no single split reduces the loss. It is
    estimated from at most ``AHEAD_POINTS`` of the points.
    """
    whole = float(np.min(loss[order[:, 0]].sum(axis=0)))
    step = -(-len(order) // AHEAD_POINTS)
    some = np.zeros(len(loss), bool)
    some[order[::step, 0]] = True
    order = _rows(order, some)
    share = float(np.min(loss[order[:, 0]].sum(axis=0)))
    best: tuple[float, int, int] | None = None
    for f in range(order.shape[1]):
        values = np.unique(features[order[:, f], f])
        cuts = np.unique(np.linspace(0, len(values) - 1, AHEAD_CUTS + 2).astype(int)[1:-1])
        for low, high in ((values[c], values[c + 1]) for c in cuts if c + 1 < len(values)):
            at = _between(low, high)
            total = 0.0
            for side in (features[:, f] < at, features[:, f] >= at):
                part = _rows(order, side)
                split = _best_split(loss, features, part)
                alone = float(np.min(np.round(loss[part[:, 0]].sum(axis=0), _DIGITS)))
                total += alone if split is None else min(alone, split[0])
            after = float(np.round(whole - step * (share - total), _DIGITS))
            if best is None or after < best[0]:
                best = (after, f, at)
    return best


def _best_split(
    loss: Values, features: Values, order: npt.NDArray[np.intp]
) -> tuple[float, int, int] | None:
    """Return (remaining loss, feature, threshold) of the best single split, or None."""
    if len(order) < 2 or not order.shape[1]:
        return None
    values = features[order, np.arange(order.shape[1])]
    sums = np.cumsum(loss[order], axis=0)
    left, right = sums[:-1].min(axis=2), (sums[-1] - sums[:-1]).min(axis=2)
    border = values[1:] > values[:-1]
    total = np.where(border, np.round(left + right, _DIGITS), np.inf).T
    f, k = (int(x) for x in np.unravel_index(np.argmin(total), total.shape))
    if not np.isfinite(total[f, k]):
        return None
    return float(total[f, k]), f, _between(values[k, f], values[k + 1, f])


def _between(low: float, high: float) -> int:
    """Return an integer threshold in (low, high], near the geometric mean of both."""
    middle = int(np.ceil(np.sqrt(max(low, 1.0) * max(high, 1.0))))
    return int(min(max(middle, int(low) + 1), int(high)))
