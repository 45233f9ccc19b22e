"""From TIR to machine code: units become objects, and objects a library of this process."""

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
from tvm_disc.deadline import stack_of_builds
from tvm_disc.errors import OutOfResources
from tvm_disc.faults import check_memory, disk_full, file_limit, is_full, no_thread
from tvm_disc.locks import Lock
from tvm_disc.processor import cores
from tvm_disc.store import Store
from tvm_disc.tir.llvm_ops import link

Module: TypeAlias = Any
# Statement simplification is left out on purpose: it would inline the bindings by which kernels
# share values, and everything else it does LLVM does as well. Vector code is written as such.
_INTERFACE = (T.SplitHostDevice, T.MakePackedAPI)
_LOWERING = (T.LowerTVMBuiltin, T.LowerIntrin)
# Of what this file does with TIR: objects that an older one made are not taken for its own.
_FORMAT = 1
# From so much TIR on, as JSON, which takes LLVM three seconds, a process beside us is worth its
# start (docs/performance.md, Builds).
HELPED_BYTES = 9 << 20
_PACKED = "__tvm_ffi_"  # how symbols of packed functions begin
# Whoever links here, and how it is told that a library's functions call each other directly.
_DIRECT = ("-Bsymbolic", "-z", "now", "-z", "noexecstack")
LINKERS = (
    ("ld", *_DIRECT),
    *((driver, *(f"-Wl,{option}" for option in _DIRECT)) for driver in ("cc", "gcc", "clang")),
)


@dataclass(frozen=True)
class MachineCode:
    """The code of a program for one target.

    Attributes:
        objects: relocatable objects, which refer to each other by names.
        called: the names by which functions are called through TVM's interface.
        emitted: gives the TIR that the objects were made of.
    """

    target: Any
    objects: Sequence[bytes]
    called: Sequence[str]
    emitted: Callable[[], Emitted]

    @cached_property
    def module(self) -> Module:
        """The code in this process, ready to be called."""
        found = _linked(self.objects, self.called)
        return self._whole if found is None else found

    @cached_property
    def _whole(self) -> Module:
        """What LLVM makes of the program as one module."""
        return compile_tir(self.emitted().module, self.target)

    def write(self, folder: Path, stem: str) -> list[Path]:
        """The objects as files."""
        return _written(self.objects, folder, stem)

    def source(self, kind: str) -> str:
        """The code as text: ``ll`` for LLVM IR, ``asm`` for assembly.

        raises: TypeError or RuntimeError for another kind.
        """
        whole = self._whole
        with _LLVM:
            return str(whole.inspect_source(kind))


