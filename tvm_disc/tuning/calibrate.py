"""Fits the coefficients of the analytical cost model to measured times.

The shipped constants of x86-64 levels are computed with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from tvm_disc.schedules.dispatch.cost import cost_table
from tvm_disc.schedules.dispatch.cost_model import NOT_FITTED, CostModel
from tvm_disc.schedules.dispatch.sampling import KnownPoints, Values
from tvm_disc.schedules.dispatch.variant import Variant

FACTORS = (0.5, 0.8, 0.95, 1.05, 1.25, 2.0)
ROUNDS = 12
PREDICTION = 0.1  # weight of an error in a predicted time, relative to the loss of a wrong choice
# coefficients that serial times do not determine
OF_THREADS = ("wake_ns", "parallel", "parallel_fma")
# coefficients of a processor's caches, of its choices of code and of a BLAS: the file of a level
# has none of them
OF_PROCESSOR = (
    *("near_bytes", "copied_ns", "vendor_call_ns", "vendor_elem_ns", "vendor_fma_ns"),
    *NOT_FITTED,
)
LARGEST = 1.0  # losses and errors are clipped to this value


@dataclass
class Sample:
    """Measured times of one kernel: ``dims`` is points x symbols, ``times`` points x variants."""

    symbols: Sequence[Any]
    variants: Sequence[Variant]
    dims: Values
    times: Values

    def __post_init__(self) -> None:
        self._points = KnownPoints(dict(zip(self.symbols, self.dims.T, strict=True)))

    def score(self, model: CostModel) -> float:
        """Return the mean loss of the variants that ``model`` selects plus weighted prediction
        errors; a lower score is better.
        """
        costs = cost_table(list(self.variants), self._points, len(self.dims), model)
        known = np.isfinite(self.times) & np.isfinite(costs)
        times = np.where(known, self.times, np.inf)
        picked = np.argmin(np.where(known, costs, np.inf), axis=1)
        lost = times[np.arange(len(times)), picked] / times.min(axis=1) - 1
        errors = np.abs(np.log(costs[known] / self.times[known]))
        return float(
            np.minimum(lost, LARGEST).mean() + PREDICTION * np.minimum(errors, LARGEST).mean()
        )


def calibrate(samples: Sequence[Sample], start: CostModel, fixed: Sequence[str] = ()) -> CostModel:
    """Return the model with the lowest mean score for the samples, found by coordinate descent.

    Fields named in ``fixed`` or ``NOT_FITTED`` keep their values.
    """

    def score(model: CostModel) -> float:
        return round(float(np.mean([s.score(model) for s in samples])), 9)

    best = start
    least = score(best)
    for _ in range(ROUNDS):
        before = least
        for field in fields(CostModel):
            if field.name in (*fixed, *NOT_FITTED):
                continue
            value = getattr(best, field.name)
            for factor in FACTORS:
                tried = replace(best, **{field.name: float(f"{value * factor:.4g}")})
                if (found := score(tried)) < least:
                    best, least = tried, found
        if least == before:
            break
    return best
