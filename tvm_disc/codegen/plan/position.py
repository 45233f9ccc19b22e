"""Where lowering stands: the region being filled, and what is known there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

from tvm_disc.codegen.plan.program import Guard, Instruction, Region, Storage, Value
from tvm_disc.shape import Solver


class Position:
    """What all that lowers a program shares.

    Attributes:
        env: what a Relax variable stands for: a value, a box, or a tuple of them.
        defined: symbols that are bound here.
        at_entry: symbols bound when the workspace of the region is taken.
        settled: guards that stand somewhere, and sizes that are checked or known.
        values: what was computed into a storage.
    """

    def __init__(self, solver: Solver) -> None:
        self.solver = solver
        self.region = self.main = Region()
        self.env: dict[Any, Any] = {}
        self.defined: set[Any] = set()
        self.at_entry: set[Any] = set()
        self.settled: set[Any] = set()
        self.values: dict[Storage, Value] = {}
        self.counter = 0

    def add(self, instruction: Instruction) -> None:
        """Append an instruction to the region."""
        self.region.instructions.append(instruction)

    def numbered(self, name: str) -> str:
        """A name that no other storage has."""
        self.counter += 1
        return f"{name}_{self.counter}"

    def settle_guards(self) -> None:
        """Emit the guards whose symbols are bound by now: the first place where they can stand."""
        for guard in self.solver.guards:
            if id(guard) in self.settled or not all(s in self.defined for s in guard.symbols):
                continue
            self.settled.add(id(guard))
            self.add(Guard(guard.cond, guard.message))

    def settle_sizes(self, shape: Sequence[Any], what: str) -> None:
        """Guard the dims of a result that may be negative, in a branch, a loop or a function.

        Results of the main region are decided where their types are made, by a guard that every
        call passes (``Emitter.require_sizes``). The guard of a nested region stands before its
        workspace is taken where its symbols are bound by then, else before the launch.
        """
        if self.region is self.main:
            return
        for axis, dim in enumerate(shape):
            if isinstance(dim, int | tirx.IntImm | tirx.Var):
                continue
            key = self.solver.key(dim)
            if key in self.settled:
                continue
            self.settled.add(key)
            if self.solver.known_le(0, dim):
                continue
            size = self.solver.name_of(dim)
            text = f"{what}: {size} must not be negative: it is the size of axis {axis} of a result"
            self._add_early(Guard(dim >= 0, text))

    def _add_early(self, guard: Guard) -> None:
        """Add a guard at the start of the region if its symbols are bound there, else here."""
        steps = self.region.instructions
        early = all(v in self.at_entry for v in tirx.analysis.undefined_vars(guard.cond))
        steps.insert(len(self.region.leading_guards()) if early else len(steps), guard)

    def within(self, region: Region, run: Callable[[], Any]) -> Any:
        """``run()`` with its instructions in ``region``; what it defines ends there."""
        outer, self.region = self.region, region
        known, settled, entry = set(self.defined), set(self.settled), self.at_entry
        self.at_entry = known
        try:
            return run()
        finally:
            self.region, self.defined, self.settled = outer, known, settled
            self.at_entry = entry
