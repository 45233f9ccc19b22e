"""From TIR to machine code: units become objects, and objects a library of this process."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

import tvm
import tvm_ffi
from tvm.tirx import transform as T

from tvm_disc.codegen.units import Emitted, Unit
from tvm_disc.deadline import stack_of_builds
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
    """

    emitted: Emitted
    target: Any
    objects: Sequence[bytes]

    @cached_property
    def module(self) -> Module:
        """The code in this process, ready to be called."""
        found = _linked(self.objects)
        return compile_tir(self.emitted.module, self.target) if found is None else found

    def write(self, folder: Path, stem: str) -> list[Path]:
        """The objects as files."""
        return _written(self.objects, folder, stem)

    def source(self, kind: str) -> str:
        """The code as text: ``ll`` for LLVM IR, ``asm`` for assembly.

        raises: TypeError or RuntimeError for another kind.
        """
        return str(compile_tir(self.emitted.module, self.target).inspect_source(kind))


def compile_program(
    emitted: Emitted, target: Any, store: Store | None, begun: Compiling | None = None
) -> MachineCode:
    """The machine code of a program; what ``store`` has of it is not compiled again.

    Without a store LLVM sees the program as a whole.

    Args:
        begun: what was begun while the program was made.
    """
    if store is None:
        return MachineCode(emitted, target, [_object(compile_tir(emitted.module, target))])
    with begun or Compiling(target, store) as compiling:
        for unit in emitted.units:
            compiling.begin(unit)
        return MachineCode(emitted, target, [compiling.finished(u) for u in emitted.units])


class Compiling:
    """Units on their way to objects, on all cores while the rest of a program is made.

    Lowering stays with the caller, since it runs in Python; LLVM does not. Without a store nothing
    is begun: the program is compiled as a whole.
    """

    def __init__(self, target: Any, store: Store | None) -> None:
        self._target, self._store = target, store
        self._objects: dict[str, Future[bytes]] = {}
        # Options for LLVM's command line hold for a process: one build at a time may set them.
        alone = "cl-opt" in target.attrs
        self._context = tvm.transform.PassContext.current()
        self._workers = ThreadPoolExecutor(1 if alone else cores(), "tvm_disc LLVM")

    def begin(self, unit: Unit) -> None:
        """Have this object made, unless it is there or on its way."""
        if self._store is None or (key := _key(unit, self._target)) in self._objects:
            return
        found = self._store.get(key)
        if found is None:
            lowered = _lowered(unit.module, self._target, unit.outside)
            with stack_of_builds():  # of the thread that this may start
                self._objects[key] = self._workers.submit(self._made, self._store, key, lowered)
        else:
            self._objects[key] = done = Future()
            done.set_result(found)

    def finished(self, unit: Unit) -> bytes:
        """The object, when it is there. raises: what making it raised."""
        return self._objects[_key(unit, self._target)].result()

    def __enter__(self) -> Compiling:
        return self

    def __exit__(self, *_: object) -> None:
        """Begin nothing more; what LLVM is at goes on to its end, and is kept."""
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _made(self, store: Store, key: str, lowered: Module) -> bytes:
        with self._context:  # which belongs to a thread
            found = _object(_generated(lowered, self._target))
        store.put(key, found)
        return found


def compile_tir(mod: Module, target: Any) -> Module:
    """Lower and compile a TIR module for a CPU target, as a whole."""
    return _generated(_lowered(mod, target, ()), target)


def compile_unit(unit: Unit, target: Any) -> Module:
    """Lower and compile one unit."""
    return _generated(_lowered(unit.module, target, unit.outside), target)


def _lowered(mod: Module, target: Any, outside: Iterable[str]) -> Module:
    mod = T.BindTarget(target.with_host(target))(link(mod, target))
    mod = tvm.transform.Sequential([p() for p in _INTERFACE])(mod)
    for name in outside:  # after the interface is made, which only callers from elsewhere need
        mod[name] = mod[name].with_attr("global_symbol", name)
    return tvm.transform.Sequential([p() for p in _LOWERING])(mod)


def _generated(lowered: Module, target: Any) -> Module:
    return tvm.get_global_func("target.build.llvm")(lowered, target)


def _key(unit: Unit, target: Any) -> str:
    """What an object depends on."""
    told = (str(_FORMAT), tvm.__version__, tvm_ffi.__version__, str(target), unit.key)
    return hashlib.blake2b("\0".join(told).encode(), digest_size=20).hexdigest()


def _object(module: Module) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tvm_disc.") as folder:
        path = Path(folder) / "unit.o"
        module.write_to_file(str(path), "o")
        return path.read_bytes()


def _written(objects: Sequence[bytes], folder: Path, stem: str) -> list[Path]:
    paths = [folder / f"{stem}_{k}.o" for k in range(len(objects))]
    for path, data in zip(paths, objects, strict=True):
        path.write_bytes(data)
    return paths


@cache
def _linker() -> Sequence[str] | None:
    return next((command for command in LINKERS if shutil.which(command[0])), None)


def _linked(objects: Sequence[bytes]) -> Module | None:
    """The objects as a library of this process; None where nothing can link them or load it.

    What they call of the system and of TVM this process has already.
    """
    linker = _linker()
    if linker is None:
        return None
    with tempfile.TemporaryDirectory(prefix="tvm_disc.") as folder:
        # The system's loader knows libraries by name and inode: this one is its own.
        library = Path(folder) / "program.so"
        paths = map(str, _written(objects, Path(folder), "unit"))
        command = [*linker, "-shared", "-o", str(library), *paths]
        if subprocess.run(command, capture_output=True).returncode:
            return None
        try:
            return tvm.runtime.load_module(str(library))
        except (OSError, RuntimeError):  # a place from which no code may be run
            return None


__all__ = ["Compiling", "MachineCode", "compile_program", "compile_tir", "compile_unit"]
