"""Algorithms of a GEMM body, and which of them a body contains.

One body contains several algorithms, which share packing, scratch and the loop over tasks. Its
parameter ``algorithm`` selects one per call; the kernel's decision tree computes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from tvm import tirx

from tvm_disc.typing import Expr, Size

# This bit of an algorithm's number selects tasks of one row of tiles over all columns.
BY_ROWS = 16


class Algorithm(IntEnum):
    """How the tasks of a matmul are computed."""

    PANELS = 0  # register tiles; B is packed, unless it is packed at compile time
    IN_PLACE = 1  # register tiles that read rows of B in place
    LAST_APART = 2  # PANELS, but the columns after the last full vector are inner products
    AT_ONCE = 3  # register tiles over a whole batch item, not divided into groups
    OUTER = 4  # outer products, if K is small
    SHARED_VECTORS = 5  # few columns: one vector contains several steps of K
    INNER = 6  # tiles of inner products
    LINES = 7  # inner products, one row or column at a time
    COPIED = 8  # PANELS, but long rows of A are copied by blocks of K

    @property
    def text(self) -> str:
        """The name in knobs and in ``explain``."""
        return self.name.lower().replace("_", " ")


TILES = (Algorithm.PANELS, Algorithm.IN_PLACE, Algorithm.LAST_APART, Algorithm.COPIED)


@dataclass(frozen=True)
class Selection:
    """The number of the algorithm that a body runs, and the numbers that it may have.

    Attributes:
        number: an int, or the body's parameter.
        among: the possible numbers: an :class:`Algorithm`, plus ``BY_ROWS``.
    """

    number: Size
    among: tuple[int, ...]

    @staticmethod
    def only(algorithm: Algorithm, by_rows: bool = False) -> Selection:
        """Return the selection of one algorithm at compile time."""
        number = algorithm + BY_ROWS * by_rows
        return Selection(number, (number,))

    def uses(self, *algorithms: Algorithm) -> bool | Expr:
        """Return whether one of ``algorithms`` runs: a bool if it is known at compile time."""
        return self._is([n for n in self.among if n % BY_ROWS in algorithms])

    @property
    def by_rows(self) -> bool | Expr:
        """Whether a task is one row of tiles over all columns."""
        return self._is([n for n in self.among if n >= BY_ROWS])

    def _is(self, numbers: list[int]) -> bool | Expr:
        if not numbers or len(numbers) == len(self.among):
            return bool(numbers)
        tests = [self.number == n for n in numbers]
        return tirx.any(*tests) if len(tests) > 1 else tests[0]


PANELS = Selection.only(Algorithm.PANELS)
