"""Sizes of a report: a curve over each independent dim, and the measurements of its points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tvm_disc.abi.manifest import Manifest
from tvm_disc.bench.compare import ComparisonRow, Engine
from tvm_disc.bench.page.cliffs import Cliff
from tvm_disc.bench.points import DEFAULT_LARGEST, Point, Sweep, sampled_values
from tvm_disc.errors import BadInput
from tvm_disc.runtime.profile import Profile
from tvm_disc.runtime.summary import usual_dims, varying_dims


@dataclass(frozen=True)
class Curve:
    """The sizes of one dim; all others have their base size.

    Attributes:
        place: the first input and axis that have this dim, as text.
        points: all dims for each of the values.
    """

    dim: str
    place: str
    values: Sequence[int]
    points: Sequence[Point]


@dataclass
class Measured:
    """Everything that a report shows.

    Attributes:
        base: the sizes at which kernels are listed.
        rows: times of all engines, by the values of a point.
        profiles: profiles of the program, by the values of a point.
        refused: reasons why points have no profile.
        cliffs: sizes at which the time of a call jumps.
    """

    manifest: Manifest
    about: Mapping[str, str]
    base: Point
    curves: Sequence[Curve]
    engines: Sequence[Engine]
    rows: Mapping[tuple[int, ...], ComparisonRow]
    tolerance: float
    threads: int
    profiles: dict[tuple[int, ...], Profile] = field(default_factory=dict)
    refused: dict[tuple[int, ...], str] = field(default_factory=dict)
    cliffs: list[Cliff] = field(default_factory=list)

    def row(self, point: Point) -> ComparisonRow:
        """Return the times of all engines at a point."""
        return self.rows[key_of(point)]

    def profile(self, point: Point) -> Profile | None:
        """Return the profile at a point; None if the program refused these sizes."""
        return self.profiles.get(key_of(point))

    @property
    def at_base(self) -> Profile | None:
        """The profile at the base sizes, or else at the first sizes that have one."""
        found = self.profile(self.base)
        return found or next(iter(self.profiles.values()), None)


def key_of(point: Point) -> tuple[int, ...]:
    """Return the sizes of a point in order."""
    return tuple(point.values())


@dataclass(frozen=True)
class FreeDims:
    """The independent dims, and the dims that follow from them.

    Attributes:
        bounds: the least and the largest size of each; None if there is no largest.
        follows: dim -> the earlier dim to which a guard compares it for equality.
    """

    manifest: Manifest
    bounds: Mapping[str, tuple[int, int | None]]
    follows: Mapping[str, str]

    def complete(self, sizes: Mapping[str, int]) -> Point:
        """Return the sizes of all dims, given those of the independent dims."""
        same = {name: sizes[other] for name, other in self.follows.items() if other in sizes}
        return usual_dims(self.manifest, {**same, **sizes})


def free_dims(manifest: Manifest, sweep: Sweep) -> FreeDims:
    """Return the dims that a report varies."""
    bounds = varying_dims(manifest)
    order = {name: k for k, name in enumerate(bounds)}
    follows: dict[str, str] = {}
    for pair in sweep.pairs():
        if all(name in order for name in pair):
            first, second = sorted(pair, key=lambda name: order[name])
            first = follows.get(first, first)
            if first != second:
                follows.setdefault(second, first)
    free = {name: span for name, span in bounds.items() if name not in follows}
    return FreeDims(manifest, free, follows)


def curves_of(
    dims: FreeDims,
    sweep: Sweep,
    given: Mapping[str, Sequence[int]],
    at: Mapping[str, int],
    count: int,
) -> tuple[Point, list[Curve]]:
    """Return the base sizes, and a curve over every dim.

    A dim without given values gets ``count`` values up to ``DEFAULT_LARGEST``. The base size is the
    middle value, or the lower of the two middle ones.

    Args:
        given: values by names of dims, or by input and axis.
        at: base sizes by names of dims, or by input and axis.

    Raises:
        BadInput: there is no such dim, it follows from others, or a value does not fit.
    """
    bounds = dims.bounds
    chosen = {_own(n, sweep, bounds): sampled_values(n, v, count) for n, v in given.items()}
    values = {
        name: chosen.get(name) or sampled_values(name, _default(low, high), count)
        for name, (low, high) in bounds.items()
    }
    base = {name: sizes[(len(sizes) - 1) // 2] for name, sizes in values.items()}
    for name, size in at.items():
        base[_own(name, sweep, bounds, "--at")] = size
    _check_bounds(bounds, values, base)
    curves = [
        Curve(
            dim,
            _place(dims.manifest, dim),
            sizes,
            [dims.complete({**base, dim: size}) for size in sizes],
        )
        for dim, sizes in values.items()
    ]
    return dims.complete(base), curves


def _own(name: str, sweep: Sweep, bounds: Mapping[str, object], option: str = "--dims") -> str:
    """Return the dim that a name denotes; raises BadInput if the dim follows from others."""
    dim = sweep.symbol(name, option)
    if dim not in bounds:
        raise BadInput(
            f"{option}: {name} follows from other dims; give values of {', '.join(bounds)}"
        )
    return dim


def _default(low: int, high: int | None) -> range:
    low = max(low, 1)
    largest = max(low, DEFAULT_LARGEST)
    return range(low, (largest if high is None else min(largest, high)) + 1)


def _check_bounds(
    bounds: Mapping[str, tuple[int, int | None]],
    values: Mapping[str, Sequence[int]],
    base: Mapping[str, int],
) -> None:
    for name, (low, high) in bounds.items():
        for size in (*values[name], base[name]):
            if size < low or (high is not None and size > high):
                option = "--dims" if size in values[name] else "--at"
                most = "" if high is None else f" and at most {high}"
                raise BadInput(f"{option}: {name}: expected at least {low}{most}, found {size}")


def _place(manifest: Manifest, dim: str) -> str:
    places = (
        f"input {name}, axis {axis}"
        for name, dims, _ in manifest["inputs"]
        for axis, text in enumerate(dims)
        if text == dim
    )
    return next(places, "")


__all__ = ["Curve", "FreeDims", "Measured", "curves_of", "free_dims", "key_of"]
