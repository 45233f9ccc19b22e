"""The kernel calls of a program as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tvm_disc.abi.formula import evaluate
from tvm_disc.errors import counted
from tvm_disc.support.late import Late
from tvm_disc.support.notation import plain_formula

repetitions = Late("tvm_disc.runtime.page.layers:repetitions")

Call: TypeAlias = Mapping[str, Any]


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


def table(
    calls: Sequence[Call],
    dims: Mapping[str, int] | None,
    copies: Sequence[Call] = (),
    equal: Mapping[str, str] = {},
) -> list[str]:
    """Return the lines of the table: for each kernel call its number, kernel, operands, and the
    bytes that it must move. Repeated calls, as of a model's layers, are listed once.

    Calls inside branches and loops follow a line that says when they run, and are indented. The
    calls of each function on boxed values follow the function's name.

    Args:
        dims: sizes for which to compute the bytes; None prints formulas only.
        copies: the copies of tensors between the calls.
        equal: the name of an equal kernel, for kernels that differ only in literals.
    """
    named = [{**call, "kernel": equal.get(call["kernel"], call["kernel"])} for call in calls]
    repeated: dict[int, tuple[int, int]] = repetitions(named)
    last = {begin + period - 1: (period, count) for begin, (period, count) in repeated.items()}
    rows: list[tuple[Call | None, list[str]]] = [(None, ["#", "kernel", "reads", "bytes moved"])]
    k = 0
    while k < len(calls):
        rows += [(c, _cells("", c, dims)) for c in copies if c["before"] == k]
        rows.append((calls[k], _cells(str(k), calls[k], dims)))
        period, count = last.get(k, (0, 0))
        if period:
            again = period * (count - 1)
            once, whole = range(k - period + 1, k + 1), range(k - period + 1, k + again + 1)
            others = len({calls[i]["kernel"] for i in whole}) > len(
                {calls[i]["kernel"] for i in once}
            )
            text = _again(k, [calls[i] for i in once], count - 1, others)
            rows.append((calls[k], [text]))
            k += again
        k += 1
    rows += [(c, _cells("", c, dims)) for c in copies if c["before"] == k]
    return _lines(rows)


def _again(last: int, once: Sequence[Call], times: int, others: bool) -> str:
    """Return a line like ``#3 to #6: 2 more repetitions of #1 to #2``; ``last`` is the last call of
    ``once``. ``others`` says whether kernels differ.
    """
    first = last - len(once) + 1
    what = f"#{first} to #{last}" if len(once) > 1 else f"#{last}"
    changed = ["kernels that differ only in literals"] * others
    changed += ["other constants"] * any("constant" in call["reads"] for call in once)
    with_ = f", with {' and '.join(changed)}" if changed else ""
    numbers = f"#{last + 1} to #{last + len(once) * times}"
    return f"{numbers}: {counted(times, 'more repetition')} of {what}{with_}"


def _cells(number: str, step: Call, dims: Mapping[str, int] | None) -> list[str]:
    """Return the cells of a kernel call, or of a copy."""
    formula = plain_formula(step["bytes"])
    moved = formula
    if formula.isdigit():
        moved = readable(int(formula))
    elif dims is not None:
        moved = f"{readable(moved_bytes(step, dims))} = {formula}"
    if "copied" in step:
        return [number, f"copy to {step['to']}", _operand(step["copied"]), moved]
    reads = ", ".join(map(_operand, dict.fromkeys(step["reads"])))
    return [number, step["kernel"], reads, moved]


def _operand(read: int | str) -> str:
    return f"#{read}" if isinstance(read, int) else read


def _lines(rows: Sequence[tuple[Call | None, list[str]]]) -> list[str]:
    """Return the rows as lines, preceded by the function, branch or loop if it changes."""
    widths = [
        max(len(row[c]) + 2 * len(_inside(step)) * (c == 1) for step, row in rows if len(row) > 1)
        for c in range(3)
    ]
    lines: list[str] = []
    function = ""
    entered: list[str] = []
    for step, row in rows:
        inside = _inside(step)
        if step is not None and step["function"] != function:
            function, entered = step["function"], []
            lines.append(f"  in function {function}")
        for depth, label in enumerate(inside):
            if entered[: depth + 1] != inside[: depth + 1]:
                lines.append(f"  {'':{widths[0]}}  {'  ' * depth}{label}:")
                entered = inside[: depth + 1]
        entered = inside
        indent = "  " * len(inside)
        if len(row) == 1:
            lines.append(f"  {'':{widths[0]}}  {indent}{row[0]}")
            continue
        number, kernel, reads, moved = row
        name = f"{indent}{kernel}"
        lines.append(f"  {number:{widths[0]}}  {name:{widths[1]}}  {reads:{widths[2]}}  {moved}")
    return lines


def _inside(step: Call | None) -> list[str]:
    """Return the branches and loops around a step; files of old versions do not have them."""
    return [] if step is None else list(step.get("inside", ()))
