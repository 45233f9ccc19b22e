"""Description of a program as text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tvm_disc.abi.manifest import Manifest
from tvm_disc.errors import counted
from tvm_disc.runtime.calls import table
from tvm_disc.runtime.summary import (
    number_of,
    sizes_text,
    summary,
    title,
    usual_dims,
    versions,
)
from tvm_disc.support.late import Late
from tvm_disc.support.notation import plain_formula

running_row = Late("tvm_disc.runtime.decisions:running_row")
decision_table = Late("tvm_disc.runtime.decisions:table")
letters = Late("tvm_disc.runtime.decisions:letters")
largest_parts = Late("tvm_disc.runtime.page.memory:largest_parts")
refusal_lines = Late("tvm_disc.runtime.page.refusals:refusal_lines")
scaling_lines = Late("tvm_disc.runtime.scaling:scaling_lines")

# Width of the column of conditions beside wide variants; a longer condition has its own line.
WIDEST = 60
WIDTH = 100  # characters of a line
NAMES = 4  # maximum number of kernels that are named beside a reason
MARK = "<-"  # follows the variants that run for the sizes of the description
UNUSED = " not used"  # end of the key of a note that says why a template was not used
_BREAKS = re.compile(r" (?=[-+*=] |// |% |if |else |and |or )|(?<=,) ")
_NAME = re.compile(r"[A-Za-z_]\w*")
_PLACE = re.compile(r"\b[A-Za-z_]\w*\.\d")
HEADINGS = {  # section of the description of shapes -> its heading
    "symbols": "symbols: the dims with their bounds, and where they come from",
    "facts": "facts: what the compiler knows about the dims, besides bounds and guards",
    "guards": "guards: conditions that every call checks",
}
MOVING = ("interleave not used", "transpose not used")  # reasons that concern permutations only
KERNELS = (
    "kernels: operators, tensors and variants",
    "  Kernels that differ only in literals and in sizes of tensors are one entry.",
    "  a, b -> c: the kernel reads the tensors a and b, and writes c.",
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
    """Return the lines of ``Executable.explain``: summary, kernels, calls, memory, shape facts,
    refused fusions.

    Args:
        levels: lines about the program's processor levels.
        dims: sizes for which to compute numbers; None uses default sizes.
        full: list the places of all refusals, and all kernels of a reason; print the formula of the
            workspace, and the predicted speed-up on several numbers of threads.
    """
    sizes = usual_dims(manifest) if dims is None else dims
    where = sizes_text(manifest, dims)
    lines = [f"{title(manifest)} ({versions(manifest)})", *levels, ""]
    lines += [*summary(manifest, dims), ""]
    lines += _versions(manifest)
    if manifest.get("device_notes"):
        lines += ["on the device", *(f"  {note}" for note in manifest["device_notes"]), ""]
    entries = _entries(manifest, sizes)
    lines += _kernels(entries, manifest["calls"], where)
    lines += _unused(manifest["kernels"], full)
    if manifest.get("quantized"):
        lines += ["", "weights that were quantized, with their relative error"]
        lines += [f"  {line}" for line in manifest["quantized"]]
    if manifest.get("donated"):
        lines += _donations(manifest)
    special = " of the special version" if manifest["premises"] else ""
    lines += ["", f"kernel calls{special} in order (#2: the result of call 2)", *_legend(manifest)]
    equal = {k["name"]: same[0]["name"] for same in entries.values() for k in same}
    lines += table(manifest["calls"], sizes or None, manifest.get("copies", ()), equal)
    lines += largest_parts(manifest.get("memory"), sizes, where)
    if full:
        lines += ["", *_workspace(manifest["workspace_bytes"])]
    used = None if full else lines
    lines += ["", *(["special version"] if special else []), *_shapes(manifest["shapes"], used)]
    if special:
        other = _shapes(manifest["general"]["shapes"])
        lines += ["", "general version, for all other calls", *other]
    lines += ["", "not fused: the operator, the kernel that it could have joined, and the reason"]
    lines += list(refusal_lines(manifest["refused"], full)) or ["  No fusion was refused."]
    predicted = scaling_lines(manifest) if full else []
    return [*lines, "", *predicted] if predicted else lines


@dataclass(frozen=True)
class _Entry:
    """The description of one or several kernels, without their tensors."""

    kind: str
    ops: tuple[str, ...]
    template: str
    notes: tuple[str, ...]


def _entries(manifest: Manifest, sizes: Mapping[str, int]) -> dict[_Entry, list[Manifest]]:
    """Return the kernels by their descriptions."""
    entries: dict[_Entry, list[Manifest]] = {}
    for kernel in manifest["kernels"]:
        known = list(_sizes_of_calls(manifest["calls"], kernel["name"], sizes))
        notes = tuple(_notes(kernel, known))
        template = kernel["notes"].get("template", "")
        entry = _Entry(kernel["kind"], tuple(kernel["ops"]), template, notes)
        entries.setdefault(entry, []).append(kernel)
    return entries


def _kernels(
    entries: Mapping[_Entry, Sequence[Manifest]], calls: Sequence[Manifest], where: str
) -> list[str]:
    """Return the section of kernels."""
    kinds = {entry.kind for entry in entries}
    lines = [*KERNELS, *(line for kind, line in OPERANDS.items() if kind in kinds)]
    if any(note.endswith(MARK) for entry in entries for note in entry.notes):
        lines.append(f"  {MARK}: this variant runs {where}".rstrip())
    for entry, same in entries.items():
        names = [k["name"] for k in same]
        called = _called([call for call in calls if call["kernel"] in names])
        head = f"{', '.join(names)} ({entry.kind}, {called})"
        template = f", template: {entry.template}" * bool(entry.template)
        lines += [*_wrapped(head + template, 2), *_wrapped(" + ".join(entry.ops), 6)]
        tensors: dict[str, list[str]] = {}
        for kernel in same:
            tensors.setdefault(_tensors(kernel), []).append(kernel["name"])
        for text, some in tensors.items():
            lines += _wrapped(f"{_named(some)}: " * (len(tensors) > 1) + text, 6)
        lines += [f"      {note}" for note in entry.notes]
    return lines


def _named(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    others = len(names) - NAMES
    more = f" and {counted(others, 'other kernel')}" if others > 0 else ""
    return ", ".join(names[:NAMES]) + more


def _unused(kernels: Sequence[Manifest], full: bool) -> list[str]:
    """Return the section of templates that were not used, each reason once, with its kernels."""
    found: dict[str, list[str]] = {}
    for kernel in kernels:
        for key, reason in kernel["notes"].items():
            moves = "permute_dims" in kernel["ops"] or key not in MOVING
            if key.endswith(UNUSED) and moves:
                found.setdefault(f"{key}: {reason}", []).append(kernel["name"])
    lines = ["", "templates and variants that were not used, and the reason"] if found else []
    for text, names in found.items():
        lines += [f"  {text}", *_wrapped(", ".join(names) if full else _named(names), 6)]
    return lines


def _tensors(kernel: Manifest) -> str:
    """Return the tensors that a kernel reads and writes; files of old versions have none."""
    if "operands" not in kernel:
        return ""
    read = [f"{'constant ' * constant}{_tensor(x)}" for x, constant in kernel["operands"]]
    return f"{', '.join(read) or 'nothing'} -> {', '.join(map(_tensor, kernel['writes']))}"


def _tensor(tensor: tuple[str, Sequence[str]]) -> str:
    dtype, dims = tensor
    return f"{dtype}[{', '.join(map(plain_formula, dims))}]"


def _wrapped(text: str, indent: int) -> list[str]:
    """Return the text in lines of at most ``WIDTH`` characters; further lines are indented."""
    begin = " " * indent
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=begin,
        subsequent_indent=begin + "  " * (indent < 6),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _legend(manifest: Manifest) -> list[str]:
    """Return lines that define the words of the table of calls."""
    lines = ["  bytes moved: the least that a call must read and write"]
    if any(call.get("inside") for call in manifest["calls"]):
        lines.append("  loop 1, branch 1: a variable or a result of the loop or branch")
    return lines


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


def _called(calls: Sequence[Manifest]) -> str:
    """Return text that says how often, and in which branches and loops, the program runs a
    kernel.
    """
    if not calls:
        return "called by the general version only"
    places = dict.fromkeys(label.partition(",")[0] for c in calls for label in c.get("inside", ()))
    return counted(len(calls), "call") + f" in {' and '.join(places)}" * bool(places)


def _shapes(text: str, used: Sequence[str] | None = None) -> list[str]:
    """Return the description of shapes, with headings that say what follows.

    Args:
        used: the lines before; symbols that neither they nor other lines name are omitted. None
            keeps all symbols.
    """
    places = "; x.1 is the size of axis 1 of input x" * bool(_PLACE.search(text))
    headings = {**HEADINGS, "guards": HEADINGS["guards"] + places}
    lines = text.splitlines()
    if used is not None:
        begin, end = lines.index("symbols") + 1, lines.index("facts")
        named = set(_NAME.findall("\n".join([*used, *lines[end:]])))
        kept = [line for line in lines[begin:end] if line[2:3] == " " or line.split()[0] in named]
        lines[begin:end] = kept
    found: list[str] = []
    for line in lines:
        if line == "  none" and found:
            found[-1] = f"{found[-1].partition(':')[0]}: none"
        else:
            found.append(headings.get(line, line))
    return found


def _sizes_of_calls(
    calls: Sequence[Manifest], kernel: str, sizes: Mapping[str, int]
) -> Iterator[dict[str, int]]:
    """Yield the values of a kernel's symbols in each of its calls in ``main``."""
    for call in calls:
        if call["kernel"] == kernel and not call["function"]:
            values = {n: number_of(text, sizes) for n, text in call.get("sizes", {}).items()}
            known = {n: size for n, size in values.items() if size is not None}
            yield {n: s for n, s in {**sizes, **known}.items() if values.get(n, 0) is not None}


