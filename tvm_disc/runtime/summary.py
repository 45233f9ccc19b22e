"""Summary of a program in a few lines."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tvm_disc.abi.formula import evaluate
from tvm_disc.abi.manifest import Manifest, tvm_version
from tvm_disc.errors import BadInput, counted
from tvm_disc.runtime.calls import readable
from tvm_disc.runtime.inputs import MOST, bound_dims, integer

IN_CALL = "packed in each call"  # key of the note of operands that a kernel packs
USUAL = 64  # default size of a dim
LONGEST, KEPT = 320, 240  # maximum characters of a line, and length to which longer lines are cut
KINDS = {  # words for the kinds of kernels whose names are not clear to users
    "loop": "element-wise operators",
    "row": "reductions along an axis",
    "dot": "matrix products",
    "conv": "convolutions and pooling",
    "opaque": "gather, scatter, sort and similar",
}
_NAME = re.compile(r"[A-Za-z_]\w*")


def dim_names(manifest: Manifest) -> list[str]:
    """Return the names of the dims of a program's inputs, in order."""
    dims = (d for _, declared, _ in manifest["inputs"] for d in declared)
    return list(dict.fromkeys(name for d in dims for name in _NAME.findall(d)))


def sizes_of(
    manifest: Manifest,
    shapes: Mapping[str, Sequence[int]] | None,
    dims: Mapping[str, int] | None,
) -> dict[str, int] | None:
    """Return the sizes of dims, from input shapes or from ``dims``; None if both are None.

    Raises:
        BadInput: both are given, or a shape or size is invalid.
    """
    if shapes is not None and dims is not None:
        raise BadInput("expected either shapes or dims, found both")
    if dims is None:
        return None if shapes is None else bound_dims(manifest["inputs"], shapes)
    return checked_dims(manifest, dims)


def workspace_of(manifest: Manifest, shapes: Mapping[str, Sequence[int]]) -> int:
    """Return the bytes of temporary memory of one call for input shapes.

    Raises:
        BadInput: a shape does not fit, or a size formula divides by zero.
    """
    dims = bound_dims(manifest["inputs"], shapes)
    try:
        return evaluate(manifest["workspace_bytes"], dims)
    except ZeroDivisionError as error:
        given = ", ".join(f"{name}: {[*map(int, shape)]}" for name, shape in shapes.items())
        raise BadInput(
            f"workspace_bytes: a size of the program divides by zero for the shapes {given}; "
            "pass shapes that a call accepts"
        ) from error


def checked_dims(manifest: Manifest, dims: Mapping[str, object]) -> dict[str, int]:
    """Return a size for every dim: the given ones by name or by input and axis (``x.0``), defaults
    for the others.

    Raises:
        BadInput: the dim does not exist, or the size is not valid.
    """
    known = dim_names(manifest)
    if not isinstance(dims, Mapping):
        raise BadInput(f"dims: expected a mapping from dims to sizes, found {type(dims).__name__}")
    places = {
        f"{n}.{k}": d for n, declared, _ in manifest["inputs"] for k, d in enumerate(declared)
    }
    dims = {places.get(name, name): size for name, size in dims.items()}
    if unknown := [str(name) for name in dims if name not in known]:
        expected = ", ".join(known) or "none: all dims are static"
        raise BadInput(f"dims: there is no dim {', '.join(unknown)}; expected {expected}")
    given = {name: integer(f"dims: '{name}'", size, 0, MOST) for name, size in dims.items()}
    return usual_dims(manifest, given)


def usual_dims(manifest: Manifest, given: Mapping[str, int] = {}) -> dict[str, int]:
    """Return a size for every dim: given sizes, sizes that equalities imply, and defaults.

    Dims that are equal get the same size. The default is ``USUAL``, clamped to the dim's bounds.
    """
    found = dict(given)
    known = dict(_symbols(manifest["shapes"]))
    for name, size in given.items():
        found.setdefault(known.get(name, (name,))[0], size)
    for name in dim_names(manifest):
        same, low, high = known.get(name, (name, 0, None))
        size = max(low, min(USUAL, USUAL if high is None else high))
        value = number_of(same, {name: size, **found})
        found.setdefault(name, size if value is None else value)
    return {name: found[name] for name in dim_names(manifest)}


def _symbols(shapes: str) -> Iterator[tuple[str, tuple[str, int, int | None]]]:
    """Yield each symbol, with the dim that it equals and its bounds, from the description of
    shapes, whose lines are ``name = dim [low, high] source``.
    """
    for item in sections(shapes).get("symbols", ()):
        match = re.match(r"(\w+)(?: = (.*?))?\s+\[(\d+), (?:(\d*)\]|inf\))", item[0])
        if match:
            name, same, low, high = match.groups()
            yield name, (same or name, int(low), int(high) if high else None)


