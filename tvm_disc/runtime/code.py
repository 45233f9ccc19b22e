"""The machine code of a program, for one level of processors or for several, of which one runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_disc import processor
from tvm_disc.codegen.host_abi import CHECK
from tvm_disc.errors import BadOption, WrongProcessor
from tvm_disc.processor import Level


class Code:
    """Functions of a program by name, of one level.

    No code of a level is asked for before the processor is known to run it.

    Args:
        modules: in memory one for each level, or the library that was loaded, which has them all.
        wanted: the name of the level to run; None takes the best.

    Raises:
        BadOption: there is no such level.
    """

    def __init__(
        self, modules: Sequence[Any], manifest: Mapping[str, Any], wanted: str | None, saved: bool
    ) -> None:
        self.modules, self.manifest, self.saved = modules, manifest, saved
        rows = manifest["levels"]
        self.levels = [Level(r["name"], r["architecture"], tuple(r["sets"])) for r in rows]
        self.wanted, self.number = wanted, self._number(wanted)

    def _number(self, wanted: str | None) -> int:
        names = [level.name for level in self.levels]
        if wanted is not None and wanted not in names:
            raise BadOption(
                f"level: the program has none called {wanted!r}; it has {', '.join(names)}"
            )
        if wanted is not None:
            return names.index(wanted)
        here = [k for k, level in enumerate(self.levels) if level.runs_here]
        return here[-1] if here else len(names) - 1

    def check(self) -> None:
        """Ask whether the level runs here; a saved program asks the processor itself.

        Raises:
            WrongProcessor: it does not; where there are several and none was asked for, none does.
        """
        if self.saved:
            try:
                self.modules[0][CHECK](-1 if self.wanted is None else self.number)
            except Exception as error:
                raise WrongProcessor(str(error)) from None
        else:
            processor.best_of(self.levels if self.wanted is None else [self.levels[self.number]])

    @property
    def module(self) -> Any:
        """The level's module, or the library."""
        return self.modules[0 if self.saved else self.number]

    def description(self) -> dict[str, Any]:
        """What the manifest says of the level."""
        return {**self.manifest, **self.manifest["levels"][self.number]}

    def function(self, name: str) -> Any:
        """A packed function of the level."""
        return self.module[f"{name}_level_{self.number}" if self.saved else name]
