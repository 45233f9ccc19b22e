"""Comparison of results with those of a reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tvm_disc.errors import BadInput, Unsupported, counted, shown
from tvm_disc.typing import Array

ROUNDING = 16  # float differences up to this multiple of the type's epsilon are accepted


@dataclass(frozen=True)
class Comparison:
    """Result of the comparison of a program with one reference.

    Attributes:
        reference: the reference's name.
        error: largest difference, relative to the largest element of the reference; infinity if
            shapes, dtypes, integers, NaN or infinities differ; None if it was not compared.
        result: the result that has this difference, such as ``result 0: float32[7, 8]``.
        equal: whether the difference is accepted.
        why: the reason why the reference was not compared.
    """

    reference: str
    error: float | None = None
    result: str = ""
    equal: bool = True
    why: str = ""

    def __str__(self) -> str:
        if self.error is None:
            return f"{self.reference}: not compared, {self.why}"
        said = "equal" if self.equal else "DIFFERENT"
        return f"{self.reference}: {said}, largest difference {self.error:.1e} in {self.result}"


@dataclass(frozen=True)
class WrongKernel:
    """The first kernel call whose result differs from that of its operators on the same inputs.

    Attributes:
        kernel: its name, as ``explain()`` prints it.
        call: position among the kernel calls of the main function.
        operators: the operators that it computes.
        place: the model's operator that computes the kernel's result, by its name in the model.
        comparison: the difference.
    """

    kernel: str
    call: int
    operators: tuple[str, ...]
    place: str
    comparison: Comparison

    def __str__(self) -> str:
        place = f", for {self.place}" if self.place else ""
        return (
            f"first kernel that differs: '{self.kernel}' (call {self.call}) of "
            f"{' + '.join(self.operators)}{place}: {self.comparison}"
        )


@dataclass(frozen=True)
class Verified:
    """The outcome of ``Executable.verify``; true as a bool if at least one reference was compared,
    and all differences are accepted.

    Attributes:
        comparisons: one per reference.
        kernel: the first kernel whose result is wrong; None if there is none.
        notes: sentences about results that were not compared, or the cause of a difference.
    """

    comparisons: tuple[Comparison, ...]
    kernel: WrongKernel | None = None
    notes: tuple[str, ...] = field(default=())

    def __bool__(self) -> bool:
        compared = [c for c in self.comparisons if c.error is not None]
        return bool(compared) and all(c.equal for c in compared)

    def __str__(self) -> str:
        kernel = [] if self.kernel is None else [str(self.kernel)]
        return "\n".join([*map(str, self.comparisons), *kernel, *self.notes])


def compared(
    reference: str, found: Sequence[Array], wanted: Sequence[Array], tolerance: float
) -> Comparison:
    """Return the largest difference between results and those of a reference.

    If some differences are above their tolerances, it is the largest of these. References with
    another number of results are not compared.
    """
    if len(found) != len(wanted):
        return Comparison(
            reference, why=f"it has {counted(len(wanted), 'result')}, expected {len(found)}"
        )
    worst, where, equal = 0.0, "all results", True
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        size = difference(a, b)
        fits = size <= accepted(a, tolerance)
        # A difference above its tolerance is preferred to a larger one within its tolerance.
        if (not fits, size) > (not equal, worst):
            worst, where = size, f"result {k}: {a.dtype}[{', '.join(map(str, a.shape))}]"
        equal = equal and fits
    return Comparison(reference, worst, where, equal)


def accepted(array: Array, tolerance: float) -> float:
    """Return the accepted difference for an array: 0 for integers and booleans; for floats,
    ``tolerance``, or the rounding error of the dtype if that is larger.
    """
    if array.dtype.kind in "biu":
        return 0.0
    wide = array.dtype.name == "bfloat16"  # NumPy has no epsilon for it
    eps = 2.0**-7 if wide else float(np.finfo(array.dtype).eps)
    return max(float(tolerance), ROUNDING * eps)


def difference(found: Array, expected: Array) -> float:
    """Return the largest difference relative to the largest element of ``expected``.

    Infinity if shapes or dtypes differ, if an integer differs, if NaN or infinities are at
    different positions, or if ``found`` differs and ``expected`` has no finite element except 0.
    """
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return np.inf
    if found.dtype.kind in "biu":
        return 0.0 if np.array_equal(found, expected) else np.inf
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), expected.astype(wide)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    if not np.isfinite(a[finite]).all():
        return np.inf
    worst = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
    if not worst:
        return 0.0
    largest = float(np.abs(b[finite]).max(initial=0.0))
    return worst / largest if largest else np.inf


def comparing(
    verifies: Callable[..., Verified] | None, takes_tensors: bool
) -> Callable[..., Verified]:
    """Return the function that compares a program with references.

    Raises:
        Unsupported: the program was loaded, or takes or returns data types.
    """
    if verifies is None:
        raise Unsupported(
            "verify: a loaded program has no model to compare with; call verify on the program "
            "that `build` returns"
        )
    if not takes_tensors:
        raise Unsupported("verify: programs that take or return data types are not supported")
    return verifies


def check_tolerance(value: object) -> float:
    """Return an accepted difference; raise BadInput if it is not a number of at least 0."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not isinstance(value, int | float) or not number or not value >= 0:
        raise BadInput(f"tolerance: expected a number, at least 0, found {shown(value)}")
    return float(value)


__all__ = [
    "Comparison",
    "Verified",
    "WrongKernel",
    "accepted",
    "check_tolerance",
    "compared",
    "comparing",
    "difference",
]
