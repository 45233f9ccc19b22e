"""Machine code of a program for one or several processor levels, one of which runs; and the
converters of arguments that the program's manifest requires.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvm_disc.abi.entries import CHECK
from tvm_disc.abi.manifest import Manifest
from tvm_disc.errors import BadOption, WrongProcessor
from tvm_disc.support import processor
from tvm_disc.support.late import Late
from tvm_disc.support.processor import Level

if TYPE_CHECKING:
    from tvm_disc.runtime.objects import Codec
    from tvm_disc.runtime.structure import OwnedCalls, Structure

_on_device = Late("tvm_disc.runtime.device:OnDevice")
_donating = Late("tvm_disc.runtime.donation:Donating")
_codec = Late("tvm_disc.runtime.objects:Codec")
_owned_calls = Late("tvm_disc.runtime.structure:OwnedCalls")
_structure_of = Late("tvm_disc.runtime.structure:structure_of")


class Code:
    """Compiled functions of a program by name, for one processor level.

    The code of a level is loaded only after the check that the processor supports it.

    Args:
        modules: for a saved program, its library with all levels; for a program in memory, one
            object per level, whose ``module`` is created on first access.
        wanted: name of the level to run; None takes the best.

    Raises:
        BadOption: the level does not exist.
    """

    def __init__(
        self, modules: Sequence[Any], manifest: Manifest, wanted: str | None, saved: bool
    ) -> None:
        self.modules, self.manifest, self.saved = modules, manifest, saved
        self.levels = levels_in(manifest)
        self.wanted = wanted
        # A saved program selects the level itself, in ``check``.
        asked = wanted is not None or not saved
        self.number = number_of(self.levels, wanted) if asked else len(self.levels) - 1

    def check(self) -> None:
        """Check that the processor runs the level; a saved program also selects the best level.

        Raises:
            WrongProcessor: the processor does not support the wanted level; or, if no level is
                wanted, any of the levels.
        """
        if self.saved:
            try:
                self.number = self.modules[0][CHECK](-1 if self.wanted is None else self.number)
            except Exception as error:
                raise WrongProcessor(str(error)) from None
        elif not self.level.runs_here:
            processor.best_of(self.levels if self.wanted is None else [self.level])
            # Reached if DISC_WITHOUT was set after the level was selected.
            processor.best_of([self.level])

    @property
    def level(self) -> Level:
        """The selected level."""
        return self.levels[self.number]

    def lines(self) -> list[str]:
        """Return :func:`level_lines` of the program."""
        return level_lines(self.levels, self.number)

    @property
    def module(self) -> Any:
        """The level's module, or the library of a saved program."""
        return self.modules[0] if self.saved else self.modules[self.number].module

    def source(self, kind: str) -> str:
        """Return the level's code as text; raises TypeError or RuntimeError for an unknown kind."""
        if self.saved:
            return str(self.module.inspect_source(kind))
        return str(self.modules[self.number].source(kind))

    def description(self) -> dict[str, Any]:
        """Return the manifest with the entries of the selected level."""
        return {**self.manifest, **self.manifest["levels"][self.number]}

    def function(self, name: str) -> Callable[..., int]:
        """Return a packed function of the selected level."""
        found: Callable[..., int] = self.module[
            f"{name}_level_{self.number}" if self.saved else name
        ]
        return found


def levels_in(manifest: Manifest) -> list[Level]:
    """Return the levels that a program was compiled for."""
    return [Level(v["name"], v["architecture"], tuple(v["sets"])) for v in manifest["levels"]]


def number_of(levels: Sequence[Level], wanted: str | None) -> int:
    """Return the index of the level named ``wanted``; by default, of the best level that this
    processor supports, or the last level if it supports none.

    Raises:
        BadOption: the level does not exist.
    """
    names = [level.name for level in levels]
    if wanted is None:
        best = _best(levels)
        return len(names) - 1 if best is None else best
    if wanted not in names:
        raise BadOption(
            f"level: the program has no level {wanted!r}; its levels: {', '.join(names)}"
        )
    return names.index(wanted)


def level_lines(levels: Sequence[Level], running: int | None = None) -> list[str]:
    """Return lines about a program's levels: which one runs, and which instruction sets the others
    lack here. Empty if there is only one level.

    Args:
        running: index of the selected level; None takes the best that this processor supports.
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
    """Return the index of the last level that this processor can run; None if there is none."""
    return next((k for k in reversed(range(len(levels))) if levels[k].runs_here), None)


def entry_of(
    main: Callable[..., object], code: Code, manifest: Manifest, names: Sequence[str]
) -> Callable[..., object]:
    """Return a program's entry in the form that takes a caller's tensors: host arrays for a GPU
    program, and donated inputs.

    Args:
        main: the compiled entry.
        names: the names of its inputs.
    """
    if manifest.get("device"):
        # Results and running kernels may outlive the program; the module must not be unloaded.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(code.module))
        main = _on_device(main, code.function, len(names), manifest["outputs"])
    if manifest.get("donated"):
        main = _donating(main, names, manifest["donated"])
    return main


def converters_of(
    manifest: Manifest, names: Sequence[str]
) -> tuple[Codec | None, Structure | OwnedCalls | None]:
    """Return the converter of boxed values, and the converter of nested structures, for a program's
    arguments and results. Each is None if the program does not need it.

    Programs that update caches of a fixed size are called only through a state, with flat
    arguments.
    """
    if fixed := [c["buffer"] for c in manifest.get("state", ()) if not c["length"]]:
        return None, _owned_calls(names, fixed)
    external = manifest.get("external") or {}
    boxed = external.get("types") or external.get("inputs")
    structured = external.get("structure") or manifest.get("ragged")
    return (
        _codec(external, names) if boxed else None,
        _structure_of(manifest, names) if structured else None,
    )
