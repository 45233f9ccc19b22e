"""Instruction sets of this processor, by LLVM's names.

Only sets that a code generator uses by default are listed: virtual machines often hide the others
although the processor's name implies them. Sets that every processor of an architecture has are
omitted.

``DISC_WITHOUT`` names sets to treat as absent, with ``*`` for any suffix: ``avx512*,avxvnni``.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tvm_disc.errors import BadOption, WrongProcessor

HIDDEN = "DISC_WITHOUT"


class Cpuid(NamedTuple):
    """Field that reports an instruction set: ``CPUID(leaf, subleaf)``, register 0..3 for a..d.

    If ``least`` is at most 1, the set is available if ``bit`` is set; otherwise if the byte that
    starts at ``bit`` is at least ``least``. In addition, the bits ``state`` of ``XCR0`` must be
    set, which means that the operating system saves the registers.
    """

    leaf: int
    subleaf: int
    register: int
    bit: int
    state: int = 0
    least: int = 1


class Hwcap(NamedTuple):
    """Bits by which Linux on AArch64 reports an instruction set, in ``getauxval(AT_HWCAP)`` or
    ``AT_HWCAP2``.
    """

    word: int
    mask: int


class Level(NamedTuple):
    """A processor level that code was compiled for.

    Attributes:
        name: the name that users see, such as ``x86-64-v3``.
        architecture: the processor architecture, such as ``x86_64``.
        sets: the instruction sets that the code uses.
    """

    name: str
    architecture: str
    sets: Sequence[str]

    @property
    def runs_here(self) -> bool:
        """Whether this processor has all instruction sets of the level."""
        return self.architecture == architecture() and not lacks(self.sets)


_YMM, _ZMM, _APX = 0x6, 0xE6, 0x80000
_EXTENDED = 0x80000001
X86: Mapping[str, Cpuid] = {
    "cx16": Cpuid(1, 0, 2, 13),
    "sahf": Cpuid(_EXTENDED, 0, 2, 0),
    "popcnt": Cpuid(1, 0, 2, 23),
    "sse3": Cpuid(1, 0, 2, 0),
    "ssse3": Cpuid(1, 0, 2, 9),
    "sse4.1": Cpuid(1, 0, 2, 19),
    "sse4.2": Cpuid(1, 0, 2, 20),
    "sse4a": Cpuid(_EXTENDED, 0, 2, 6),
    "avx": Cpuid(1, 0, 2, 28, _YMM),
    "f16c": Cpuid(1, 0, 2, 29, _YMM),
    "fma": Cpuid(1, 0, 2, 12, _YMM),
    "avx2": Cpuid(7, 0, 1, 5, _YMM),
    "bmi": Cpuid(7, 0, 1, 3),
    "bmi2": Cpuid(7, 0, 1, 8),
    "lzcnt": Cpuid(_EXTENDED, 0, 2, 5),
    "movbe": Cpuid(1, 0, 2, 22),
    "fma4": Cpuid(_EXTENDED, 0, 2, 16, _YMM),
    "xop": Cpuid(_EXTENDED, 0, 2, 11, _YMM),
    "tbm": Cpuid(_EXTENDED, 0, 2, 21),
    "gfni": Cpuid(7, 0, 2, 8),
    "avxvnni": Cpuid(7, 1, 0, 4, _YMM),
    "avxifma": Cpuid(7, 1, 0, 23, _YMM),
    "avxneconvert": Cpuid(7, 1, 3, 5, _YMM),
    "avxvnniint8": Cpuid(7, 1, 3, 4, _YMM),
    "avxvnniint16": Cpuid(7, 1, 3, 10, _YMM),
    "raoint": Cpuid(7, 1, 0, 3),
    "cmpccxadd": Cpuid(7, 1, 0, 7),
    "avx512f": Cpuid(7, 0, 1, 16, _ZMM),
    "avx512cd": Cpuid(7, 0, 1, 28, _ZMM),
    "avx512bw": Cpuid(7, 0, 1, 30, _ZMM),
    "avx512dq": Cpuid(7, 0, 1, 17, _ZMM),
    "avx512vl": Cpuid(7, 0, 1, 31, _ZMM),
    "avx512ifma": Cpuid(7, 0, 1, 21, _ZMM),
    "avx512vbmi": Cpuid(7, 0, 2, 1, _ZMM),
    "avx512vbmi2": Cpuid(7, 0, 2, 6, _ZMM),
    "avx512vnni": Cpuid(7, 0, 2, 11, _ZMM),
    "avx512bitalg": Cpuid(7, 0, 2, 12, _ZMM),
    "avx512vpopcntdq": Cpuid(7, 0, 2, 14, _ZMM),
    "avx512bf16": Cpuid(7, 1, 0, 5, _ZMM),
    "avx512fp16": Cpuid(7, 0, 3, 23, _ZMM),
    "avx10.1": Cpuid(7, 1, 3, 19, _ZMM),
    "avx10.2": Cpuid(0x24, 0, 1, 0, _ZMM, 2),
    **{
        name: Cpuid(7, 1, 3, 21, _APX)
        for name in ("egpr", "push2pop2", "ppx", "ndd", "ccmp", "nf", "cf", "zu")
    },
}
AARCH64: Mapping[str, Hwcap] = {
    "lse": Hwcap(0, 1 << 8),
    "fullfp16": Hwcap(0, 1 << 9 | 1 << 10),
    "rdm": Hwcap(0, 1 << 12),
    "jsconv": Hwcap(0, 1 << 13),
    "complxnum": Hwcap(0, 1 << 14),
    "rcpc": Hwcap(0, 1 << 15),
    "dotprod": Hwcap(0, 1 << 20),
    "sve": Hwcap(0, 1 << 22),
    "fp16fml": Hwcap(0, 1 << 23),
    "lse2": Hwcap(0, 1 << 25),
    "rcpc-immo": Hwcap(0, 1 << 26),
    "flagm": Hwcap(0, 1 << 27),
    "sve2": Hwcap(1, 1 << 1),
    "altnzcv": Hwcap(1, 1 << 7),
    "fptoint": Hwcap(1, 1 << 8),
    "f32mm": Hwcap(1, 1 << 10),
    "f64mm": Hwcap(1, 1 << 11),
    "i8mm": Hwcap(1, 1 << 13),
    "bf16": Hwcap(1, 1 << 14),
    "cssc": Hwcap(1, 1 << 34),
    "sve2p1": Hwcap(1, 1 << 36),
    "mops": Hwcap(1, 1 << 43),
    "rcpc3": Hwcap(1, 1 << 46),
}
SETS: Mapping[str, Mapping[str, Cpuid] | Mapping[str, Hwcap]] = {"x86_64": X86, "aarch64": AARCH64}

# Standard levels of each architecture, the best first, with their instruction sets.
_V2 = ("cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2")
_V3 = (*_V2, "avx", "f16c", "fma", "avx2", "bmi", "bmi2", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl")
PLAIN: Mapping[str, Mapping[str, Sequence[str]]] = {
    "x86_64": {"x86-64-v4": _V4, "x86-64-v3": _V3, "x86-64-v2": _V2, "x86-64": ()},
    "aarch64": {"generic": ()},
}


def cores() -> int:
    """Return the number of cores that this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


