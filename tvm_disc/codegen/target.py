"""Targets: what ``target=`` accepts, and what every CPU target of ours needs."""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
from typing import Any

import tvm

from tvm_disc import processor
from tvm_disc.errors import Unsupported, shown
from tvm_disc.target.isa import isa_of

# TVM gives every buffer variable its own alias type and callees others. When LLVM inlines a
# kernel into its caller the two names of one scratch buffer then count as different memory, and
# stores move past loads. Pointer parameters say what may alias; the types must not. Register-tile
# kernels fill the register file: inlined beside other code they spill, so little is inlined.
_LLVM_OPTIONS = ("-enable-tbaa:bool=false", "-inline-instr-cost:int=400")
# Loops are vectorized, unrolled and blocked when LLVM sees them: its third level takes a fifth
# longer for code of the same speed.
_OPT_LEVEL = 2
# LLVM tunes server CPUs to 256-bit vectors; our kernels are written for the full width.
_ARCHITECTURE = re.compile(
    r"(x86_64|amd64|i[3-6]86|aarch64(_be|_32)?|arm64e?|arm\w*|thumb\w*|riscv(32|64)|hexagon|wasm(32|64)"
    r"|powerpc\w*|ppc\w*|s390x|loongarch(32|64)|mips\w*)(-|$)"
)
_ATTRIBUTES = ("-prefer-256-bit",)


def host_cpu() -> str:
    """LLVM's name for the CPU this process runs on."""
    return str(tvm.get_global_func("target.llvm_get_system_cpu")())


def host_target() -> dict[str, Any]:
    """This machine as a target: its CPU, without what it, or the system, lacks of what LLVM
    knows of that; virtual machines often hide instruction sets."""
    plain = {"kind": "llvm", "mcpu": host_cpu()}
    absent = processor.lacks(instruction_sets(tvm.target.Target(plain)))
    return {**plain, "mattr": [f"-{name}" for name in absent]} if absent else plain


def instruction_sets(target: Any) -> list[str]:
    """What code for a target may use that not every processor of its architecture has."""
    known = processor.SETS.get(processor.architecture(triple_of(target.attrs)), {})
    found = {str(f) for f in tvm.get_global_func("target.llvm_get_cpu_features")(target)}
    return [name for name in known if name in found]


def resolve_targets(target: Any = None) -> list[Any]:
    """What :func:`resolve_target` makes of one target, or of each of a list.

    They come in the order of what they can do, of which a program takes the last that runs: by the
    width of their vectors, then by the number of their instruction sets, then as given.

    Raises:
        Unsupported: see there; or no target, several architectures, or one target twice.
    """
    if not isinstance(target, (list, tuple)):
        return [resolve_target(target)]
    if not target:
        raise Unsupported("target: expected at least one CPU, found an empty list")
    resolved = [resolve_target(t) for t in target]
    levels = [level_of(t) for t in resolved]
    architectures = {level.architecture for level in levels}
    if len(architectures) > 1:
        found = ", ".join(sorted(architectures))
        raise Unsupported(f"target: one library is for one architecture, found {found}")
    names = [level.name for level in levels]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Unsupported(f"target: {twice} is given twice")
    return sorted(resolved, key=lambda t: (isa_of(t).lanes_f32, len(instruction_sets(t))))


def level_of(target: Any) -> processor.Level:
    """A resolved target, as a saved program and its user call it."""
    own = [str(a) for a in target.attrs.get("mattr", []) if str(a) not in _ATTRIBUTES]
    name = " ".join([str(target.attrs.get("mcpu") or "generic"), *own])
    architecture = processor.architecture(triple_of(target.attrs))
    return processor.Level(name, architecture, tuple(instruction_sets(target)))


def runs_here(target: Any) -> bool:
    """Whether a resolved target is this very CPU."""
    return "mtriple" not in target.attrs and target.attrs.get("mcpu") == host_cpu()


def has_threads(target: Any) -> bool:
    """Whether programs for a resolved target have threads of their own: 64-bit Linux, not Android.

    Elsewhere they use those of TVM's runtime.
    """
    triple = triple_of(target.attrs)
    return "linux" in triple and "android" not in triple and "64" in triple.split("-")[0]


def triple_of(attrs: Any) -> str:
    """LLVM's name of the machine and system of a target."""
    return str(attrs.get("mtriple") or tvm.get_global_func("target.llvm_get_system_triple")())


