"""Placement of reference count operations.

As in Perceus (Reinking, Xie, de Moura, Leijen: "Perceus: Garbage Free Reference Counting with
Reuse", PLDI 2021): every function owns its arguments, a value is dropped right after its last use,
and a branch first drops values that only other branches use, so that only live values are
allocated. Error exits need no drops: the heap of a call is released as a whole.

Drops at the same point of the program are in the order of definition or first use, so that code
generation is deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm_disc.codegen.objects.refcount import BoxInstruction, Choose, Drop, Dup, Fail
from tvm_disc.codegen.plan.memory import touched
from tvm_disc.codegen.plan.program import (
    Box,
    Copy,
    Home,
    Instruction,
    Launch,
    Loop,
    Region,
    Storage,
)


def place_counts(region: Region, params: Sequence[Box]) -> None:
    """Insert ``Dup`` and ``Drop`` into the body of a function that owns ``params``."""
    _Placer(_aliases(region)).region(region, set(), params)


def _aliases(region: Region) -> dict[Storage, list[Box]]:
    """Return the boxes that the result of each loop may alias, which are all boxes that the loop
    accesses.
    """
    found: dict[Storage, list[Box]] = {}
    stack = [region]
    while stack:
        for instruction in stack.pop().instructions:
            stack.extend(instruction.regions())
            if isinstance(instruction, Loop):
                inside = touched(instruction)
                boxes = [s.box for s in inside if s.box is not None]
                boxes += [b for s in inside for b in found.get(s, ())]
                for outcome in instruction.outcomes:
                    found[outcome.value.storage] = list(dict.fromkeys(boxes))
    return found


class _Placer:
    def __init__(self, aliases: Mapping[Storage, Sequence[Box]]) -> None:
        self.aliases = aliases

    def region(self, region: Region, live_after: set[Box], owned: Sequence[Box]) -> None:
        """Make ``region`` consume every box of ``owned`` that is not in ``live_after``."""
        if region.instructions and isinstance(region.instructions[-1], Fail):
            return
        live = set(live_after)
        out: list[Instruction] = self._give(region.boxes, live)
        for instruction in reversed(region.instructions):
            before, after = self._around(instruction, live)
            out += [*reversed(after), instruction, *reversed(before)]
        unused = [b for b in owned if b not in live]
        region.instructions = [*(Drop(b) for b in unused), *reversed(out)]

    def _give(self, boxes: Sequence[Box], live: set[Box]) -> list[Instruction]:
        """Return the ``Dup`` instructions before an instruction that consumes ``boxes``; add the
        boxes to ``live``.
        """
        dups: list[Instruction] = []
        for box in boxes:
            if box in live:
                dups.append(Dup(box))
            live.add(box)
        return dups

    def _around(
        self, instruction: Instruction, live: set[Box]
    ) -> tuple[list[Instruction], list[Instruction]]:
        used, consumed, made = self._roles(instruction)
        after: list[Instruction] = [Drop(b) for b in made if b not in live]
        live -= set(made)
        if isinstance(instruction, Choose):
            return self._choose(instruction, used, live, after)
        before = self._give(consumed, set_ := set(live))
        live |= set_
        for box in used:
            if box not in live:
                after.append(Drop(box))
                live.add(box)
        return before, after

    def _choose(
        self, instruction: Choose, used: list[Box], live: set[Box], after: list[Instruction]
    ) -> tuple[list[Instruction], list[Instruction]]:
        free = [b for r in instruction.regions() for b in self._free(r)]
        inner = dict.fromkeys((*free, *used))
        dying = [b for b in inner if b not in live]
        for region in instruction.regions():
            self.region(region, set(live), dying)
        live.update(inner)
        return [], after

    def _roles(self, instruction: Instruction) -> tuple[list[Box], list[Box], list[Box]]:
        """Return (used, consumed, made) boxes, each once."""
        if isinstance(instruction, BoxInstruction):
            used = list(instruction.used)
            if not isinstance(instruction, Choose):
                used += self._behind(instruction.reads())
            else:
                used += self._behind(s for s in instruction.reads())
            consumed = list(instruction.consumed)
            used = [b for b in dict.fromkeys(used) if b not in consumed]
            return used, consumed, list(instruction.made)
        storages = touched(instruction)
        written: list[Storage] = []
        if isinstance(instruction, Launch):
            written = instruction.outputs
        elif isinstance(instruction, Copy):
            written = [instruction.target]
        made = [s.box for s in written if s.home is Home.BOX and s.box is not None]
        used = [b for b in dict.fromkeys(self._behind(storages)) if b not in made]
        return used, [], list(dict.fromkeys(made))

    def _behind(self, storages: object) -> list[Box]:
        found: list[Box] = []
        for s in storages:  # type: ignore[attr-defined]
            if s.home is Home.BOX and s.box is not None:
                found.append(s.box)
            found += self.aliases.get(s, ())
        return found

    def _free(self, region: Region) -> list[Box]:
        """Return the boxes that a region uses but does not define, in order."""
        free: dict[Box, None] = {}
        made: set[Box] = set()
        for instruction in region.instructions:
            used, consumed, defined = self._roles(instruction)
            inner = (b for r in instruction.regions() for b in self._free(r))
            free |= dict.fromkeys(b for b in (*used, *consumed, *inner) if b not in made)
            made |= set(defined)
        return list(free | dict.fromkeys(b for b in region.boxes if b not in made))
