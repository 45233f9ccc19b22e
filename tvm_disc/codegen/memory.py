"""The memory plan: which values of a region may share bytes, although no size is known.

Two storages share a slot when their lifetimes are disjoint and the solver can order their sizes;
a slot is as large as the largest storage it ever holds. Offsets are prefix sums of slot sizes,
computed from the dims at run time, so a region needs one workspace request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import tvm_ffi
from tvm import tirx

from tvm_disc.codegen.program import (
    Copy,
    Home,
    If,
    Instruction,
    Launch,
    Loop,
    ReadDim,
    Region,
    Storage,
)
from tvm_disc.shape import Solver

Expr: TypeAlias = Any
ALIGNMENT_BYTES = 64


@dataclass
class _Life:
    storage: Storage
    first: int
    last: int


def plan_region(region: Region, solver: Solver, used_later: Sequence[Storage] = ()) -> None:
    """Assign a slot to every workspace storage that ``region`` writes, and plan inner regions.

    Args:
        used_later: storages read by regions that run while this one's workspace is still open.
    """
    lives: dict[Storage, _Life] = {}
    for step, instruction in enumerate(region.instructions):
        for storage in written(instruction):
            if storage.home is Home.WORKSPACE:
                lives.setdefault(storage, _Life(storage, step, step))
        for storage in touched(instruction):
            if storage in lives:
                lives[storage].last = step
        _plan_inner(instruction, solver)
    for storage in (*used_later, *(v.storage for v in region.results)):
        if storage in lives:
            lives[storage].last = len(region.instructions)
    _assign(region, sorted(lives.values(), key=lambda x: x.first), solver)


def _plan_inner(instruction: Instruction, solver: Solver) -> None:
    if isinstance(instruction, If):
        plan_region(instruction.then_region, solver)
        plan_region(instruction.else_region, solver)
    elif isinstance(instruction, Loop):
        later = [s for r in (instruction.body, instruction.exit) for s in _touched_in(r)]
        plan_region(instruction.header, solver, [*later, instruction.cond])
        plan_region(instruction.body, solver)
        plan_region(instruction.exit, solver)
    for region in instruction.regions():
        plan_region(region, solver)


def _touched_in(region: Region) -> list[Storage]:
    found = [s for i in region.instructions for s in touched(i)]
    return [*found, *(v.storage for v in region.results)]


def written(instruction: Instruction) -> list[Storage]:
    """The storages an instruction itself writes."""
    if isinstance(instruction, Launch):
        scratch = [instruction.scratch] if instruction.scratch is not None else []
        return [*instruction.outputs, *scratch]
    return [instruction.target] if isinstance(instruction, Copy) else []


def _assign(region: Region, lives: list[_Life], solver: Solver) -> None:
    busy: list[tuple[int, int]] = []  # (last step, slot)
    free: list[int] = []
    for life in lives:
        free += [slot for last, slot in busy if last < life.first]
        busy = [(last, slot) for last, slot in busy if last >= life.first]
        slot = _fitting(region, free, life.storage, solver)
        if slot is None:
            slot = len(region.slots)
            region.slots.append(life.storage.size_bytes)
        else:
            free.remove(slot)
        life.storage.slot = slot
        busy.append((life.last, slot))


def _fitting(region: Region, free: list[int], storage: Storage, solver: Solver) -> int | None:
    """The free slot that grows least; where sizes cannot be ordered, the larger is taken at run
    time, which is never more than two slots."""
    size = storage.size_bytes
    for slot in free:
        if tvm_ffi.structural_equal(region.slots[slot], size):
            return slot
    if _is_polynomial(size):
        ordered = [s for s in free if _is_polynomial(region.slots[s])]
        for slot in ordered:
            if solver.known_le(size, region.slots[slot]):
                return slot
        for slot in ordered:
            if solver.known_le(region.slots[slot], size):
                region.slots[slot] = size
                return slot
    if not free:
        return None
    slot = free[-1]
    region.slots[slot] = tirx.max(region.slots[slot], size)
    return slot


def _is_polynomial(size: Expr) -> bool:
    """Sums and products of dims: what the solver orders at little cost."""
    if isinstance(size, tirx.Add | tirx.Mul):
        return _is_polynomial(size.a) and _is_polynomial(size.b)
    return isinstance(size, tirx.Var | tirx.IntImm)


def _inner_regions(instruction: Instruction) -> list[Region]:
    if isinstance(instruction, If):
        return [instruction.then_region, instruction.else_region]
    if isinstance(instruction, Loop):
        return [instruction.header, instruction.body, instruction.exit]
    return instruction.regions()


def touched(instruction: Instruction) -> list[Storage]:
    """Every storage an instruction reads or writes, inner regions included."""
    found: list[Storage] = []
    if isinstance(instruction, Launch):
        found += [*instruction.inputs, *instruction.outputs]
        found += [instruction.scratch] if instruction.scratch is not None else []
    elif isinstance(instruction, Copy):
        found += [instruction.source, instruction.target]
    elif isinstance(instruction, ReadDim):
        found.append(instruction.source)
    elif isinstance(instruction, If):
        found.append(instruction.cond)
    elif isinstance(instruction, Loop):
        found += [c.initial.storage for c in instruction.carried]
    found += instruction.reads()
    for region in _inner_regions(instruction):
        found += _touched_in(region)
    return found
