"""Caches that a program extends in place, owned by one sequence of calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import tvm_ffi

from tvm_disc.abi.formula import evaluate
from tvm_disc.errors import BadInput, shown
from tvm_disc.runtime.arrays import as_tensor, numpy_dtype
from tvm_disc.runtime.inputs import MOST, bound_dims, integer, ordered
from tvm_disc.typing import Argument

if TYPE_CHECKING:
    from tvm_disc.runtime.profile import Profile

FIRST_CAPACITY = 16  # rows of the first buffers

Arrays: TypeAlias = dict[str, np.ndarray]


@dataclass(frozen=True)
class Cache:
    """One buffer: its input and that of its length, its axis, the formula of its rows after a call,
    and the input of the buffer of its factors, if its numbers are quantized.
    """

    buffer: str
    length: str
    axis: int
    rows: str
    scale: str = ""


class _Buffers:
    """Arrays by input name, which several states may share until one of them writes.

    ``tensors`` are the same memory as arguments that calls need not convert.
    """

    def __init__(self, arrays: Arrays) -> None:
        self.arrays, self.owners, self.lock = arrays, 1, Lock()
        self.tensors = {name: _tensor(array) for name, array in arrays.items()}

    def shared(self) -> _Buffers:
        with self.lock:
            self.owners += 1
        return self

    def leave(self) -> bool:
        """Give up a share if there are several; return whether there were."""
        with self.lock:
            several = self.owners > 1
            self.owners -= several
            return several


class GrowingCaches:
    """The caches of one sequence, of a program built with ``Options(state=...)``.

    A call takes the other inputs of the program, extends the caches and returns the other results.
    Buffers grow by doubling; a call that fails changes nothing. Several states of one program may
    be used at once, each by one thread at a time.

    Examples:
        >>> state = exe.state(batch=1)
        >>> scores = state(ids=prompt)
        >>> scores = state(ids=next_word)
    """

    def __init__(
        self,
        call: Callable[[tuple[Argument, ...]], object],
        profile: Callable[..., Profile],
        manifest: Mapping[str, Any],
        capacity: int,
        dims: Mapping[str, int],
    ) -> None:
        self._call, self._profile, self._dims = call, profile, dict(dims)
        self._caches = [Cache(**entry) for entry in manifest.get("state", ())]
        if not self._caches:
            raise BadInput(
                "state: the program extends no caches in place; build it with "
                "Options(state=[...]), the names of inputs that results extend"
            )
        self._signature: list[tuple[str, list[str], str]] = manifest["inputs"]
        self._inputs = {n: (d, t) for n, d, t in self._signature}
        self._first = self._signature[0][0]
        # Caches whose rows are equal in number.
        self._groups: dict[tuple[str, str], list[Cache]] = {}
        for c in self._caches:
            self._groups.setdefault((c.rows, c.length), []).append(c)
        self._lock = Lock()
        self._used = dict.fromkeys((c.length for c in self._caches), 0)
        scales = {c.scale for c in self._caches}
        self._named = {c.buffer: c for c in self._caches if c.buffer not in scales}
        hidden = {c.buffer for c in self._caches} | set(self._used)
        self._given = [n for n in self._inputs if n not in hidden]
        # The sizes that a call binds: of the given inputs, and one length for each dim of lengths.
        lengths = {tuple(self._inputs[c.length][0]): c.length for c in self._caches}
        bound = {*self._given, *lengths.values()}
        self._bound_by = [entry for entry in self._signature if entry[0] in bound]
        rows = integer("capacity", capacity, 0, MOST)
        self._buffers = _Buffers({c.buffer: self._empty(c, rows) for c in self._caches})

    def __repr__(self) -> str:
        return f"<tvm_disc state of {len(self._named)} caches, {self.length} rows>"

    @property
    def length(self) -> int:
        """The rows of the longest cache."""
        return max(self._used.values())

    @property
    def capacity(self) -> int:
        """The rows that the smallest buffer can hold."""
        return min(self._rows_of(c) for c in self._caches)

    def __call__(self, /, *args: Argument, **kwargs: Argument) -> Any:
        """Run the program on its other inputs, and extend the caches.

        Raises:
            BadInput: a missing or unknown input, or one with a wrong shape or dtype.
            GuardFailed: shapes that the program was not compiled for.
        """
        with self._lock:
            values, rows = self._arguments(args, kwargs)
            result = self._call(values)
            self._used.update({length: count for (_, length), count in rows.items()})
            return result

    def profile(self, /, *args: Argument, repeat: int = 30, **kwargs: Argument) -> Profile:
        """Time calls kernel by kernel, as :meth:`.Executable.profile` does, and keep the caches.

        Every call has the same caches, and the rows that it appends are dropped.

        Args:
            repeat: the number of calls whose times are kept.

        Raises:
            BadInput: as for a call.
        """
        with self._lock:
            values, _ = self._arguments(args, kwargs)
            return self._profile(*values, repeat=repeat)

    def run(
        self,
        given: Mapping[str, Argument],
        most: int,
        steps: Callable[[Arrays, dict[str, int]], int],
    ) -> None:
        """Let a function call the program, with given inputs that stay the same arrays.

        Args:
            given: the other inputs of every call.
            most: the number of calls for which the buffers have memory.
            steps: is passed the buffers and the rows in use, by the names of buffers and lengths,
                and returns the number of calls, each of which extended every cache by one row.
        """
        with self._lock:
            rows = self._grown(given)
            if any(count != self._used[length] + 1 for (_, length), count in rows.items()):
                raise BadInput("state: expected a call that extends every cache by one row")
            self._reserve({key: self._used[key[1]] + most for key in rows})
            made = steps(self._buffers.arrays, self._used)
            self._used = {n: used + made for n, used in self._used.items()}

    def _arguments(
        self, args: Sequence[Argument], kwargs: Mapping[str, Argument]
    ) -> tuple[tuple[Argument, ...], dict[tuple[str, str], int]]:
        """Return the arguments of the program, and the rows of each group after the call."""
        given = dict(zip(self._given, ordered(self._given, args, kwargs), strict=True))
        rows = self._grown(given)
        self._reserve(rows)
        shared = {used: np.empty(used, np.int8) for used in set(self._used.values())}
        lengths = {n: shared[used] for n, used in self._used.items()}
        values = {**given, **self._buffers.tensors, **lengths}
        if self._first in self._buffers.arrays:  # its type is that of the results
            values[self._first] = self._buffers.arrays[self._first]
        return tuple([values[n] for n in self._inputs]), rows

    def reset(self) -> None:
        """Empty the caches; buffers keep their capacity."""
        self.truncate(0)

    def truncate(self, rows: int) -> None:
        """Keep the first ``rows`` of every cache.

        Raises:
            BadInput: ``rows`` is negative, or larger than ``length``.
        """
        if isinstance(rows, bool) or not isinstance(rows, int) or not 0 <= rows <= self.length:
            raise BadInput(f"rows: expected 0 .. {self.length}, found {shown(rows)}")
        with self._lock:
            self._used = {n: min(used, rows) for n, used in self._used.items()}

    def fork(self) -> GrowingCaches:
        """Return an independent state with the same caches; the one that writes first copies."""
        with self._lock:
            made = GrowingCaches.__new__(GrowingCaches)
            vars(made).update(vars(self))
            made._lock, made._used = Lock(), dict(self._used)
            made._buffers = self._buffers.shared()
            return made

    def cache(self, name: str) -> np.ndarray:
        """Return a copy of the used rows of a cache, by input name; int8 caches are dequantized."""
        c = self._named.get(name)
        if c is None:
            raise BadInput(f"name: expected one of {list(self._named)}, found {shown(name)}")
        arrays = self._buffers.arrays
        rows = self._prefix(c, arrays[name])
        if not c.scale:
            return np.array(rows)
        with np.errstate(invalid="ignore"):  # rows that are not finite
            wide: np.ndarray = rows.astype(np.float32) * self._prefix(c, arrays[c.scale])
        return wide

    def _empty(self, cache: Cache, rows: int) -> np.ndarray:
        dims, dtype = self._inputs[cache.buffer]
        shape = [
            rows if axis == cache.axis else self._size(cache.buffer, dim)
            for axis, dim in enumerate(dims)
        ]
        return np.empty(shape, numpy_dtype(dtype))

    def _size(self, name: str, dim: str) -> int:
        try:
            return evaluate(dim, self._dims)
        except KeyError as missing:
            raise BadInput(
                f"state: expected the size of {missing} of the cache {name!r}: "
                f"pass it by name, as in state({missing.args[0]}=1)"
            ) from None

    def _rows_of(self, cache: Cache) -> int:
        return int(self._buffers.arrays[cache.buffer].shape[cache.axis])

    def _grown(self, given: Mapping[str, Argument]) -> dict[tuple[str, str], int]:
        """Return the rows that the caches of each group have after the call."""
        shapes: dict[str, Sequence[int]] = {n: _shape_of(x) for n, x in given.items()}
        own = {n: (self._used[n],) for n, _, _ in self._bound_by if n in self._used}
        dims = bound_dims(self._bound_by, shapes | own)
        grown: dict[tuple[str, str], int] = {}
        for key, (cache, *_) in self._groups.items():
            try:
                grown[key] = max(evaluate(cache.rows, dims), self._used[cache.length])
            except KeyError as missing:
                raise BadInput(
                    f"state: the size of {missing} is not known from the inputs; the cache "
                    f"{cache.buffer!r} has {cache.rows} rows after the call"
                ) from None
        return grown

    def _reserve(self, grown: Mapping[tuple[str, str], int]) -> None:
        """Provide buffers for the rows of each group that no other state shares."""
        fits = all(self._rows_of(c) >= grown[key] for key, (c, *_) in self._groups.items())
        if fits and self._buffers.owners == 1:
            return
        rows = {c.buffer: grown[key] for key, group in self._groups.items() for c in group}
        small = [c for c in self._caches if self._rows_of(c) < rows[c.buffer]]
        old = self._buffers.arrays
        made: Arrays = {}
        for c in self._caches:
            name, capacity = c.buffer, self._rows_of(c)
            if c in small:
                capacity = max(rows[name], 2 * capacity, FIRST_CAPACITY)
            elif self._buffers.owners == 1:
                made[name] = old[name]
                continue
            made[name] = self._empty(c, capacity)
            self._prefix(c, made[name])[...] = self._prefix(c, old[name])
        self._buffers.leave()
        self._buffers = _Buffers(made)

    def _prefix(self, cache: Cache, array: np.ndarray) -> np.ndarray:
        """Return the used rows of a buffer, as a view."""
        at = [slice(None)] * array.ndim
        at[cache.axis] = slice(0, self._used[cache.length])
        return array[tuple(at)]


def _tensor(array: np.ndarray) -> object:
    """Return a TVM tensor that shares the memory of an array."""
    made = as_tensor(array)
    return tvm_ffi.from_dlpack(array) if made is array else made


def _shape_of(value: object) -> tuple[int, ...]:
    given = value if hasattr(value, "shape") else np.asarray(value)
    return tuple(int(size) for size in given.shape)


__all__ = ["GrowingCaches"]
