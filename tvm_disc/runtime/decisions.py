"""Decision trees of kernels as tables: which sizes run which variant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
        leaf: the leaf of the tree that contains the variant.
    """

    bounds: Mapping[str, Bounds]
    run: str
    leaf: Tree = field(default_factory=dict, compare=False)

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

    Rows of the same variant are adjacent, and are joined if their sizes form an interval. The
    variant with the most rows is the last, and applies to all sizes that match no earlier row.
    """
    groups: dict[str, list[Decision]] = {}
    for row in _rows(tree, {}):
        groups.setdefault(row.run, []).append(row)
    found = [_all_joined(rows) for rows in groups.values()]
    # The rows are disjoint, so that their order is free. Of groups of equal length, take the last.
    longest = max(reversed(found), key=len)
    rest = [row for rows in found if rows is not longest for row in rows]
    return [*rest, replace(longest[0], bounds={})]


def _all_joined(rows: Sequence[Decision]) -> list[Decision]:
    """Return disjoint rows of one variant with pairs replaced by one row where possible."""
    found = list(rows)
    k = 0
    while k < len(found):
        for other in found[k + 1 :]:
            joined = _joined(found[k], other) or _joined(other, found[k])
            if joined is not None:
                found.remove(other)
                found[k], k = joined, -1
                break
        k += 1
    return found


def table(tree: Tree) -> tuple[str, list[tuple[Decision, str]]]:
    """Return the text that all variants share, and each row with the text of what differs.

    The shared text is empty if the variants have different templates.
    """
    rows = decisions(tree)
    runs = [row.leaf.get("run") for row in rows]
    families = {str(run.get("family")) if run else "" for run in runs}
    if len(families) > 1 or "" in families:
        return "", [(row, row.run) for row in rows]
    knobs: list[Tree] = [run.get("knobs", {}) for run in runs if run]
    same = {k: v for k, v in knobs[0].items() if all(k in n and n[k] == v for n in knobs)}
    threads = {_threads(row.leaf["run"]) for row in rows}
    common = _label(families.pop(), same) + (threads.pop() if len(threads) == 1 else "")
    texts = []
    for row, own in zip(rows, knobs, strict=True):
        different = [f"{k}={v}" for k, v in own.items() if k not in same]
        count = _threads(row.leaf["run"]).removeprefix(", ")
        texts.append(", ".join([*different, *[count] * (len(threads) > 1)]) or row.run)
    return common, list(zip(rows, texts, strict=True))


def chosen(tree: Tree, dims: Mapping[str, int]) -> str | None:
    """Return the text of the variant that runs for dims; None if a condition depends on run-time
    values.
    """
    while "if" in tree:
        value = number_of(str(tree["if"]), dims)
        if value is None:
            return None
        at = tree.get("below")
        tree = tree["then"] if (value if at is None else value < at) else tree["else"]
    return variant_text(tree)


def running_row(tree: Tree, rows: Sequence[Decision], dims: Mapping[str, int]) -> int | None:
    """Return the index of the row of a tree that runs for dims; None if a condition depends on
    run-time values.
    """
    variant = chosen(tree, dims)
    same = [k for k, row in enumerate(rows) if row.run == variant]
    if len(same) < 2:
        return same[0] if same else None
    values = {plain_formula(text): number_of(text, dims) for text in _formulas(tree)}
    return next((k for k in same if _holds(rows[k].bounds, values)), None)


def _holds(bounds: Mapping[str, Bounds], values: Mapping[str, int | None]) -> bool:
    for formula, (low, high) in bounds.items():
        value = values[formula]
        if value is None or (low is not None and value < low):
            return False
        if high is not None and value >= high:
            return False
    return True


def _formulas(tree: Tree) -> Iterator[str]:
    """Yield the formulas that the conditions of a tree compare."""
    if "if" in tree:
        yield str(tree["if"])
        yield from _formulas(tree["then"])
        yield from _formulas(tree["else"])


def letters(rows: list[Decision]) -> dict[str, str]:
    """Return a letter for each long formula of a table."""
    formulas = dict.fromkeys(f for row in rows for f in row.bounds if len(f) > LONG)
    return {formula: f"({chr(97 + k)})" for k, formula in enumerate(formulas)}


def _rows(tree: Tree, bounds: Mapping[str, Bounds]) -> Iterator[Decision]:
    if "if" not in tree:
        yield Decision(bounds, variant_text(tree), tree)
        return
    formula, at = plain_formula(str(tree["if"])), tree.get("below")
    low, high = bounds.get(formula, (None, None))
    if not isinstance(at, int):  # the file is damaged; its text is shown as it is
        yield from _rows(tree["then"], {**bounds, formula: (low, at)})
        yield from _rows(tree["else"], {**bounds, formula: (at, high)})
        return
    if low is None or low < at:
        end = at if high is None else min(high, at)
        yield from _rows(tree["then"], {**bounds, formula: (low, end)})
    if high is None or at < high:
        begin = at if low is None else max(low, at)
        yield from _rows(tree["else"], {**bounds, formula: (begin, high)})


def _joined(first: Decision, second: Decision) -> Decision | None:
    """Return one row for two rows of the same variant, if their sizes form an interval of
    one formula; otherwise None.
    """
    if first.run != second.run or first.bounds.keys() != second.bounds.keys():
        return None
    changed = [f for f, b in first.bounds.items() if b != second.bounds[f]]
    if len(changed) != 1:
        return None
    (low, end), (begin, high) = first.bounds[changed[0]], second.bounds[changed[0]]
    if end is None or end != begin:
        return None
    bounds = {**first.bounds, changed[0]: (low, high)}
    if low is high is None:
        del bounds[changed[0]]
    return replace(first, bounds=bounds)


def variant_text(leaf: Tree) -> str:
    """Return a string like ``gemm(m_r=6, n_r=64), 2 threads``."""
    if "run" not in leaf:
        return str(dict(leaf))
    run = leaf["run"]
    return _label(run.get("family", ""), run.get("knobs", {})) + _threads(run)


def _label(family: str, knobs: Tree) -> str:
    text = ", ".join(f"{k}={v}" for k, v in knobs.items())
    return f"{family}({text})" if text else family


def _threads(run: Tree) -> str:
    parts = run.get("parts")
    return "" if parts is None else ", serial" if parts == 1 else f", {parts} threads"


__all__ = ["Decision", "chosen", "decisions", "letters", "running_row", "table", "variant_text"]