def _notes(kernel: Manifest, known: Sequence[Mapping[str, int]]) -> Iterator[str]:
    """Yield one line per note of a kernel, and its dispatch tree as a table.

    Args:
        known: the sizes of the kernel's calls, whose variants are marked.
    """
    for key, value in kernel["notes"].items():
        if _is_told_elsewhere(key, value, kernel["notes"].get("variant", "")):
            continue
        choice = kernel.get("choice") if key == "variant" else None
        if choice and "if" in choice:
            head, *rest = _variants(choice, known)
            yield f"variant: {head}".rstrip()
            yield from (f"  {line}" for line in rest)
            continue
        first, *rest = value.split("\n")
        if rest:
            yield f"{key}:"
            yield from (f"  {line}" for line in (first, *rest))
        else:
            yield f"{key}: {value}"


def _is_told_elsewhere(key: str, value: str, variants: str) -> bool:
    """Return whether a note is redundant: the kernel's heading, another section or the parameters
    of the variants contain its information, or its value is ``none``.
    """
    return (
        key == "template"
        or key.endswith(UNUSED)
        or value == "none"
        or (key == "register tile" and "m_r=" in variants and "n_r=" in variants)
    )


def _variants(choice: Manifest, known: Sequence[Mapping[str, int]]) -> list[str]:
    """Return the text that all variants share, then a table of sizes and of what differs, preceded
    by the formulas that it abbreviates.
    """
    common, rows = decision_table(choice)
    if len(rows) == 1:
        return [rows[0][0].run]
    running = {running_row(choice, [row for row, _ in rows], sizes) for sizes in known}
    names = letters([row for row, _ in rows])
    sizes = [row.condition(names) for row, _ in rows]
    widest = max(WIDEST, WIDTH - 10 - max(len(text) for _, text in rows))
    width = min(widest, max(map(len, sizes)))
    lines = [f"{common}, with" if common else ""]
    lines += [f"{name} = {formula}" for formula, name in names.items()]
    for k, (size, (_, text)) in enumerate(zip(sizes, rows, strict=True)):
        first = "" if len(size) <= width else size
        lines += [first] if first else []
        mark = f"  {MARK}" * (k in running)
        lines.append(f"{'' if first else size:<{width}}  {text}{mark}")
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
