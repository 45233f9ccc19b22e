"""The kernel calls of a program as a table."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tvm_disc.abi.formula import evaluate

Call: TypeAlias = Mapping[str, Any]


def moved_bytes(call: Call, dims: Mapping[str, int]) -> int | None:
    """Bytes that a call moves for input dims; None if only the running program knows."""
    # A function on boxed values has dims of its own, whatever their names.
    known = {} if call["function"] else dims
    try:
        return evaluate(call["bytes"], known)
    except (KeyError, SyntaxError, ValueError, ZeroDivisionError):
        return None


def readable(size: int | None) -> str:
    """A number of bytes with a binary unit."""
    if size is None:
        return "?"
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def table(calls: Sequence[Call], dims: Mapping[str, int] | None) -> list[str]:
    """One row per call: number, kernel, kind, what it reads, bytes moved; operators below.

    The calls of each function on boxed values follow its name.
    """
    head = ["#", "kernel", "kind", "reads", "bytes moved"]
    rows = [
        [
            str(k),
            call["kernel"],
            call["kind"],
            ", ".join(f"#{r}" if isinstance(r, int) else r for r in dict.fromkeys(call["reads"])),
            call["bytes"]
            if dims is None
            else f"{readable(moved_bytes(call, dims))} = {call['bytes']}",
        ]
        for k, call in enumerate(calls)
    ]
    widths = [max(len(row[c]) for row in [head, *rows]) for c in range(4)]
    lines, function = [], ""
    for row, call in zip([head, *rows], [None, *calls], strict=True):
        if call is not None and call["function"] != function:
            function = call["function"]
            lines.append(f"  in function {function}")
        cells = [cell.ljust(width) for cell, width in zip(row[:4], widths, strict=True)]
        lines.append("  " + "  ".join([*cells, row[4]]))
        if call is not None:
            ops = " + ".join(call["ops"])
            lines += textwrap.wrap(ops, 92, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return lines
