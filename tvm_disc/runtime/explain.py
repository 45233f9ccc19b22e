"""What a program tells of itself, as text."""

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
    """The lines of ``Executable.explain``: a summary, kernels, calls, facts, what was not fused.

    Args:
        levels: what to say of the processors that the program is for.
        dims: for which to tell the bytes moved.
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
    """The premises of the program, and what serves calls that break them."""
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
