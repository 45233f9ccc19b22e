"""Compilation of TIR: units to objects, and objects to a library loaded in this process."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

import tvm
import tvm_ffi
from tvm.tirx import transform as T

from tvm_disc.codegen.known import Known
from tvm_disc.codegen.linker import make
from tvm_disc.codegen.llvm_helper import Helper
from tvm_disc.codegen.llvm_process import object_file
from tvm_disc.codegen.units import Emitted, Unit
from tvm_disc.errors import OutOfResources
from tvm_disc.support.deadline import stack_of_builds
from tvm_disc.support.digests import digest_of_package
from tvm_disc.support.faults import check_memory, disk_full, file_limit, is_full, no_thread
from tvm_disc.support.locks import Lock
from tvm_disc.support.processor import cores
from tvm_disc.support.store import Store
from tvm_disc.tir.llvm_ops import link
from tvm_disc.typing import PassContext, Target

Module: TypeAlias = Any
# Statement simplification is omitted on purpose: it would inline bindings of values that kernels
# use several times, and LLVM performs its other rewrites. Vector code is generated explicitly.
_INTERFACE = (T.SplitHostDevice, T.MakePackedAPI)
_LOWERING = (T.LowerTVMBuiltin, T.LowerIntrin)
# The source of what follows after the TIR of a unit; a change gives objects other keys.
_LOWERED_BY = ("tir/", "codegen/machine_code.py", "codegen/llvm_process.py")
# Minimum size of the TIR, in bytes of JSON, for which a helper process saves time. LLVM takes
# three seconds for this size (docs/performance.md, Builds).
HELPED_BYTES = 9 << 20
_PACKED = "__tvm_ffi_"  # prefix of symbols of packed functions
# Linkers in order of preference, with options that bind calls inside the library directly.
_DIRECT = ("-Bsymbolic", "-z", "now", "-z", "noexecstack")
LINKERS = (
    ("ld", *_DIRECT),
    *((driver, *(f"-Wl,{option}" for option in _DIRECT)) for driver in ("cc", "gcc", "clang")),
)


@dataclass(frozen=True)
class MachineCode:
    """The code of a program for one target.

    Attributes:
        objects: relocatable objects, which refer to each other by symbols.
        called: names of the functions that are called through TVM's FFI.
        emitted: returns the TIR of the objects.
    """

    target: Target
    objects: Sequence[bytes]
    called: Sequence[str]
    emitted: Callable[[], Emitted]

    @cached_property
    def module(self) -> Module:
        """The code loaded in this process."""
        found = _linked(self.objects, self.called)
        return self._whole if found is None else found

    @cached_property
    def _whole(self) -> Module:
        """The code as one LLVM module, without linker; used if linking fails, and for its text."""
        return compile_tir(self.emitted().module, self.target)

    def write(self, folder: Path, stem: str) -> list[Path]:
        """Write the objects to files; return their paths."""
        return _written(self.objects, folder, stem)

    def source(self, kind: str) -> str:
        """Return the code as text: ``ll`` for LLVM IR, ``asm`` for assembly.

        Raises:
            TypeError, RuntimeError: for any other kind.
        """
        whole = self._whole
        with _LLVM:
            return str(whole.inspect_source(kind))


def compile_program(
    emitted: Emitted, target: Target, store: Store | None, begun: Compiling | None = None
) -> MachineCode:
    """Return the machine code of a program; units in ``store`` are not compiled again.

    The program is compiled as one module if there is no store, or if the current ``PassContext``
    cannot be part of a cache key.

    Args:
        begun: a compilation that was started while the program was generated.
    """
    with begun or Compiling(target, store) as compiling:
        if compiling.idle:
            objects = [_object_of(_lowered(emitted.module, target, ()), target)]
        else:
            for unit in emitted.units:
                compiling.begin(unit)
            objects = compiling.finished(emitted)
        return MachineCode(target, objects, _called(emitted), lambda: emitted)


class Compiling:
    """Compiles units concurrently, by LLVM in this process and, for large programs, also in a
    helper process.

    Lowering runs in Python, in the caller's thread; LLVM runs concurrently. If :attr:`idle`, this
    class compiles nothing, because the program is then compiled as one module.

    Args:
        say: receives the reason if a helper process could not be started.
    """

    def __init__(
        self, target: Target, store: Store | None, say: Callable[[str], None] = lambda text: None
    ) -> None:
        self._target, self._told, self._say = target, context_text(), say
        self._store = None if self._told is None else store
        self._objects: dict[str, Future[bytes]] = {}
        self._units: dict[str, str] = {}  # unit keys of kernels whose code is cached, by symbol
        self._context = _without_instruments(tvm.transform.PassContext.current())
        # One thread per compiler: None denotes LLVM in this process.
        self._workers = ThreadPoolExecutor(2, "tvm_disc LLVM")
        self._free: SimpleQueue[Helper | None] = SimpleQueue()
        self._free.put(None)
        self._helper: Helper | None = None
        self._size = 0  # bytes of TIR submitted so far
        self._ended = False

    @property
    def idle(self) -> bool:
        """Whether this object compiles nothing: there is no store, or the ``PassContext`` cannot be
        part of a cache key.
        """
        return self._store is None

    def begin(self, unit: Unit) -> None:
        """Start to compile a unit, unless its object is cached or in progress."""
        key = self._key_of(unit.key)
        if self._store is None or self._is_begun(self._store, key):
            return
        lowered = lower_unit(unit, self._target)
        self._objects[key] = self._submitted(self._store, key, lowered)
        self._help(unit.size)

    def _submitted(self, store: Store, key: str, lowered: Module) -> Future[bytes]:
        """Return the future of an object. The object is compiled synchronously if no thread can be
        started.
        """
        try:
            with stack_of_builds():
                return self._workers.submit(self._made, store, key, lowered)
        except RuntimeError as error:
            if not no_thread(error):
                raise
        found: Future[bytes] = Future()
        found.set_result(self._made(store, key, lowered))
        return found

    def known(self, making: str) -> str | None:
        """Return the symbol of a kernel whose code is cached, by the digest of its inputs, or
        None.
        """
        if self._store is None:
            return None
        known = Known.of(self._store.get(self._key_of(making)))
        if known is None or not self._is_begun(self._store, self._key_of(known.unit)):
            return None
        self._units[known.symbol] = known.unit
        return known.symbol

    def tell(self, making: str, unit: Unit) -> None:
        """Cache the key of a kernel's unit, which exports one function, under the digest of the
        kernel's inputs.
        """
        if self._store is not None:
            [symbol] = unit.outside
            self._store.put(self._key_of(making), Known(symbol, unit.key).to_bytes())

    def finished(self, emitted: Emitted) -> list[bytes]:
        """Return the objects of a program when all are complete; re-raises the first error."""
        units = [unit.key for unit in emitted.units]
        units += [self._units[symbol] for symbol, _ in emitted.known.values()]
        return [self._objects[self._key_of(unit)].result() for unit in dict.fromkeys(units)]

    def _is_begun(self, store: Store, key: str) -> bool:
        """Return whether an object is cached or in progress."""
        if key not in self._objects and (found := store.get(key)) is not None:
            self._objects[key] = Future()
            self._objects[key].set_result(found)
        return key in self._objects

    def _key_of(self, text: str) -> str:
        return _key(text, self._target, self._told or "")

    def __enter__(self) -> Compiling:
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel pending units; the unit that this process is compiling completes and is cached."""
        self._ended = True
        self._workers.shutdown(wait=False, cancel_futures=True)
        if self._helper is not None:
            self._helper.close()

    def _help(self, size: int) -> None:
        """Start the helper process once enough code has been submitted."""
        enough = self._size < HELPED_BYTES <= self._size + size
        self._size += size
        if not enough or cores() == 1 or self._context.config:
            return
        try:
            self._helper = Helper(self._target)
        except OSError as error:
            self._say(f"LLVM runs in one thread: a helper process cannot be started ({error})")
        else:
            self._free.put(self._helper)

    def _made(self, store: Store, key: str, lowered: Module) -> bytes:
        helper = self._free.get()
        try:
            found = self._compiled(helper, lowered)
        finally:
            self._free.put(helper)
        store.put(key, found)
        return found

    def _compiled(self, helper: Helper | None, lowered: Module) -> bytes:
        """Return the object of a module. The helper compiles it, or this process if the helper
        fails.
        """
        found = None if helper is None or self._ended else helper.object_of(lowered)
        if found is not None:
            return found
        if self._ended:
            raise CancelledError
        with self._context:  # a PassContext is local to its thread
            return _object_of(lowered, self._target)