def varying_dims(manifest: Manifest) -> dict[str, tuple[int, int | None]]:
    """Return the bounds (low, high) of every dim that is not determined by other dims. ``high`` is
    None if there is no upper bound.
    """
    known = dict(_symbols(manifest["shapes"]))
    rows = ((name, known.get(name, (name, 0, None))) for name in dim_names(manifest))
    return {name: (low, high) for name, (same, low, high) in rows if same == name}


def sections(text: str) -> dict[str, list[list[str]]]:
    """Split a description of shapes by headings into items; an item is followed by its detail
    lines.
    """
    found: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        if depth == 0:
            items = found.setdefault(line, [])
        elif depth <= 2 or not items:
            items.append([line.strip()])
        else:
            items[-1].append(line.strip())
    return {name: [i for i in items if i != ["none"]] for name, items in found.items()}


def number_of(text: str, dims: Mapping[str, int]) -> int | None:
    """Return the value of a formula for dims; None if it depends on run-time values."""
    try:
        return evaluate(text, dims)
    except (KeyError, SyntaxError, ValueError, ZeroDivisionError):
        return None


def summary(manifest: Mapping[str, object], dims: Mapping[str, int] | None) -> list[str]:
    """Return the first lines of the description: inputs, results, kernels, guards, workspace."""
    lines = []
    for name, texts in summary_rows(manifest, dims):
        wrapped = [w for text in texts for w in textwrap.wrap(text, 86, break_long_words=False)]
        lines += [f"{'' if k else name:<11}{text}" for k, text in enumerate(wrapped)]
    return lines


def title(manifest: Manifest) -> str:
    """Return the name of the model, and of the processors that the program was compiled for."""
    names = ", ".join(level["name"] for level in manifest.get("levels", ()))
    model = manifest.get("model") or "Program"
    return f"{model}, compiled for {names or 'no processor'}"


def versions(manifest: Manifest) -> str:
    """Return the versions of the packages that compiled the program, and of its TVM."""
    ours = f"tvm_disc {manifest['version']}" if manifest.get("version") else "tvm_disc"
    return f"{ours}, TVM {manifest.get('tvm') or tvm_version()}"


def summary_rows(manifest: Manifest, dims: Mapping[str, int] | None) -> list[tuple[str, list[str]]]:
    """Return the headings of the summary, each with its lines."""
    guards = sections(manifest["shapes"]).get("guards", [])
    checks = (
        f"A call checks {counted(len(guards), 'condition')} on its dims or values, listed below."
        if guards
        else "A call checks only ranks, dtypes and the dims that are constant"
        + (", and that dims of one name are equal." if _repeated(manifest) else ".")
    )
    general = sections(manifest["general"]["shapes"]).get("guards", [])
    if manifest["premises"] and general:
        checks += f" The general version checks {counted(len(general), 'condition')}, listed there."
    refused = len(manifest["refused"])
    unfused = f"{counted(refused, 'fusion')} refused, with the reasons at the end."
    return [
        ("inputs", tensors(manifest["inputs"])),
        ("results", tensors(("", d, t) for d, t in manifest["results"])),
        ("dims", [_dims(manifest)]),
        *_caches(manifest),
        ("kernels", [_kernels(manifest)]),
        *_copies(manifest),
        ("guards", [checks]),
        ("workspace", [workspace(manifest, dims)]),
        *_constants(manifest),
        *_selection(manifest),
        ("not fused", [unfused if refused else "No fusion was refused."]),
    ]


def _repeated(manifest: Manifest) -> bool:
    """Return whether a dim occurs twice in the inputs, so that calls compare its sizes."""
    dims = [d for _, declared, _ in manifest["inputs"] for d in declared if not d.isdigit()]
    return len(set(dims)) < len(dims)


def _dims(manifest: Manifest) -> str:
    """Return a sentence on the dims that calls may change, with their bounds."""
    names: dict[tuple[int, int | None], list[str]] = {}
    for name, bounds in varying_dims(manifest).items():
        names.setdefault(bounds, []).append(name)
    if not names:
        return "All dims are constant."
    texts = [f"{', '.join(found)} ({_range(*bounds)})" for bounds, found in names.items()]
    return f"dynamic: {', '.join(texts)}. One program serves all these sizes."


def _range(low: int, high: int | None) -> str:
    if high is None:
        return f"at least {low}" if low else "any size"
    return f"{low} to {high}" if low < high else f"only {low}"


def _copies(manifest: Manifest) -> list[tuple[str, list[str]]]:
    """Return a row about the copies of a call; none for files of old versions."""
    if "copies" not in manifest:
        return []
    copies = manifest["copies"]
    made = f"A call copies {counted(len(copies), 'tensor')} outside of kernels, listed below."
    texts = [made if copies else "A call copies no tensor outside of kernels."]
    packing = sum(IN_CALL in k["notes"] for k in manifest["kernels"])
    if packing:
        texts.append(f"{counted(packing, 'kernel')} may pack operands, see '{IN_CALL}'.")
    return [("copies", [" ".join(texts)])]


