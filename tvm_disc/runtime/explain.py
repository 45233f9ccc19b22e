"""Description of a program as text."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

from tvm_disc.abi.manifest import Manifest
from tvm_disc.runtime.calls import counted, table
from tvm_disc.runtime.summary import summary, title, versions
from tvm_disc.support.late import Late

decisions = Late("tvm_disc.runtime.decisions:decisions")
letters = Late("tvm_disc.runtime.decisions:letters")
scaling_lines = Late("tvm_disc.runtime.scaling:scaling_lines")

WIDEST = 60  # characters of the column of sizes; a longer condition has a separate line
HEADINGS = {  # section of the description of shapes -> its heading
    "symbols": "symbols: the dims with their bounds, and where they come from",
    "facts": "facts: what the compiler knows about the dims, besides bounds and guards",
    "guards": "guards: conditions that every call checks; x.1 is the size of axis 1 of input x",
}
KERNELS = (
    "kernels: the operators, the template and the variants of each",
    "  A variant is a template with parameters and a number of threads (serial: one thread).",
    "  A call runs the variant of the first row whose condition holds for its sizes.",
    "  (a), (b): abbreviations of long formulas. a // b: quotient rounded down; ceil(a / b):",
    "  quotient rounded up; a % b: remainder.",
)


def explanation(
    manifest: Manifest,
    levels: Sequence[str],
    dims: Mapping[str, int] | None,
    full: bool = False,
) -> list[str]:
    """Return the lines of ``Executable.explain``: summary, kernels, calls, shape facts, refused
    fusions.

    Args:
        levels: lines about the program's processor levels.
        dims: sizes for which to compute the bytes moved.
        full: print the formula of the workspace, and the predicted speed-up on several numbers of
            threads.
    """
    kernels, launches = manifest["kernels"], manifest["launches"]
    counts: Counter[str] = Counter(launches)
    lines = [f"{title(manifest)} ({versions(manifest)})", *levels, ""]
    lines += [*summary(manifest, dims), ""]
    lines += _versions(manifest)
    if manifest.get("device_notes"):
        lines += ["on the device", *(f"  {note}" for note in manifest["device_notes"]), ""]
    lines += KERNELS
    for k in kernels:
        lines.append(f"  {k['name']} ({k['kind']}, {_called(counts[k['name']])})")
        lines += textwrap.wrap(
            " + ".join(k["ops"]), 92, initial_indent="      ", subsequent_indent="      "
        )
        lines += _notes(k)
    if manifest.get("quantized"):
        lines += ["", "weights that were quantized, with their relative error"]
        lines += [f"  {line}" for line in manifest["quantized"]]
    if manifest.get("donated"):
        lines += ["", "donated inputs, and the results that take their memory"]
        lines += [_donated(*entry) for entry in manifest["donated"]]
    lines += ["", "kernel calls in order (#2: the result of call 2)"]
    lines += table(manifest["calls"], dims)
    if full:
        text = manifest["workspace_bytes"]
        rounds = "; align(x) is x rounded up to a multiple of 64" if "align(" in text else ""
        lines += ["", f"workspace in bytes, as a formula{rounds}", f"  {text}"]
    lines += ["", *_shapes(manifest["shapes"])]
    if manifest["premises"]:
        other = _shapes(manifest["general"]["shapes"])
        lines += ["", "general version, for all other calls", *other]
    lines += ["", "not fused: the operator, the kernel that it could have joined, and the reason"]
    lines += [f"  {r}" for r in manifest["refused"]] or ["  No fusion was refused."]
    predicted = scaling_lines(manifest) if full else []
    return [*lines, "", *predicted] if predicted else lines


def _donated(name: str, result: int | None, reason: str) -> str:
    """Return the line of a donated input."""
    if result is None:
        return f"  {name}: none, because {reason}"
    return f"  {name}: result {result}"


def _called(times: int) -> str:
    """Return text that says how often a call of the program runs a kernel."""
    return counted(times, "call") if times else "called by the general version only"


def _shapes(text: str) -> list[str]:
    """Return the description of shapes, with headings that say what follows."""
    return [HEADINGS.get(line, line) for line in text.splitlines()]


def _notes(kernel: Manifest) -> list[str]:
    """Return one line per note of a kernel, and its dispatch tree as a table."""
    lines = []
    for key, value in kernel["notes"].items():
        choice = kernel.get("choice") if key == "variant" else None
        if choice and "if" in choice:
            lines += ["      variant:", *(f"        {line}" for line in _variants(choice))]
            continue
        first, *rest = value.split("\n")
        if rest:
            lines += [f"      {key}:", *(f"        {line}" for line in (first, *rest))]
        else:
            lines.append(f"      {key}: {value}")
    return lines


def _variants(choice: Manifest) -> list[str]:
    """Return a table of sizes and variants, preceded by the formulas that it abbreviates."""
    rows = decisions(choice)
    names = letters(rows)
    sizes = [row.condition(names) for row in rows]
    width = min(WIDEST, max(map(len, sizes)))
    lines = [f"{name} = {formula}" for formula, name in names.items()]
    for size, row in zip(sizes, rows, strict=True):
        first = "" if len(size) <= width else size
        lines += [first] if first else []
        lines.append(f"{'' if first else size:<{width}}  {row.run}")
    return lines


def _versions(manifest: Manifest) -> list[str]:
    """Return lines about the conditions of the special version, and about the general version."""
    premises, general = manifest["premises"], manifest["general"]
    if not premises:
        return []
    lines = [
        "The program has two versions. A call runs the special version if all of these hold "
        f"({counted(len(premises), 'comparison')}):"
    ]
    facts = [premise.partition("    [") for premise in premises]
    width = max(len(fact) for fact, _, _ in facts)
    lines += [f"  {fact:<{width}}  {why.rstrip(']')}".rstrip() for fact, _, why in facts]
    calls = counted(len(general["launches"]), "kernel")
    lines += [f"Otherwise the call runs the general version, with {calls}:"]
    lines += textwrap.wrap(
        " ".join(general["launches"]), 92, initial_indent="  ", subsequent_indent="  "
    )
    return [*lines, ""]
