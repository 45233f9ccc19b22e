"""State of lowering: the current region, and the symbols that are bound in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

from tvm_disc.codegen.plan.program import (
    Define,
    GuardExit,
    Instruction,
    Region,
    Storage,
    StoredTensor,
)
from tvm_disc.errors import Unsupported
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr, Var


class Position:
    """State that all parts of the lowering share.

    Attributes:
        env: value of each Relax variable: a tensor, a box, or a tuple of values.
        defined: symbols that are bound at the current position.
        at_entry: symbols that are bound when the region's workspace is allocated.
        bound: symbols that were bound in any completed region.
        settled: guards that apply at the current position, and sizes that are checked or proved.
        placed: guards that were emitted in any region.
        values: the tensor that was computed into each storage.
    """

    def __init__(self, solver: Solver) -> None:
        self.solver = solver
        self.region = self.main = Region()
        self.env: dict[object, object] = {}
        self.defined: set[object] = set()
        self.at_entry: set[object] = set()
        self.bound: set[object] = set()
        self.settled: set[object] = set()
        self.placed: set[int] = set()
        self.values: dict[Storage, StoredTensor] = {}
        self.counter = 0

    def add(self, instruction: Instruction) -> None:
        """Append an instruction to the region."""
        self.region.instructions.append(instruction)

    def numbered(self, name: str) -> str:
        """Return a unique name of a storage."""
        self.counter += 1
        return f"{name}_{self.counter}"

    def settle_guards(self) -> None:
        """Emit the guards whose symbols are all bound now. A guard is thereby emitted as early as
        possible.
        """
        for guard in self.solver.guards:
            if id(guard) in self.settled or not all(s in self.defined for s in guard.symbols):
                continue
            self.settled.add(id(guard))
            self.placed.add(id(guard))
            self._add_early(GuardExit(guard.cond, guard.message))

    def define(self, var: Var, value: Expr) -> None:
        """Bind a symbol to ``value``, before the allocation of the workspace if the symbols of
        ``value`` are bound there, else at the current position.
        """
        self.defined.add(var)
        if self._add_early(Define(var, value)):
            self.at_entry = {*self.at_entry, var}
        self.settle_guards()

    def require_placed(self) -> None:
        """Refuse a program in which a guard was not emitted.

        Raises:
            Unsupported: no region binds all symbols of a guard.
        """
        self.leave()
        for guard in self.solver.guards:
            if id(guard) in self.placed:
                continue
            unbound = [s for s in guard.symbols if s not in self.bound]
            reason = "its sizes are known only in different branches or functions"
            if unbound:
                names = ", ".join(map(self.solver.name_of, unbound))
                reason = f"the program computes no value of size {names}"
            raise Unsupported(f"a condition cannot be checked: {guard.message}; {reason}")

    def leave(self) -> None:
        """Record the symbols that were bound in the region that ends."""
        self.bound |= self.defined

    def settle_sizes(self, shape: Sequence[Expr], what: str) -> None:
        """Add guards for dims of a result that may be negative, in a branch, a loop or a function.

        In the main region such dims were guarded when types were inferred
        (``Emitter.require_sizes``). In a nested region the guard is placed before the workspace
        allocation if its symbols are bound there, otherwise before the launch.
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
            self._add_early(GuardExit(dim >= 0, text))

    def _add_early(self, step: GuardExit | Define) -> bool:
        """Add a step before the workspace allocation if its symbols are bound there, else at the
        current position; return whether they are bound there.
        """
        steps = self.region.instructions
        read = step.cond if isinstance(step, GuardExit) else i64(step.value)
        early = all(v in self.at_entry for v in tirx.analysis.undefined_vars(read))
        steps.insert(len(self.region.leading()) if early else len(steps), step)
        return early

    def within(self, region: Region, run: Callable[[], object]) -> Any:
        """Run ``run()`` with its instructions in ``region``; symbols that it binds are local to
        it.
        """
        outer, self.region = self.region, region
        known, settled, entry = set(self.defined), set(self.settled), self.at_entry
        self.at_entry = known
        try:
            return run()
        finally:
            self.leave()
            self.region, self.defined, self.settled = outer, known, settled
            self.at_entry = entry
