"""Counts that documents state, with their sources: ``python -m tests.meta.counts --write``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.rows import ROWS
from tests.relay.ops.report import SECTION, compiled
from tests.schedules.golden.cases import CASES
from tests.sections import ROOT
from tvm_disc.relay.ops.refused import REFUSED
from tvm_disc.relay.ops.table import OPS

# Operators that Relay lacks; docs/operators.md lists them.
OWN = (
    *("assert_inside", "assert_nonempty", "assert_nonzero", "erfc", "exp2", "expm1", "lgamma"),
    *("log1p", "round_even", "write_slice"),
)


@dataclass(frozen=True)
class Stated:
    """A number in a document.

    Attributes:
        path: the document, from the project's root.
        pattern: text around the number, which is the only group; spaces match line ends.
        count: returns the number.
    """

    path: str
    pattern: str
    count: Callable[[], int]

    def _match(self, text: str) -> re.Match[str]:
        found = list(re.finditer(self.pattern.replace(" ", r"\s+"), text))
        assert len(found) == 1, f"{self.path}: expected one {self.pattern!r}, found {len(found)}"
        return found[0]

    def difference(self, root: Path = ROOT) -> str:
        """Return how the document differs from the count; empty if it does not."""
        found = int(self._match((root / self.path).read_text(encoding="utf-8"))[1])
        count = self.count()
        return "" if found == count else f"{self.path}: {self.pattern!r} is {count}, found {found}"

    def write(self, root: Path = ROOT) -> None:
        """Replace the number in the document."""
        path = root / self.path
        text = path.read_text(encoding="utf-8")
        begin, end = self._match(text).span(1)
        path.write_text(f"{text[:begin]}{self.count()}{text[end:]}", encoding="utf-8")


STATED = (
    Stated("docs/testing.md", r"the (\d+) cases take", lambda: len(CASES)),
    Stated("docs/testing.md", r"All (\d+) compiled operators have them", lambda: len(ROWS)),
    Stated("docs/questions.md", r"Of Relay's (\d+) operators", lambda: len(OPS) - len(OWN)),
    Stated("docs/questions.md", r"included, (\d+) compile;", lambda: len(compiled()) - len(OWN)),
    Stated("docs/questions.md", r"the other (\d+) are", lambda: len(REFUSED)),
)


def operator_rows(section: str) -> dict[str, list[str]]:
    """Return the cells of the table of operators, by operator."""
    lines = (line for line in section.splitlines() if line.startswith("| "))
    cells = ([c.strip() for c in line.strip("|").split("|")] for line in lines)
    return {name: rest for name, *rest in cells if name != "operator"}


def operator_differences(section: str) -> Iterator[str]:
    """Yield the differences between the document's table and the operators.

    Names, refusals and fusion classes are compared. The other columns are results of runs, which
    ``python -m tests.relay.ops.report`` measures; a row without them is a difference.
    """
    shown = operator_rows(section)
    yield from (f"{name} is not an operator" for name in sorted(set(shown) - set(OPS)))
    for name, row in sorted(OPS.items()):
        if name not in shown:
            yield f"{name} has no row"
            continue
        dims, ran, _, group = shown[name]
        expected = row.pattern.name.lower().replace("_", " ")
        if group != expected:
            yield f"{name}: the fusion class is {expected}, found {group}"
        if (name in REFUSED) != dims.startswith("refused: "):
            yield f"{name}: it is {'' if name in REFUSED else 'not '}refused, found {dims}"
        elif name in REFUSED and dims != f"refused: {REFUSED[name]}":
            yield f"{name}: the reason is {REFUSED[name]!r}, found {dims!r}"
        elif name not in REFUSED and not int(ran or 0):
            yield f"{name} was not run"
    summary = section.splitlines()[0]
    if summary != (expected := summary_of(shown)):
        yield f"the first line is {expected!r}, found {summary!r}"


def summary_of(shown: dict[str, list[str]]) -> str:
    """Return the first line of the section, counted from its rows."""
    kinds = [dims.partition(":")[0] for dims, *_ in shown.values()]
    counts = "; ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
    return f"{len(shown)} operators: {counts}."


def main() -> None:
    """Print the differences, or write the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="into the documents")
    if parser.parse_args().write:
        for stated in STATED:
            stated.write()
    found = [d for d in (stated.difference() for stated in STATED) if d]
    print("\n".join([*found, *operator_differences(SECTION.read())]))


if __name__ == "__main__":
    main()
