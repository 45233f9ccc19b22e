"""Algorithms of a GEMM body, and which of them a body contains.

One body contains several algorithms, which share packing, scratch and the loop over tasks. Its
parameter ``algorithm`` selects one per call; the kernel's decision tree computes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from tvm import tirx

from tvm_disc.typing import Expr, Size

# Added to an algorithm's number: a task computes one row of register tiles over all columns.
BY_ROWS = 16


class Algorithm(IntEnum):
    """Algorithms that compute the tasks of a matmul."""

    PANELS = 0  # register tiles; B is packed at run time, unless it is constant
    IN_PLACE = 1  # register tiles that read rows of B in place
    LAST_APART = 2  # PANELS, but the columns after the last full vector are inner products
    AT_ONCE = 3  # register tiles over a whole batch item, not divided into groups
    OUTER = 4  # outer products, if K is small
    SHARED_VECTORS = 5  # few columns: a vector holds several steps of K per column
    INNER = 6  # tiles of inner products
    LINES = 7  # inner products, one row or column at a time
    COPIED = 8  # PANELS, but each K block of a long A is copied to scratch

    @property
    def text(self) -> str:
        """Return the name that knobs and ``explain`` show."""
        return self.name.lower().replace("_", " ")


TILES = (Algorithm.PANELS, Algorithm.IN_PLACE, Algorithm.LAST_APART, Algorithm.COPIED)


@dataclass(frozen=True)
class Selection:
    """The algorithm that a body runs, as a number, and the possible numbers.

    Attributes:
        number: an int, or the run-time parameter of the body.
        among: the possible values of ``number``: an :class:`Algorithm`, plus ``BY_ROWS`` if a task
            is one row of register tiles.
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
        """Return whether a task is one row of register tiles over all columns."""
        return self._is([n for n in self.among if n >= BY_ROWS])

    def _is(self, numbers: list[int]) -> bool | Expr:
        if not numbers or len(numbers) == len(self.among):
            return bool(numbers)
        tests = [self.number == n for n in numbers]
        return tirx.any(*tests) if len(tests) > 1 else tests[0]


PANELS = Selection.only(Algorithm.PANELS)
