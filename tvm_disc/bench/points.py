"""Select the dims at which engines are measured, and generate the inputs."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tvm_disc.abi.formula import evaluate
from tvm_disc.errors import BadInput, shown
from tvm_disc.relay_passes.versions import import_versions
from tvm_disc.schedules.dispatch.sampling import bounds
from tvm_disc.shape import Solver
from tvm_disc.tuning.shapes import equal_pairs
from tvm_disc.typing import Array

Inputs: TypeAlias = "Sequence[tuple[str, Sequence[str], str]]"  # name, dims as text, dtype
Point: TypeAlias = "Mapping[str, int]"
Told: TypeAlias = "Mapping[str, Sequence[int]]"

DEFAULT_LARGEST = 64  # largest default value of a dim if no values are given
DEFAULT_POINTS = 4


@dataclass(frozen=True)
class Sweep:
    """The dims of a program by name, and the facts about them."""

    inputs: Inputs
    symbols: Mapping[str, Any]
    solver: Solver

    def points(self, told: Told, count: int) -> list[Point]:
        """Return all combinations of the given values; a range is sampled at ``count`` values.

        A dim without values gets the value of a dim that it must equal, otherwise its minimum. If
        no dim has values, the points increase all dims together.

        Raises:
            BadInput: a name is not a dim, or a value is negative.
        """
        values = {
            self.symbol(name): sampled_values(name, given, count) for name, given in told.items()
        }
        if not values:
            return self._grown(count=DEFAULT_POINTS)
        rows = itertools.product(*values.values())
        points = [self._completed(dict(zip(values, row, strict=True))) for row in rows]
        return list({tuple(p.items()): p for p in points}.values())

    def shapes(self, point: Point) -> list[tuple[int, ...]]:
        """Return the shapes of the inputs at a point."""
        return [tuple(evaluate(d, point) for d in dims) for _, dims, _ in self.inputs]

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the pairs of dims that a guard compares for equality."""
        names = {s: name for name, s in self.symbols.items()}
        for guard in self.solver.guards:
            for a, b in equal_pairs(guard.cond):
                one, other = names.get(a), names.get(b)
                if one and other:
                    yield one, other

    def symbol(self, name: str, option: str = "--dims") -> str:
        """Return the name of the dim that ``name`` denotes: a dim, or an input and axis (``x.0``).
        Messages name ``option``.

        Raises:
            BadInput: there is no such dim.
        """
        if name in self.symbols:
            return name
        places = {
            f"{n}.{axis}": d
            for n, dims, _ in self.inputs
            for axis, d in enumerate(dims)
            if d in self.symbols
        }
        if name not in places:
            known = ", ".join([*self.symbols, *places]) or "none"
            raise BadInput(f"{option}: there is no dim {name!r}; dynamic dims: {known}")
        return places[name]

    def _grown(self, count: int) -> list[Point]:
        found: dict[tuple[int, ...], Point] = {}
        ranges = {name: bounds(s, self.solver) for name, s in self.symbols.items()}
        for k in range(count):
            point = {
                name: _between(low, min(max(low, DEFAULT_LARGEST), high), k / (count - 1))
                for name, (low, high) in ranges.items()
            }
            found.setdefault(tuple(point.values()), point)
        return list(found.values())

    def _completed(self, told: dict[str, int]) -> Point:
        """Return the values of all dims, of which some are given.

        Other dims get the value of a given dim that a guard equates with them, or their minimum.
        """
        point = dict(told)
        for one, other in self.pairs():
            if (one in point) != (other in point):
                known, new = (one, other) if one in point else (other, one)
                point[new] = point[known]
        for name, symbol in self.symbols.items():
            point.setdefault(name, bounds(symbol, self.solver)[0])
        return {name: point[name] for name in self.symbols}


def sweep_of(source: Any, inputs: Inputs, constraints: Sequence[str]) -> Sweep:
    """Return the dims of a model whose program has these inputs.

    Raises:
        BadInput: an input has a type that ``.npz`` files cannot hold.
    """
    for name, _, dtype in inputs:
        if not _is_plain(dtype):
            raise BadInput(
                f"input '{name}': expected a NumPy type, found {dtype}; the other engines read "
                "inputs from NumPy files"
            )
    general = import_versions(source, None, constraints, several=False)[0]
    text = [d for _, dims, _ in inputs for d in dims]
    used = {n.id for d in text for n in ast.walk(ast.parse(d)) if isinstance(n, ast.Name)}
    known = {str(s.name): s for s, _ in general.solver.symbols()}
    return Sweep(inputs, {name: s for name, s in known.items() if name in used}, general.solver)


@dataclass(frozen=True)
class Case:
    """Dims by name, and the inputs by name for all engines."""

    point: Point
    arrays: Mapping[str, np.ndarray]


def cases_of(
    sweep: Sweep, points: Sequence[Point], ranges: Mapping[str, tuple[int, int]]
) -> Iterator[Case]:
    """Yield inputs with a fixed seed: normal floats; integers in ``ranges``, by default 0 and 1."""
    for point in points:
        rng = np.random.default_rng(0)
        found: dict[str, np.ndarray] = {}
        for (name, _, dtype), shape in zip(sweep.inputs, sweep.shapes(point), strict=True):
            kind, (low, high) = np.dtype(dtype), ranges.get(name, (0, 1))
            made: Array = (
                rng.standard_normal(shape)
                if kind.kind == "f"
                else rng.integers(low, high, shape, endpoint=True)
            )
            found[name] = np.asarray(made).astype(kind)
        yield Case(point, found)


def _is_plain(dtype: str) -> bool:
    """Return whether NumPy has the type; bfloat16 and boxed data types are not NumPy types."""
    try:
        return np.dtype(dtype).isbuiltin == 1
    except TypeError:
        return False


def sampled_values(name: str, given: Sequence[int], count: int) -> list[int]:
    """Return the given values of a dim; a range is sampled at ``count`` values, logarithmically.

    Raises:
        BadInput: no value is given, or one is negative.
    """
    if not given:
        raise BadInput(
            f"--dims: {name}: expected at least one value, found none; a range starts with the "
            "smaller number"
        )
    if min(given) < 0:
        raise BadInput(f"--dims: {name}: expected values of at least 0, found {shown(given)}")
    if not isinstance(given, range) or len(given) <= count:
        return list(dict.fromkeys(given))
    low, high = max(given[0], 1), given[-1]
    steps = max(count - 1, 1)
    return list(dict.fromkeys(_between(low, high, k / steps) for k in range(count)))


def _between(low: int, high: int, part: float) -> int:
    """Return the value at a fraction of the way from low to high, on a logarithmic scale."""
    steps: float = (high / low) ** part
    return round(low * steps)


__all__ = [
    "DEFAULT_LARGEST",
    "Case",
    "Point",
    "Sweep",
    "cases_of",
    "sampled_values",
    "sweep_of",
]