def _constants(manifest: Manifest) -> list[tuple[str, list[str]]]:
    """Return a row about the constants; none for files of old versions."""
    found = manifest.get("constants")
    if found is None:
        return []
    if not found["bytes"]:
        return [("constants", ["none"])]
    packed = f", of which {readable(found['packed'])} are packed at build time" * bool(
        found["packed"]
    )
    return [("constants", [f"{readable(found['bytes'])}{packed}; calls read them in place."])]


def _caches(manifest: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Return a row about the caches that calls extend in place; none if there is no such cache."""
    lengths = {c["buffer"]: c["length"] for c in manifest.get("state", ()) if c["length"]}
    if not lengths:
        return []
    buffers = ", ".join(lengths)
    sizes = ", ".join(dict.fromkeys(lengths.values()))
    first = f"A call writes its new rows into {buffers}; Executable.state() makes these caches."
    return [("caches", [first, f"The size of {sizes} is the number of rows before the call."])]


def _kernels(manifest: Manifest) -> str:
    """Return a sentence on the kernels of a call."""
    launches: Sequence[str] = manifest["launches"]
    if not launches:
        return "A call runs no kernel."
    kinds = {k["name"]: k["kind"] for k in manifest["kernels"]}
    counts = Counter(kinds[name] for name in launches)
    listed = ", ".join(
        f"{n} {kind}{f' ({KINDS[kind]})' if kind in KINDS else ''}"
        for kind, n in counts.most_common()
    )
    different = len(set(launches))
    repeated = f", of {different} different ones" if different < len(launches) else ""
    version = " of the special version" if manifest["premises"] else ""
    inner = _inner_calls(manifest)
    if inner:
        calls = counted(len(launches), "kernel call")
        where = f"of which {inner} are in branches, loops or functions{repeated}"
        return f"The program{version} has {calls}, {where}: {listed}."
    return f"A call{version} runs {counted(len(launches), 'kernel')}{repeated}: {listed}."


def _inner_calls(manifest: Manifest) -> int:
    """Return the number of kernel calls that a call of the program may skip or repeat."""
    return sum(bool(c.get("inside") or c["function"]) for c in manifest["calls"])


def _selection(manifest: Manifest) -> list[tuple[str, list[str]]]:
    """Return a row about the measurements by which variants were selected; none for GPU programs
    and for files of old versions.
    """
    found = manifest.get("selection")
    if not found or manifest.get("device"):
        return []
    files = " and ".join(found["constants"])
    model = f"the constants of {files}" if files else "default constants"
    if "times" not in found:
        given = f"The conditions are from a cost model with {model}; no tuned records were given."
        return [("variants", [f"A call selects a variant of each kernel by its sizes. {given}"])]
    measured, count = found["measured"], len(manifest["kernels"])
    lines = [f"Selected by tuned records for {measured} of {counted(count, 'kernel')}."]
    if measured < count:
        lines.append(f"The other kernels use a cost model, with {model}.")
    if found["others"] == 1:
        lines.append("1 record of the file was measured on another processor, target or version.")
    elif found["others"]:
        others = f"{found['others']} records of the file were measured"
        lines.append(f"{others} on other processors, targets or versions.")
    return [("variants", lines)]


def tensors(rows: Any) -> list[str]:
    """Return ``name: dtype[dims]`` for each tensor, or ``none`` if there is no tensor."""
    return [
        f"{name}{': ' if name else ''}{dtype}[{', '.join(dims)}]" for name, dims, dtype in rows
    ] or ["none"]


def workspace(manifest: Manifest, dims: Mapping[str, int] | None) -> str:
    """Return a string like ``1.2 MiB of temporary memory for b=4, s=128``."""
    sizes = usual_dims(manifest) if dims is None else dims
    size = f"{readable(number_of(manifest['workspace_bytes'], sizes))} of temporary memory"
    more = "; branches, loops and functions allocate more" * bool(_inner_calls(manifest))
    return f"{f'{size} {sizes_text(manifest, dims)}'.rstrip()}{more}"


def sizes_text(manifest: Manifest, dims: Mapping[str, int] | None) -> str:
    """Return a string like ``for b=4, s=128``, which says whether the sizes are defaults; empty if
    all dims are constant.
    """
    sizes = usual_dims(manifest) if dims is None else dims
    named = [f"{name}={sizes[name]}" for name in dim_names(manifest) if name in sizes]
    assumed = " (assumed; pass dims={...} for other sizes)" if dims is None else ""
    return f"for {', '.join(named)}{assumed}" if named else ""


def shortened(lines: Sequence[str]) -> list[str]:
    """Cut very long lines, and append a note on how to see them."""
    found, cut = [], False
    for line in "\n".join(lines).split("\n"):
        long = len(line) > LONGEST
        cut = cut or long
        found.append(f"{line[:KEPT]} ... ({len(line) - KEPT} more characters)" if long else line)
    if cut:
        found += [
            "",
            "long lines were shortened; explain(full=True) or --full prints them completely",
        ]
    return found
