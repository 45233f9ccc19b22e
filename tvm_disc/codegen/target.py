"""Targets: what ``target=`` accepts, and what every CPU target of ours needs."""

from __future__ import annotations

import os
from typing import Any

import tvm

from tvm_disc.errors import Unsupported

# TVM gives every buffer variable its own alias type and callees others. When LLVM inlines a
# kernel into its caller the two names of one scratch buffer then count as different memory, and
# stores move past loads. Pointer parameters say what may alias; the types must not. Register-tile
# kernels fill the register file: inlined beside other code they spill, so little is inlined.
_LLVM_OPTIONS = ("-enable-tbaa:bool=false", "-inline-instr-cost:int=400")
# LLVM tunes server CPUs to 256-bit vectors; our kernels are written for the full width.
_ATTRIBUTES = ("-prefer-256-bit",)


def host_cpu() -> str:
    """LLVM's name for the CPU this process runs on."""
    return str(tvm.get_global_func("target.llvm_get_system_cpu")())


def runs_here(target: Any) -> bool:
    """Whether a resolved target is this very CPU."""
    return "mtriple" not in target.attrs and target.attrs.get("mcpu") == host_cpu()


def resolve_target(target: Any = None) -> Any:
    """A TVM target from None (this machine), a string, a dict or a target.

    Where none is given, the environment variable ``DISC_TARGET`` takes the place of this machine,
    for instance ``llvm -mcpu=x86-64-v3``.

    Raises:
        Unsupported: a target that is not a CPU through LLVM.
    """
    if target is None:
        target = tvm.target.Target.current(allow_none=True) or os.environ.get("DISC_TARGET")
        target = target or {"kind": "llvm", "mcpu": host_cpu()}
    given = _as_dict(target)
    if given.get("kind") != "llvm":
        raise Unsupported(f"target: expected an llvm target, found {given.get('kind')!r}")
    x86 = "mtriple" not in given or "x86" in str(given["mtriple"])
    attributes = [str(a) for a in given.get("mattr", [])]
    if x86:
        attributes += [a for a in _ATTRIBUTES if a not in attributes]
    options = [str(o) for o in given.get("cl-opt", [])]
    options += [o for o in _LLVM_OPTIONS if o not in options]
    kept = {k: v for k, v in given.items() if k not in ("mattr", "cl-opt", "keys", "tag", "host")}
    extra = {"mattr": attributes} if attributes else {}
    return tvm.target.Target({**kept, **extra, "cl-opt": options})


def _as_dict(target: Any) -> dict[str, Any]:
    if isinstance(target, dict):
        return dict(target)
    if isinstance(target, str):
        words = target.split()
        if len(words) == 1:
            return {"kind": words[0], **({"mcpu": host_cpu()} if words[0] == "llvm" else {})}
        return _parse(words)
    return {"kind": str(target.kind.name), **dict(target.attrs)}


def _parse(words: list[str]) -> dict[str, Any]:
    """The classic ``llvm -mcpu=x -mattr=+a,+b`` form."""
    result: dict[str, Any] = {"kind": words[0]}
    for word in words[1:]:
        key, _, value = word.lstrip("-").partition("=")
        result[key] = value.split(",") if key == "mattr" else value
    return result