def _without_instruments(given: PassContext) -> PassContext:
    """Return the pass context for threads that only run LLVM. The context has no instruments,
    because entering it would call the user's instruments from that thread.
    """
    if not given.instruments:
        return given
    config = dict(given.config)
    return tvm.transform.PassContext(
        given.opt_level, given.required_pass, given.disabled_pass, None, config
    )


def compile_tir(mod: Module, target: Target) -> Module:
    """Lower and compile a TIR module for a CPU target as one module."""
    return _generated(_lowered(mod, target, ()), target)


def lower_unit(unit: Unit, target: Target) -> Module:
    """Return a unit as lowered TIR for LLVM."""
    return _lowered(unit.module, target, unit.outside)


def _lowered(mod: Module, target: Target, outside: Iterable[str]) -> Module:
    mod = T.BindTarget(target.with_host(target))(link(mod, target))
    mod = tvm.transform.Sequential([p() for p in _INTERFACE])(mod)
    # Only now, as the functions must not get a packed interface.
    for name in outside:
        mod[name] = mod[name].with_attr("global_symbol", name)
    return tvm.transform.Sequential([p() for p in _LOWERING])(mod)


# TVM sets LLVM's command line options when it enters LLVM and resets them on exit. The options are
# global to the process and control alias analysis: a second thread would compile without them.
_LLVM = Lock()


