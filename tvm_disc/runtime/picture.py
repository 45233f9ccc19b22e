"""Graph of a program's kernel calls: one box per call, arrows for tensors."""

from __future__ import annotations

import importlib
import importlib.util
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_disc.errors import BadInput, Unsupported
from tvm_disc.runtime.calls import Call, moved_bytes, readable

FORMATS = (".svg", ".png", ".pdf")
COLOURS = {
    "loop": "#d8e8f8",
    "row": "#d9f0d3",
    "reduce": "#c7e5e0",
    "dot": "#fbe0c4",
    "conv": "#f6cfc6",
    "attention": "#ecd6ef",
}
OTHER, INPUT = "#e4e4e4", "#ffffff"
LINE = 40  # characters in a line of a box


@dataclass(frozen=True)
class PictureNode:
    """A call or an input: its text, colour and the boxes it reads."""

    text: str
    colour: str
    reads: tuple[int, ...]
    level: int


def boxes(calls: Sequence[Call], dims: Mapping[str, int] | None) -> list[PictureNode]:
    """Return the boxes of the inputs, then those of the calls. A box is placed one level below the
    boxes that it reads.
    """
    names = dict.fromkeys(r for c in calls for r in c["reads"] if isinstance(r, str))
    inputs = {name: k for k, name in enumerate(n for n in names if n != "constant")}
    found = [PictureNode(name, INPUT, (), 0) for name in inputs]
    for number, call in enumerate(calls):
        reads = [
            inputs[r] if isinstance(r, str) else r + len(inputs)
            for r in call["reads"]
            if r != "constant"
        ]
        level = max((found[r].level for r in reads), default=0) + 1
        colour = COLOURS.get(call["kind"], OTHER)
        found.append(
            PictureNode(_text(number, call, dims), colour, tuple(dict.fromkeys(reads)), level)
        )
    return found


def _text(number: int, call: Call, dims: Mapping[str, int] | None) -> str:
    lines = [f"#{number} {call['kernel']}  [{call['kind']}]"]
    lines += [f"in function {call['function']}"] if call["function"] else []
    lines += textwrap.wrap(" + ".join(call["ops"]), LINE)[:8]
    constants = sum(r == "constant" for r in call["reads"])
    if constants:
        lines.append(f"and {constants} constant{'s' if constants > 1 else ''}")
    lines += textwrap.wrap(f"bytes: {call['bytes']}", LINE)
    if dims is not None:
        lines.append(f"     = {readable(moved_bytes(call, dims))}")
    return "\n".join(lines)


def draw(
    calls: Sequence[Call],
    refused: Sequence[str],
    path: Path,
    dims: Mapping[str, int] | None = None,
) -> None:
    """Draw the calls, with the refused fusions and their reasons beside them.

    Raises:
        BadInput: the file's suffix is not .svg, .png or .pdf.
        Unsupported: matplotlib is not installed.
    """
    if path.suffix not in FORMATS:
        raise BadInput(f"picture: expected a file ending in {', '.join(FORMATS)}, found {path}")
    if importlib.util.find_spec("matplotlib") is None:
        raise Unsupported(
            "a picture needs the package 'matplotlib', which is not installed; "
            "pip install 'tvm_disc[plot]'"
        )
    backend: Any = importlib.import_module("matplotlib.backends.backend_agg")
    pyplot: Any = importlib.import_module("matplotlib.figure")

    found = boxes(calls, dims)
    heights = [0.19 * (box.text.count("\n") + 1) + 0.25 for box in found]
    places, width, depth = _layout(found, heights)
    notes = [line for r in refused for line in textwrap.wrap(r, 88, subsequent_indent="    ")]
    # A long list of refusals continues in further columns.
    per_column = max(int(depth / 0.15) - 4, 40)
    columns = [notes[k : k + per_column] for k in range(0, len(notes), per_column)] or [
        ["No fusion was refused."]
    ]
    depth = max(depth, 0.15 * (min(len(notes), per_column) + 4))
    figure = pyplot.Figure(figsize=(width + 6.2 * len(columns), depth))
    backend.FigureCanvasAgg(figure)
    axes: Any = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width + 6.2 * len(columns))
    axes.set_ylim(depth, 0)
    axes.axis("off")
    for k, box in enumerate(found):
        x, y = places[k]
        for r in box.reads:
            from_x, from_y = places[r]
            axes.annotate(
                "",
                (x, y - heights[k] / 2),
                (from_x, from_y + heights[r] / 2),
                arrowprops={"arrowstyle": "->", "color": "#777777", "linewidth": 0.8},
            )
    for box, (x, y) in zip(found, places, strict=True):
        style = {"boxstyle": "round,pad=0.4", "facecolor": box.colour, "edgecolor": "#555555"}
        axes.text(
            x, y, box.text, ha="center", va="center", fontsize=8, family="monospace", bbox=style
        )
    for k, column in enumerate(columns):
        text = "\n".join([*(["not fused", ""] if k == 0 else []), *column])
        axes.text(width + 6.2 * k, 0.2, text, va="top", fontsize=6.5, family="monospace")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _layout(
    found: Sequence[PictureNode], heights: Sequence[float]
) -> tuple[list[tuple[float, float]], float, float]:
    """Return the centres of the boxes, and the width and height of the graph, all in inches."""
    levels: dict[int, list[int]] = {}
    for k, box in enumerate(found):
        levels.setdefault(box.level, []).append(k)
    column = 3.6
    width = column * max((len(row) for row in levels.values()), default=1)
    places = [(0.0, 0.0)] * len(found)
    top = 0.3
    for level in sorted(levels):
        row = levels[level]
        height = max(heights[k] for k in row)
        for position, k in enumerate(row):
            places[k] = (width * (position + 0.5) / len(row), top + height / 2)
        top += height + 0.45
    return places, width, top
