"""A compiled program: binds inputs, calls machine code, describes it."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_disc.abi import state as fields
from tvm_disc.abi.blas import expose
from tvm_disc.abi.entries import BIND, CLOSE, DIRECT, ENTRY, POOL
from tvm_disc.abi.manifest import signature_text
from tvm_disc.errors import ArtifactError, BadInput, shown
from tvm_disc.options import MOST_THREADS, file_path
from tvm_disc.runtime.arrays import (
    CONVERTERS,
    EMPTY,
    LAYOUT,
    NDARRAY,
    SHAPES,
    arrays_are_readable,
    as_array,
    converted_tree,
    converter,
    nested,
    not_direct,
    remember,
    written_tensors,
)
from tvm_disc.runtime.code import Code, converters_of, entry_of
from tvm_disc.runtime.heap import trim_heap
from tvm_disc.runtime.inputs import (
    MOST,
    PLAIN_TYPES,
    checked_arguments,
    integer,
    ordered,
    prepared_inputs,
    sample_inputs,
    unique_names,
)
from tvm_disc.runtime.process import unlock_in_children, waits_at_the_end
from tvm_disc.runtime.saved import Saved, as_bytes
from tvm_disc.support.late import Late
from tvm_disc.support.locks import Lock
from tvm_disc.typing import Argument, Arguments

if TYPE_CHECKING:
    from tvm_disc.runtime.observed.comparison import Verified
    from tvm_disc.runtime.observed.entries import Entries, Entry
    from tvm_disc.runtime.observed.metrics import Metrics
    from tvm_disc.runtime.peaks import Peaks
    from tvm_disc.runtime.profile import Event, Profile
    from tvm_disc.runtime.state import GrowingCaches

_caches = Late("tvm_disc.runtime.state:GrowingCaches")
_closed_by_the_last = Late("tvm_disc.runtime.device:closed_by_the_last")
_checked_dims = Late("tvm_disc.runtime.summary:checked_dims")
_sizes_of = Late("tvm_disc.runtime.summary:sizes_of")
_explanation = Late("tvm_disc.runtime.explain:explanation")
_metrics = Late("tvm_disc.runtime.observed.metrics:Metrics")
_observing = Late("tvm_disc.runtime.observed.entries:observing")
_read_record = Late("tvm_disc.runtime.profile:read_record")
_shortened = Late("tvm_disc.runtime.summary:shortened")
_recovered = Late("tvm_disc.runtime.recovery:recovered")
_recorded = Late("tvm_disc.runtime.observed.recording:recorded_calls")
_restored = Late("tvm_disc.runtime.loading:restored")
_shapes_of_calls = Late("tvm_disc.runtime.observed.shape_log:shapes_of_calls")
_stored_peaks = Late("tvm_disc.runtime.peaks:stored_peaks")
_timed_rounds = Late("tvm_disc.runtime.rounds:timed_rounds")
_comparing = Late("tvm_disc.runtime.observed.comparison:comparing")
_draw = Late("tvm_disc.runtime.picture:draw")
_preserved = Late("tvm_disc.runtime.donation:preserved")
_workspace_of = Late("tvm_disc.runtime.summary:workspace_of")
_write_page = Late("tvm_disc.runtime.page:write_page")


class Executable:
    """One native program for all shapes.

    Attributes:
        signature: (name, dims as text, dtype) of every input.
        kernels: names of the kernels.
        timings: seconds per compile stage.
    """

    def __init__(
        self,
        code: Code,
        constants: np.ndarray | None = None,
        timings: Mapping[str, float] = {},
        home: Callable[[], int] = int,
        export: Callable[..., None] | None = None,
        peaks: Callable[[], Peaks | None] = _stored_peaks,
    ) -> None:
        if not isinstance(code, Code):
            raise BadInput(f"an Executable is created by build or load, not from {shown(code)}")
        self._code = code
        self._export = export  # saves the program; None if it was loaded
        self._peaks = peaks  # the measured limits of this machine
        self._verifies: Callable[..., Verified] | None = None  # None if it was loaded
        self._home = home  # address of the thread pool
        self._main: Callable[..., object] = self._first_call
        self._manifest = code.description()
        self._constants = constants
        self._saved: Saved | None = None
        self.timings = dict(timings)
        self._outputs: Any = self._manifest["outputs"]
        self._names: list[str] = unique_names([name for name, _, _ in self.signature])
        self._codec, self._structure = converters_of(self._manifest, self._names)
        self._binding = Lock()
        self._direct: Callable[..., int] = not_direct
        self._pool: Callable[..., int] | None = None
        # Cache: shapes of NumPy inputs to shapes and dtypes of results to allocate.
        self._results: dict[tuple[Any, ...], Any] = {}
        self.observers: list[Entry] = []
        self._plain = len(self._names) == 1 and isinstance(self._outputs, int)

    def __repr__(self) -> str:
        return f"<tvm_disc program {signature_text(self._manifest)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle or copy the program as the bytes of the library that ``save`` writes."""
        data = as_bytes(self.save) if self._saved is None else self._saved.read()
        return _restored.function(), (data, self.timings, self._code.wanted)

    def ready(self) -> None:
        """Prepare the machine code now; otherwise the first call does, and takes longer.

        Raises:
            ArtifactError: it cannot run here; WrongProcessor, if its code is for another processor.
        """
        with self._binding:
            if self._main == self._first_call:
                self._bind_code()

    def _first_call(self, *args: Argument) -> object:
        self.ready()
        return self._main(*args)

    def _bind_code(self) -> None:
        self._code.check()
        function = self._code.function
        try:
            main = entry_of(function(ENTRY), self._code, self._manifest, self._names)
        except TimeoutError:  # raised by a signal handler
            raise
        except Exception as error:
            raise ArtifactError(f"this program cannot run on this machine: {error}") from None
        if self._main != self._first_call:
            return  # a signal handler called the program meanwhile
        if self._constants is not None:
            function(BIND)(self._constants.ctypes.data, self._home())
        if self._manifest.get("vendor"):
            expose()
        pool = function(POOL)
        if self._manifest["direct"] and arrays_are_readable():
            self._direct = function(DIRECT)
        close: Callable[[], object] = partial(pool, 0, 0)
        if self._manifest.get("device"):
            close = _closed_by_the_last(int(pool(-1, -1)), function(CLOSE))
        # Not at process exit, where the system reclaims memory.
        weakref.finalize(self, close).atexit = False
        self._main, self._pool = main, pool
        unlock_in_children(self, int(pool(-1, -1)))
        waits_at_the_end(self)

    def ends(self, closed: Callable[[Callable[..., object]], Callable[..., object]]) -> None:
        """Replace the entry by ``closed(entry)`` for all further calls, at shutdown."""
        self._main, self._direct = closed(self._main), not_direct

    @property
    def signature(self) -> list[tuple[str, tuple[str, ...], str]]:
        """(name, dims, dtype) of every input, in order."""
        return [(n, tuple(d), t) for n, d, t in self._manifest["inputs"]]

    @property
    def inputs(self) -> list[str]:
        """The names of a call's inputs, including values of data types."""
        form = self._codec or self._structure
        return list(self._names if form is None else form.names)

    @property
    def donated(self) -> dict[int, int]:
        """The results that take the memory of donated inputs, by the positions of the inputs; of a
        program with two versions, in the general version (``explain`` prints both)."""
        found = self._manifest.get("donated", ())
        return {self._names.index(name): k for name, k, _ in found if k is not None}

    @property
    def results(self) -> list[tuple[tuple[str, ...], str]]:
        """(dims, dtype) of every result tensor, in order."""
        return [(tuple(dims), dtype) for dims, dtype in self._manifest["results"]]

    @property
    def levels(self) -> list[str]:
        """The processors that the program was compiled for, by LLVM's names, the best last."""
        return [level.name for level in self._code.levels]

    @property
    def level(self) -> str:
        """The level among ``levels`` that runs."""
        return self._code.level.name

    @property
    def kernels(self) -> list[str]:
        """The names of the program's kernels."""
        return [k["name"] for k in self._manifest["kernels"]]

    @property
    def launches(self) -> list[str]:
        """The kernel of each call in program order, with repetitions."""
        return list(self._manifest["launches"])

    @property
    def refused(self) -> list[str]:
        """The refused fusions with reasons, of the special version if there is one."""
        return list(self._manifest["refused"])

    def __call__(self, /, *args: Argument, out: Argument = None, **kwargs: Argument) -> Any:
        """Run on tensors (NumPy, DLPack or TVM), positional or by input name.

        Results are NumPy arrays, PyTorch tensors or JAX arrays if the first input is one, otherwise
        TVM tensors. They are copied only from a GPU to NumPy arrays.

        Args:
            out: tensors to write the results into, nested like the results; returned unchanged.

        Raises:
            BadInput: a missing or unknown input, a wrong rank, dtype or device.
            GuardFailed: shapes that the program was not compiled for.
            MemoryError: no memory for a result or the workspace; later calls are not affected.
        """
        if self._codec is not None:
            return self._boxed(self._codec.flatten(args, kwargs), out)
        if self._structure is not None:
            return self._structure.call(self._general, self._write, args, kwargs, out)
        if kwargs:
            args = ordered(self._names, args, kwargs)
        if out is not None:
            return self._write(args, out)
        if args and type(args[0]) is NDARRAY:
            # Kept short because each name lookup takes time: docs/runtime.md analyzes a small call.
            if self._plain:
                found = self._results.get(args[0].shape)
                if found is not None:
                    array = EMPTY(*found)
                    arrays = (array,)
                    if self._direct(LAYOUT, id(args), id(arrays)) == 0:
                        return array
            elif self._results:
                return self._on_arrays(args)
        return self._general(args)

    def _on_arrays(self, args: Arguments) -> Any:
        """Call with NumPy arrays without conversions, if the result shapes are cached."""
        try:
            found = self._results[tuple(map(SHAPES, args))]
        except (KeyError, AttributeError, TypeError):  # a new shape, or inputs that are not arrays
            return self._general(args)
        arrays = tuple([EMPTY(*fields) for fields in found])
        if self._direct(LAYOUT, id(args), id(arrays)):
            return self._general(args)
        return nested(arrays, self._outputs)

    def bind(self, /, *args: Argument, **kwargs: Argument) -> Callable[[], Any]:
        """Return a function that calls the program on these arguments and returns TVM tensors.

        This method copies inputs that are donated or not contiguous, and calls the program once.
        """
        given = _preserved(self._manifest, self._flat(args, kwargs))
        self._general(given)  # binds the machine code and reports invalid arguments
        device = bool(self._manifest.get("device"))
        return partial(self._main, *prepared_inputs(self._manifest["inputs"], given, device))

    def _boxed(self, args: Arguments, out: Argument) -> Any:
        """Call with flat arguments, if an input or the result is a boxed value."""
        if out is not None:
            raise BadInput("out: leave it out: a program with data types allocates its results")
        args = checked_arguments(self._manifest["inputs"], args)
        result = self.on_tensors(args)
        assert self._codec is not None
        convert = converter(args[0] if args else np.empty(0))
        return self._codec.rebuild(result, convert)

    def on_tensors(self, args: Sequence[Argument], outputs: Sequence[Argument] = ()) -> Any:
        """Return the results as TVM tensors, for one contiguous DLPack tensor for each input."""
        try:
            return self._main(*args, *outputs)
        except ArtifactError:
            raise
        except Exception as error:
            return _recovered(self._main, self._manifest["inputs"], args, outputs, error)

    def _general(self, args: Arguments) -> Any:
        """Call with any kind of tensors."""
        # Additional arguments must not reach the program, which would take them as result buffers.
        if len(args) != len(self._names) or not PLAIN_TYPES.issuperset(map(type, args)):
            args = checked_arguments(self._manifest["inputs"], args)
        try:
            result = self._main(*args)
        except ArtifactError:
            raise
        except Exception as error:
            result = _recovered(self._main, self._manifest["inputs"], args, (), error)
        convert = CONVERTERS.get(type(args[0])) if args else None
        if convert is None:
            convert = converter(args[0] if args else None)
        bare = isinstance(self._outputs, int)
        converted = convert(result) if bare else converted_tree(result, self._outputs, convert)
        if convert is as_array and self._direct is not not_direct:
            remember(self._results, args, converted, self._plain)
        return converted

    def _write(self, args: Arguments, out: Argument) -> Argument:
        outputs = written_tensors(out, len(self._manifest["results"]))
        self.on_tensors(checked_arguments(self._manifest["inputs"], args), outputs)
        return out

    @property
    def dispatch(self) -> dict[str, Any]:
        """The decision tree of every kernel, by its group's key, as JSON values."""
        return {k["group"]: k["choice"] for k in self._manifest["kernels"] if k.get("group")}

    def record_shapes(self, path: str | Path) -> AbstractContextManager[None]:
        """Count the input shapes of calls in this context; append them to a log for ``tune``."""
        found: AbstractContextManager[None] = _shapes_of_calls(self.observed, self._names, path)
        return found

    def record(
        self, path: str | Path, *, results: bool = True, limit: int = 100
    ) -> AbstractContextManager[None]:
        """Write the calls in this context to a ``.npz`` file, for ``tvm-disc replay``.

        Args:
            results: record the results, too; calls that raise are not recorded.
            limit: number of calls to record; further calls run unrecorded.
        """
        found: AbstractContextManager[None] = _recorded(
            self.observed, self._manifest, path, results, limit
        )
        return found

    def metrics(self, name: str = "program", *, sample: int = 100) -> Metrics:
        """Return counters of the calls in a ``with`` block, which Prometheus' client can read.

        Args:
            name: the value of the label ``program``.
            sample: one call in ``sample`` is timed to count the variants that ran; 0 times none.
        """
        read = self.memory_statistics, self.read_record
        found: Metrics = _metrics(self.observed, self._manifest, name, sample, *read)
        return found

    def observed(self, entry: Entry) -> AbstractContextManager[None]:
        """Call ``entry(main)`` instead of the program's main function in this context.

        Args:
            entry: returns a function that calls ``main`` with the arguments that it receives: one
                tensor for each input, then result buffers or the address of a record.
        """
        self.ready()
        found: AbstractContextManager[None] = _observing(self, self._binding, entry)
        return found

    def function(self, name: str) -> Callable[..., int]:
        """Return a packed function of the program by name, or raise AttributeError."""
        return self._code.function(name)

    def entries(self) -> Entries:
        """Return the entry, the entry for NumPy arrays, and the cache of result shapes."""
        return self._main, self._direct, self._results

    def set_entries(self, entries: Entries) -> None:
        """Replace the entries and the cache that :meth:`entries` returns."""
        self._main, self._direct, self._results = entries

    def verifies_by(self, function: Callable[..., Verified]) -> None:
        """Set the function that :meth:`verify` calls; called by ``build``."""
        self._verifies = function

    def verify(
        self,
        /,
        *args: Argument,
        source: object = None,
        tolerance: float = 1e-4,
        **kwargs: Argument,
    ) -> Verified:
        """Compare the results of a call with references, and find the first wrong kernel.

        The references are the same model with one kernel per operator, and the model in its
        framework if that is installed: ONNX Runtime, PyTorch, JAX or Keras. If results differ,
        every kernel is compared with its operators on the same inputs. The inputs are copied.

        Args:
            args: inputs by position, as for a call; ``kwargs`` by name.
            source: the model. It is needed if the object given to ``build`` no longer exists: the
                program refers to it weakly. An ``onnx.ModelProto`` is always needed.
            tolerance: accepted difference, relative to the largest element of a result.

        Raises:
            BadInput: the inputs are invalid for a call, or ``source`` is needed.
            Unsupported: the program was loaded, or takes or returns data types.
        """
        compare = _comparing(self._verifies, self._codec is None)
        found: Verified = compare(self, args, kwargs, self._flat(args, kwargs), source, tolerance)
        return found

    def _flat(self, args: Arguments, kwargs: Mapping[str, Argument]) -> Arguments:
        """Return the arguments in the program's flat form."""
        form = self._codec or self._structure
        if form is not None:
            return form.flatten(args, kwargs)
        return ordered(self._names, args, kwargs) if kwargs else args

    def keep_memory(self, limit_bytes: int, results_bytes: int | None = None) -> None:
        """Return all idle memory to the system, and limit the idle memory from now on.

        ``keep_memory(0)`` frees all temporary memory after each call.

        Args:
            limit_bytes: limit for workspaces; the initial limit is 1 GiB.
            results_bytes: limit for freed results; ``limit_bytes`` by default, initially 256 MiB.
        """
        limit = integer("limit_bytes", limit_bytes, 0, MOST)
        results = limit if results_bytes is None else results_bytes
        self._call_pool(limit, integer("results_bytes", results, 0, MOST))

    def trim(self) -> int:
        """Free idle workspaces and results; the limits of :meth:`keep_memory` do not change.

        Other threads may run calls meanwhile: memory in use and constants are not freed.

        Returns:
            the number of freed bytes.
        """
        words = self._state()
        before = words[fields.KEPT] + words[fields.RESULTS]
        self._call_pool(words[fields.LIMIT], words[fields.RESULT_LIMIT])
        trim_heap()
        return max(int(before - words[fields.KEPT] - words[fields.RESULTS]), 0)

    def memory_statistics(self) -> dict[str, int]:
        """Return counters of the program's memory.

        ``requests``: blocks requested, without workspaces on the stack; ``misses``: requests that
        allocated memory; ``kept``: bytes of idle blocks; ``results``: bytes of cached results; with
        ``cuda_graphs`` also ``graph_calls``, ``graphs_made``, ``graphs_evicted``, ``graph_updates``
        """
        words = self._state()
        names = ("requests", "misses", "kept", "results")
        found: dict[str, int] = {n: getattr(fields, n.upper()) for n in names}
        if self._manifest.get("graphs"):
            found |= fields.GRAPH_STATISTICS
        return {name: words[at] for name, at in found.items()}

    @property
    def threads(self) -> int:
        """Maximum number of threads per kernel; initially, and at most, the number compiled for.

        Concurrent calls share the cores, also across programs.
        """
        return int(self._state()[fields.THREADS])

    @threads.setter
    def threads(self, count: int) -> None:
        self._state()[fields.THREADS] = integer("threads", count, 1, MOST_THREADS)

    def _state(self) -> ctypes.Array[ctypes.c_int64]:
        return (ctypes.c_int64 * fields.DEVICE_STATE_WORDS).from_address(self._call_pool(-1, -1))

    def _call_pool(self, limit: int, results: int) -> int:
        # cached because the lock of TVM's runtime may be held forever after a fork
        if self._pool is None:
            self.ready()
        assert self._pool is not None
        return int(self._pool(limit, results))

    def workspace_bytes(self, shapes: Mapping[str, Sequence[int]]) -> int:
        """Return the bytes of temporary memory of one call for input shapes, without running it.

        Loops and branches may allocate more at run time, when their sizes are known.

        Raises:
            BadInput: a shape is missing or has the wrong rank, or a size formula divides by zero.
        """
        return int(_workspace_of(self._manifest, shapes))

    def state(self, capacity: int = 0, **dims: int) -> GrowingCaches:
        """Return empty caches of a program with a state; their buffers hold ``capacity`` rows."""
        found: GrowingCaches = _caches(self._general, self.profile, self._manifest, capacity, dims)
        return found

    def explain(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        picture: str | Path | None = None,
        *,
        dims: Mapping[str, int] | None = None,
        full: bool = False,
    ) -> str:
        """Return a description: kernels, variants, calls, workspace, facts, guards and refusals.

        Args:
            shapes: input shapes for which to compute bytes, and to mark the variants that run.
            picture: a file (.svg, .png or .pdf) for a graph of the kernel calls.
            dims: sizes by names of dims, instead of shapes.
            full: do not shorten lines and lists; print the formula of the workspace, and the
                predicted speed-up on 2 to 64 threads.

        Raises:
            BadInput: a shape or a dim does not fit, or the picture's suffix is unknown.
            Unsupported: a picture is requested and matplotlib is not installed.
        """
        sizes = _sizes_of(self._manifest, shapes, dims)
        if picture is not None:
            path = file_path("picture", picture)
            _draw(self._manifest["calls"], self._manifest["refused"], path, sizes)
        lines: list[str] = _explanation(self._manifest, self._code.lines(), sizes, full)
        if shapes is not None:
            lines += ["", f"workspace: {self.workspace_bytes(shapes)} bytes for {dict(shapes)}"]
        return "\n".join(lines if full else _shortened(lines))

    def explain_html(
        self,
        path: str | Path,
        *,
        dims: Mapping[str, int] | None = None,
        profile: bool = False,
    ) -> None:
        """Write the description of :meth:`explain` as one self-contained HTML page.

        Args:
            dims: sizes by names of dims, for which to compute numbers; defaults for the others.
            profile: call the program at these sizes on random inputs, and show the time per kernel.

        Raises:
            BadInput: a dim does not exist, or the file cannot be written.
            Unsupported: a profile of a program that takes data types is requested.
        """
        target = file_path("explain_html", path)
        sizes: dict[str, int] = _checked_dims(self._manifest, dims or {})
        timed = self.profile(*sample_inputs(self._manifest, sizes)) if profile else None
        try:
            _write_page(target, self._manifest, self._code.lines(), sizes, timed)
        except OSError as error:
            raise BadInput(f"explain_html: {target}: {error.strerror or error}") from None

    def profile(self, /, *args: Argument, repeat: int = 30, **kwargs: Argument) -> Profile:
        """Time calls kernel by kernel; a first warm-up call is not counted.

        A call that other processes disturbed is replaced by another call. Loaded programs can be
        profiled, too: every program contains the timers.

        Args:
            repeat: the number of calls whose times are kept.
        """
        repeat = integer("repeat", repeat, 1, MOST)
        call = self.bind(*args, **kwargs)  # a warm-up call
        room = max(64, 4 * len(self.launches))
        found: Profile = _timed_rounds(call, self.read_record, repeat, room)
        if not self._manifest.get("device"):
            found.peaks, found.threads = self._peaks(), self.threads
        return found

    def read_record(self, record: np.ndarray) -> tuple[list[Event], int]:
        """Return events and total nanoseconds of a timed call, possibly of another process."""
        found: tuple[list[Event], int] = _read_record(record, self._manifest["kernels"])
        return found

    def save(self, path: str | Path, compiler: str | None = None) -> None:
        """Write one shared library that needs only TVM's runtime.

        Args:
            compiler: the C compiler that links; for a different machine, a cross compiler such as
                ``aarch64-linux-gnu-gcc``.

        Raises:
            ArtifactError: this program was loaded, ``path`` is not writable, or linking failed.
        """
        if self._export is None:
            raise ArtifactError("a loaded program cannot be saved again; copy its file")
        if not isinstance(compiler, str | None):
            raise BadInput(f"compiler: expected the name of a C compiler, found {shown(compiler)}")
        target = file_path("save", path)
        self._export(self._code.modules, self._constants, self._code.manifest, target, compiler)

    def source(self, kind: str = "ll") -> str:
        """Return the generated code: ``ll`` for LLVM IR, ``asm`` for assembly."""
        try:
            return self._code.source(kind)
        except (RuntimeError, TypeError):
            raise BadInput(f"source: expected 'll' or 'asm', found {shown(kind)}") from None
