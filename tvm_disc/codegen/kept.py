"""Cache of whole programs: machine code, manifest, and constants.

Objects of kernels are cached separately, by their content. A program is cached by the arguments of
its build: a repeated build of a file neither reads nor compiles the model. It links the cached
objects, and maps the constants from the cache's file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np

from tvm_disc.codegen.machine_code import MachineCode
from tvm_disc.codegen.units import Emitted
from tvm_disc.errors import BadInput
from tvm_disc.support.debug import Trace
from tvm_disc.support.store import Store
from tvm_disc.typing import Target


@dataclass(frozen=True)
class Kept:
    """A complete program from the cache."""

    levels: Sequence[MachineCode]
    manifest: Mapping[str, object]
    constants: np.ndarray


class Keeping:
    """Writes a program into the cache. The constants are written while the code is compiled."""

    def __init__(self, store: Store | None, key: str | None, constants: np.ndarray) -> None:
        begun = None if store is None or key is None else store.begin_large(key, constants)
        self._entry = begun

    def finish(self, levels: Sequence[MachineCode], manifest: Mapping[str, object]) -> None:
        """Write the machine code and manifest, which completes the entry."""
        if self._entry is None:
            return
        code = [{"called": [*v.called], "objects": [*map(len, v.objects)]} for v in levels]
        text = json.dumps({"manifest": manifest, "levels": code}).encode()
        objects = b"".join(data for level in levels for data in level.objects)
        self._entry.finish(len(text).to_bytes(8, "little") + text + objects)

    def __enter__(self) -> Keeping:
        return self

    def __exit__(self, *_: object) -> None:
        if self._entry is not None:
            self._entry.__exit__()


def kept(
    store: Store, key: str, targets: Sequence[Target], emitted: Callable[[int], Emitted]
) -> Kept | None:
    """Return the cached program of a key, or None.

    Args:
        emitted: returns the TIR for the target of an index; called only if the user requests the
            code as text, or if linking fails.
    """
    found = store.get_large(key)
    if found is None:
        return None
    head, constants = found
    start = 8 + int.from_bytes(head[:8], "little")
    told = json.loads(head[8:start])
    levels = []
    for number, (level, target) in enumerate(zip(told["levels"], targets, strict=True)):
        objects = []
        for size in level["objects"]:
            objects.append(head[start : start + size])
            start += size
        levels.append(MachineCode(target, objects, level["called"], partial(emitted, number)))
    return Kept(levels, told["manifest"], constants)


def through_cache(
    compiled: Callable[[str | None], Kept],
    store: Store | None,
    name: Callable[[], str | None],
    targets: Sequence[Target],
    trace: Trace,
) -> Kept:
    """Return the program from the cache, or compile it and add it to the cache.

    Args:
        compiled: compiles the program, and writes it to the cache under a key if it is not None.
        store: the cache, or None if caching is disabled.
        name: returns the key of the build, or None if the build cannot be cached.
    """
    if store is None:
        return compiled(None)

    def emitted(number: int) -> Emitted:
        if name() != key:
            raise BadInput(
                "source: the code cannot be compiled again, because a file or a setting of the "
                "build has changed; build the program again"
            )
        return compiled(None).levels[number].emitted()

    with trace.stage("find"):
        key = name()
        found = None if key is None else kept(store, key, targets, emitted)
    return compiled(key) if found is None else found


# Active counters of `compile_counter`: lists of one element, which each compilation increments.
_counters: list[list[int]] = []


def count_compilation() -> None:
    """Count one compiled program in the counters of this process."""
    for count in _counters:
        count[0] += 1


@contextmanager
def compile_counter() -> Iterator[list[int]]:
    """Yield a list with one element: the number of compilations since the block was entered."""
    count = [0]
    _counters.append(count)
    try:
        yield count
    finally:
        _counters[:] = [c for c in _counters if c is not count]


__all__ = ["Keeping", "Kept", "compile_counter", "count_compilation", "kept", "through_cache"]
