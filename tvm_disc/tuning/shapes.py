"""Shapes to tune for: values by dim name, a log of shapes in production, or values from facts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tvm_ffi
from tvm import tirx

from tvm_disc.errors import BadInput, Unsupported, shown
from tvm_disc.schedules.dispatch.sampling import LARGEST_DIM, bounds, evaluate, halton
from tvm_disc.shape import Solver
from tvm_disc.typing import Expr, Var

Shapes: TypeAlias = "Mapping[str, Sequence[int]] | str | Path | None"
Weights: TypeAlias = Mapping[str, Sequence[float]] | None
Inputs: TypeAlias = Sequence[tuple[str, Sequence[Any], str]]

DEFAULT_LARGEST = 1024  # largest value tried of a dim without an upper bound


def check_shapes(shapes: object, weights: object, points: object, budget_s: object) -> None:
    """Check the types of tuning arguments.

    Raises:
        BadInput: an argument has none of the accepted types, or a number is out of range.
    """
    if not isinstance(shapes, Mapping | str | Path | None):
        raise BadInput(
            f"shapes: expected a mapping from dims to values or the path of a log, found "
            f"{shown(shapes)}"
        )
    if not isinstance(weights, Mapping | None):
        raise BadInput(f"weights: expected a mapping from dims to weights, found {shown(weights)}")
    if not isinstance(points, int) or isinstance(points, bool) or points < 1:
        raise BadInput(f"points: expected an integer of at least 1, found {shown(points)}")
    seconds = isinstance(budget_s, int | float) and not isinstance(budget_s, bool)
    if budget_s is not None and not (seconds and float(budget_s) >= 0):  # type: ignore[arg-type]
        raise BadInput(f"budget_s: expected seconds, at least 0, found {shown(budget_s)}")


def program_points(
    inputs: Inputs, solver: Solver, shapes: Shapes, weights: Weights, count: int
) -> list[dict[object, int]]:
    """Return at most ``count`` assignments of the program's dims.

    Those of a log are returned with the most frequent first; otherwise the smallest and the largest
    values come first, then random ones.

    Raises:
        BadInput: an unknown dim name, an invalid value, or weights that do not match the values.
    """
    symbols = _symbols(inputs)
    if isinstance(shapes, str | Path):
        return _from_log(Path(shapes), inputs, symbols, count)
    values = _choices(inputs, symbols, solver, shapes or {})
    draws = _draws(values, symbols, weights or {}, count)
    accepted: dict[tuple[int, ...], dict[Any, int]] = {}
    for row in draws:
        point = _accepted(dict(zip(symbols, row, strict=True)), solver)
        if point is not None and len(accepted) < count:
            accepted.setdefault(tuple(point.values()), point)
    return list(accepted.values())


def _symbols(inputs: Inputs) -> list[object]:
    dims = [d for _, shape, _ in inputs for d in shape if isinstance(d, tirx.Var)]
    return list(dict.fromkeys(dims))


def _named(inputs: Inputs, symbols: Sequence[Var]) -> dict[str, Any]:
    names = {str(s.name): s for s in symbols}
    for name, shape, _ in inputs:
        for axis, d in enumerate(shape):
            if isinstance(d, tirx.Var):
                names.setdefault(f"{name}.{axis}", d)
    return names


def _choices(
    inputs: Inputs, symbols: Sequence[Any], solver: Solver, shapes: Mapping[str, Sequence[int]]
) -> dict[Var, list[int]]:
    names = _named(inputs, symbols)
    found: dict[Any, list[int]] = {}
    for name, given in shapes.items():
        if name not in names:
            known = ", ".join(sorted(names)) or "none"
            raise BadInput(f"shapes: there is no dim {name!r}; dynamic dims: {known}")
        chosen = sorted(set(given)) if _sizes(given) else []
        if not chosen or chosen[0] < 1:
            raise BadInput(
                f"shapes: {name}: expected a list of integers of at least 1, found {shown(given)}"
            )
        found[names[name]] = chosen
    for symbol in symbols:
        if symbol not in found:
            low, high = bounds(symbol, solver, len(symbols))
            high = min(high, DEFAULT_LARGEST) if high in LARGEST_DIM else high
            steps = np.rint(np.geomspace(low, max(low, high), 64)).astype(int)
            found[symbol] = list(solver.likely_values(symbol)) or sorted(set(steps.tolist()))
    return found


def _sizes(values: Any) -> bool:
    """Return whether ``values`` are a sequence of integers that dims can have."""
    listed = isinstance(values, Sequence | set | np.ndarray) and not isinstance(values, str)
    return listed and all(
        isinstance(v, int | np.integer) and not isinstance(v, bool) and 0 <= v < 1 << 63
        for v in values
    )


def _draws(
    values: Mapping[Var, list[int]],
    symbols: Sequence[Any],
    weights: Mapping[str, Sequence[float]],
    count: int,
) -> list[tuple[int, ...]]:
    """Return the points of all smallest and all largest values, then points of a Halton sequence.

    Points are alternately uniform and log-uniform. Random points would leave gaps, in which the
    best variant may change unseen.
    """
    _check_weights(values, weights)
    if not symbols:
        return [()]
    places = [halton(4 * count, k) for k in range(len(symbols))]
    draws: list[tuple[int, ...]] = [tuple(values[s][k] for s in symbols) for k in (0, -1)]
    for turn in range(8 * count):
        row = []
        for s, places_of in zip(symbols, places, strict=True):
            odds = weights.get(str(s.name))
            row.append(_draw(places_of[turn // 2], values[s], odds, even=turn % 2 == 0))
        draws.append(tuple(row))
    return draws


def _check_weights(values: Mapping[Var, list[int]], weights: Mapping[str, Sequence[float]]) -> None:
    counts = {str(s.name): len(options) for s, options in values.items()}
    for name, odds in weights.items():
        if name not in counts:
            known = ", ".join(sorted(counts)) or "none"
            raise BadInput(f"weights: there is no dim {name!r}; dynamic dims: {known}")
        try:
            numbers = np.asarray(odds, np.float64)
        except (TypeError, ValueError):
            numbers = np.asarray(np.nan)
        if numbers.ndim != 1 or len(numbers) != counts[name]:
            raise BadInput(
                f"weights: {name}: expected a list of {counts[name]} numbers, one for each value "
                f"of {name}, found {len(numbers) if numbers.ndim == 1 else shown(odds)}"
            )
        if not (np.isfinite(numbers).all() and (numbers >= 0).all() and numbers.sum() > 0):
            raise BadInput(
                f"weights: {name}: expected finite numbers of at least 0 and a sum above 0, found "
                f"{shown(odds)}"
            )


def _draw(place: float, options: list[int], odds: Sequence[float] | None, even: bool) -> int:
    """Return the option at ``place``, in [0, 1), of the distribution."""
    if odds is not None:
        below = np.cumsum(np.asarray(odds, np.float64))
        return options[int(np.searchsorted(below, place * below[-1], side="right"))]
    if even:
        return options[int(place * len(options))]
    wanted = options[0] * (options[-1] / options[0]) ** place
    return options[int(np.abs(np.asarray(options) - wanted).argmin())]


def _accepted(point: dict[Any, int], solver: Solver) -> dict[Var, int] | None:
    """Return ``point`` with dims that must be equal made equal; None if a guard still fails."""
    for guard in solver.guards:
        if not _holds(guard.cond, point):
            for a, b in equal_pairs(guard.cond):
                if a in point and b in point:
                    point = {**point, b: point[a]}
    return point if all(_holds(g.cond, point) for g in solver.guards) else None


def equal_pairs(cond: object) -> list[tuple[object, object]]:
    """Return each ``a == b`` of two dims inside a condition."""
    found: list[tuple[Any, Any]] = []

    def look(node: Any) -> None:
        if isinstance(node.a, tirx.Var) and isinstance(node.b, tirx.Var):
            found.append((node.a, node.b))

    tvm_ffi.structural_walk(cond, (tirx.EQ, look))
    return found


def _holds(cond: Expr, point: Mapping[Var, int]) -> bool:
    try:
        return bool(evaluate(cond, {k: np.float64(v) for k, v in point.items()}))
    except Unsupported:
        return True  # the condition uses dims that are bound later


def _sizes_text(rank: int) -> str:
    if rank == 0:
        return "[], the shape of a scalar"
    return f"{rank} {'size' if rank == 1 else 'sizes'} of at least 0"


def _from_log(
    path: Path, inputs: Inputs, symbols: Sequence[object], count: int
) -> list[dict[object, int]]:
    """Return the shapes of a log, the most frequent first."""
    seen: dict[tuple[int, ...], int] = {}
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"shapes: {path}: cannot be read: {reason}") from None
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            shapes, calls = dict(entry["shapes"]), int(entry.get("calls", 1))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            continue  # the last line of a log may be incomplete
        point: dict[object, int] = {}
        for name, dims, _ in inputs:
            found: Any = shapes.get(name)
            if not _sizes(found) or len(found) != len(dims):
                shape = shown(found) if name in shapes else "no shape"
                raise BadInput(
                    f"{path}:{number}: input '{name}': expected {_sizes_text(len(dims))}, found "
                    f"{shape}; was the log recorded with another program?"
                )
            point.update({d: int(v) for d, v in zip(dims, found, strict=True) if d in symbols})
        key = tuple(point[s] for s in symbols)
        seen[key] = seen.get(key, 0) + calls
    if not seen:
        raise BadInput(f"{path}: expected recorded shapes, one JSON object a line, found none")
    ranked = sorted(seen, key=lambda k: (-seen[k], k))
    return [dict(zip(symbols, k, strict=True)) for k in ranked[:count]]
