"""Description of a program as one self-contained HTML page.

All text is generated here, so that the page is readable without its script. The script draws arrows
between calls, searches, and opens and closes sections. The templates are in the folder of this
file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from tvm_disc.abi.manifest import signature_text
from tvm_disc.runtime.calls import Call, moved_bytes, readable
from tvm_disc.runtime.decisions import decisions, letters
from tvm_disc.runtime.page.layers import layers
from tvm_disc.runtime.page.memory import memory_picture
from tvm_disc.runtime.profile import Profile
from tvm_disc.runtime.summary import sections, summary_rows, title, versions

_FACTS = "<tr><th>fact</th><th>reason</th></tr>"
_DIMS = "<tr><th>dim</th><th>bounds</th><th>source</th></tr>"
HEADINGS = {  # section of the description of shapes -> its heading, and its table's header
    "symbols": ("Dims: their bounds, and where they come from", _DIMS),
    "facts": ("Facts: what the compiler knows about the dims, besides bounds and guards", _FACTS),
    "guards": (
        "Guards: conditions that every call checks; x.1 is the size of axis 1 of input x",
        "",
    ),
}
COLUMNS = ("kernel", "share", "us", "quartiles", "calls", "GB/s", "GFLOP/s", "limit", "variant")
SHORT = 110  # maximum characters of a call's operators while its section is closed
_REASON = re.compile(r"^(.*?)\s{2,}\[(.*)\]$", re.DOTALL)


def write_page(
    path: Path,
    manifest: Mapping[str, Any],
    levels: Sequence[str],
    dims: Mapping[str, int],
    profile: Profile | None,
) -> None:
    """Write the page of a program.

    Args:
        levels: lines about the program's processor levels.
        dims: sizes for which to compute numbers.
        profile: a profile at these sizes, if available.
    """
    folder = Path(__file__).parent
    read = {kind: (folder / f"page.{kind}").read_text("utf-8") for kind in ("html", "js")}
    body = Template(read["html"]).substitute(
        script=read["js"],
        sizes=escape(", ".join(f"{n}={v}" for n, v in dims.items()) or "all dims are known"),
        summary=_summary(manifest, levels, dims),
        calls=_calls(manifest, dims),
        kernels="\n".join(_kernel(k, manifest["launches"]) for k in manifest["kernels"]),
        facts=_facts(manifest),
        refused=_refused(manifest["refused"]),
        memory=memory_picture(manifest.get("memory"), dims),
        profile=profile_table(profile),
    )
    text = framed(manifest, body, scripts="; script-src 'unsafe-inline'")
    path.write_text(text, encoding="utf-8")


def framed(
    manifest: Mapping[str, object],
    body: str,
    more_style: str = "",
    kind: str = "",
    scripts: str = "",
) -> str:
    """Return a page about a program: its head, style sheet and title, and ``body``.

    Args:
        kind: text before the name of the program in the title of the window.
        scripts: the part of the content security policy that allows scripts.
    """
    folder, name = Path(__file__).parent, escape(title(manifest))
    return Template((folder / "frame.html").read_text("utf-8")).substitute(
        title=name,
        heading=kind + name,
        signature=escape(signature_text(manifest)),
        versions=escape(versions(manifest)),
        style=(folder / "page.css").read_text("utf-8") + more_style,
        scripts=scripts,
        body=body.rstrip("\n"),
    )


def _summary(manifest: Mapping[str, object], levels: Sequence[str], dims: Mapping[str, int]) -> str:
    rows = [*summary_rows(manifest, dims), *([("processors", levels)] if levels else [])]
    return "\n".join(
        f"<dt>{escape(name)}</dt>" + "".join(f"<dd>{escape(text)}</dd>" for text in texts)
        for name, texts in rows
    )


# --- calls -----------------------------------------------------------------------------------


def _calls(manifest: Mapping[str, Any], dims: Mapping[str, int]) -> str:
    calls = manifest["calls"]
    found = []
    for layer in layers([(c["kernel"], c["function"]) for c in calls]):
        inner = "\n".join(_call(k, calls[k], dims) for k in layer.calls)
        if layer.name:
            count = len(layer.calls)
            head = f"<summary>{escape(layer.name)} <small>{count} calls</small></summary>"
            inner = f'<details class="layer" open>{head}\n{inner}\n</details>'
        found.append(inner)
    return "\n".join(found) or "<p>The program calls no kernel.</p>"


def _call(number: int, call: Call, dims: Mapping[str, int]) -> str:
    ops = " + ".join(call["ops"])
    short = ops if len(ops) <= SHORT else f"{ops[:SHORT]} ..."
    reads = list(dict.fromkeys(call["reads"]))
    numbers = " ".join(str(r) for r in reads if isinstance(r, int))
    moved = readable(moved_bytes(call, dims))
    owner = escape(call["function"])
    place = f"<p>in function <code>{owner}</code></p>" if owner else ""
    return (
        f'<details class="call {_kind(call["kind"])}" id="call-{number}" data-reads="{numbers}">'
        f'<summary><span class="number">#{number}</span> '
        f'<b>{escape(call["kernel"])}</b> <span class="kind">{escape(call["kind"])}</span> '
        f'<span class="bytes">{moved}</span> <span class="ops">{escape(short)}</span></summary>'
        f"<div>{place}<p>{escape(ops)}</p><p>reads {_reads(reads)}</p>"
        f"<p>moves {moved}: <code>{escape(call['bytes'])}</code> bytes</p>"
        f'<p><a href="#kernel-{_anchor(call["kernel"])}">kernel, with its variants</a></p>'
        "</div></details>"
    )


def _reads(reads: Iterable[int | str]) -> str:
    return (
        ", ".join(
            f'<a href="#call-{r}">#{r}</a>' if isinstance(r, int) else f"<code>{escape(r)}</code>"
            for r in reads
        )
        or "nothing"
    )


def _kind(kind: str) -> str:
    return "kind-" + re.sub(r"\W", "-", kind)


def _anchor(name: str) -> str:
    return re.sub(r"[^\w.-]", "-", name)


# --- kernels ---------------------------------------------------------------------------------


def _kernel(kernel: Mapping[str, Any], launches: Sequence[str]) -> str:
    name, notes = kernel["name"], dict(kernel["notes"])
    if kernel.get("choice"):
        notes.pop("variant", None)  # the table of the dispatch tree shows the variants
    rows = "".join(
        f"<tr><th>{escape(str(key))}</th><td><pre>{escape(str(value))}</pre></td></tr>"
        for key, value in notes.items()
    )
    choice = kernel.get("choice")
    tree = _variants(choice) if choice else ""
    return (
        f'<details class="kernel {_kind(kernel["kind"])}" id="kernel-{_anchor(name)}">'
        f'<summary><b>{escape(name)}</b> <span class="kind">{escape(kernel["kind"])}</span> '
        f"<small>{_called(launches.count(name))}</small></summary>"
        f"<div><p>{escape(' + '.join(kernel['ops']))}</p><table>{rows}</table>{tree}</div>"
        "</details>"
    )


def _called(times: int) -> str:
    if times == 0:
        return "called by the general version"
    return "called once" if times == 1 else f"called {times} times"


def _variants(choice: Mapping[str, object]) -> str:
    """Return a dispatch tree as a table of sizes and variants."""
    rows = decisions(choice)
    names = letters(rows)
    legend = "".join(
        f"<li>{escape(name)} = <code>{escape(formula)}</code></li>"
        for formula, name in names.items()
    )
    cells = "".join(
        f'<tr><td>{escape(row.condition(names))}</td><td class="leaf">{escape(row.run)}</td></tr>'
        for row in rows
    )
    return (
        "<h4>Variant by size: the first row that matches applies</h4>"
        f'<ul class="legend">{legend}</ul>'
        f"<table><tr><th>sizes</th><th>variant</th></tr>{cells}</table>"
    )


# --- facts, refusals, profile ----------------------------------------------------------------


def _facts(manifest: Mapping[str, Any]) -> str:
    found = [_description(manifest["shapes"])]
    if manifest["premises"]:
        premises = "".join(_row([p]) for p in manifest["premises"])
        found.insert(
            0,
            "<h3>Two versions</h3><p>A call runs the special version, which this page shows, if "
            "all of these conditions hold. Otherwise it runs the general version.</p>"
            f"<table><tr><th>condition</th><th>why</th></tr>{premises}</table>",
        )
        general = _description(manifest["general"]["shapes"])
        found.append(
            "<details><summary>General version, for all other calls, "
            f"{len(manifest['general']['launches'])} kernel calls</summary>{general}</details>"
        )
    return "\n".join(found)


def _description(text: str) -> str:
    found = []
    for heading, items in sections(text).items():
        row = _dim_row if heading == "symbols" else _row
        rows = "".join(row(item) for item in items)
        kind = _anchor(heading)
        said, heads = HEADINGS.get(heading, (heading.capitalize(), ""))
        if not rows:
            rows, heads = "<tr><td>none</td></tr>", ""
        found.append(f'<h3>{escape(said)}</h3><table class="{kind}">{heads}{rows}</table>')
    return "\n".join(found)


def _dim_row(item: Sequence[str]) -> str:
    """Return a table row of a dim: its name, bounds and source, which two spaces separate in
    ``item``.
    """
    cells = re.split(r"\s{2,}", item[0], maxsplit=2)
    below = "".join(f"<br><small>{escape(line)}</small>" for line in item[1:])
    return (
        "<tr>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells[:-1])
        + (f"<td>{escape(cells[-1])}{below}</td></tr>")
    )


def _row(item: Sequence[str]) -> str:
    """Return a table row: the fact, and its reason in a second column."""
    match = _REASON.match(item[0])
    said, why = match.groups() if match else (item[0], "")
    below = "".join(f"<br><small>{escape(line)}</small>" for line in item[1:])
    reason = f"<td>{escape(why)}</td>" if why else ""
    return f"<tr><td>{escape(said)}{below}</td>{reason}</tr>"


def _refused(refused: Sequence[str]) -> str:
    if not refused:
        return "<p>No fusion was refused.</p>"
    rows = []
    for text in refused:
        subject, _, reason = text.partition(": ")
        rows.append(f"<tr><td>{escape(subject)}</td><td>{escape(reason)}</td></tr>")
    heads = "<tr><th>operator, and the kernel that it could have joined</th><th>reason</th></tr>"
    return f"<table>{heads}{''.join(rows)}</table>"


def profile_table(profile: Profile | None, linked: bool = True) -> str:
    """Return the time of each kernel as HTML.

    Args:
        linked: link each kernel to its description on the page of :func:`write_page`.
    """
    if profile is None:
        return "<p>No call was timed: <code>explain_html(path, dims=..., profile=True)</code>.</p>"
    rows = []
    for line in profile.lines():
        bar = f'<span class="bar" style="width:{100 * line.share:.1f}%"></span>'
        limit = f"{100 * line.of_limit:.0f} % of {line.limit}" if line.limit else "?"
        speed = f"{line.gigabytes_per_second:.1f}", f"{line.gigaflops:.1f}", limit
        spread = f"{line.low_us:.1f} to {line.high_us:.1f}"
        cells = (f"{line.us:.1f}", spread, f"{line.calls:g}", *speed)
        numbers = "".join(f"<td>{escape(x)}</td>" for x in cells)
        name = escape(line.kernel)
        if linked:
            name = f'<a href="#kernel-{_anchor(line.kernel)}">{name}</a>'
        rows.append(
            f"<tr><td>{name}</td>"
            f'<td class="share">{bar}{100 * line.share:.1f} %</td>{numbers}'
            f"<td>{escape(line.variant)}</td></tr>"
        )
    heads = "".join(f"<th>{h}</th>" for h in COLUMNS)
    split = ", ".join(f"{k.removesuffix('_us')} {v:.1f}" for k, v in profile.split().items())
    notes = "".join(f"<p>{escape(text)}</p>" for text in profile.summary())
    notes += "".join(f'<p class="warning">{escape(text)}</p>' for text in profile.warnings())
    table = f'<table class="profile"><tr>{heads}</tr>{"".join(rows)}</table>'
    return f"<p>Microseconds of a call: {split}.</p>{notes}{table}"


__all__ = ["framed", "profile_table", "write_page"]
