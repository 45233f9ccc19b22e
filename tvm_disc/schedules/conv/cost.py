"""Analytical model of channels-last convolutions: direct sums, minimal filters, copied windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_disc.schedules.conv.contraction import WindowGeometry, columns_read
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
        taps, geometry: size of the window; its strides, padding and dilation.
        vectors: vectors of output channels.
        together: groups in a vector.
        members: input channels of a group.
        columns: adjacent outputs computed at a time.
        weight_bytes: size of the packed weights.
    """

    shape: Sequence[Size]
    taps: Sequence[int]
    geometry: WindowGeometry
    vectors: int
    together: int
    members: int
    columns: int
    weight_bytes: int

    def ns(self, points: Points, model: CostModel) -> Values:
        """Return the nanoseconds of one serial run at each point."""
        images, *rows, width = (_values(d, points) for d in self.shape)
        whole, rest = np.divmod(width, self.columns)
        half = (self.columns + 1) // 2
        whole = whole + (rest > half)
        few = (rest > 0) & (rest <= half)
        cycles = whole * self._cycles(self.columns, width, model)
        cycles = cycles + few * self._cycles(half, width, model)
        read = np.float64(self.weight_bytes)
        for d, count in enumerate(rows):
            lines = count * _inside(self.geometry, self.taps, d, count)
            cycles = cycles * lines
            read = read * np.minimum(lines / self.taps[d], 1)
        cycles = cycles * images * self.vectors * self.members
        return _no_less(cycles * model.cycle_ns, read, model)

    def _cycles(self, columns: int, width: Values, model: CostModel) -> Values:
        """Return the cycles of a row of taps, for one input channel of a group and ``columns``
        outputs of an image of ``width``.

        If there are fewer independent sums than multiply-adds in flight, latency limits the speed.
        """
        taps = self.taps[-1]
        stride, gap = self.geometry.strides[-1], self.geometry.dilation[-1]
        reads = columns_read(columns, taps, stride, gap)
        inputs = np.minimum(len(reads), width * stride)
        inside = np.minimum(taps, width * stride)
        merged = inputs * (self.together - 1)  # selects that combine groups
        sums = max(columns, model.sums_in_flight) * inside + merged
        loads = inputs * self.together / 2 + taps  # loading an element costs half a vector load
        return np.asarray(np.maximum(sums / model.fma_per_cycle, loads / model.load_per_cycle))


@dataclass(frozen=True)
class CopiedWindows:
    """Cost of copying the windows of output pixels into rows of A.

    Attributes:
        shape: the output shape without its batch and channels.
        taps, geometry: size of the window; its strides, padding and dilation.
        run: taps of the last axis in one contiguous piece.
        channels: input channels of each tap.
        lanes: elements of a vector.
    """

    shape: Sequence[Size]
    taps: Sequence[int]
    geometry: WindowGeometry
    run: int
    channels: int
    lanes: int

    def element_ns(self, points: Points, model: CostModel) -> Values:
        """Return the nanoseconds of copying one element at each point."""
        *rows, width = (_values(d, points) for d in self.shape)
        length, last = self.run * self.channels, len(rows)
        # Windows of the first and last outputs of a row extend into the padding.
        ends = [self.geometry.padding[last], self.geometry.padding[2 * last + 1]]
        crossing = sum(-(-p // self.geometry.strides[last]) for p in ends)
        whole: Values = 1 - np.minimum(crossing / np.maximum(width, 1), 1)
        for d, count in enumerate(rows):
            whole = whole * _inside(self.geometry, self.taps, d, count) / self.taps[d]
        cycles = model.piece_cycles + -(-length // self.lanes) * model.piece_vector_cycles
        each = cycles + (1 - whole) * model.partial_piece_cycles
        return np.asarray(each * model.cycle_ns / length)


def _inside(geometry: WindowGeometry, taps: Sequence[int], axis: int, count: Values) -> Values:
    """Return how many taps along an axis are inside the image, on average over ``count``
    outputs.
    """
    stride, most = geometry.strides[axis], np.maximum(count, 1)
    ends = [geometry.padding[axis], geometry.padding[axis + len(taps)]]
    # With padding p, the windows at an end extend p, p - stride, ... positions outside the image.
    outside = sum(p * (p + stride) / (2 * stride) for p in ends)
    found = taps[axis] - outside / (geometry.dilation[axis] * most)
    return np.asarray(np.minimum(np.maximum(found, 1), most * stride))


def filtered_ns(
    products: Values, weight_bytes: Values, vectors: Values, model: CostModel
) -> Values:
    """Return the nanoseconds of minimal filtering.

    This is the larger of the time of its products and of reading ``weight_bytes``, plus the
    transforms of ``vectors`` vectors in both directions.
    """
    there_and_back = vectors * model.transform_cycles * model.cycle_ns
    return np.asarray(_no_less(products, weight_bytes, model) + there_and_back)


def _no_less(time: Values, moved: Values | float, model: CostModel) -> Values:
    """Return the larger of ``time`` and the time to read ``moved`` bytes of weights.

    Only bytes beyond the size of the near cache count; ``time`` includes the loads from that cache.
    """
    far = np.maximum(moved - model.near_bytes, 0)
    return np.asarray(np.maximum(time, far * model.far_byte_ns))


def _values(dim: Size, points: Points) -> Values:
    return np.asarray(evaluate(i64(dim), points), np.float64)


__all__ = ["CopiedWindows", "DirectSums", "filtered_ns"]
