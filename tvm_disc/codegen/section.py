"""The constant section of a program, and the release of the weights that are copied into it."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from tvm_disc.abi.formula import ALIGNMENT_BYTES, rounded
from tvm_disc.codegen.plan.constants import ProgramConstant, bytes_of
from tvm_disc.runtime.heap import trim_heap
from tvm_disc.support.faults import mapped
from tvm_disc.support.processor import cores

if TYPE_CHECKING:
    from tvm_disc.schedules.packing import Form, Packing

# Minimum bytes of a batch of constants, and of weights for which `release` is worth its 0.1 s.
LARGE = 64 << 20


def layout_constants(constants: Sequence[ProgramConstant]) -> tuple[np.ndarray, list[int]]:
    """Return one aligned byte array with all constants, and their offsets."""
    offsets, total = [], 0
    for constant in constants:
        offsets.append(total)
        total += rounded(max(constant.nbytes, 1))
    raw = np.zeros(total + ALIGNMENT_BYTES, np.uint8)
    skip = -raw.ctypes.data % ALIGNMENT_BYTES
    section = raw[skip : skip + total]

    def write(place: tuple[ProgramConstant, int]) -> None:
        constant, offset = place
        constant.write(section[offset : offset + constant.nbytes])

    # NumPy releases the GIL while it copies. After each batch, the memory of freed arrays is
    # returned to the system.
    batches = list(_batches(list(zip(constants, offsets, strict=True))))
    for batch in batches:
        mapped(write, batch, cores())
        if len(batches) > 1:
            trim_heap()
    return section, offsets


def _batches(
    places: Sequence[tuple[ProgramConstant, int]],
) -> Iterator[list[tuple[ProgramConstant, int]]]:
    """Yield the constants in order, in batches that end when they have ``LARGE`` bytes."""
    batch: list[tuple[ProgramConstant, int]] = []
    total = 0
    for place in places:
        batch.append(place)
        total += place[0].nbytes
        if total >= LARGE:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch


def shared(
    programs: Sequence[Sequence[ProgramConstant]],
) -> tuple[list[ProgramConstant], list[list[int]]]:
    """Return the distinct constants of several programs, and for each program their indices.

    Duplicates of a constant are released.
    """
    if len(programs) == 1:
        return list(programs[0]), [list(range(len(programs[0])))]
    digests: dict[tuple[int, int], bytes] = {}
    found: dict[tuple[bytes, Form, Packing | None], int] = {}
    constants: list[ProgramConstant] = []
    places: list[list[int]] = []
    for program in programs:
        places.append([])
        for constant in program:
            place = constant.array.ctypes.data, constant.array.nbytes
            if place not in digests:
                digests[place] = blake2b(bytes_of(constant.array).data).digest()
            key = (digests[place], constant.form, constant.packing)
            if key not in found:
                found[key] = len(constants)
                constants.append(constant)
            else:
                constant.release()
            places[-1].append(found[key])
    return constants, places


def release(weights: int) -> None:
    """Run the cycle collector and return free memory to the system, if ``weights``, in bytes, is
    large.

    Graphs of nodes are cyclic, so only the cycle collector frees weights that a pass has replaced.
    The C library keeps freed blocks until it is asked to return them.
    """
    if weights >= LARGE:
        gc.collect()
        trim_heap()


__all__ = ["layout_constants", "release", "shared"]
