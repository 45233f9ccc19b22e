"""Detects points whose times do not fit those of other points.

Another virtual machine on the same core, or two virtual cores that temporarily share no cache, slow
threaded calls by a half for seconds, and no counter reports it. Neighbouring points were measured
at other times. So each point is predicted by a regressor that was trained without it. If a possibly
best variant took much more or less than predicted, relative to all variants, the point is measured
again.
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

FEWEST = 16  # fewest points from which a regressor can learn
UNUSUAL = np.log(1.2)  # logarithm of the smallest ratio that counts as unusual
OUTLYING = 2.5  # and the smallest multiple of the group's median deviation
NEAR = 1.5  # a variant slower than the best by more than this factor does not matter
MOST = 0.3  # largest fraction of points that is measured again


def surprising(
    group: Group, variants: Sequence[Variant], model: CostModel, found: Times
) -> list[tuple[int, ...]]:
    """Return the points of ``found`` that fit the others worst, worst first."""
    dims, times = time_table(variants, found)
    if len(dims) < FEWEST or not dims.shape[1]:
        return []
    off = surprise(times, left_out(group, variants, Solver(), model, found))
    limit = max(UNUSUAL, OUTLYING * float(np.median(off)))
    worst = np.argsort(-off, kind="stable")[: int(MOST * len(dims))]
    return [tuple(int(d) for d in dims[k]) for k in worst if off[k] > limit]


def surprise(times: Values, predicted: Values) -> Values:
    """Return the deviation of the relevant variants at each point (points x variants), as a
    logarithm.

    A deviation that all variants of a point share does not affect a choice and is subtracted.
    """
    known = np.isfinite(times) & np.isfinite(predicted)
    apart = np.where(known, np.log(np.where(known, times / predicted, 1.0)), 0.0)
    level = apart.sum(axis=1, keepdims=True) / np.maximum(known.sum(axis=1, keepdims=True), 1)
    matters = np.zeros(known.shape, bool)
    for values in (times, predicted):
        some = np.where(known, values, np.inf)
        matters |= known & (some <= NEAR * some.min(axis=1, keepdims=True))
    return np.asarray(np.where(matters, np.abs(apart - level), 0.0).max(axis=1), np.float64)
