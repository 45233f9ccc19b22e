"""Picture of a call's workspace: offset and live range of each allocation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tvm_disc.abi.formula import evaluate_all, rounded
from tvm_disc.errors import counted
from tvm_disc.runtime.calls import readable

WIDTH, HEIGHT = 1000, 320  # size of the chart without its axes, in pixels
LEFT, BELOW = 80, 24  # space for the axes, in pixels
LINES = 4  # number of intervals of the bytes axis
TICKS = 10  # maximum number of labels on the axis of calls
PARTS = 5  # maximum number of parts of the workspace that explain() lists
UNKNOWN = "<p>The memory layout depends on run-time values.</p>"


def memory_picture(memory: Mapping[str, Any] | None, dims: Mapping[str, int]) -> str:
    """Return an SVG with calls on the x axis and bytes on the y axis."""
    if memory is not None and not memory["slots"]:
        return "<p>The program needs no workspace beyond its inputs and results.</p>"
    if memory is None:
        return UNKNOWN
    try:
        places = placed(memory, dims)
    except (KeyError, SyntaxError, ValueError, ZeroDivisionError):
        return UNKNOWN
    steps = max(1, memory["calls"])
    top = max(1, max(offset + size for offset, size in places))
    boxes = [
        _box(slot, place, steps, top)
        for slot, place in zip(memory["slots"], places, strict=True)
        if place[1]
    ]
    return (
        f"<p>Peak {escape(readable(top))}. A box is an allocation: its width is the kernel calls "
        'during which it is in use. <span class="value">Values</span> are results of kernels, '
        '<span class="scratch">scratch memory</span> is used within one call.</p>'
        f'<svg class="memory" viewBox="{-LEFT} -8 {WIDTH + LEFT} {HEIGHT + BELOW + 8}" role="img" '
        f'aria-label="memory over time">{_scales(steps, top)}{"".join(boxes)}</svg>'
    )


def largest_parts(
    memory: Mapping[str, Any] | None, dims: Mapping[str, int], where: str
) -> list[str]:
    """Return lines of ``explain`` that list the largest parts of the workspace; none if the layout
    depends on run-time values.
    """
    if memory is None or not memory["slots"]:
        return []
    try:
        places = placed(memory, dims)
    except (KeyError, SyntaxError, ValueError, ZeroDivisionError):
        return []
    top = max(offset + size for offset, size in places)
    parts = Counter(
        (size, "scratch memory" if slot["scratch"] else "result", slot["of"])
        for slot, (_, size) in zip(memory["slots"], places, strict=True)
        if size
    )
    largest = sorted(parts, key=lambda part: -part[0])[:PARTS]
    total = sum(size * count for (size, _, _), count in parts.items())
    head = f"workspace: {readable(top)} {where}".rstrip()
    lines = ["", head, f"  parts share bytes; without, it would need {readable(total)}"]
    for size, what, kernel in largest:
        count = parts[size, what, kernel]
        often = f", {count} times" if count > 1 else ""
        lines.append(f"  {readable(size):>10}  {what} of {kernel}{often}")
    if len(parts) > len(largest):
        lines.append(f"  and {counted(len(parts) - len(largest), 'smaller part')}")
    return lines


def _scales(steps: int, top: int) -> str:
    """Return grid lines labelled with bytes, and labels of kernel calls below the chart."""
    found = []
    for k in range(LINES + 1):
        y = HEIGHT * (1 - k / LINES)
        found.append(f'<line x1="0" y1="{y:.1f}" x2="{WIDTH}" y2="{y:.1f}"></line>')
        size = escape(readable(top * k // LINES))
        found.append(f'<text x="-6" y="{y + 4:.1f}" text-anchor="end">{size}</text>')
    for step in range(0, steps, -(-steps // TICKS)):
        x = WIDTH * (step + 0.5) / steps
        found.append(f'<text x="{x:.1f}" y="{HEIGHT + 16}" text-anchor="middle">#{step}</text>')
    return "".join(found)


def placed(memory: Mapping[str, Any], dims: Mapping[str, int]) -> list[tuple[int, int]]:
    """Return (offset, size) of every slot. A slot begins at the end of the highest slot among those
    that must be placed below it.
    """
    slots: Sequence[Mapping[str, Any]] = memory["slots"]
    sizes = evaluate_all(memory["steps"], [slot["bytes"] for slot in slots], dims)
    found: list[tuple[int, int]] = []
    for slot, size in zip(slots, map(rounded, sizes), strict=True):
        found.append((max((sum(found[k]) for k in slot["above"]), default=0), size))
    return found


def _box(slot: Mapping[str, Any], place: tuple[int, int], steps: int, top: int) -> str:
    offset, size = place
    x, width = slot["first"] / steps, (slot["last"] - slot["first"] + 1) / steps
    y, height = 1 - (offset + size) / top, size / top
    title = f"{slot['of']}: {readable(size)}, calls #{slot['first']} to #{slot['last']}"
    kind = "scratch" if slot["scratch"] else "value"
    return (
        f'<rect class="{kind}" x="{WIDTH * x:.1f}" y="{HEIGHT * y:.1f}" '
        f'width="{WIDTH * width:.1f}" height="{HEIGHT * height:.1f}">'
        f"<title>{escape(title)}</title></rect>"
    )
