"""Export of a shared library: machine code, the constant section, and the manifest at the file's
end.

The constants are part of the library and bound by a constructor when it is loaded. A process with
only TVM's runtime can therefore call ``main`` directly, and processes share the pages of the
constants.
"""

from __future__ import annotations

import shutil
import string
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_disc.abi.artifact import (
    append_manifest,
    replacing,
)
from tvm_disc.abi.manifest import ABI_VERSION, signature_text, tvm_version
from tvm_disc.codegen.elf import rename_symbols, symbols_of
from tvm_disc.codegen.entry_code import PREFIX, entry_source, own_name
from tvm_disc.codegen.linker import make
from tvm_disc.codegen.machine_code import MachineCode
from tvm_disc.codegen.threads.module import threads_code
from tvm_disc.errors import ArtifactError
from tvm_disc.support.faults import disk_full, is_full
from tvm_disc.support.processor import Level
from tvm_disc.support.store import Store

ABI_SYMBOL = "tvm_disc_abi"
SIGNATURE_SYMBOL = "tvm_disc_signature"
COMPILERS = ("cc", "gcc", "clang")
_PLAIN = {"x86_64": ["-march=x86-64"], "aarch64": ["-march=armv8-a"]}
_SOURCE = """
#include <stdint.h>
const int32_t {abi_symbol} = {abi};
const char {signature_symbol}[] = {signature};
"""

_SECTION = """
.section .rodata
.globl tvm_disc_constants
.balign 64
tvm_disc_constants:
.incbin "{constants}"
.byte 0
.section .note.GNU-stack,"",@progbits
"""


# Characters without a special meaning in C strings: no quote, backslash or trigraph.
_PLAIN_IN_C = frozenset(
    (string.ascii_letters + string.digits + " !#$%&'()*+,-./:;<=>@[]^_`{|}~").encode()
)


def _c_string(text: str) -> str:
    """Return a string as a C string literal; bytes that are not plain characters are escaped."""
    data = text.encode("utf-8", "replace")
    return '"' + "".join(chr(b) if b in _PLAIN_IN_C else f"\\{b:03o}" for b in data) + '"'


def export(
    levels: Sequence[MachineCode],
    constants: np.ndarray,
    manifest: Mapping[str, Any],
    path: Path,
    compiler: str | None = None,
    store: Store | None = None,
) -> None:
    """Write a self-contained shared library; an existing file is replaced atomically.

    Args:
        levels: the machine code for each of the manifest's levels.
        store: cache for the code of the thread pool.

    Raises:
        ArtifactError: the path cannot be written, no C compiler was found, or linking failed.
        OutOfResources: the disk is full; the message names the folder and the required bytes.
    """
    compiler = c_compiler(compiler)
    with replacing(path) as library, tempfile.TemporaryDirectory() as folder:
        objects, entries = _code_objects(Path(folder), levels)
        if manifest["threads"]:
            # compiled for the baseline of the architecture
            threads = threads_code(manifest["threads"], store)
            objects += _renamed(threads, Path(folder), "threads")[0]
        objects += _objects(compiler, Path(folder), constants, manifest, entries)
        wrong = make([compiler, "-shared", "-fPIC", "-o", str(library), *objects], library)
        if wrong is not None:
            raise ArtifactError(f"{compiler} could not link {path}: {wrong}")
        saved = {"abi": ABI_VERSION, "tvm": tvm_version(), **manifest}
        append_manifest(library, saved, ABI_VERSION)


def c_compiler(named: str | None) -> str:
    """Return the named C compiler, or the first one that is installed.

    Raises:
        ArtifactError: none was found.
    """
    known = COMPILERS if named is None else (named,)
    found = next((c for c in known if shutil.which(c)), None)
    if found is None:
        names = f"none of {', '.join(known)}" if named is None else f"no {named}"
        raise ArtifactError(
            f"linking needs a C compiler; found {names} on the PATH: install it, or name another "
            "compiler"
        )
    return found


def _code_objects(folder: Path, levels: Sequence[MachineCode]) -> tuple[list[str], list[str]]:
    """Return the objects of every level with symbols renamed, and the function names that they
    define.
    """
    objects: list[str] = []
    found: set[str] = set()
    for number, code in enumerate(levels):
        paths, names = _renamed(code, folder, number)
        objects += paths
        found.update(n.removeprefix(PREFIX) for n in names if n.startswith(PREFIX))
    return objects, sorted(found)


def _renamed(code: MachineCode, folder: Path, level: int | str) -> tuple[list[str], list[str]]:
    """Write objects with renamed symbols; return their paths and the functions' original names."""
    paths = code.write(folder, f"level_{level}")
    symbols = [symbol for path in paths for symbol in symbols_of(path) if symbol.defined]
    names = {symbol.name: own_name(level, symbol.name) for symbol in symbols}
    for path in paths:
        rename_symbols(path, lambda symbol: names.get(symbol.name))
    return [str(path) for path in paths], [s.name for s in symbols if not s.variable]


def _objects(
    compiler: str,
    folder: Path,
    constants: np.ndarray,
    manifest: Mapping[str, Any],
    entries: Sequence[str],
) -> list[str]:
    data = folder / "constants.bin"
    try:
        data.write_bytes(constants.data)
    except OSError as error:
        if is_full(error):
            raise disk_full(str(folder), constants.nbytes, error) from error
        raise
    section = _SECTION.format(constants=data)
    source = _SOURCE.format(
        abi_symbol=ABI_SYMBOL,
        abi=ABI_VERSION,
        signature_symbol=SIGNATURE_SYMBOL,
        signature=_c_string(signature_text(manifest)),
    )
    levels = [Level(v["name"], v["architecture"], v["sets"]) for v in manifest["levels"]]
    sources = {
        "section.S": section,
        "entry.c": source + entry_source(levels, entries, bool(manifest["threads"])),
    }
    objects = []
    for name, source in sources.items():
        file = folder / name
        file.write_text(source)
        target = file.with_suffix(".o")
        # The code that checks the processor must run on every processor, so set the baseline
        # explicitly: the compiler's default may be higher.
        plain = _PLAIN.get(levels[0].architecture, [])
        command = [compiler, *plain, "-c", "-O2", "-fPIC", str(file), "-o", str(target)]
        wrong = make(command, target)
        if wrong is not None:
            raise ArtifactError(f"{compiler} could not compile {name}: {wrong}")
        objects.append(str(target))
    return objects
