"""Targets: parsing of the argument ``target``, and options that every CPU target needs."""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
from typing import Any

import tvm

from tvm_disc.errors import Unsupported, shown
from tvm_disc.support import processor
from tvm_disc.target.isa import isa_of
from tvm_disc.typing import Target, TargetLike

# TVM gives buffer variables in different functions different TBAA types. After LLVM inlines a
# kernel, two variables of one scratch buffer would count as disjoint, and stores would move past
# loads. Aliasing is declared on pointer parameters, so TBAA is disabled. Register-tile kernels use
# all registers and would spill if inlined into other code, so the inlining cost is raised.
_LLVM_OPTIONS = ("-enable-tbaa:bool=false", "-inline-instr-cost:int=400")
# Loops are vectorized, unrolled and blocked before LLVM: -O3 takes 20 % longer than -O2, and its
# code is not faster.
_OPT_LEVEL = 2
_ARCHITECTURE = re.compile(
    r"(x86_64|amd64|i[3-6]86|aarch64(_be|_32)?|arm64e?|arm\w*|thumb\w*|riscv(32|64)|hexagon|wasm(32|64)"
    r"|powerpc\w*|ppc\w*|s390x|loongarch(32|64)|mips\w*)(-|$)"
)
# LLVM limits server CPUs to 256-bit vectors by default; kernels use the full width.
_ATTRIBUTES = ("-prefer-256-bit",)


def host_cpu() -> str:
    """Return LLVM's name for the CPU of this process."""
    return str(tvm.get_global_func("target.llvm_get_system_cpu")())


def host_target() -> dict[str, Any]:
    """Return this machine as a target: its CPU, and the instruction sets that it lacks as disabled
    features.

    LLVM infers instruction sets from the CPU's name, but virtual machines often hide some of them.
    """
    plain = {"kind": "llvm", "mcpu": host_cpu()}
    absent = processor.lacks(instruction_sets(tvm.target.Target(plain)))
    return {**plain, "mattr": [f"-{name}" for name in absent]} if absent else plain


def instruction_sets(target: Target) -> list[str]:
    """Return the instruction sets that code for a target may use beyond the architecture's
    baseline.
    """
    known = processor.SETS.get(processor.architecture(triple_of(target.attrs)), {})
    found = {str(f) for f in tvm.get_global_func("target.llvm_get_cpu_features")(target)}
    return [name for name in known if name in found]


def resolve_targets(target: TargetLike = None) -> list[Target]:
    """Return the resolved targets of one target or a list.

    They are sorted by vector width, then by number of instruction sets, then in the given order; a
    program runs the last one that the processor supports.

    Raises:
        Unsupported: as for :func:`resolve_target`; or the list is empty, has several architectures,
            or has a repeated target.
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
        raise Unsupported(f"target: expected CPUs of one architecture, found {found}")
    names = [level.name for level in levels]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Unsupported(f"target: {twice} is given twice")
    return sorted(resolved, key=lambda t: (isa_of(t).lanes_f32, len(instruction_sets(t))))


def level_of(target: Target) -> processor.Level:
    """Return the level of a resolved target. Saved programs and users refer to the target by the
    level's name.
    """
    own = [str(a) for a in target.attrs.get("mattr", []) if str(a) not in _ATTRIBUTES]
    name = " ".join([str(target.attrs.get("mcpu") or "generic"), *own])
    architecture = processor.architecture(triple_of(target.attrs))
    return processor.Level(name, architecture, tuple(instruction_sets(target)))


def runs_here(target: Target) -> bool:
    """Return whether a resolved target is the CPU of this machine."""
    return "mtriple" not in target.attrs and target.attrs.get("mcpu") == host_cpu()


def has_threads(target: Target) -> bool:
    """Return whether programs for a target use this project's thread pool: on 64-bit Linux, not
    Android.

    Other programs use the threads of TVM's runtime.
    """
    triple = triple_of(target.attrs)
    return "linux" in triple and "android" not in triple and "64" in triple.split("-")[0]


def triple_of(attrs: Any) -> str:
    """Return LLVM's triple of a target."""
    return str(attrs.get("mtriple") or tvm.get_global_func("target.llvm_get_system_triple")())