def compile_program(
    emitted: Emitted, target: Any, store: Store | None, begun: Compiling | None = None
) -> MachineCode:
    """The machine code of a program; what ``store`` has of it is not compiled again.

    Without a store LLVM sees the program as a whole.

    Args:
        begun: what was begun while the program was made.
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
    """Units on their way to objects, by LLVM here and, of a large program, in a process beside us,
    while the rest of the program is made.

    Lowering stays with the caller, since it runs in Python; LLVM does not. Without a store nothing
    is begun: the program is compiled as a whole.

    Args:
        say: is told why there is no other process, if there should be one.
    """

    def __init__(
        self, target: Any, store: Store | None, say: Callable[[str], None] = lambda text: None
    ) -> None:
        self._target, self._told, self._say = target, context_text(), say
        self._store = None if self._told is None else store
        self._objects: dict[str, Future[bytes]] = {}
        self._units: dict[str, str] = {}  # of kernels whose code is there, by their symbols
        self._context = tvm.transform.PassContext.current()
        # A thread for each of those that compile: LLVM here, which is None, and in a helper.
        self._workers = ThreadPoolExecutor(2, "tvm_disc LLVM")
        self._free: SimpleQueue[Helper | None] = SimpleQueue()
        self._free.put(None)
        self._helper: Helper | None = None
        self._size = 0  # of what LLVM was given
        self._ended = False

    @property
    def idle(self) -> bool:
        """Whether objects are not made in units."""
        return self._store is None

    def begin(self, unit: Unit) -> None:
        """Have this object made, unless it is there or on its way."""
        key = self._key_of(unit.key)
        if self._store is None or self._is_begun(self._store, key):
            return
        lowered = lower_unit(unit, self._target)
        self._objects[key] = self._submitted(self._store, key, lowered)
        self._help(unit.size)

    def _submitted(self, store: Store, key: str, lowered: Module) -> Future[bytes]:
        """Return an object on its way; it is complete if no thread can be started to make it."""
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
        """The name under which a kernel is called whose code is there, by what it is made from."""
        if self._store is None:
            return None
        known = Known.of(self._store.get(self._key_of(making)))
        if known is None or not self._is_begun(self._store, self._key_of(known.unit)):
            return None
        self._units[known.symbol] = known.unit
        return known.symbol

    def tell(self, making: str, unit: Unit) -> None:
        """Whoever makes the same kernel again is to find this unit, of one function for others."""
        if self._store is not None:
            [symbol] = unit.outside
            self._store.put(self._key_of(making), Known(symbol, unit.key).to_bytes())

    def finished(self, emitted: Emitted) -> list[bytes]:
        """The objects of a program, when they are there. raises: what making one raised."""
        units = [unit.key for unit in emitted.units]
        units += [self._units[symbol] for symbol, _ in emitted.known.values()]
        return [self._objects[self._key_of(unit)].result() for unit in dict.fromkeys(units)]

    def _is_begun(self, store: Store, key: str) -> bool:
        """Whether an object is there or on its way."""
        if key not in self._objects and (found := store.get(key)) is not None:
            self._objects[key] = Future()
            self._objects[key].set_result(found)
        return key in self._objects

    def _key_of(self, text: str) -> str:
        return _key(text, self._target, self._told or "")

    def __enter__(self) -> Compiling:
        return self

    def __exit__(self, *_: object) -> None:
        """Begin nothing more; what LLVM is at here goes on to its end, and is kept."""
        self._ended = True
        self._workers.shutdown(wait=False, cancel_futures=True)
        if self._helper is not None:
            self._helper.close()

    def _help(self, size: int) -> None:
        """Once there is enough to compile, have a process beside us compile as well."""
        enough = self._size < HELPED_BYTES <= self._size + size
        self._size += size
        if not enough or cores() == 1 or self._context.config:
            return
        try:
            self._helper = Helper(self._target)
        except OSError as error:
            self._say(f"LLVM runs in one thread: no process can be started beside it ({error})")
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
        """The object of a module, made here or, as long as it can, by a helper."""
        found = None if helper is None or self._ended else helper.object_of(lowered)
        if found is not None:
            return found
        if self._ended:
            raise CancelledError
        with self._context:  # which belongs to a thread
            return _object_of(lowered, self._target)


def compile_tir(mod: Module, target: Any) -> Module:
    """Lower and compile a TIR module for a CPU target, as a whole."""
    return _generated(_lowered(mod, target, ()), target)


def lower_unit(unit: Unit, target: Any) -> Module:
    """One unit, as LLVM takes it."""
    return _lowered(unit.module, target, unit.outside)


def _lowered(mod: Module, target: Any, outside: Iterable[str]) -> Module:
    mod = T.BindTarget(target.with_host(target))(link(mod, target))
    mod = tvm.transform.Sequential([p() for p in _INTERFACE])(mod)
    for name in outside:  # after the interface is made, which only callers from elsewhere need
        mod[name] = mod[name].with_attr("global_symbol", name)
    return tvm.transform.Sequential([p() for p in _LOWERING])(mod)


# TVM sets options of LLVM's command line when it enters LLVM, and takes them back when it leaves.
# They hold for the process, and say what may alias: another thread would compile without them.
_LLVM = Lock()


def _generated(lowered: Module, target: Any) -> Module:
    check_memory(lambda: len(tvm.ir.save_json(lowered)))
    with _LLVM:
        return tvm.get_global_func("target.build.llvm")(lowered, target)


def _object_of(lowered: Module, target: Any) -> bytes:
    """Return the object file of a lowered module.

    Raises:
        OutOfMemory: LLVM may need more memory than the process may have.
        OutOfResources: a limit on file sizes, and no other process can compile without it.
    """
    limit = file_limit()
    if limit is not None:
        return _object_beside(lowered, target, limit)
    with _LLVM:
        return object_file(_generated(lowered, target))


def _object_beside(lowered: Module, target: Any, limit: int) -> bytes:
    """Return the object file that another process makes, under a limit on the size of files.

    LLVM calls ``abort`` if it reaches the limit, which holds for files in memory, too.
    """
    found, why = None, "it ended"
    if tvm.transform.PassContext.current().config:
        why = "it cannot be given the configuration of the PassContext"
    else:
        try:
            with closing(Helper(target)) as helper:
                found = helper.object_of(lowered)
        except OSError as error:
            why = str(error)
    if found is None:
        raise OutOfResources(
            f"machine code: files of this process may have {limit} bytes (ulimit -f), LLVM would "
            f"end the process at that size, and another process did not compile instead ({why}); "
            "raise the limit"
        )
    return found


def _key(made_from: str, target: Any, context: str) -> str:
    """What an object depends on beside what it is made from."""
    versions = (str(_FORMAT), tvm.__version__, tvm_ffi.__version__)
    told = (*versions, str(target), context, made_from)
    return hashlib.blake2b("\0".join(told).encode(), digest_size=20).hexdigest()


def context_text() -> str | None:
    """What the ``PassContext`` around a build tells TVM's passes; None if no text tells it."""
    found = tvm.transform.PassContext.current()
    told: list[Any] = [found.opt_level, [*found.required_pass], [*found.disabled_pass]]
    try:
        told += sorted((str(k), tvm.ir.save_json(v)) for k, v in found.config.items())
    except (RuntimeError, TypeError, ValueError):  # a pass of the user's own
        return None
    return repr(told)


def _written(objects: Sequence[bytes], folder: Path, stem: str) -> list[Path]:
    """Return the paths of files that hold objects.

    Raises:
        OutOfResources: the disk is full; names the folder and the bytes of all objects.
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
    """The objects as a library of this process; None where nothing can link them or load it.

    So it is, too, if the library lacks a function that is called from Python. What they call of the
    system and of TVM this process has already.
    """
    linker = _linker()
    if linker is None:
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="tvm_disc.") as folder:
            # The system's loader knows libraries by name and inode: this one is its own.
            library = Path(folder) / "program.so"
            paths = map(str, _written(objects, Path(folder), "unit"))
            command = [*linker, "-shared", "-o", str(library), *paths]
            if make(command, library) is not None:
                return None
            # TVM would keep it for as long as the process runs; functions of it hold it.
            module = tvm_ffi.load_module(library, keep_module_alive=False)
            return module if all(map(module.implements_function, called)) else None
    except TimeoutError:  # raised by a handler of a signal
        raise
    # A full disk, or a folder from which no code may be run: LLVM compiles into memory instead.
    except (OSError, RuntimeError, OutOfResources):
        return None


def _called(emitted: Emitted) -> list[str]:
    """The names by which functions of a program are called through TVM's interface."""
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
