"""Compilation of CUDA C by NVIDIA's run-time compiler, from its wheel or a CUDA installation.

The compiler needs neither a GPU nor a driver. It is not needed to run the compiled code.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tvm_disc.errors import Unsupported
from tvm_disc.target.device import GROUPS

OPTIONS = ("--std=c++17", "-default-device", "--fmad=true", "-w")


@dataclass(frozen=True)
class Image:
    """Code for one architecture: machine code, or PTX if ``portable``, for newer architectures."""

    architecture: int
    portable: bool
    data: bytes


def compile_source(source: str, architectures: Sequence[int]) -> list[Image]:
    """Return machine code for each architecture, and PTX of the first architecture for newer GPUs.

    Raises:
        Unsupported: NVRTC is not installed, does not know an architecture, or rejects the source.
    """
    library = _library()
    known = _known(library)
    for number in architectures:
        if number not in known:
            raise Unsupported(
                f"target: this NVRTC cannot compile for sm_{number}, only for "
                f"{', '.join(f'sm_{a}' for a in known)}"
            )
    groups = "disc_tensor_group_" in source
    names = {a: f"sm_{a}a" if groups and a == GROUPS else f"sm_{a}" for a in architectures}
    images = [Image(a, False, _compiled(library, source, names[a])) for a in architectures]
    first = architectures[0]
    return [*images, Image(first, True, _compiled(library, source, f"compute_{first}"))]


def is_there() -> bool:
    """Return whether NVRTC is installed."""
    return _loaded() is not None


def compile_for(source: str, architecture: str) -> bytes:
    """Return machine code for ``sm_N``, or PTX for ``compute_N``.

    Raises:
        Unsupported: NVRTC is not installed, or rejects the source or the architecture.
    """
    return _compiled(_library(), source, architecture)


def version() -> tuple[int, int]:
    """Return NVRTC's version, which is part of cache keys."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def _compiled(library: ctypes.CDLL, source: str, architecture: str) -> bytes:
    program = ctypes.c_void_p()
    text = source.encode()
    _check(library.nvrtcCreateProgram(
        ctypes.byref(program), text, b"kernels.cu", 0, None, None
    ))  # fmt: skip
    try:
        given = [f"--gpu-architecture={architecture}", *OPTIONS]
        options = (ctypes.c_char_p * len(given))(*(o.encode() for o in given))
        failed = library.nvrtcCompileProgram(program, len(given), options)
        if failed:
            raise Unsupported(f"NVRTC rejected the device code:\n{_log(library, program)}")
        kind = "PTX" if architecture.startswith("compute") else "CUBIN"
        return _result(library, program, kind)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _log(library: ctypes.CDLL, program: ctypes.c_void_p) -> str:
    log = _result(library, program, "ProgramLog").decode(errors="replace").strip("\0\n ")
    return "\n".join(log.splitlines()[:12])


def _result(library: ctypes.CDLL, program: ctypes.c_void_p, kind: str) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(library, f"nvrtcGet{kind}Size")(program, ctypes.byref(size)))
    data = ctypes.create_string_buffer(size.value)
    _check(getattr(library, f"nvrtcGet{kind}")(program, data))
    return data.raw


def _check(status: int) -> None:
    if status:
        raise Unsupported(f"NVRTC failed with status {status}")


@cache
def _known(library: ctypes.CDLL) -> tuple[int, ...]:
    count = ctypes.c_int()
    _check(library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    numbers = (ctypes.c_int * count.value)()
    _check(library.nvrtcGetSupportedArchs(numbers))
    return tuple(numbers)


def _library() -> ctypes.CDLL:
    found = _loaded()
    if found is None:
        raise Unsupported(
            'target: "cuda" needs NVIDIA\'s run-time compiler, NVRTC, which was not found; '
            "install it with pip install 'tvm_disc[cuda]'"
        )
    return found


@cache
def _loaded() -> ctypes.CDLL | None:
    for path in _places():
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def _places() -> list[str]:
    """Return candidate paths of NVRTC: in the wheels of CUDA 13 and 12, then in the system."""
    found: list[str] = []
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        spec = None
    for root in spec.submodule_search_locations or () if spec else ():
        for folder in ("cu13/lib", "cuda_nvrtc/lib"):
            paths = sorted(Path(root, folder).glob("libnvrtc.so.*"), reverse=True)
            found += [str(p) for p in paths if ".alt." not in p.name]
    system = ctypes.util.find_library("nvrtc")
    return [*found, *([system] if system else []), "libnvrtc.so.13", "libnvrtc.so.12"]


__all__ = ["Image", "compile_for", "compile_source", "is_there", "version"]
