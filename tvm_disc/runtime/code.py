"""The machine code of a program, for one level of processors or for several, of which one runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_disc import processor
from tvm_disc.abi.entries import CHECK
from tvm_disc.errors import BadOption, WrongProcessor
from tvm_disc.processor import Level


class Code:
    """Functions of a program by name, of one level.

    No code of a level is asked for before the processor is known to run it.

    Args:
        modules: the library that was loaded, which has all levels; or of a program in memory one
            for each level, whose ``module`` is made when it is first asked for.
        wanted: the name of the level to run; None takes the best.

    Raises:
        BadOption: there is no such level.
    """

    def __init__(
        self, modules: Sequence[Any], manifest: Mapping[str, Any], wanted: str | None, saved: bool
    ) -> None:
        self.modules, self.manifest, self.saved = modules, manifest, saved
        self.levels = levels_in(manifest)
        self.wanted = wanted
        # A saved program asks the processor itself, in ``check``.
        asked = wanted is not None or not saved
        self.number = number_of(self.levels, wanted) if asked else len(self.levels) - 1

    def check(self) -> None:
        """Ask whether the level runs here; a saved program asks the processor itself, and chooses.

        Raises:
            WrongProcessor: it does not; where there are several and none was asked for, none does.
        """
        if self.saved:
            try:
                self.number = self.modules[0][CHECK](-1 if self.wanted is None else self.number)
            except Exception as error:
                raise WrongProcessor(str(error)) from None
        elif not self.level.runs_here:
            processor.best_of(self.levels if self.wanted is None else [self.level])
            processor.best_of([self.level])  # a better one has been chosen, and hidden since

    @property
    def level(self) -> Level:
        """The level that runs."""
        return self.levels[self.number]

    def lines(self) -> list[str]:
        """:func:`level_lines` of the program."""
        return level_lines(self.levels, self.number)

    @property
    def module(self) -> Any:
        """The level's module, or the library."""
        return self.modules[0] if self.saved else self.modules[self.number].module

    def source(self, kind: str) -> str:
        """The level's code as text. raises: TypeError or RuntimeError for an unknown kind."""
        if self.saved:
            return str(self.module.inspect_source(kind))
        return str(self.modules[self.number].source(kind))

    def description(self) -> dict[str, Any]:
        """What the manifest says of the level."""
        return {**self.manifest, **self.manifest["levels"][self.number]}

    def function(self, name: str) -> Any:
        """A packed function of the level."""
        return self.module[f"{name}_level_{self.number}" if self.saved else name]


def levels_in(manifest: Mapping[str, Any]) -> list[Level]:
    """The levels that a program was compiled for."""
    return [Level(v["name"], v["architecture"], tuple(v["sets"])) for v in manifest["levels"]]


def number_of(levels: Sequence[Level], wanted: str | None) -> int:
    """The level of that name; where none is asked for the best that runs here, if any does.

    Raises:
        BadOption: there is no such level.
    """
    names = [level.name for level in levels]
    if wanted is None:
        best = _best(levels)
        return len(names) - 1 if best is None else best
    if wanted not in names:
        raise BadOption(f"level: the program has none called {wanted!r}; it has {', '.join(names)}")
    return names.index(wanted)


def level_lines(levels: Sequence[Level], running: int | None = None) -> list[str]:
    """What a user wants to know of several levels: which runs, and what others lack.

    Args:
        running: the level that was chosen; None takes the best that runs here.
    """
    if len(levels) == 1:
        return []
    running = _best(levels) if running is None else running
    lines = ["compiled for"]
    for number, level in enumerate(levels):
        other = level.architecture != processor.architecture()
        absent = [level.architecture] if other else processor.lacks(level.sets)
        note = f": lacks {', '.join(absent)}" if absent else ": runs" if number == running else ""
        lines.append(f"  {level.name}{note}")
    return lines


def _best(levels: Sequence[Level]) -> int | None:
    """The last level that runs here."""
    return next((k for k in reversed(range(len(levels))) if levels[k].runs_here), None)
