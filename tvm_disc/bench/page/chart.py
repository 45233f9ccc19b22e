"""Curves as SVG: sizes on a logarithmic x axis, one line per series."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460, 220  # size of the plot without axes, in pixels
LEFT, RIGHT, ABOVE, BELOW = 82, 12, 10, 40
MOST_TICKS = 6
APART = 34  # least distance in pixels between the numbers below the x axis


@dataclass(frozen=True)
class Series:
    """One line; ``style`` is the number of its color."""

    name: str
    style: int
    points: Sequence[tuple[int, float]]


@dataclass(frozen=True)
class ChartAxis:
    """The y axis: its name, how numbers are written, and whether it is logarithmic.

    Attributes:
        top: the largest value of a linear axis; None for the largest of the points.
    """

    name: str
    text: Callable[[float], str]
    logarithmic: bool = False
    top: float | None = None


def chart(title: str, x_name: str, axis: ChartAxis, lines: Sequence[Series]) -> str:
    """Return a figure with a legend, or a note if there are no points."""
    points = [p for line in lines for p in line.points]
    if not points:
        return f"<figure><figcaption>{escape(title)}</figcaption><p>Not measured.</p></figure>"
    sizes = sorted({x for x, _ in points})
    x_of = _position([math.log(max(x, 0.5)) for x in sizes])
    low, high, ticks = _scale(axis, [y for _, y in points])

    def place(x: float, y: float) -> tuple[float, float]:
        value = math.log(y) if axis.logarithmic else y
        return x_of(math.log(max(x, 0.5))), HEIGHT * (1 - (value - low) / (high - low))

    grid = "".join(_tick(place(sizes[0], y)[1], axis.text(y)) for y in ticks)
    parts = [grid, _sizes(sizes, lambda x: place(x, ticks[-1])[0])]
    parts += [_line(line, axis, x_name, place) for line in lines if line.points]
    middle = f'x="{WIDTH / 2}" y="{HEIGHT + 36}" text-anchor="middle"'
    parts.append(f"<text {middle}>{escape(x_name)}</text>")
    box = f"{-LEFT} {-ABOVE} {WIDTH + LEFT + RIGHT} {HEIGHT + ABOVE + BELOW}"
    return (
        f"<figure><figcaption>{escape(title)}, {escape(axis.name)}</figcaption>{_legend(lines)}"
        f'<svg class="chart" viewBox="{box}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg></figure>"
    )


def _legend(lines: Sequence[Series]) -> str:
    keys = (
        f'<span class="key s{line.style}"><i></i>{escape(line.name)}</span>'
        for line in lines
        if line.points
    )
    return f'<p class="legend">{" ".join(keys)}</p>'


def _line(
    line: Series,
    axis: ChartAxis,
    x_name: str,
    place: Callable[[float, float], tuple[float, float]],
) -> str:
    places = [place(x, y) for x, y in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>'
        f"{escape(f'{line.name}, {x_name} {size}: {axis.text(value)}')}</title></circle>"
        for (x, y), (size, value) in zip(places, line.points, strict=True)
    )
    return f'<g class="s{line.style}"><polyline points="{path}"></polyline>{dots}</g>'


def _position(values: Sequence[float]) -> Callable[[float], float]:
    low, high = values[0], values[-1]
    return lambda v: WIDTH / 2 if high == low else WIDTH * (v - low) / (high - low)


def _scale(axis: ChartAxis, values: Sequence[float]) -> tuple[float, float, list[float]]:
    """Return the ends of the y axis and its ticks; the ends of a logarithmic axis are
    logarithms.
    """
    if axis.logarithmic:
        ticks = log_ticks(min(values), max(values))
        ends = min(ticks[0], *values), max(ticks[-1], *values)
        return math.log(ends[0]) - 0.05, math.log(ends[1]) + 0.05, ticks
    top = axis.top or max(values) or 1.0
    return 0.0, top, [top * k / 4 for k in range(5)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return round numbers that enclose a range: at most six, or the powers of ten."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    found: list[float] = []
    for steps in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 5), (1, 3), (1,)):
        every = [m * 10.0**e for e in range(first, last + 1) for m in steps]
        below = max((t for t in every if t <= low), default=every[0])
        above = min((t for t in every if t >= high), default=every[-1])
        found = [t for t in every if below <= t <= above]
        if len(found) <= MOST_TICKS:
            break
    return found


def _tick(y: float, text: str) -> str:
    return (
        f'<line x1="0" y1="{y:.1f}" x2="{WIDTH}" y2="{y:.1f}"></line>'
        f'<text x="-8" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>'
    )


def _sizes(sizes: Sequence[int], x_of: Callable[[int], float]) -> str:
    """Return the labels of the x axis; a label that would overlap the previous one is left out."""
    found, last = [], -math.inf
    for size in sizes:
        x = x_of(size)
        if x - last >= APART:
            found.append(f'<text x="{x:.1f}" y="{HEIGHT + 18}" text-anchor="middle">{size}</text>')
            last = x
    return "".join(found)


__all__ = ["ChartAxis", "Series", "chart", "log_ticks"]
