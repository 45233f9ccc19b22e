"""Detects points whose times do not fit those of other points.

If another virtual machine runs on the same core, or two virtual cores temporarily share no cache,
threaded calls take 1.5 times as long for seconds, and no counter reports the cause. Points with
similar dims are measured at other times. The times of each point are therefore predicted by a
regressor that was trained without this point. If a variant that may be the best took much more or
less time than predicted, relative to all variants, the point is measured again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.learn import Times, left_out, time_table
from tvm_disc.schedules.dispatch.sampling import Values
from tvm_disc.schedules.dispatch.variant import Variant
from tvm_disc.schedules.group import Group
from tvm_disc.shape import Solver

FEWEST = 16  # fewest points with which a regressor is trained
UNUSUAL = np.log(1.2)  # logarithm of the smallest ratio that counts as unusual
OUTLYING = 2.5  # smallest multiple of the group's median deviation that counts as unusual
NEAR = 1.5  # a variant slower than the best by more than this factor does not matter
MOST = 0.3  # largest fraction of points that is measured again


def surprising(
    group: Group, variants: Sequence[Variant], model: CostModel, found: Times
) -> list[tuple[int, ...]]:
    """Return the points of ``found`` whose times do not fit those of the others, worst first."""
    dims, times = time_table(variants, found)
    if len(dims) < FEWEST or not dims.shape[1]:
        return []
    off = surprise(times, left_out(group, variants, Solver(), model, found))
    limit = max(UNUSUAL, OUTLYING * float(np.median(off)))
    worst = np.argsort(-off, kind="stable")[: int(MOST * len(dims))]
    return [tuple(int(d) for d in dims[k]) for k in worst if off[k] > limit]


def surprise(times: Values, predicted: Values) -> Values:
    """Return, for each point, the largest deviation of a variant that is nearly the best.

    Arguments are arrays of points x variants. A deviation is the logarithm of the ratio of time and
    predicted time. The mean deviation of a point is subtracted, since a deviation that all of its
    variants share does not affect the choice.
    """
    known = np.isfinite(times) & np.isfinite(predicted)
    apart = np.where(known, np.log(np.where(known, times / predicted, 1.0)), 0.0)
    level = apart.sum(axis=1, keepdims=True) / np.maximum(known.sum(axis=1, keepdims=True), 1)
    matters = np.zeros(known.shape, bool)
    for values in (times, predicted):
        some = np.where(known, values, np.inf)
        matters |= known & (some <= NEAR * some.min(axis=1, keepdims=True))
    return np.asarray(np.where(matters, np.abs(apart - level), 0.0).max(axis=1), np.float64)
