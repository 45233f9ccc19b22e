"""Memory plan: which values of a region may share bytes. Sizes need not be known.

Storages with disjoint live ranges may share bytes. Offsets are computed from the dims at run time
(see ``placement``), so that a region needs one workspace allocation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from tvm_disc.abi.formula import rounded
from tvm_disc.codegen.plan.formula import Formulas
from tvm_disc.codegen.plan.placement import best_order, overlaps, sample_dims, supports
from tvm_disc.codegen.plan.program import (
    Conditional,
    Copy,
    Home,
    Instruction,
    Launch,
    Loop,
    Outcome,
    ReadDims,
    Region,
    Slot,
    Storage,
)
from tvm_disc.errors import Unsupported
from tvm_disc.typing import Expr


@dataclass
class Life:
    """A storage, and the first and last step of its region that access it."""

    storage: Storage
    first: int
    last: int


def plan_region(region: Region, used_later: Sequence[Storage] = ()) -> None:
    """Assign a slot to every workspace storage that ``region`` writes, and plan the inner regions.

    Args:
        used_later: storages read by regions that run while this workspace is still allocated.
    """
    for instruction in region.instructions:
        _plan_inner(instruction)
    _assign(region, lifetimes(region, used_later))


def lifetimes(region: Region, used_later: Sequence[Storage] = ()) -> list[Life]:
    """Return the live ranges of workspace storages that ``region`` writes, ordered by first
    step.
    """
    lives: dict[Storage, Life] = {}
    behind: dict[Storage, list[Storage]] = {}
    for step, instruction in enumerate(region.instructions):
        for storage in written(instruction):
            if storage.home is Home.WORKSPACE:
                lives.setdefault(storage, Life(storage, step, step))
        used = [lives[s] for s in _with_all(behind, touched(instruction)) if s in lives]
        for life in used:
            life.last = step
        # The result of an If or Loop may alias any of these values.
        for outcome in _outcomes(instruction):
            behind[outcome.value.storage] = [life.storage for life in used]
    for storage in _with_all(behind, [*used_later, *(v.storage for v in region.results)]):
        if storage in lives:
            lives[storage].last = len(region.instructions)
    return sorted(lives.values(), key=lambda x: x.first)


def last_reads(region: Region) -> dict[int, int]:
    """Return, by the positions of inputs, the position of the last instruction that accesses the
    input or may access an alias of it. Inputs without such an instruction are absent.
    """
    last: dict[int, int] = {}
    behind: dict[Storage, set[int]] = {}
    for step, instruction in enumerate(region.instructions):
        used: set[int] = set()
        for storage in touched(instruction):
            used |= {storage.position} if storage.home is Home.INPUT else behind.get(storage, set())
        last.update(dict.fromkeys(used, step))
        for outcome in _outcomes(instruction):
            behind[outcome.value.storage] = used
    return last


def _with_all(
    behind: Mapping[Storage, Sequence[Storage]], used: Sequence[Storage]
) -> dict[Storage, None]:
    """Return the storages ``used``, and those that they may alias."""
    return dict.fromkeys([*used, *(s for other in used for s in behind.get(other, ()))])


def _outcomes(instruction: Instruction) -> Sequence[Outcome]:
    return instruction.outcomes if isinstance(instruction, Conditional | Loop) else ()


def _plan_inner(instruction: Instruction) -> None:
    if isinstance(instruction, Conditional):
        plan_region(instruction.then_region)
        plan_region(instruction.else_region)
    elif isinstance(instruction, Loop):
        later = [s for r in (instruction.body, instruction.exit) for s in _touched_in(r)]
        plan_region(instruction.header, [*later, instruction.cond])
        plan_region(instruction.body)
        plan_region(instruction.exit)
    for region in instruction.regions():
        plan_region(region)


def _touched_in(region: Region) -> list[Storage]:
    found = [s for i in region.instructions for s in touched(i)]
    return [*found, *(v.storage for v in region.results)]


def written(instruction: Instruction) -> list[Storage]:
    """Return the storages that an instruction writes, without those that its inner regions
    write.
    """
    if isinstance(instruction, Launch):
        scratch = [instruction.scratch] if instruction.scratch is not None else []
        return [*instruction.outputs, *scratch]
    return [instruction.target] if isinstance(instruction, Copy) else []


def _assign(region: Region, lives: Sequence[Life]) -> None:
    """Assign one slot per storage; slots with overlapping live ranges get disjoint offsets."""
    if not lives:
        return
    clashes = overlaps([(life.first, life.last) for life in lives])
    order = _order([life.storage.size_bytes for life in lives], clashes)
    below = supports(order, clashes)
    index = {i: k for k, i in enumerate(order)}
    for k, i in enumerate(order):
        storage = lives[i].storage
        storage.slot = k
        region.slots.append(Slot(storage.size_bytes, tuple(index[j] for j in below[i])))


def _order(sizes: Sequence[Expr], clashes: Sequence[Sequence[int]]) -> list[int]:
    """Return the order in which to place storages, which is chosen by samples of the dims.

    Storages keep their order if a size has no formula, or if no sample has valid sizes for all
    storages.
    """
    shared = Formulas()
    try:
        texts = [shared.text(size) for size in sizes]
    except Unsupported:  # a size that depends on run-time values
        return list(range(len(sizes)))
    # The layers of a model have few distinct sizes.
    distinct = list(dict.fromkeys(texts))
    columns = []
    for dims in sample_dims(sorted(shared.dims)):
        # Samples ignore the guards: a size may divide by a dim that no valid call makes 0.
        with suppress(ZeroDivisionError):
            columns.append([rounded(v) for v in shared.values(distinct, dims)])
    if not columns:
        return list(range(len(sizes)))
    known = dict(zip(distinct, zip(*columns, strict=True), strict=True))
    rows = [known[text] for text in texts]
    return best_order(np.array(rows, "int64").reshape(len(sizes), -1), clashes)


def _inner_regions(instruction: Instruction) -> list[Region]:
    if isinstance(instruction, Conditional):
        return [instruction.then_region, instruction.else_region]
    if isinstance(instruction, Loop):
        return [instruction.header, instruction.body, instruction.exit]
    return instruction.regions()


def touched(instruction: Instruction) -> list[Storage]:
    """Return every storage that an instruction reads or writes, including inner regions."""
    found = list(instruction.reads())
    if isinstance(instruction, Launch):
        found += [*instruction.inputs, *instruction.outputs]
        found += [instruction.scratch] if instruction.scratch is not None else []
    elif isinstance(instruction, Copy):
        found += [instruction.source, instruction.target]
    elif isinstance(instruction, ReadDims):
        found.append(instruction.source)
    elif isinstance(instruction, Conditional):
        found.append(instruction.cond)
    elif isinstance(instruction, Loop):
        found += [c.initial.storage for c in instruction.carried]
    for region in _inner_regions(instruction):
        found += _touched_in(region)
    return found
