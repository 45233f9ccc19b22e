"""Caches that a program extends or updates in place; a state holds those of one sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import tvm_ffi

from tvm_disc.abi.formula import evaluate
from tvm_disc.errors import BadInput, shown
from tvm_disc.runtime.arrays import as_tensor, numpy_dtype
from tvm_disc.runtime.inputs import MOST, bound_dims, integer, ordered
from tvm_disc.runtime.structure import OwnedArguments
from tvm_disc.typing import Argument

if TYPE_CHECKING:
    from tvm_disc.runtime.profile import Profile

FIRST_CAPACITY = 16  # minimum rows of a buffer that a call allocates
SPARE = 4  # maximum rows of a sliding buffer, as a multiple of a call's rows

Arrays: TypeAlias = dict[str, np.ndarray]
_Group: TypeAlias = tuple[str, str, str]  # fields rows, length and kept of a `Cache`


@dataclass(frozen=True)
class Cache:
    """One cache of a program.

    Attributes:
        buffer: the input that is the cache's buffer.
        length: the input whose size is the number of used rows; empty for a fixed size.
        axis: the axis of the rows.
        rows: formula of the number of rows after a call.
        scale: the input that is the buffer of scale factors; empty if the cache is not quantized.
        kept: formula of the number of last rows that are kept; empty if no rows are dropped.
    """

    buffer: str
    length: str
    axis: int
    rows: str
    scale: str = ""
    kept: str = ""


class _Sliding:
    """Memory in which a buffer of ``most`` rows slides: rows are dropped without a copy.

    ``at(start)`` is the buffer whose row 0 is row ``start`` of ``at(0)``. The stride of the outer
    axes is always ``most`` rows. Behind ``at(0)`` there is memory for ``most`` more rows, once for
    all outer axes: in a buffer with several outer items, the last rows of one item overlap rows
    before the start of the next item, which were dropped.
    """

    def __init__(self, cache: Cache, shape: Sequence[int], dtype: str) -> None:
        self.shape, self.most, self._axis = tuple(shape), shape[cache.axis], cache.axis
        self._row, self._size = prod(shape[cache.axis + 1 :]), prod(shape)
        self._memory = np.empty(self._size + self.most * self._row, numpy_dtype(dtype))

    def at(self, start: int) -> np.ndarray:
        """Return the buffer that begins at row ``start``, which is at most ``most``."""
        first = start * self._row
        return self._memory[first : first + self._size].reshape(self.shape)

    def rows(self, start: int, count: int) -> np.ndarray:
        """Return a view of ``count`` rows from row ``start`` on."""
        shape = [count if axis == self._axis else n for axis, n in enumerate(self.shape)]
        memory, size = self._memory, self._memory.itemsize
        if 0 in shape:
            return np.empty(shape, memory.dtype)
        strides = [prod(self.shape[axis + 1 :]) * size for axis in range(len(shape))]
        first = start * self._row * size
        found: np.ndarray = np.ndarray(shape, memory.dtype, memory.view(np.uint8), first, strides)
        return found


class _Buffers:
    """Arrays by input name, which several states share until one of them writes.

    ``tensors`` has TVM tensors of the same memory, which calls accept without conversion.
    ``sliding`` has the buffers of caches that drop rows.
    """

    def __init__(self, arrays: Arrays, sliding: dict[str, _Sliding]) -> None:
        self.arrays, self.sliding = arrays, sliding
        self.owners, self.lock = 1, Lock()
        self.tensors = {name: _tensor(array) for name, array in arrays.items()}

    def shared(self) -> _Buffers:
        with self.lock:
            self.owners += 1
        return self

    def leave(self) -> bool:
        """Remove one owner if there are several; return whether there were several."""
        with self.lock:
            several = self.owners > 1
            self.owners -= several
            return several


class GrowingCaches:
    """Caches of one sequence for a program that was built with ``Options(state=...)``.

    A call takes the other inputs of the program, extends the caches and returns the other results.
    Buffers grow by doubling; a call that fails changes no cache that grows. If the program keeps
    only the last rows of a cache, earlier rows are dropped, and the size of the buffer is limited
    by the rows of a call. Caches of a fixed size are initialized with zeros, and a call updates
    some of their elements; a call that fails may have updated them. Several threads may use
    different states of one program concurrently.

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
        every = [Cache(**entry) for entry in manifest.get("state", ())]
        if not every:
            raise BadInput(
                "state: the program extends no caches in place; build it with "
                "Options(state=[...]), the names of inputs that results extend"
            )
        self._caches = [c for c in every if c.length]
        self._fixed = [c for c in every if not c.length]
        self._signature: list[tuple[str, list[str], str]] = manifest["inputs"]
        self._inputs = {n: (d, t) for n, d, t in self._signature}
        self._first = self._signature[0][0]
        # Caches by group; those of one group always have the same number of rows.
        self._groups: dict[_Group, list[Cache]] = {}
        for c in self._caches:
            self._groups.setdefault((c.rows, c.length, c.kept), []).append(c)
        self._lock = Lock()
        self._used = dict.fromkeys((c.length for c in self._caches), 0)
        self._dropped = dict(self._used)  # number of dropped rows, by length input
        self._start = dict(self._used)  # row of `_Sliding` that holds the first used row
        scales = {c.scale for c in self._caches}
        self._named = {c.buffer: c for c in every if c.buffer not in scales}
        hidden = {c.buffer for c in every} | set(self._used)
        self._given = [n for n in self._inputs if n not in hidden]
        # Signature entries that determine the dims of a call: the inputs that the caller passes,
        # and one length input per distinct length dim.
        lengths = {tuple(self._inputs[c.length][0]): c.length for c in self._caches}
        bound = {*self._given, *lengths.values()}
        self._bound_by = [entry for entry in self._signature if entry[0] in bound]
        rows = self._asked = integer("capacity", capacity, 0, MOST)
        self._buffers = self._allocated(dict.fromkeys((c.buffer for c in self._caches), rows))

    def __repr__(self) -> str:
        return f"<tvm_disc state of {len(self._named)} caches, {self.length} rows>"

    @property
    def length(self) -> int:
        """The rows of the longest cache that grows; 0 if there is none."""
        return max(self._used.values(), default=0)

    @property
    def capacity(self) -> int:
        """The rows that the smallest buffer of a cache that grows can hold; 0 if there is none."""
        return min((self._rows_of(c) for c in self._caches), default=0)

    def __call__(self, /, *args: Argument, **kwargs: Argument) -> Any:
        """Run the program on its other inputs, and extend the caches.

        Raises:
            BadInput: a missing or unknown input, or one with a wrong shape or dtype.
            GuardFailed: shapes that the program was not compiled for.
        """
        with self._lock:
            values, rows = self._arguments(args, kwargs)
            result = self._call(values)
            for (_, length, _), (count, kept) in rows.items():
                self._used[length] = kept
                self._dropped[length] += count - kept
                self._start[length] += count - kept
            return result

    def profile(self, /, *args: Argument, repeat: int = 30, **kwargs: Argument) -> Profile:
        """Time calls kernel by kernel, as :meth:`.Executable.profile` does; the caches do not
        change.

        Every call begins with the same caches, and the rows that it appends are discarded. Caches
        of a fixed size are copied, and the calls update the copies.

        Args:
            repeat: the number of calls whose times are kept.

        Raises:
            BadInput: as for a call.
        """
        with self._lock:
            values, _ = self._arguments(args, kwargs)
            if not self._fixed:
                return self._profile(*values, repeat=repeat)
            copies = {c.buffer: np.array(self._buffers.arrays[c.buffer]) for c in self._fixed}
            owned = [copies.get(n, v) for n, v in zip(self._inputs, values, strict=True)]
            return self._profile(OwnedArguments(tuple(owned)), repeat=repeat)

    def run(
        self,
        given: Mapping[str, Argument],
        most: int,
        steps: Callable[[Arrays, dict[str, int]], int],
    ) -> None:
        """Prepare the buffers for up to ``most`` calls, and run ``steps``, which makes the calls.

        Args:
            given: the other inputs; all calls use these arrays.
            most: the maximum number of calls.
            steps: receives the buffers by their input names and the numbers of used rows by length
                input. Each of its calls must extend every cache by one row. It returns the number
                of calls.
        """
        with self._lock:
            rows = self._grown(given)
            for (_, length, kept), (count, _) in rows.items():
                if kept or count != self._used[length] + 1:
                    raise BadInput("state: expected inputs that extend every cache by one row")
            last = {key: self._used[key[1]] + most for key in rows}
            self._reserve({key: (count, count) for key, count in last.items()})
            made = steps(self._buffers.arrays, self._used)
            self._used = {n: used + made for n, used in self._used.items()}

    def _arguments(
        self, args: Sequence[Argument], kwargs: Mapping[str, Argument]
    ) -> tuple[tuple[Argument, ...], dict[_Group, tuple[int, int]]]:
        """Return the arguments of the program, and for each group the number of rows after the call
        and the number of kept rows.
        """
        given = dict(zip(self._given, ordered(self._given, args, kwargs), strict=True))
        rows = self._grown(given)
        self._reserve(rows)
        shared = {used: np.empty(used, np.int8) for used in set(self._used.values())}
        lengths = {n: shared[used] for n, used in self._used.items()}
        values = {**given, **self._buffers.tensors, **lengths}
        for c in self._caches:
            if c.kept:
                values[c.buffer] = _tensor(self._array(c))
        for c in (*self._caches, *self._fixed):
            if c.buffer == self._first:  # results get the type of the first argument
                values[c.buffer] = self._array(c)
        return tuple([values[n] for n in self._inputs]), rows

    def reset(self) -> None:
        """Empty the caches. Buffers keep their capacity; caches of a fixed size are set to
        zeros.
        """
        with self._lock:
            self._keep(0)
            if not self._fixed:
                return
            if self._buffers.owners > 1:
                buffers = self._allocated({c.buffer: self._rows_of(c) for c in self._caches})
                self._buffers.leave()
                self._buffers = buffers
            else:
                for c in self._fixed:
                    self._buffers.arrays[c.buffer].fill(0)

    def truncate(self, rows: int) -> None:
        """Keep the first ``rows`` of every cache that grows.

        Raises:
            BadInput: ``rows`` is negative or larger than ``length``; or a cache has dropped rows,
                which a shorter cache would need, and ``rows`` is neither 0 nor ``length``.
        """
        if isinstance(rows, bool) or not isinstance(rows, int) or not 0 <= rows <= self.length:
            raise BadInput(f"rows: expected 0 .. {self.length}, found {shown(rows)}")
        with self._lock:
            if 0 < rows < self.length and any(self._dropped.values()):
                raise BadInput(
                    f"rows: expected 0 or {self.length}, found {rows}: a cache has dropped its "
                    "first rows and cannot be shortened; call fork() before rows are dropped"
                )
            self._keep(rows)

    def _keep(self, rows: int) -> None:
        self._used = {n: min(used, rows) for n, used in self._used.items()}
        if rows == 0:
            self._start, self._dropped = dict(self._used), dict(self._used)

    def fork(self) -> GrowingCaches:
        """Return an independent state with the same caches. Both states share the buffers; the
        state that writes first makes a copy.
        """
        with self._lock:
            made = GrowingCaches.__new__(GrowingCaches)
            vars(made).update(vars(self))
            made._lock, made._used = Lock(), dict(self._used)
            made._start, made._dropped = dict(self._start), dict(self._dropped)
            made._buffers = self._buffers.shared()
            return made

    def cache(self, name: str) -> np.ndarray:
        """Return a copy of the used rows of a cache, by input name; int8 caches are dequantized.

        If the cache has a fixed size, all its elements are returned.
        """
        c = self._named.get(name)
        if c is None:
            raise BadInput(f"name: expected one of {list(self._named)}, found {shown(name)}")
        if not c.length:
            return np.array(self._buffers.arrays[name])
        rows = self._prefix(c)
        if not c.scale:
            return np.array(rows)
        scale = next(x for x in self._caches if x.buffer == c.scale)
        with np.errstate(invalid="ignore"):  # elements that are not finite
            wide: np.ndarray = rows.astype(np.float32) * self._prefix(scale)
        return wide

    def _allocated(self, rows: Mapping[str, int], made: Arrays | None = None) -> _Buffers:
        """Return buffers for all caches: the arrays of ``made``, and new ones with the given
        numbers of rows. New buffers of a fixed size are zeros.
        """
        arrays, sliding = dict(made or {}), {}
        for c in self._fixed:
            if c.buffer not in arrays:
                dims, dtype = self._inputs[c.buffer]
                shape = [self._size(c.buffer, dim) for dim in dims]
                arrays[c.buffer] = np.zeros(shape, numpy_dtype(dtype))
        for c in self._caches:
            dims, dtype = self._inputs[c.buffer]
            shape = [
                rows[c.buffer] if axis == c.axis else self._size(c.buffer, dim)
                for axis, dim in enumerate(dims)
            ]
            if c.kept:
                sliding[c.buffer] = _Sliding(c, shape, dtype)
            elif c.buffer not in arrays:
                arrays[c.buffer] = np.empty(shape, numpy_dtype(dtype))
        return _Buffers(arrays, sliding)

    def _array(self, cache: Cache) -> np.ndarray:
        """Return the buffer of a cache; its first rows are the used rows."""
        if cache.kept:
            return self._buffers.sliding[cache.buffer].at(self._start[cache.length])
        return self._buffers.arrays[cache.buffer]

    def _size(self, name: str, dim: str) -> int:
        try:
            return evaluate(dim, self._dims)
        except KeyError as missing:
            raise BadInput(
                f"state: the cache {name!r} has the dim {missing}, whose size is not known: "
                f"pass it by name, as in state({missing.args[0]}=1)"
            ) from None

    def _rows_of(self, cache: Cache) -> int:
        if cache.kept:
            return self._buffers.sliding[cache.buffer].most
        return int(self._buffers.arrays[cache.buffer].shape[cache.axis])

    def _grown(self, given: Mapping[str, Argument]) -> dict[_Group, tuple[int, int]]:
        """Return for each group the number of rows after the call, and the number of kept rows."""
        shapes: dict[str, Sequence[int]] = {n: _shape_of(x) for n, x in given.items()}
        own = {n: (self._used[n],) for n, _, _ in self._bound_by if n in self._used}
        dims = bound_dims(self._bound_by, shapes | own)
        grown: dict[_Group, tuple[int, int]] = {}
        for key, (cache, *_) in self._groups.items():
            try:
                rows = max(evaluate(cache.rows, dims), self._used[cache.length])
                kept = min(rows, max(0, evaluate(cache.kept, dims))) if cache.kept else rows
                grown[key] = rows, kept
            except KeyError as missing:
                raise BadInput(
                    f"state: after the call, the cache {cache.buffer!r} has {cache.rows} rows, but "
                    f"no input of this call defines {missing}; pass an input with this dim"
                ) from None
        return grown

    def _reserve(self, grown: Mapping[_Group, tuple[int, int]]) -> None:
        """Ensure that the buffers hold the rows of each group and are not shared with other
        states.
        """
        rows = {c.buffer: grown[key][0] for key, group in self._groups.items() for c in group}
        fits = {c.buffer: self._fits(c, rows[c.buffer]) for c in self._caches}
        alone = self._buffers.owners == 1
        if alone and all(fits.values()):
            return
        old = {c.buffer: self._prefix(c) for c in self._caches}
        made: Arrays = {}
        for c in self._fixed:
            array = self._buffers.arrays[c.buffer]
            made[c.buffer] = array if alone else np.array(array)
        for c in self._caches:
            name, capacity = c.buffer, self._rows_of(c)
            if capacity < rows[name]:
                rows[name] = max(rows[name], 2 * capacity, FIRST_CAPACITY)
            elif c.kept and not capacity <= self._limit(rows[name]):
                rows[name] = max(2 * rows[name], FIRST_CAPACITY, self._asked)
            else:
                rows[name] = capacity
                if alone and not c.kept:
                    made[name] = self._buffers.arrays[name]
        kept = set(made)
        buffers, before = self._allocated(rows, made), self._buffers
        self._buffers = buffers
        self._start = dict.fromkeys(self._start, 0)
        for c in self._caches:
            if c.buffer not in kept:
                self._prefix(c)[...] = old[c.buffer]
        before.leave()  # only after the copies: the last owner writes to the old buffers in place

    def _fits(self, cache: Cache, rows: int) -> bool:
        """Return whether the buffer of a cache can hold ``rows`` and, if it slides, is not too
        large.
        """
        capacity = self._rows_of(cache)
        if not cache.kept:
            return capacity >= rows
        return rows <= capacity <= self._limit(rows) and self._start[cache.length] <= capacity

    def _limit(self, rows: int) -> int:
        """Return the maximum size, in rows, of a sliding buffer for a call with ``rows``."""
        return max(SPARE * rows, FIRST_CAPACITY, self._asked)

    def _prefix(self, cache: Cache) -> np.ndarray:
        """Return the used rows of a cache, as a view."""
        used = self._used[cache.length]
        if cache.kept:
            return self._buffers.sliding[cache.buffer].rows(self._start[cache.length], used)
        at = [slice(None)] * (cache.axis + 1)
        at[cache.axis] = slice(0, used)
        rows: np.ndarray = self._buffers.arrays[cache.buffer][tuple(at)]
        return rows


def _tensor(array: np.ndarray) -> object:
    """Return a TVM tensor that shares the memory of an array."""
    made = as_tensor(array)
    return tvm_ffi.from_dlpack(array) if made is array else made


def _shape_of(value: object) -> tuple[int, ...]:
    given = value if hasattr(value, "shape") else np.asarray(value)
    return tuple(int(size) for size in given.shape)


__all__ = ["GrowingCaches"]
