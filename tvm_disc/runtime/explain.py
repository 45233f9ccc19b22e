"""Description of a program as text."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tvm_disc.runtime.calls import table
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
    lines = [f"{len(launches)} kernel calls, {len(kernels)} kernels", *levels, ""]
    lines += [*summary(manifest, dims), ""]
    lines += _versions(manifest)
    if manifest.get("device_notes"):
        lines += ["on the device", *(f"  {note}" for note in manifest["device_notes"]), ""]
    lines += [f"workspace bytes: {manifest['workspace_bytes']}", ""]
    for k in kernels:
        lines.append(f"  {k['name']} ({k['kind']}, called {counts[k['name']]} times)")
        lines += textwrap.wrap(
            " + ".join(k["ops"]), 92, initial_indent="      ", subsequent_indent="      "
        )
        lines += [f"      {key}: {value}" for key, value in k["notes"].items()]
    lines += ["", "calls in order", *table(manifest["calls"], dims)]
    lines += ["", manifest["shapes"]]
    if manifest["premises"]:
        lines += ["", "general version", manifest["general"]["shapes"]]
    lines += ["", "not fused"]
    return lines + ([f"  {r}" for r in manifest["refused"]] or ["  nothing was refused"])


def _versions(manifest: Mapping[str, Any]) -> list[str]:
    """Return lines about the conditions of the special version, and about the general version."""
    premises, general = manifest["premises"], manifest["general"]
    if not premises:
        return []
    lines = [f"special version, {len(premises)} comparisons per call, where"]
    lines += [f"  {p}" for p in premises]
    lines += [f"general version otherwise, {len(general['launches'])} kernel calls"]
    lines += textwrap.wrap(
        " ".join(general["launches"]), 92, initial_indent="  ", subsequent_indent="  "
    )
    return [*lines, ""]
