"""Description of a program as text."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tvm_disc.runtime.calls import counted, table
from tvm_disc.runtime.summary import summary


def explanation(
    manifest: Mapping[str, Any], levels: Sequence[str], dims: Mapping[str, int] | None
) -> list[str]:
    """Return the lines of ``Executable.explain``: summary, kernels, calls, shape facts, refused
    fusions.

    Args:
        levels: lines about the program's processor levels.
        dims: sizes for which to compute the bytes moved.
    """
    kernels, launches = manifest["kernels"], manifest["launches"]
    counts = Counter(launches)
    owner = "Its special version" if manifest["premises"] else "It"
    calls = counted(len(launches), "kernel call")
    first = f"The program has {counted(len(kernels), 'kernel')}. {owner} has {calls}."
    lines = [first, *levels, ""]
    lines += [*summary(manifest, dims), ""]
    lines += _versions(manifest)
    if manifest.get("device_notes"):
        lines += ["on the device", *(f"  {note}" for note in manifest["device_notes"]), ""]
    lines += ["kernels, each with its operators and the variant that it selects by size"]
    for k in kernels:
        lines.append(f"  {k['name']} ({k['kind']}, {_called(counts[k['name']])})")
        lines += textwrap.wrap(
            " + ".join(k["ops"]), 92, initial_indent="      ", subsequent_indent="      "
        )
        lines += _notes(k["notes"])
    if manifest.get("quantized"):
        lines += ["", "weights that were quantized, with their relative error"]
        lines += [f"  {line}" for line in manifest["quantized"]]
    lines += ["", "kernel calls in order (#2: the result of call 2)"]
    lines += table(manifest["calls"], dims)
    lines += ["", f"workspace in bytes: {manifest['workspace_bytes']}"]
    lines += ["", manifest["shapes"]]
    if manifest["premises"]:
        lines += ["", "general version", manifest["general"]["shapes"]]
    lines += ["", "not fused"]
    return lines + ([f"  {r}" for r in manifest["refused"]] or ["  No fusion was refused."])


def _called(times: int) -> str:
    """Return how often a call of the program runs a kernel."""
    return counted(times, "call") if times else "called by the general version only"


def _notes(notes: Mapping[str, str]) -> list[str]:
    """Return one line per note; the lines of a decision tree are indented below its name."""
    lines = []
    for key, value in notes.items():
        first, *rest = value.split("\n")
        if rest:
            lines += [f"      {key}:", *(f"        {line}" for line in (first, *rest))]
        else:
            lines.append(f"      {key}: {value}")
    return lines


def _versions(manifest: Mapping[str, Any]) -> list[str]:
    """Return lines about the conditions of the special version, and about the general version."""
    premises, general = manifest["premises"], manifest["general"]
    if not premises:
        return []
    tests = counted(len(premises), "comparison")
    lines = [f"special version, used if these conditions hold ({tests} per call)"]
    lines += [f"  {p}" for p in premises]
    calls = counted(len(general["launches"]), "kernel call")
    lines += [f"general version, used otherwise ({calls})"]
    lines += textwrap.wrap(
        " ".join(general["launches"]), 92, initial_indent="  ", subsequent_indent="  "
    )
    return [*lines, ""]
