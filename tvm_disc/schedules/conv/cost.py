"""Analytical model of channels-last convolutions: direct sums and minimal filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_disc.schedules.conv.contraction import WindowGeometry
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.sampling import Points, Values, evaluate
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Size


@dataclass(frozen=True)
class DirectSums:
    """Cost of a convolution that sums ``members`` input channels for each vector of output
    channels.

    Attributes:
        shape: the output shape without its channels.
        taps, geometry: those of the window.
        vectors: vectors of output channels.
        members: input channels of a group.
        columns: adjacent outputs computed at a time.
        weight_bytes: size of the packed weights.
    """

    shape: Sequence[Size]
    taps: Sequence[int]
    geometry: WindowGeometry
    vectors: int
    members: int
    columns: int
    weight_bytes: int

    def ns(self, points: Points, model: CostModel) -> Values:
        """Return the nanoseconds of one serial run at each point."""
        images, *rows, width = (_values(d, points) for d in self.shape)
        whole, rest = np.divmod(width, self.columns)
        half = (self.columns + 1) // 2
        wide = np.where(rest > half, self.columns, np.where(rest > 0, half, 0))
        steps = images * (whole * self.columns + wide) * self.taps[-1]
        for d, count in enumerate(rows):
            rank = len(self.taps)
            outside = self.geometry.padding[d] + self.geometry.padding[d + rank]
            lines = count * self.taps[d] - outside / self.geometry.strides[d]
            steps = steps * np.maximum(lines, count)
        steps = steps * self.vectors * self.members
        return _no_less(steps * _step_ns(model), self.weight_bytes, model)


def filtered_ns(
    products: Values, weight_bytes: Values, vectors: Values, model: CostModel
) -> Values:
    """Return the nanoseconds of minimal filtering.

    This is the larger of the time of its products and of reading ``weight_bytes``, plus the
    transforms of ``vectors`` vectors in both directions.
    """
    there_and_back = vectors * _CYCLES * model.cycle_ns
    return np.asarray(_no_less(products, weight_bytes, model) + there_and_back)


_CYCLES = 3.5  # cycles to read, transform and store one vector


def _no_less(time: Values, moved: Values | float, model: CostModel) -> Values:
    """Return the larger of ``time`` and the time to read ``moved`` bytes."""
    far = np.maximum(moved - model.near_bytes, 0)
    return np.asarray(np.maximum(time, moved * model.byte_ns + far * model.far_byte_ns))


def _step_ns(model: CostModel) -> float:
    """Return the nanoseconds of one vector multiplication with operands in the first-level
    cache.
    """
    return model.cycle_ns / model.fma_per_cycle


def _values(dim: Size, points: Points) -> Values:
    return np.asarray(evaluate(i64(dim), points), np.float64)


__all__ = ["DirectSums", "filtered_ns"]
