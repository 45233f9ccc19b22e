"""Times the variants of GPU kernels inside the program, with its own launches.

For each variant number, the program is built with one-leaf decision trees. A profiled call then
reports each kernel's time from driver events. Kernels run exactly as in ordinary calls: with the
same operand addresses, alignment and cache contents.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tvm_disc.codegen.cuda.card import Card, has_library, local_card, runs_code_of
from tvm_disc.errors import DeviceError
from tvm_disc.runtime.inputs import sample_array
from tvm_disc.runtime.profile import Event
from tvm_disc.schedules.cuda import handover
from tvm_disc.schedules.cuda.library import LibraryProduct
from tvm_disc.schedules.dispatch.records import Record
from tvm_disc.schedules.dispatch.variant import Variant
from tvm_disc.schedules.group import Group
from tvm_disc.tuning.remote_device import RemoteDevice
from tvm_disc.tuning.share import shared_out

Dims: TypeAlias = tuple[int, ...]
Shapes: TypeAlias = tuple[tuple[int, ...], ...]
# Builds the program with the decision trees of a file.
Build: TypeAlias = Callable[[Path], Any]


@dataclass
class DeviceKernel:
    """A kernel with several variants.

    Attributes:
        name: the kernel's name in the program's events.
        library: the part of the kernel that a library may compute, if any.
        key: key of the kernel's group.
        calls: maps the input shapes of a call to the dims of each launch of this kernel.
    """

    name: str
    key: str
    group: Group
    variants: list[Variant]
    library: LibraryProduct | None = None
    calls: dict[Shapes, list[Dims]] = field(default_factory=dict)

    def forced(self, number: int) -> dict[str, object]:
        """Return the one-leaf tree of variant ``number``; of the last variant if there are
        fewer.
        """
        variant = self.variants[min(number, len(self.variants) - 1)]
        if self.library is None:
            return {"run": variant.to_json()}
        theirs = variant.of_library
        own = self.variants[0] if theirs else variant
        return handover.forced(theirs, own.to_json(), self.library)

    def times(self, shapes: Shapes, events: Sequence[Event]) -> Iterator[tuple[Dims, Event]]:
        """Yield this kernel's events of one call, each with the dims of its launch.

        In a loop, a kernel is launched more often than the program lists it. Its events are then
        used only if all listed launches have the same dims.
        """
        own = [e for e in events if e.kernel == self.name]
        dims = self.calls.get(shapes, [])
        if len(own) == len(dims):
            yield from zip(dims, own, strict=True)
        elif len(set(dims)) == 1:
            yield from ((dims[0], e) for e in own)


class LocalDevice:
    """GPU 0 of this machine.

    Attributes:
        card: description of the GPU; None without a driver or a device.
        library: whether cuBLASLt is found at run time.
        where: name of the machine in messages.
    """

    where = "this machine"

    def __init__(self) -> None:
        self.card, self.library = local_card(), has_library()

    def load(self, program: object) -> LocalProgram:
        """Return a program, ready to be timed."""
        return LocalProgram(program)


class LocalProgram:
    """A program on a :class:`LocalDevice`."""

    def __init__(self, program: Any) -> None:
        self.program = program

    def close(self) -> None:
        """Drop the program; its device memory is freed with the last reference."""
        self.program = None

    def times(self, arrays: Sequence[np.ndarray], calls: int) -> list[list[Event]]:
        """Return the events of ``calls`` equal calls, after one warm-up call."""
        found: list[list[Event]] = self.program.profile(*arrays, repeat=calls).calls
        return found


AnyDevice: TypeAlias = LocalDevice | RemoteDevice


def require_card(device: AnyDevice, architectures: Sequence[int]) -> Card:
    """Return the description of a device's GPU.

    Raises:
        DeviceError: no GPU was found, or it cannot run code for ``architectures``.
    """
    card = device.card
    if card is None:
        raise DeviceError(
            "tune: a target of cuda is tuned on a GPU; no driver (libcuda.so.1) with a device was "
            f"found on {device.where}"
        )
    if not runs_code_of(card.key, architectures):
        listed = ", ".join(f"sm_{a}" for a in architectures)
        raise DeviceError(
            f"tune: {card.name} is sm_{card.architecture}, the target has code for {listed}; tune "
            f'with target="cuda -arch=sm_{card.architecture}"'
        )
    return card


def measured(
    kernels: Sequence[DeviceKernel],
    points: Sequence[tuple[int, Shapes]],
    inputs: Sequence[tuple[str, Sequence[object], str]],
    build: Build,
    devices: Sequence[AnyDevice],
    calls: int,
    quantile: float,
    deadline: float | None,
) -> Iterator[list[Record]]:
    """Yield the records of each point until the deadline.

    Args:
        points: (variant number, input shapes); equal numbers must be adjacent, since one program is
            built for each run of them.
        devices: identical devices; each times one point at a time.
        calls: number of calls for each point; the ``quantile`` of a kernel's times is recorded.
    """

    def late() -> bool:
        return deadline is not None and time.monotonic() > deadline

    def times(program: Any, shapes: Shapes) -> list[list[Event]]:
        rng = np.random.default_rng(0)
        given = zip(shapes, inputs, strict=True)
        arrays = [sample_array(rng, s, dtype) for s, (_, _, dtype) in given]
        found: list[list[Event]] = program.times(arrays, calls)
        return found

    for number, group in groupby(points, key=lambda point: point[0]):
        if late():
            return
        program = _forced(kernels, number, build)
        loaded = [d.load(program) for d in devices]
        del program
        for shapes, found in shared_out([s for _, s in group], loaded, times, late):
            yield _records(kernels, shapes, found, quantile)
        for each in loaded:
            each.close()


def _forced(kernels: Sequence[DeviceKernel], number: int, build: Build) -> Any:
    """Return the program in which each kernel runs its variant ``number``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trees.json"
        path.write_text(json.dumps({k.key: k.forced(number) for k in kernels}), encoding="utf-8")
        return build(path)


def _records(
    kernels: Sequence[DeviceKernel],
    shapes: Shapes,
    calls: Sequence[Sequence[Event]],
    quantile: float,
) -> list[Record]:
    """Return the records of equal calls; events name the variant that ran."""
    samples: dict[tuple[str, str, Dims], list[int]] = {}
    for kernel in kernels:
        keys = {str(v): v.key for v in kernel.variants}
        for events in calls:
            for dims, event in kernel.times(shapes, events):
                at = kernel.key, keys[event.variant], dims
                samples.setdefault(at, []).append(event.end_ns - event.start_ns)
    return [
        Record(*at, float(np.quantile(ns, quantile))) for at, ns in samples.items() if min(ns) > 0
    ]


__all__ = ["AnyDevice", "DeviceKernel", "LocalDevice", "measured", "require_card"]