@cache
def cpu_name() -> str:
    """Return the name and model of this machine's processor, as the system reports them."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return name
    fields = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    parts = [fields.get(k, "") for k in ("model name", "cpu family", "model", "stepping")]
    return " ".join(p for p in parts if p) or name


def architecture(triple: str = "") -> str:
    """Return the architecture of a target triple, or of this machine if it is empty."""
    name = triple.partition("-")[0].lower() or platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def features() -> frozenset[str]:
    """Return the instruction sets of this processor, without those that ``DISC_WITHOUT`` hides.

    Raises:
        BadOption: the variable names a set that no processor of this architecture has.
    """
    return _features(os.environ.get(HIDDEN, ""))


@cache
def _features(hidden: str) -> frozenset[str]:
    known = SETS.get(architecture(), {})
    found = _reported(known)
    for pattern in re.split("[, ]+", hidden):
        matched = {name for name in known if pattern and _matches(name, pattern)}
        if pattern and not matched:
            raise BadOption(
                f"{HIDDEN}: unknown instruction set {pattern!r}; expected one of {', '.join(known)}"
            )
        found -= matched
    return frozenset(found)


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _reported(known: Iterable[str]) -> set[str]:
    """Return the sets among ``known`` that hardware and operating system report."""
    if architecture() == "x86_64":
        # LLVM reads CPUID and XGETBV. This function is not called for a saved program, which
        # contains the check of the processor and needs neither TVM's compiler nor LLVM.
        import tvm

        reported = tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
        return {name for name in known if bool(reported.get(name, False))}
    if architecture() == "aarch64":
        auxiliary = ctypes.CDLL(None).getauxval
        auxiliary.restype, auxiliary.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
        words = auxiliary(16), auxiliary(26)
        return {n for n, at in AARCH64.items() if words[at.word] & at.mask == at.mask}
    return set()


def lacks(needed: Iterable[str]) -> list[str]:
    """Return the instruction sets in ``needed`` that this processor lacks."""
    has = features()
    return [name for name in needed if name not in has]


def works_here() -> str:
    """Return the value of the argument ``target`` for the highest level that this processor
    supports.
    """
    levels = PLAIN.get(architecture(), {})
    best = next((cpu for cpu, needed in levels.items() if not lacks(needed)), None)
    return "llvm" if best is None else f"llvm -mcpu={best}"


def best_of(levels: Sequence[Level]) -> int:
    """Return the index of the last level that this processor supports.

    Raises:
        WrongProcessor: it supports none of the levels.
    """
    for number in reversed(range(len(levels))):
        if levels[number].runs_here:
            return number
    raise WrongProcessor(_refusal(levels))


def _refusal(levels: Sequence[Level]) -> str:
    """Return the reason why this processor supports none of the levels, and a target that it
    supports. ``codegen/entry_code`` emits the same text.
    """
    other = levels[0].architecture
    if other != architecture():
        reason = f"the program is for {other}, this machine is {architecture()}"
    else:
        parts = [f"{', '.join(lacks(v.sets))} (for {v.name})" for v in levels]
        reason = f"this processor lacks {', and '.join(parts)}"
    return f'{reason}; build the program with target="{works_here()}"'


__all__ = [
    "AARCH64",
    "HIDDEN",
    "PLAIN",
    "SETS",
    "X86",
    "Cpuid",
    "Hwcap",
    "Level",
    "architecture",
    "best_of",
    "features",
    "lacks",
    "works_here",
]
