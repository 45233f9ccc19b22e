"""The kernel calls of a program as a table."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tvm_disc.abi.formula import evaluate
from tvm_disc.support.notation import plain_formula

Call: TypeAlias = Mapping[str, Any]


def counted(number: int, noun: str) -> str:
    """Return a string like ``1 kernel`` or ``3 kernels``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def moved_bytes(call: Call, dims: Mapping[str, int]) -> int | None:
    """Return the bytes that a call reads and writes; None if they depend on run-time values."""
    # The dims of a function on boxed values are not those of the program, even if names are equal.
    known = {} if call["function"] else dims
    try:
        return evaluate(call["bytes"], known)
    except (KeyError, SyntaxError, ValueError, ZeroDivisionError):
        return None


def readable(size: int | None) -> str:
    """Return a number of bytes with a binary unit."""
    if size is None:
        return "?"
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def table(calls: Sequence[Call], dims: Mapping[str, int] | None) -> list[str]:
    """Return the lines of the table. Each kernel call has a row (number, kernel, kind, inputs,
    bytes moved) and a line with its operators.

    The calls of each function on boxed values follow the function's name.
    """
    head = ["#", "kernel", "kind", "reads", "bytes moved"]
    formulas = [plain_formula(call["bytes"]) for call in calls]
    rows = [
        [
            str(k),
            call["kernel"],
            call["kind"],
            ", ".join(f"#{r}" if isinstance(r, int) else r for r in dict.fromkeys(call["reads"])),
            formula if dims is None else f"{readable(moved_bytes(call, dims))} = {formula}",
        ]
        for k, (call, formula) in enumerate(zip(calls, formulas, strict=True))
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
