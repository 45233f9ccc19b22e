"""Cliffs: adjacent sizes between which the time of a call jumps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tvm_disc.abi.manifest import Manifest
from tvm_disc.runtime.decisions import chosen
from tvm_disc.runtime.profile import Profile

MOST_SCANNED = 512  # maximum number of sizes of a dim whose variants are compared
MOST_TRIED = 8  # maximum number of pairs of sizes that are measured for each dim
JUMP = 1.1  # least `Cliff.jump` of a cliff
NOISE_US = 2.0  # a smaller difference in time is not a cliff


@dataclass(frozen=True)
class Cliff:
    """Sizes ``size`` and ``size + 1`` of a dim whose times differ.

    Attributes:
        us, next_us: microseconds of a call at the two sizes.
        kernels: kernels whose variants change between the two.
    """

    dim: str
    size: int
    us: float
    next_us: float
    kernels: Sequence[str]

    @property
    def jump(self) -> float:
        """The larger of two ratios of times: larger to smaller size, divided by the ratio of the
        sizes; and smaller to larger size.

        It is below 1 if the time grows by a smaller factor than the size.
        """
        growth = max(1.0, (self.size + 1) / max(self.size, 1))
        return max(self.next_us / self.us / growth, self.us / self.next_us)

    @property
    def is_real(self) -> bool:
        """Whether the difference is larger than noise."""
        return self.jump > JUMP and abs(self.next_us - self.us) > NOISE_US


def cliffs_over(
    manifest: Manifest,
    dim: str,
    span: tuple[int, int],
    complete: Callable[[int], Mapping[str, int]],
    time: Callable[[Mapping[str, int]], Profile | None],
) -> list[Cliff]:
    """Return the cliffs of one dim; each was measured twice.

    The measured pairs of sizes are those between which variants of kernels change, and each power
    of two with its successor, at most ``MOST_TRIED``. Profiles that other processes disturbed are
    ignored.

    Args:
        span: the least and the largest size.
        complete: returns all dims for a size of this dim.
        time: returns a profile, or None if the program refuses the sizes.
    """

    def measured(size: int, kernels: Sequence[str]) -> Cliff | None:
        pair = [time(complete(s)) for s in (size, size + 1)]
        calm = [p for p in pair if p is not None and not p.disturbed]
        if len(calm) < len(pair):
            return None
        us, more = (p.split()["total_us"] for p in calm)
        return Cliff(dim, size, us, more, kernels)

    found = []
    for size, kernels in _pairs(manifest, span, complete):
        one = measured(size, kernels)
        if one is not None and one.is_real:
            again = measured(size, kernels)
            if again is not None and again.is_real:
                found.append(min(one, again, key=lambda c: c.jump))
    return found


def _pairs(
    manifest: Manifest, span: tuple[int, int], complete: Callable[[int], Mapping[str, int]]
) -> list[tuple[int, list[str]]]:
    """Return the sizes to measure, each with the kernels whose variants change after it.

    If there are too many, sizes at which most kernels change are kept. The result is sorted by
    size.
    """
    low, high = span
    changes = _changes(manifest, low, high, complete)
    power = 1
    while power < high:
        if power >= low:
            changes.setdefault(power, [])
        power *= 2
    chosen_first = sorted(changes.items(), key=lambda item: (-len(item[1]), -item[0]))
    return sorted(chosen_first[:MOST_TRIED])


def _changes(
    manifest: Manifest, low: int, high: int, complete: Callable[[int], Mapping[str, int]]
) -> dict[int, list[str]]:
    """Return a map from each size after which variants change to the names of the kernels."""
    trees = {k["name"]: k["choice"] for k in manifest["kernels"] if k.get("choice")}

    def variants(size: int) -> dict[str, str | None]:
        dims = complete(size)
        return {name: chosen(tree, dims) for name, tree in trees.items()}

    step = max(1, (high - low) // MOST_SCANNED)
    found: dict[int, list[str]] = {}
    before = variants(low)
    for begin in range(low, high, step):
        end = min(begin + step, high)
        after = variants(end)
        if after != before:
            size = _between(variants, before, begin, end)
            behind = variants(size + 1)
            found[size] = [name for name in trees if behind[name] != before[name]]
        before = after
    return found


def _between(
    variants: Callable[[int], Mapping[str, str | None]],
    before: Mapping[str, str | None],
    low: int,
    high: int,
) -> int:
    """Return the largest size that still has the variants `before`, by bisection."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if variants(middle) == before else (low, middle)
    return low


__all__ = ["Cliff", "cliffs_over"]
