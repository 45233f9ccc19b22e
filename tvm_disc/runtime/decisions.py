"""Decision trees of kernels as tables: which sizes run which variant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tvm_disc.runtime.summary import number_of
from tvm_disc.support.notation import plain_formula

LONG = 24  # characters of a size formula above which a table shows a letter for it
Tree: TypeAlias = Mapping[str, Any]
Bounds: TypeAlias = tuple[int | None, int | None]


@dataclass(frozen=True)
class Decision:
    """A row of the table.

    Attributes:
        bounds: (minimum, maximum + 1) of each formula; None if there is no bound.
        run: the variant.
    """

    bounds: Mapping[str, Bounds]
    run: str

    def condition(self, names: Mapping[str, str]) -> str:
        """Return the sizes as text; ``names`` replace long formulas."""
        found = []
        for formula, (low, high) in self.bounds.items():
            name = names.get(formula, formula)
            least = "" if low is None else f"{low} <= "
            if high is not None:
                found.append(f"{least}{name} < {high}")
            elif low is not None:
                found.append(f"{name} >= {low}")
        return " and ".join(found) or "other sizes"


def decisions(tree: Tree) -> list[Decision]:
    """Return the rows of a decision tree; the first whose sizes match applies.

    Adjacent rows of the same variant are joined if their sizes form an interval. The last rows are
    always joined: the last row applies to all sizes that match no earlier row.
    """
    rows: list[Decision] = []
    for row in _rows(tree, {}):
        rows.append(row)
        while len(rows) > 1 and (joined := _joined(*rows[-2:])) is not None:
            rows[-2:] = [joined]
    last = rows[-1].run
    while rows and rows[-1].run == last:
        rows.pop()
    return [*rows, Decision({}, last)]


def chosen(tree: Tree, dims: Mapping[str, int]) -> str | None:
    """Return the variant that runs for dims; None if a condition depends on run-time values."""
    while "if" in tree:
        value = number_of(str(tree["if"]), dims)
        if value is None:
            return None
        at = tree.get("below")
        tree = tree["then"] if (value if at is None else value < at) else tree["else"]
    return variant_text(tree)


def letters(rows: list[Decision]) -> dict[str, str]:
    """Return a letter for each long formula of a table."""
    formulas = dict.fromkeys(f for row in rows for f in row.bounds if len(f) > LONG)
    return {formula: f"({chr(97 + k)})" for k, formula in enumerate(formulas)}


def _rows(tree: Tree, bounds: Mapping[str, Bounds]) -> Iterator[Decision]:
    if "if" not in tree:
        yield Decision(bounds, variant_text(tree))
        return
    formula, at = plain_formula(str(tree["if"])), tree.get("below")
    low, high = bounds.get(formula, (None, None))
    yield from _rows(tree["then"], {**bounds, formula: (low, at)})
    yield from _rows(tree["else"], {**bounds, formula: (at, high)})


def _joined(first: Decision, second: Decision) -> Decision | None:
    """Return one row for two adjacent rows of the same variant, if their sizes form an interval of
    one formula; otherwise None.
    """
    if first.run != second.run or first.bounds.keys() != second.bounds.keys():
        return None
    changed = [f for f, b in first.bounds.items() if b != second.bounds[f]]
    if len(changed) != 1 or first.bounds[changed[0]][1] != second.bounds[changed[0]][0]:
        return None
    low, high = first.bounds[changed[0]][0], second.bounds[changed[0]][1]
    bounds = {**first.bounds, changed[0]: (low, high)}
    if low is high is None:
        del bounds[changed[0]]
    return replace(first, bounds=bounds)


def variant_text(leaf: Tree) -> str:
    """Return a string like ``gemm(m_r=6, n_r=64), 2 threads``."""
    if "run" not in leaf:
        return str(dict(leaf))
    run = leaf["run"]
    knobs = ", ".join(f"{k}={v}" for k, v in run.get("knobs", {}).items())
    parts = run.get("parts")
    on = "" if parts is None else ", serial" if parts == 1 else f", {parts} threads"
    return f"{run.get('family', '')}{f'({knobs})' if knobs else ''}{on}"


__all__ = ["Decision", "chosen", "decisions", "letters", "variant_text"]
