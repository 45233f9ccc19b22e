"""A GPU that is this processor: generated CUDA C as C++, and a driver that runs it.

The programs are those of ``build(target="cuda")``, host code and all: only the last step of their
device code, from CUDA C to machine code, is another compiler's. Threads of a block are fibers
(``words.h``), memory of the device is apart (``driver.cc``).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import tvm_disc.codegen.build
from tvm_disc.codegen.cuda.nvrtc import Image
from tvm_disc.support import processor

HERE = Path(__file__).parent
_KERNEL = re.compile(r'extern "C" __global__ void __launch_bounds__\(\d+\) (\w+)\(([^)]*)\) \{')
# As on a GPU, a product and a sum are one operation, where the processor has it.
OPTIONS = ("-O1", "-std=c++17", "-fPIC", "-shared", "-w", "-ftrivial-auto-var-init=pattern",
           "-fno-strict-aliasing", "-ffp-contract=fast",
           # An index beyond an array of a thread or a block ends the process.
           "-fsanitize=bounds", "-fsanitize-undefined-trap-on-error",
           *([] if processor.lacks(["fma"]) else ["-mfma"]))  # fmt: skip

# Dynamic shared memory of a block: bytes beyond those of the launch end the process.
ROOM = """
__shared__ char disc_tensor_dynamic[(227 << 10) + 1024];
extern "C" { int emulated_room = 0; }
static uint32_t disc_tensor_room() {
  room_end = disc_tensor_address(disc_tensor_dynamic) + emulated_room;
  return (disc_tensor_address(disc_tensor_dynamic) + 1023) & ~1023u;
}
"""


@cache
def folder() -> Path:
    """Where compiled code is kept, for all processes of a run, and for later runs."""
    kept = os.environ.get("DISC_TEST_CACHE", "")
    found = Path(kept or tempfile.gettempdir()) / f"tvm_disc_emulator_{os.getuid()}"
    found.mkdir(parents=True, exist_ok=True)
    return found


def key_of(*texts: str) -> str:
    """A name for what is made of texts."""
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=12).hexdigest()


def _gxx(*arguments: str) -> None:
    done = subprocess.run(["g++", *arguments], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[:4000]


@cache
def _words() -> Path:
    """A folder with ``words.h`` as the compiler has read it, which takes longer than a kernel."""
    texts = {name: (HERE / name).read_text() for name in ("words.h", "tensor.h")}
    found = folder() / f"words_{key_of(*texts.values(), *OPTIONS)}"
    if not found.exists():
        made = found.with_name(f"{found.name}_{os.getpid()}")
        made.mkdir(exist_ok=True)
        for name, text in texts.items():
            (made / name).write_text(text)
        _gxx(*OPTIONS, "-x", "c++-header", str(made / "words.h"), "-o", str(made / "words.h.gch"))
        try:
            made.rename(found)
        except OSError:  # another process was first
            shutil.rmtree(made)
    return found


def made(
    name: str,
    ending: str,
    source: str,
    options: Sequence[str],
    libraries: Sequence[str] = (),
    also: str = "",
) -> Path:
    """A file of machine code of C++, made once; ``also`` is what else it is made of."""
    found = folder() / f"{name}_{key_of(source, *options, also)}{ending}"
    if not found.exists():
        file = found.with_name(f"{found.name}_{os.getpid()}.cc")
        new = file.with_suffix(".new")
        file.write_text(source)
        _gxx(*options, str(file), "-o", str(new), *libraries)
        new.replace(found)
        file.unlink()
    return found


def compiled(name: str, source: str, *options: str) -> Path:
    """A shared library of C++ code, made once."""
    return made(name, ".so", source, [*options, "-I", str(_words())])


def emulated_source(source: str) -> str:
    """CUDA C with words for a C++ compiler, and an entry for each function."""
    parts = ['#include "words.h"', *([ROOM] if "disc_tensor_room" in source else []), source]
    matches = list(_KERNEL.finditer(source))
    for k, match in enumerate(matches):
        name, params = match.groups()
        end = matches[k + 1].start() if k + 1 < len(matches) else len(source)
        text = source[match.end() : end]
        barriers = "__syncthreads" in text or "disc_tensor_" in text
        types = [p.rsplit(" ", 1)[0].replace("__restrict__", "") for p in params.split(", ")]
        given = ", ".join(f"*({t}*)args[{i}]" for i, t in enumerate(types))
        parts.append(f'extern "C" void run_{name}(void** args) {{ {name}({given}); }}')
        parts.append(f'extern "C" int params_{name} = {len(types)};')
        parts.append(f'extern "C" bool barriers_{name} = {"true" if barriers else "false"};')
    return "\n".join(parts)


_sources: list[str] = []


def sources() -> list[str]:
    """The device code of programs that were built since the last call."""
    found = list(_sources)
    _sources.clear()
    return found


def compile_source(source: str, architectures: Sequence[int]) -> list[Image]:
    """In place of NVRTC: one image for each architecture, and a portable one."""
    _sources.append(source)
    library = compiled("kernels", emulated_source(source), *OPTIONS)
    data = f"emulated {library}\0".encode()
    return [*(Image(a, False, data) for a in architectures), Image(architectures[0], True, data)]


@cache
def driver() -> ctypes.CDLL:
    """The driver, which programs find by its name from now on."""
    source = (HERE / "driver.cc").read_text()
    options = ("-O1", "-std=c++17", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1")
    library = ctypes.CDLL(str(compiled("driver", source, *options)), mode=ctypes.RTLD_GLOBAL)
    for name in ("live", "launches", "waits", "copies", "calls", "handles"):
        getattr(library, f"emulated_{name}").restype = ctypes.c_uint64
    library.emulated_limit.argtypes = [ctypes.c_uint64]
    return library


@contextmanager
def emulated() -> Iterator[ctypes.CDLL]:
    """Device code is made for the emulated driver, which is as new."""
    place, before = tvm_disc.codegen.build, tvm_disc.codegen.build.compile_source
    place.compile_source = compile_source
    loaded = driver()
    loaded.emulated_device(80)
    loaded.emulated_count(1)
    loaded.emulated_order(0)
    try:
        yield loaded
    finally:
        place.compile_source = before
        loaded.emulated_refuse(0)
        loaded.emulated_fail(b"", 0)
        loaded.emulated_limit(2**64 - 1)
