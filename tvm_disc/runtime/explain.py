"""Description of a program as text."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

from tvm_disc.abi.manifest import Manifest
from tvm_disc.runtime.calls import counted, table
from tvm_disc.runtime.summary import summary, title, versions
from tvm_disc.support.late import Late

decision_table = Late("tvm_disc.runtime.decisions:table")
letters = Late("tvm_disc.runtime.decisions:letters")
scaling_lines = Late("tvm_disc.runtime.scaling:scaling_lines")

# Characters of the column of sizes beside a wide column; a longer condition has its own line.
WIDEST = 60
WIDTH = 100  # characters of a line of a formula
_BREAKS = re.compile(r" (?=[-+*=] |// |% |if |else |and |or )|(?<=,) ")
_PLACE = re.compile(r"\b[A-Za-z_]\w*\.\d")
HEADINGS = {  # section of the description of shapes -> its heading
    "symbols": "symbols: the dims with their bounds, and where they come from",
    "facts": "facts: what the compiler knows about the dims, besides bounds and guards",
    "guards": "guards: conditions that every call checks",
}
KERNELS = (
    "kernels: the operators, the template and the variants of each",
    "  A variant is a template with parameters and a number of threads (serial: one thread).",
    "  A call runs the variant of the first row whose condition holds for its sizes. The rows list",
    "  only the parameters in which the variants differ; the line before them lists the others.",
    "  (a), (b): abbreviations of long formulas. a // b: quotient rounded down; ceil(a / b):",
    "  quotient rounded up; a % b: remainder. The glossary defines templates and parameters.",
)
OPERANDS = {  # kind of a kernel -> the names of its operands
    "dot": "  A, B: the left and the right operand of a matrix product.",
    "attention": "  Q, K, V: queries, keys and values of an attention.",
}


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
    kinds = {k["kind"] for k in kernels}
    lines += [line for kind, line in OPERANDS.items() if kind in kinds]
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
        lines += _donations(manifest)
    special = " of the special version" if manifest["premises"] else ""
    lines += ["", f"kernel calls{special} in order (#2: the result of call 2)"]
    lines += table(manifest["calls"], dims)
    if full:
        lines += ["", *_workspace(manifest["workspace_bytes"])]
    lines += ["", *(["special version"] if special else []), *_shapes(manifest["shapes"])]
    if special:
        other = _shapes(manifest["general"]["shapes"])
        lines += ["", "general version, for all other calls", *other]
    lines += ["", "not fused: the operator, the kernel that it could have joined, and the reason"]
    lines += [f"  {r}" for r in manifest["refused"]] or ["  No fusion was refused."]
    predicted = scaling_lines(manifest) if full else []
    return [*lines, "", *predicted] if predicted else lines


def _donations(manifest: Manifest) -> list[str]:
    """Return the lines of donated inputs: of both versions, if they differ."""
    general, special = manifest["donated"], manifest["general"].get("donated_by_special")
    versions = [(general, "")]
    if special is not None:
        versions = [(special, ", in the special version"), (general, ", in the general version")]
    lines: list[str] = []
    for found, version in versions:
        lines += ["", f"donated inputs, and the results that take their memory{version}"]
        lines += [_donated(*entry) for entry in found]
    return lines


def _workspace(formula: str) -> list[str]:
    """Return the formula of the workspace, one intermediate value a line, wrapped at operators."""
    *steps, result = formula.split("; ")
    meaning = ["align(x): x rounded up to a multiple of 64"] * ("align(" in formula)
    meaning += ["names like _t0_: intermediate values"] * bool(steps)
    heading = "workspace in bytes, as a formula" + f" ({'; '.join(meaning)})" * bool(meaning)
    lines = [line for step in (*steps, result) for line in wrapped(step)]
    return [heading, *lines]


def wrapped(formula: str) -> list[str]:
    """Split a formula into lines of at most ``WIDTH`` characters, if possible.

    Lines are broken before operators and after commas, and indented. Joined by spaces, they are
    the formula.
    """
    words = _BREAKS.split(formula)
    lines = [f"  {words[0]}"]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) > WIDTH:
            lines.append(f"      {word}")
        else:
            lines[-1] += f" {word}"
    return lines


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
    places = "; x.1 is the size of axis 1 of input x" * bool(_PLACE.search(text))
    headings = {**HEADINGS, "guards": HEADINGS["guards"] + places}
    return [headings.get(line, line) for line in text.splitlines()]


def _notes(kernel: Manifest) -> list[str]:
    """Return one line per note of a kernel, and its dispatch tree as a table."""
    lines = []
    for key, value in kernel["notes"].items():
        choice = kernel.get("choice") if key == "variant" else None
        if choice and "if" in choice:
            head, *rest = _variants(choice)
            lines += [f"      variant: {head}".rstrip(), *(f"        {line}" for line in rest)]
            continue
        first, *rest = value.split("\n")
        if rest:
            lines += [f"      {key}:", *(f"        {line}" for line in (first, *rest))]
        else:
            lines.append(f"      {key}: {value}")
    return lines


def _variants(choice: Manifest) -> list[str]:
    """Return the text that all variants share, then a table of sizes and of what differs, preceded
    by the formulas that it abbreviates.
    """
    common, rows = decision_table(choice)
    if len(rows) == 1:
        return [rows[0][0].run]
    names = letters([row for row, _ in rows])
    sizes = [row.condition(names) for row, _ in rows]
    widest = max(WIDEST, WIDTH - 10 - max(len(text) for _, text in rows))
    width = min(widest, max(map(len, sizes)))
    lines = [f"{common}, with" if common else ""]
    lines += [f"{name} = {formula}" for formula, name in names.items()]
    for size, (_, text) in zip(sizes, rows, strict=True):
        first = "" if len(size) <= width else size
        lines += [first] if first else []
        lines.append(f"{'' if first else size:<{width}}  {text}")
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
