"""From TIR to machine code: units become objects, and objects a library of this process."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

import tvm
import tvm_ffi
from tvm.tirx import transform as T

from tvm_disc.codegen.linker import make
from tvm_disc.codegen.units import Emitted, Unit
from tvm_disc.store import Store
from tvm_disc.tir.llvm_ops import link

Module: TypeAlias = Any
# Statement simplification is left out on purpose: it would inline the bindings by which kernels
# share values, and everything else it does LLVM does as well. Vector code is written as such.
_INTERFACE = (T.SplitHostDevice, T.MakePackedAPI)
_LOWERING = (T.LowerTVMBuiltin, T.LowerIntrin)
# Of what this file does with TIR: objects that an older one made are not taken for its own.
_FORMAT = 1
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
    """

    emitted: Emitted
    target: Any
    objects: Sequence[bytes]

    @cached_property
    def module(self) -> Module:
        """The code in this process, ready to be called."""
        found = _linked(self.objects, self.emitted)
        return compile_tir(self.emitted.module, self.target) if found is None else found

    def write(self, folder: Path, stem: str) -> list[Path]:
        """The objects as files."""
        return _written(self.objects, folder, stem)

    def source(self, kind: str) -> str:
        """The code as text: ``ll`` for LLVM IR, ``asm`` for assembly.

        raises: TypeError or RuntimeError for another kind.
        """
        return str(compile_tir(self.emitted.module, self.target).inspect_source(kind))


def compile_program(emitted: Emitted, target: Any, store: Store | None) -> MachineCode:
    """The machine code of a program; what ``store`` has of it is not compiled again.

    Without a store LLVM sees the program as a whole.
    """
    context = _context()
    if store is None or context is None:
        return MachineCode(emitted, target, [_object(compile_tir(emitted.module, target))])
    objects = []
    for unit in emitted.units:
        key = _key(unit, target, context)
        found = store.get(key)
        if found is None:
            found = _object(compile_unit(unit, target))
            store.put(key, found)
        objects.append(found)
    return MachineCode(emitted, target, objects)


def compile_tir(mod: Module, target: Any) -> Module:
    """Lower and compile a TIR module for a CPU target, as a whole."""
    return _compiled(mod, target, ())


def compile_unit(unit: Unit, target: Any) -> Module:
    """Lower and compile one unit."""
    return _compiled(unit.module, target, unit.outside)


def _compiled(mod: Module, target: Any, outside: Iterable[str]) -> Module:
    mod = T.BindTarget(target.with_host(target))(link(mod, target))
    mod = tvm.transform.Sequential([p() for p in _INTERFACE])(mod)
    for name in outside:  # after the interface is made, which only callers from elsewhere need
        mod[name] = mod[name].with_attr("global_symbol", name)
    mod = tvm.transform.Sequential([p() for p in _LOWERING])(mod)
    return tvm.get_global_func("target.build.llvm")(mod, target)


def _key(unit: Unit, target: Any, context: str) -> str:
    """What an object depends on."""
    versions = (str(_FORMAT), tvm.__version__, tvm_ffi.__version__)
    told = (*versions, str(target), context, unit.key)
    return hashlib.blake2b("\0".join(told).encode(), digest_size=20).hexdigest()


def _context() -> str | None:
    """What the ``PassContext`` around a build tells TVM's passes; None if no text tells it."""
    found = tvm.transform.PassContext.current()
    told: list[Any] = [found.opt_level, [*found.required_pass], [*found.disabled_pass]]
    try:
        told += sorted((str(k), tvm.ir.save_json(v)) for k, v in found.config.items())
    except (RuntimeError, TypeError, ValueError):  # a pass of the user's own
        return None
    return repr(told)


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


def _linked(objects: Sequence[bytes], emitted: Emitted) -> Module | None:
    """The objects as a library of this process; None where nothing can link them or load it.

    So it is, too, if the library lacks a function that is called from Python. What they call of the
    system and of TVM this process has already.
    """
    linker = _linker()
    if linker is None:
        return None
    with tempfile.TemporaryDirectory(prefix="tvm_disc.") as folder:
        # The system's loader knows libraries by name and inode: this one is its own.
        library = Path(folder) / "program.so"
        paths = map(str, _written(objects, Path(folder), "unit"))
        command = [*linker, "-shared", "-o", str(library), *paths]
        if make(command, library) is not None:
            return None
        try:
            module = tvm.runtime.load_module(str(library))
            return module if all(map(module.implements_function, _called(emitted))) else None
        except (OSError, RuntimeError):  # a place from which no code may be run
            return None


def _called(emitted: Emitted) -> list[str]:
    """The names by which functions of a program are called through TVM's interface."""
    functions = (*emitted.entry.values(), *emitted.support.values(), *emitted.shared.values())
    symbols = (str(f.attrs.get("global_symbol", "")) for f in functions if f.attrs)
    return [s.removeprefix(_PACKED) for s in symbols if s.startswith(_PACKED)]


__all__ = ["MachineCode", "compile_program", "compile_tir", "compile_unit"]
