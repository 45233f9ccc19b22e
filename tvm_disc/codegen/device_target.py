"""Parsing of ``target="cuda"``: the device, and the CPU that runs the host program."""

from __future__ import annotations

import difflib
import os
import re
import shlex
from typing import Any

import tvm

from tvm_disc.codegen.plan.program import Program
from tvm_disc.errors import Unsupported
from tvm_disc.target.device import CUDA, DEFAULT, Device, cuda_device
from tvm_disc.typing import Target

_VENDOR = "nvidia/"
_ARCHITECTURE = re.compile(r"(?:sm_|compute_)?(\d{2,3})a?$")


def split_target(target: Any) -> tuple[Device | None, Any]:
    """Return the device of a target, which is None for CPU targets, and the target of the host.

    A device is ``"cuda"``, ``"cuda -arch=sm_80,sm_90"``, a tag such as ``nvidia/nvidia-h100``, a
    dict of kind ``cuda`` or with a tag, or a TVM target. The ``host`` of the target is the CPU. By
    default it is None, or the CPU of this machine if ``DISC_TARGET`` is a GPU.

    Raises:
        Unsupported: the target has an unknown architecture, option or tag, or is a list that
            contains a GPU.
    """
    if target is None:
        current = tvm.target.Target.current(allow_none=True)
        target = current or os.environ.get("DISC_TARGET")
        if target is None or _kind(target) != "cuda":
            return None, None
    target = _tagged(target)
    if isinstance(target, (list, tuple)):
        if any(_kind(t) == "cuda" for t in target):
            raise Unsupported(
                "target: expected one GPU target that lists all architectures, such as "
                '"cuda -arch=sm_80,sm_90"; found a list that contains a CUDA target'
            )
        return None, target
    if _kind(target) != "cuda":
        return None, target
    given = _options(target)
    names = given.pop("arch", None)
    host = given.pop("host", None)
    return cuda_device(_architectures(names)), host or _no_environment()


def _tagged(target: object) -> object:
    """Return TVM's target for a tag such as ``nvidia/nvidia-h100``, with the given host if there is
    one. Any other target is returned unchanged.
    """
    name = target.get("tag") if isinstance(target, dict) else target
    if not isinstance(name, str) or not name.strip().startswith(_VENDOR):
        return target
    known = [t for t in tvm.target.list_tags() if t.startswith(_VENDOR)]
    if name.strip() not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        raise Unsupported(
            f"target: expected a TVM target or cuda -arch=..., found {name!r}"
            f"{'; did you mean ' + ', '.join(near) + '?' if near else ''}"
        )
    found = tvm.target.Target(name.strip())
    host = target.get("host") if isinstance(target, dict) else None
    return found if host is None else {"kind": "cuda", "arch": found.attrs["arch"], "host": host}


def _no_environment() -> object:
    """Return this machine's CPU as the host if ``DISC_TARGET`` is a GPU, otherwise None."""
    named = os.environ.get("DISC_TARGET")
    return {"kind": "llvm", "mcpu": "native"} if named and _kind(named) == "cuda" else None


def _kind(target: object) -> str:
    if isinstance(target, tvm.target.Target):
        return str(target.kind.name)
    if isinstance(target, dict):
        return str(target.get("kind", ""))
    if isinstance(target, str) and target.strip():
        text = target.strip()
        if text.startswith("{"):
            return "cuda" if re.search(r'"kind"\s*:\s*"cuda"', text) else ""
        return text.split()[0]
    return ""


def _options(target: Target) -> dict[str, object]:
    if isinstance(target, tvm.target.Target):
        host = target.host
        return {"arch": target.attrs.get("arch"), "host": host}
    if isinstance(target, str) and target.lstrip().startswith("{"):
        import json

        target = json.loads(target)
    if isinstance(target, dict):
        return {"arch": target.get("arch"), "host": target.get("host")}
    found: dict[str, object] = {}
    for word in shlex.split(target)[1:]:
        key, _, text = word.lstrip("-").partition("=")
        if key not in ("arch", "host"):
            raise Unsupported(
                f"target: unknown option {word!r} of cuda; expected -arch=, such as "
                "-arch=sm_80,sm_90, or -host="
            )
        found[key] = text
    return found


def _architectures(names: Any) -> tuple[int, ...]:
    """Return the compute capabilities of the named architectures; by default, of two generations of
    server GPUs.
    """
    if names is None:
        return DEFAULT
    listed = names.split(",") if isinstance(names, str) else [str(n) for n in names]
    found = []
    for name in listed:
        match = _ARCHITECTURE.match(name.strip())
        number = int(match[1]) if match else None
        if number not in CUDA:
            known = [f"sm_{a}" for a in CUDA]
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
            raise Unsupported(
                f"target: expected an architecture of NVIDIA's GPUs ({', '.join(known)}), found "
                f"{name!r}{'; did you mean ' + near[0] + '?' if near else ''}"
            )
        found.append(number)
    return tuple(found)


def refuse_on_device(program: Program) -> None:
    """Refuse a program whose values a GPU cannot hold.

    Raises:
        Unsupported: the program has values of algebraic data types, or closures.
    """
    if program.functions or program.boxed:
        raise Unsupported(
            "target: programs with algebraic data types or closures are not supported on a "
            "GPU; build for a CPU"
        )


__all__ = ["refuse_on_device", "split_target"]
