"""One shared library: machine code, the constant section and the manifest.

The constants are linked in as they are and bound by a constructor when the library is loaded, so
that a process with nothing but TVM's runtime can call ``main`` at once, and several processes
share the pages.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.support import cc

from tvm_disc.errors import ArtifactError

ABI_VERSION = 3
MANIFEST_SYMBOL = "tvm_disc_manifest"
ABI_SYMBOL = "tvm_disc_abi"
SIGNATURE_SYMBOL = "tvm_disc_signature"
COMPILERS = ("cc", "gcc", "clang")

_SOURCE = """
#include <stdint.h>
const int32_t {abi_symbol} = {abi};
const char {signature_symbol}[] = {signature};
extern const char tvm_disc_constants[];
typedef struct {{ int32_t type_index; uint32_t padding; int64_t value; }} Any;
extern int __tvm_ffi_tvm_disc_bind(void*, Any*, int32_t, Any*);
__attribute__((constructor)) static void bind(void) {{
  Any argument = {{1, 0, (int64_t)(intptr_t)tvm_disc_constants}}, result = {{0, 0, 0}};
  __tvm_ffi_tvm_disc_bind(0, &argument, 1, &result);
}}
"""

_SECTION = """
.section .rodata
.globl tvm_disc_constants
.balign 64
tvm_disc_constants:
.incbin "{constants}"
.byte 0
.globl {symbol}
{symbol}:
.incbin "{manifest}"
.byte 0
.section .note.GNU-stack,"",@progbits
"""


def export(
    module: Any,
    constants: np.ndarray,
    manifest: Mapping[str, Any],
    path: Path,
    compiler: str | None = None,
) -> None:
    """Write a self-contained shared library.

    Raises:
        ArtifactError: no folder for it, no C compiler to link with, or that failed.
    """
    if not path.resolve().parent.is_dir():
        raise ArtifactError(f"{path}: there is no folder {path.resolve().parent}")
    known = COMPILERS if compiler is None else (compiler,)
    compiler = next((c for c in known if shutil.which(c)), None)
    if compiler is None:
        raise ArtifactError(
            f"saving needs a C compiler to link with; found none of {', '.join(known)}"
        )
    with tempfile.TemporaryDirectory() as folder:
        objects = _objects(compiler, Path(folder), constants, manifest)
        link = cc.cross_compiler(compiler)
        try:
            module.export_library(str(path), fcompile=link, addons=objects)
        except RuntimeError as error:
            raise ArtifactError(f"{compiler} could not link {path}: {error}") from None


def _objects(
    compiler: str, folder: Path, constants: np.ndarray, manifest: Mapping[str, Any]
) -> list[str]:
    data, text = folder / "constants.bin", folder / "manifest.json"
    constants.tofile(data)
    text.write_text(json.dumps({"abi": ABI_VERSION, "tvm": tvm.__version__, **manifest}))
    section = _SECTION.format(constants=data, manifest=text, symbol=MANIFEST_SYMBOL)
    source = _SOURCE.format(
        abi_symbol=ABI_SYMBOL,
        abi=ABI_VERSION,
        signature_symbol=SIGNATURE_SYMBOL,
        signature=json.dumps(signature_text(manifest)),
    )
    sources = {"section.S": section, "bind.c": source}
    objects = []
    for name, source in sources.items():
        file = folder / name
        file.write_text(source)
        target = file.with_suffix(".o")
        command = [compiler, "-c", "-O2", "-fPIC", str(file), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ArtifactError(f"{compiler} could not assemble {name}: {done.stderr.strip()}")
        objects.append(str(target))
    return objects


def signature_text(manifest: Mapping[str, Any]) -> str:
    """``(x: float32[n, 16]) -> (float32[n, 10])``."""
    inputs = ", ".join(f"{name}: {dtype}[{', '.join(d)}]" for name, d, dtype in manifest["inputs"])
    results = ", ".join(f"{dtype}[{', '.join(dims)}]" for dims, dtype in manifest["results"])
    return f"({inputs}) -> ({results})"


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a saved program, without running it.

    Raises:
        ArtifactError: the file is missing, no library, not ours, or of another ABI version.
    """
    if not path.exists():
        raise ArtifactError(f"{path}: no such file")
    try:
        library = ctypes.CDLL(str(path.resolve()))
        text = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, MANIFEST_SYMBOL)))
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path}: not a program saved by tvm_disc ({error})") from None
    manifest: dict[str, Any] = json.loads(text)
    if manifest.get("abi") != ABI_VERSION:
        raise ArtifactError(
            f"{path}: saved with ABI version {manifest.get('abi')}, this package reads "
            f"version {ABI_VERSION}; compile the model again"
        )
    saved, found = manifest["tvm"], tvm.__version__
    if saved.split(".")[:2] != found.split(".")[:2]:
        raise ArtifactError(
            f"{path}: saved for apache-tvm {saved}, this process has {found}; compile the model "
            "again, or install the version it was saved for"
        )
    return manifest
