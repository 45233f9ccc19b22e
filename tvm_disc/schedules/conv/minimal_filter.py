"""Minimal filtering: the matrices of F(m x m, 3 x 3), and weights in the transformed domain.

A tile of ``m + 2`` inputs per side gives ``m`` outputs per side with ``(m + 2)^2`` multiplications
for each pair of channels; the direct sum over taps takes ``9 m^2`` (Winograd 1980; Lavin and Gray,
*Fast algorithms for convolutional neural networks*, 2016). The matrices are constructed from a set
of points and infinity (Cook and Toom). The choice of points determines the rounding errors
(Barabasz et al., *Error analysis and improving the accuracy of Winograd convolution*, 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from tvm_disc.schedules.packing import Array, Form

TAPS = 3
Matrix = list[list[Fraction]]

# By outputs per side. For F(4x4), 1/2 and -2 have half the rounding errors of 2 and -2.
_POINTS = {
    2: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-2)),
}


@dataclass(frozen=True)
class MinimalFilter:
    """The transform F(m x m, 3 x 3) with ``outputs`` = m: ``out = A^T [(G w G^T) * (B^T d B)]
    A``.
    """

    outputs: int

    @property
    def side(self) -> int:
        """Return the number of inputs of a tile along one side."""
        return self.outputs + TAPS - 1

    @property
    def places(self) -> int:
        """Return the number of multiplications per tile and pair of channels: one per element."""
        return self.side**2

    @property
    def _points(self) -> tuple[Fraction, ...]:
        return _POINTS[self.outputs]

    @cached_property
    def of_input(self) -> Matrix:
        """Return the matrix B^T.

        Each row holds the coefficients of a polynomial that is 0 at all points except one; the
        polynomial of the last row is 0 at all points.
        """
        rows = []
        for skipped in (*range(len(self._points)), None):
            roots = [p for k, p in enumerate(self._points) if k != skipped]
            row = _polynomial(roots)
            rows.append([*row, *[Fraction(0)] * (self.side - len(row))])
        return rows

    @cached_property
    def of_weights(self) -> Matrix:
        """Return the matrix G.

        Row k holds the powers of point k, divided by the value at that point of the polynomial in
        row k of B^T.
        """
        rows = []
        for k, p in enumerate(self._points):
            scale = Fraction(1)
            for other in (q for j, q in enumerate(self._points) if j != k):
                scale *= p - other
            rows.append([p**i / scale for i in range(TAPS)])
        return [*rows, [Fraction(0)] * (TAPS - 1) + [Fraction(1)]]

    @cached_property
    def of_output(self) -> Matrix:
        """Return the matrix A^T: each column holds the powers of a point."""
        columns = [[p**i for i in range(self.outputs)] for p in self._points]
        columns.append([Fraction(0)] * (self.outputs - 1) + [Fraction(1)])
        return [list(row) for row in zip(*columns, strict=True)]

    def transformed(self, weights: Array) -> Array:
        """Return ``w[outs, ins, 3, 3]`` transformed to ``[position, ins, outs]``, computed in
        float64.
        """
        g = np.array(self.of_weights, np.float64)
        made = np.einsum("ij,ocjl,ml->imco", g, weights.astype(np.float64), g, optimize=True)
        return np.asarray(made.reshape(self.places, *made.shape[2:]))


@dataclass(frozen=True)
class FilteredPanels:
    """Layout of transformed weights: ``w[outs, ins, 3, 3]`` as ``[panel, position, ins, n_r]``.

    The last panel is zero padded on the right.
    """

    filter: MinimalFilter
    n_r: int

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        """Return the shape and element type of packed weights."""
        panels = -(-shape[0] // self.n_r)
        return (panels, self.filter.places, shape[1], self.n_r), dtype

    def write(self, array: Array, out: Array) -> None:
        """Pack weights into ``out``, which is zero-initialized."""
        made = self.filter.transformed(array)
        for panel, target in enumerate(out):
            part = made[..., panel * self.n_r : (panel + 1) * self.n_r]
            target[..., : part.shape[-1]] = part


def _polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
    """Return the coefficients of the product of all ``x - root``, lowest degree first."""
    found = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *found]
        found = [
            high - root * low for high, low in zip(shifted, [*found, Fraction(0)], strict=True)
        ]
    return found


__all__ = ["FilteredPanels", "MinimalFilter"]