def resolve_target(target: TargetLike = None) -> Target:
    """Return a TVM target for None (this machine), a string, a dict or a target.

    A string is the classic form with options, JSON, or the name of a CPU; ``-mcpu=native`` is this
    machine's CPU. For None, TVM's current target or else the environment variable ``DISC_TARGET``,
    such as ``llvm -mcpu=x86-64-v3``, overrides the default.

    Raises:
        Unsupported: the target is not an LLVM CPU target, or LLVM does not know it.
    """
    if target is None:
        target = tvm.target.Target.current(allow_none=True) or os.environ.get("DISC_TARGET")
        target = target or host_target()
    given = _as_dict(target)
    if given.get("kind") != "llvm":
        raise Unsupported(_not_llvm(given.get("kind")))
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


def _not_llvm(kind: object) -> str:
    """Return the error message for a target whose kind is not LLVM; the kind may be a misspelled
    CPU.
    """
    near = difflib.get_close_matches(str(kind), _cpus(triple_of({})), n=3)
    hint = f"; if it is a CPU, did you mean {' or '.join(near)}?" if near else ""
    found = "no kind" if kind is None else repr(kind)
    return f"target: expected an llvm target, found {found}{hint}"


def _cpus(triple: str) -> list[str]:
    """Return the CPUs that LLVM knows for an architecture."""
    machine = tvm.target.Target({"kind": "llvm", "mtriple": triple})
    return [str(c) for c in tvm.get_global_func("target.llvm_get_cpu_archlist")(machine)]


def _as_dict(target: object) -> dict[str, Any]:
    if isinstance(target, dict):
        return dict(target)
    if isinstance(target, (list, tuple)):
        raise Unsupported(
            f"target: expected one target, found {len(target)}; only build takes a list"
        )
    if isinstance(target, tvm.target.Target):
        return {"kind": str(target.kind.name), **dict(target.attrs)}
    if not isinstance(target, str) or not target.strip():
        raise Unsupported(
            f"target: expected a string such as 'llvm -mcpu=x86-64-v3', a dict or a TVM target, "
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


def _parse(words: list[str]) -> dict[str, list[str] | str]:
    """Parse the classic form ``llvm -mcpu=x -mattr=+a,+b``, which TVM no longer accepts."""
    result: dict[str, Any] = {"kind": words[0]}
    if words[0] != "llvm":
        return result
    kinds = dict(tvm.get_global_func("target.ListTargetKindOptionsFromName")("llvm"))
    for word in words[1:]:
        key, _, text = word.lstrip("-").partition("=")
        if key not in kinds:
            known = ", ".join(sorted(map(str, kinds)))
            raise Unsupported(f"target: unknown llvm option {word!r}; expected one of {known}")
        result[key] = _value(key, text, str(kinds[key]))
    return result


def _value(key: str, text: str, kind: str) -> object:
    """Return the value of an option, converted to the type that TVM declares for it."""
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


def _known_triple(given: dict[str, object]) -> dict[str, object]:
    """Return the target; raise Unsupported if the architecture of its triple is unknown, as TVM
    would crash.
    """
    triple = given.get("mtriple")
    if triple is not None and not _ARCHITECTURE.match(str(triple)):
        raise Unsupported(
            f"target: expected an architecture such as x86_64 or aarch64 in -mtriple, "
            f"found {str(triple)!r}"
        )
    return given


def _known_cpu(given: dict[str, Any]) -> dict[str, Any]:
    """Return the target with its CPU's name resolved and checked; LLVM accepts unknown names."""
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
            f"target: unknown CPU {str(cpu)!r} for {triple}; LLVM supports {', '.join(near)}, ..."
        )
    return given