def resolve_target(target: Any = None) -> Any:
    """A TVM target from None (this machine), a string, a dict or a target.

    A string is the classic form with options, JSON, or the name of a CPU; ``-mcpu=native`` is this
    machine's CPU.

    Where none is given, the environment variable ``DISC_TARGET`` takes the place of this machine,
    for instance ``llvm -mcpu=x86-64-v3``.

    Raises:
        Unsupported: a target that is not a CPU through LLVM, or that LLVM would not understand.
    """
    if target is None:
        target = tvm.target.Target.current(allow_none=True) or os.environ.get("DISC_TARGET")
        target = target or host_target()
    given = _as_dict(target)
    if given.get("kind") != "llvm":
        raise Unsupported(f"target: expected an llvm target, found {given.get('kind')!r}")
    given = _known_cpu(_known_triple(given))
    x86 = "mtriple" not in given or "x86" in str(given["mtriple"])
    attributes = [str(a) for a in given.get("mattr", [])]
    if x86:
        attributes += [a for a in _ATTRIBUTES if a not in attributes]
    options = [str(o) for o in given.get("cl-opt", [])]
    options += [o for o in _LLVM_OPTIONS if o not in options]
    kept = {k: v for k, v in given.items() if k not in ("mattr", "cl-opt", "keys", "tag", "host")}
    extra = {"mattr": attributes} if attributes else {}
    try:
        return tvm.target.Target({"opt-level": _OPT_LEVEL, **kept, **extra, "cl-opt": options})
    except (TypeError, ValueError) as error:
        raise Unsupported(f"target: {str(error).split('. Target creation')[0]}") from error


def _cpus(triple: str) -> list[str]:
    """The CPUs that LLVM knows of an architecture."""
    machine = tvm.target.Target({"kind": "llvm", "mtriple": triple})
    return [str(c) for c in tvm.get_global_func("target.llvm_get_cpu_archlist")(machine)]


def _as_dict(target: Any) -> dict[str, Any]:
    if isinstance(target, dict):
        return dict(target)
    if isinstance(target, (list, tuple)):
        raise Unsupported(f"target: expected one, found {len(target)}; only build takes several")
    if isinstance(target, tvm.target.Target):
        return {"kind": str(target.kind.name), **dict(target.attrs)}
    if not isinstance(target, str) or not target.strip():
        raise Unsupported(
            f"target: expected a text such as 'llvm -mcpu=x86-64-v3', a dict or a TVM target, "
            f"found {shown(target)}"
        )
    if target.lstrip().startswith("{"):
        try:
            return dict(json.loads(target))
        except (ValueError, RecursionError) as error:
            raise Unsupported(f"target: {target[:80]!r} is not JSON: {error}") from error
    try:
        words = shlex.split(target)
    except ValueError as error:
        raise Unsupported(f"target: {target!r}: {error}") from None
    if len(words) == 1 and words[0] == "llvm":
        return host_target()
    if len(words) == 1:
        cpu = words[0] == "native" or words[0] in _cpus(triple_of({}))
        return {"kind": "llvm", "mcpu": words[0]} if cpu else {"kind": words[0]}
    return _parse(words)


def _parse(words: list[str]) -> dict[str, Any]:
    """The classic ``llvm -mcpu=x -mattr=+a,+b`` form, which TVM itself no longer reads."""
    result: dict[str, Any] = {"kind": words[0]}
    if words[0] != "llvm":
        return result
    kinds = dict(tvm.get_global_func("target.ListTargetKindOptionsFromName")("llvm"))
    for word in words[1:]:
        key, _, text = word.lstrip("-").partition("=")
        if key not in kinds:
            known = ", ".join(sorted(map(str, kinds)))
            raise Unsupported(f"target: llvm has no option {word!r}; it has {known}")
        result[key] = _value(key, text, str(kinds[key]))
    return result


def _value(key: str, text: str, kind: str) -> Any:
    """What the text of an option says, as TVM types it."""
    if kind.startswith("Array"):
        if not all(text.split(",")):
            raise Unsupported(f"target: -{key} takes a list such as +a,+b, found {shown(text)}")
        return text.split(",")
    if kind == "bool" and text.lower() in ("", "0", "1", "false", "true"):
        return text.lower() not in ("0", "false")
    if kind == "int" and text.lstrip("-").isdigit():
        return int(text)
    if kind in ("bool", "int"):
        raise Unsupported(f"target: -{key} takes a value of type {kind}, found {shown(text)}")
    return text


def _known_triple(given: dict[str, Any]) -> dict[str, Any]:
    """The target, if LLVM may make code for its triple: of others TVM finds out by crashing."""
    triple = given.get("mtriple")
    if triple is not None and not _ARCHITECTURE.match(str(triple)):
        raise Unsupported(
            f"target: expected an architecture such as x86_64 or aarch64 in -mtriple, "
            f"found {str(triple)!r}"
        )
    return given


def _known_cpu(given: dict[str, Any]) -> dict[str, Any]:
    """The target with its CPU's own name; LLVM would take one it has never heard of."""
    cpu = given.get("mcpu")
    if cpu is None:
        return given
    if cpu == "native":
        host = host_target()
        attributes = [*host.get("mattr", []), *given.get("mattr", [])]
        return {**given, **host, **({"mattr": attributes} if attributes else {})}
    triple = triple_of(given)
    cpus = _cpus(triple)
    if cpus and str(cpu) not in cpus:
        near = difflib.get_close_matches(str(cpu), cpus, n=3) or cpus[-3:]
        raise Unsupported(
            f"target: LLVM knows no CPU {str(cpu)!r} for {triple}; it knows {', '.join(near)} ..."
        )
    return given
