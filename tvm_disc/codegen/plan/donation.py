"""Results that take the memory of donated inputs.

A result of the dtype and shape of a donated input is computed into the input's memory if nothing
reads the input from the first write to the result on. If the shapes are not proved to be equal, the
call compares them, and otherwise allocates the result. A kernel that reads the input itself does
not write into it, because it may read an element after its first write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm_disc.codegen.plan.memory import last_reads
from tvm_disc.codegen.plan.program import (
    AllocOutput,
    Copy,
    Donor,
    Home,
    Program,
    Storage,
    StoredTensor,
)
from tvm_disc.errors import WhyNot
from tvm_disc.graph.nodes import static_dim
from tvm_disc.shape import Solver
from tvm_disc.typing import Expr


def updated(place: StoredTensor, size_bytes: Expr, known: Iterable[object] = ()) -> StoredTensor:
    """Return the result of an update of a donated input: the input's memory, or a copy of it.

    Args:
        place: the input, or a view of it.
        known: the values that are lowered so far, the input before its views.
    """
    storage = Storage(Home.WORKSPACE, size_bytes, f"{place.storage.name}_updated")
    same = (v for v in known if isinstance(v, StoredTensor) and v.storage is place.storage)
    shape = next(same, place).shape
    storage.donor = Donor(place.storage.position, copies=True, shape=shape)
    return StoredTensor(place.shape, place.dtype, storage)


def assign_donors(program: Program, names: Sequence[str], solver: Solver) -> None:
    """Set the donors of results, and ``program.donations``: for each donated input the position of
    the result that takes its memory, or the reason why there is none.
    """
    first: dict[int, int] = {}  # for each result the position of its allocation
    results: dict[int, StoredTensor] = {}
    for step, instruction in enumerate(program.region.instructions):
        if isinstance(instruction, AllocOutput):
            position = instruction.value.storage.position
            first[position], results[position] = step, instruction.value
        elif isinstance(instruction, Copy) and instruction.source.home is Home.WORKSPACE:
            assert instruction.source.donor is None, "the update of an input would be lost"
    taken = {v.storage.donor.position: k for k, v in results.items() if v.storage.donor is not None}
    last = last_reads(program.region)
    for k, value in enumerate(program.inputs):
        if value.storage.name not in names:
            continue
        if k in taken:
            program.donations[value.storage.name] = taken[k]
            continue
        like = [r for r, v in results.items() if v.storage.donor is None and _like(v, value)]
        free = [r for r in like if first[r] > last.get(k, -1)] if not program.boxed else []
        if not free:
            program.donations[value.storage.name] = WhyNot("donate", _reason(program, like))
            continue
        proved = [r for r in free if _same(results[r], value, solver)]
        result = (proved or free)[0]
        results[result].storage.donor = Donor(k, proved=bool(proved))
        program.donations[value.storage.name] = result


def _like(result: StoredTensor, value: StoredTensor) -> bool:
    """Return whether a result may have the dtype and the shape of an input."""
    if result.dtype != value.dtype or len(result.shape) != len(value.shape):
        return False
    pairs = [(static_dim(a), static_dim(b)) for a, b in zip(result.shape, value.shape, strict=True)]
    return all(a is None or b is None or a == b for a, b in pairs)


def _same(result: StoredTensor, value: StoredTensor, solver: Solver) -> bool:
    return bool(solver.known_same_shape(result.shape, value.shape))


def _reason(program: Program, like: Sequence[int]) -> str:
    """Return why no result takes the memory of an input."""
    if program.boxed:
        return "values of data types may alias the inputs of this program"
    if not like:
        return "no result that is still free has its dtype and a shape that may be equal"
    return "it is read while, or after, a result of its shape is written"


__all__ = ["assign_donors", "updated"]
