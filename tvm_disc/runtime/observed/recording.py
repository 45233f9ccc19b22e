"""Files of recorded calls: inputs, results and times, for ``tvm-disc replay``.

A file is a ``.npz``: arrays ``0/inputs/x`` and ``0/results/0`` of call 0, and a member
``calls.json`` with the time of each call and the dtypes that NumPy does not store.
"""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import tvm_ffi

from tvm_disc.abi.manifest import Manifest
from tvm_disc.errors import BadInput
from tvm_disc.options import file_path
from tvm_disc.runtime.arrays import as_array, numpy_dtype
from tvm_disc.runtime.inputs import MOST, boolean, integer, refuse_device, unique_names
from tvm_disc.runtime.observed.entries import Main
from tvm_disc.runtime.observed.shape_log import Observed
from tvm_disc.typing import Array

INDEX = "calls.json"
_DAMAGED = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile)


@dataclass(frozen=True)
class RecordedCall:
    """One call of a file.

    Attributes:
        inputs: the inputs by name.
        results: the flat results; None if they were not recorded.
        seconds: the time that the call took.
    """

    inputs: Mapping[str, Array]
    results: Sequence[Array] | None
    seconds: float


@contextmanager
def recorded_calls(
    observed: Observed, manifest: Manifest, path: str | Path, results: bool, limit: int
) -> Iterator[None]:
    """Write the first ``limit`` calls in this context to a file, with their results if ``results``.

    Calls that raise are not recorded.

    Raises:
        BadInput: an argument is not valid, or the file cannot be written.
        Unsupported: the program was built for a GPU.
    """
    refuse_device("record", manifest)
    path = file_path("record", path)
    boolean("results", results)
    limit = integer("limit", limit, 1, MOST)
    names = unique_names([name for name, _, _ in manifest["inputs"]])
    try:
        file = zipfile.ZipFile(path, "w", zipfile.ZIP_STORED)
    except OSError as error:
        raise BadInput(f"record: {path}: {error.strerror or error}") from None
    try:
        with file:
            log = _CallLog(file, names, results, limit)
            with observed(log.recording):
                yield
            log.finish()
    except OSError as error:
        raise BadInput(f"record: {path}: {error.strerror or error}") from None


class _CallLog:
    """Writes calls to an open file."""

    def __init__(
        self, file: zipfile.ZipFile, names: Sequence[str], results: bool, limit: int
    ) -> None:
        self.file, self.names, self.results = file, list(names), results
        self.limit, self.begun = limit, 0
        self.lock = Lock()
        self.calls: list[dict[str, object]] = []

    def recording(self, main: Main) -> Main:
        """Return a function that calls ``main`` and writes the call."""
        count = len(self.names)

        def call(*args: object) -> Any:
            if len(self.calls) >= self.limit or isinstance(args[-1] if args else None, int):
                return main(*args)
            inputs = [_copy(a) for a in args[:count]]  # the program may write to its inputs
            start = time.perf_counter()
            made = main(*args)
            seconds = time.perf_counter() - start
            found = args[count:] or (made,)
            self.write(inputs, list(arrays_of(found)) if self.results else None, seconds)
            return made

        return call

    def write(self, inputs: Sequence[Array], results: list[Array] | None, seconds: float) -> None:
        """Append a call, unless the file already contains the maximum number of calls."""
        with self.lock:
            number = len(self.calls)
            if number >= self.limit:
                return
            dtypes = {}
            named = [(f"inputs/{n}", a) for n, a in zip(self.names, inputs, strict=True)]
            named += [(f"results/{k}", a) for k, a in enumerate(results or ())]
            for name, array in named:
                if array.dtype.name == "bfloat16":
                    dtypes[name], array = "bfloat16", array.view(np.uint16)
                with self.file.open(f"{number}/{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
            kept = None if results is None else len(results)
            self.calls.append({"seconds": seconds, "results": kept, "dtypes": dtypes})

    def finish(self) -> None:
        """Write ``calls.json``, the index of the calls."""
        index = {"inputs": self.names, "calls": self.calls}
        self.file.writestr(INDEX, json.dumps(index))


def arrays_of(result: Any) -> Iterator[Array]:
    """Yield copies of the tensors of a nested result, in order."""
    if hasattr(type(result), "__dlpack__"):
        yield _copy(result)
        return
    for part in result:
        yield from arrays_of(part)


def _copy(tensor: object) -> Array:
    if isinstance(tensor, np.ndarray):
        return np.array(tensor, order="C")
    return np.array(as_array(tvm_ffi.from_dlpack(tensor)), order="C")


def read_calls(path: Path) -> Iterator[RecordedCall]:
    """Yield the calls of a file in order.

    Raises:
        BadInput: the file does not exist, is damaged, or is not a file of recorded calls.
    """
    wanted = f"{path}: expected calls that Executable.record wrote"
    try:
        file = zipfile.ZipFile(path)
        index = json.loads(file.read(INDEX))
        names = list(index["inputs"])
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file") from None
    except _DAMAGED as error:
        raise BadInput(f"{wanted}, found another file or a damaged one: {error}") from None
    with file:
        for number, call in enumerate(index["calls"]):
            try:
                yield _read_call(file, number, names, call)
            except _DAMAGED as error:
                raise BadInput(f"{wanted}; call {number} is damaged: {error}") from None


def _read_call(
    file: zipfile.ZipFile, number: int, names: Sequence[str], call: Mapping[str, Any]
) -> RecordedCall:
    def read(name: str) -> Array:
        with file.open(f"{number}/{name}.npy") as member:
            found: Array = np.lib.format.read_array(member, allow_pickle=False)
        dtype = call["dtypes"].get(name)
        return found if dtype is None else found.view(numpy_dtype(dtype))

    inputs = {name: read(f"inputs/{name}") for name in names}
    count = call["results"]
    results = None if count is None else [read(f"results/{k}") for k in range(count)]
    return RecordedCall(inputs, results, float(call["seconds"]))


__all__ = ["RecordedCall", "arrays_of", "read_calls", "recorded_calls"]