def _generated(lowered: Module, target: Target) -> Module:
    check_memory(lambda: len(tvm.ir.save_json(lowered)))
    with _LLVM:
        return tvm.get_global_func("target.build.llvm")(lowered, target)


def _object_of(lowered: Module, target: Target) -> bytes:
    """Return the object file of a lowered module.

    Raises:
        OutOfMemory: LLVM may need more memory than the limit of the process permits.
        OutOfResources: the process has a limit on file sizes, and no process without this limit
            could compile the module.
    """
    limit = file_limit()
    if limit is not None:
        return _object_beside(lowered, target, limit)
    with _LLVM:
        return object_file(_generated(lowered, target))


def _object_beside(lowered: Module, target: Target, limit: int) -> bytes:
    """Return the object file, compiled in another process because this one has a file size limit.

    LLVM calls ``abort`` if it reaches the limit, which also applies to files in memory.
    """
    found, why = None, "it exited"
    if tvm.transform.PassContext.current().config:
        why = "the configuration of the PassContext cannot be sent to it"
    else:
        try:
            with closing(Helper(target)) as helper:
                found = helper.object_of(lowered)
        except OSError as error:
            why = str(error)
    if found is None:
        raise OutOfResources(
            f"machine code: files of this process are limited to {limit} bytes (ulimit -f), at "
            f"which LLVM would abort the process, and a helper process could not compile the code "
            f"({why}); raise the limit"
        )
    return found


def _key(made_from: str, target: Target, context: str) -> str:
    """Return the cache key of an object: its content, target, pass context, the versions of TVM,
    and the source of what follows after the TIR of a unit.
    """
    versions = (tvm.__version__, tvm_ffi.__version__, digest_of_package(*_LOWERED_BY))
    told = (*versions, str(target), context, made_from)
    return hashlib.blake2b("\0".join(told).encode(), digest_size=20).hexdigest()


def context_text() -> str | None:
    """Return the current ``PassContext`` as text for cache keys; None if it cannot be
    serialized.
    """
    found = tvm.transform.PassContext.current()
    told: list[object] = [found.opt_level, [*found.required_pass], [*found.disabled_pass]]
    try:
        told += sorted((str(k), tvm.ir.save_json(v)) for k, v in found.config.items())
    except (RuntimeError, TypeError, ValueError):  # the context contains a pass of the user
        return None
    return repr(told)


def _written(objects: Sequence[bytes], folder: Path, stem: str) -> list[Path]:
    """Write objects to files; return their paths.

    Raises:
        OutOfResources: the disk is full; the message names the folder and the bytes of all objects.
    """
    paths = [folder / f"{stem}_{k}.o" for k in range(len(objects))]
    try:
        for path, data in zip(paths, objects, strict=True):
            path.write_bytes(data)
    except OSError as error:
        if is_full(error):
            raise disk_full(str(folder), sum(map(len, objects)), error) from error
        raise
    return paths


@cache
def _linker() -> Sequence[str] | None:
    return next((command for command in LINKERS if shutil.which(command[0])), None)


def _linked(objects: Sequence[bytes], called: Sequence[str]) -> Module | None:
    """Link the objects into a shared library and return it as a loaded module.

    Returns None if linking or loading failed, or if the library lacks a function that Python calls.
    Undefined symbols are resolved against the libraries of this process.
    """
    linker = _linker()
    if linker is None:
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="tvm_disc.") as folder:
            # The dynamic loader identifies libraries by name and inode: the name must be unique.
            library = Path(folder) / "program.so"
            paths = map(str, _written(objects, Path(folder), "unit"))
            command = [*linker, "-shared", "-o", str(library), *paths]
            if make(command, library) is not None:
                return None
            # By default TVM keeps a module loaded until the process exits; here functions hold a
            # reference.
            module = tvm_ffi.load_module(library, keep_module_alive=False)
            return module if all(map(module.implements_function, called)) else None
    except TimeoutError:  # raised by a signal handler
        raise
    # A full disk, or a folder mounted noexec: LLVM compiles into memory instead.
    except (OSError, RuntimeError, OutOfResources):
        return None


def _called(emitted: Emitted) -> list[str]:
    """Return the names of functions of a program that are called through TVM's FFI."""
    functions = (*emitted.entry.values(), *emitted.support.values(), *emitted.shared.values())
    symbols = (str(f.attrs.get("global_symbol", "")) for f in functions if f.attrs)
    return [s.removeprefix(_PACKED) for s in symbols if s.startswith(_PACKED)]


__all__ = [
    "Compiling",
    "MachineCode",
    "compile_program",
    "compile_tir",
    "context_text",
    "lower_unit",
]
