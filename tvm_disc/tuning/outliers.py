"""Points whose times fit no pattern: what disturbs a machine unseen disturbs single points.

Another virtual machine on the same core, or two virtual cores that share no cache for a while,
slow a call on threads by a half, for a moment or for seconds, and no counter tells. The points
around it were measured at other times. So each point is predicted by a regressor that has not seen
it; where a variant that may be the best took much more or less than predicted, over what all
variants did, the point is worth another look.
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

FEWEST = 16  # points of which a regressor learns what is usual
UNUSUAL = np.log(1.2)  # off by so much
OUTLYING = 2.5  # and by so many times what points of this group are off by, in the middle
NEAR = 1.5  # times slower than the best that a variant may be to matter
MOST = 0.3  # of the points


def surprising(
    group: Group, variants: Sequence[Variant], model: CostModel, found: Times
) -> list[tuple[int, ...]]:
    """The points of ``found`` that fit the others worst, those that fit least first."""
    dims, times = time_table(variants, found)
    if len(dims) < FEWEST or not dims.shape[1]:
        return []
    off = surprise(times, left_out(group, variants, Solver(), model, found))
    limit = max(UNUSUAL, OUTLYING * float(np.median(off)))
    worst = np.argsort(-off, kind="stable")[: int(MOST * len(dims))]
    return [tuple(int(d) for d in dims[k]) for k in worst if off[k] > limit]


def surprise(times: Values, predicted: Values) -> Values:
    """How far the variants that matter are off at each point (points x variants), as a logarithm.

    What all variants of a point are off by says nothing of a choice.
    """
    known = np.isfinite(times) & np.isfinite(predicted)
    apart = np.where(known, np.log(np.where(known, times / predicted, 1.0)), 0.0)
    level = apart.sum(axis=1, keepdims=True) / np.maximum(known.sum(axis=1, keepdims=True), 1)
    matters = np.zeros(known.shape, bool)
    for values in (times, predicted):
        some = np.where(known, values, np.inf)
        matters |= known & (some <= NEAR * some.min(axis=1, keepdims=True))
    return np.asarray(np.where(matters, np.abs(apart - level), 0.0).max(axis=1), np.float64)
