"""The HTML page of a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template

import numpy as np

from tvm_disc.bench.compare import OURS
from tvm_disc.bench.page.advice import (
    advice,
    at_text,
    duration,
    findings,
    label,
    least_us,
    verdict,
)
from tvm_disc.bench.page.chart import ChartAxis, Series, chart
from tvm_disc.bench.page.curves import Curve, Measured
from tvm_disc.bench.points import Point
from tvm_disc.runtime.calls import readable
from tvm_disc.runtime.page import framed, profile_table
from tvm_disc.runtime.summary import number_of

TIME = ChartAxis("time per call", duration, logarithmic=True)
PARTS = ChartAxis("percent", lambda value: f"{value:.0f} %", top=100.0)
MEMORY = ChartAxis("bytes", lambda size: readable(round(size)))
STATIC = (
    "<p>All dims of this model are known, so there is no curve. The table of all points has the "
    "one measurement.</p>"
)
LIMITS = ("arithmetic", "memory", "launch")


def write_report(path: Path, found: Measured) -> None:
    """Write the page."""
    folder = Path(__file__).parent
    body = Template((folder / "report.html").read_text("utf-8")).substitute(
        about=escape(", ".join(f"{k} {v}" for k, v in found.about.items())),
        verdict=escape(verdict(found)),
        findings="".join(f"<li>{escape(text)}</li>" for text in findings(found)),
        advice=_advice(found),
        curves="\n".join(_curve(found, c) for c in found.curves) or STATIC,
        cliffs=_cliffs(found),
        base=escape(at_text(found.base)),
        kernels=profile_table(found.at_base, linked=False),
        points=_points(found),
        engines=_engines(found),
    )
    style = (folder / "report.css").read_text("utf-8")
    path.write_text(framed(found.manifest, body, style, kind="Report: "), encoding="utf-8")


def _advice(found: Measured) -> str:
    rows = [
        f"<tr><td>{escape(a.why)}</td><td>{escape(a.do)}"
        + (f"<br><small>{escape(a.document)}</small>" if a.document else "")
        + "</td></tr>"
        for a in advice(found)
    ]
    if not rows:
        return "<p>Nothing that a change of settings would improve was found.</p>"
    return f"<table><tr><th>because</th><th>do</th></tr>{''.join(rows)}</table>"


# --- curves ----------------------------------------------------------------------------------


def _curve(found: Measured, curve: Curve) -> str:
    others = {n: s for n, s in found.base.items() if n in {c.dim for c in found.curves}}
    others.pop(curve.dim, None)
    fixed = f" with {at_text(others)}" if others else ""
    place = f" <small>{escape(curve.place)}{escape(fixed)}</small>"
    name = escape(curve.dim)
    charts = (
        chart(f"Time over {curve.dim}", curve.dim, TIME, _times(found, curve)),
        chart(f"What limits a call over {curve.dim}", curve.dim, PARTS, _parts(found, curve)),
        chart(f"Memory over {curve.dim}", curve.dim, MEMORY, _memory(found, curve)),
    )
    return f'<h3>{name}{place}</h3><div class="charts">{"".join(charts)}</div>'


def _times(found: Measured, curve: Curve) -> list[Series]:
    lines = []
    for style_number, engine in enumerate(e for e in found.engines if not e.reason):
        points = [
            (size, seconds)
            for size, point in zip(curve.values, curve.points, strict=True)
            if (seconds := found.row(point).median(engine.name)) is not None
        ]
        lines.append(Series(label(engine.name), style_number, points))
    return lines


def _parts(found: Measured, curve: Curve) -> list[Series]:
    """Return curves in percent of a call's time.

    The curves are the lower bound of the time, the time of kernels by their limit, and host time.
    """
    parts: dict[str, list[tuple[int, float]]] = {
        name: [] for name in ("limit reached", *LIMITS, "around kernels")
    }
    for size, point in zip(curve.values, curve.points, strict=True):
        profile = found.profile(point)
        if profile is None or profile.peaks is None:
            continue
        split, shares = profile.split(), {n: s for n, s, _ in profile.limits()}
        total = split["total_us"] or 1.0
        parts["limit reached"].append((size, 100 * least_us(profile) / total))
        for name in LIMITS:
            parts[name].append((size, 100 * shares.get(name, 0.0)))
        around = (split["host_us"] + split["python_us"]) / total
        parts["around kernels"].append((size, 100 * around))
    return [Series(name, k, points) for k, (name, points) in enumerate(parts.items())]


def _memory(found: Measured, curve: Curve) -> list[Series]:
    pairs = list(zip(curve.values, curve.points, strict=True))
    manifest = found.manifest
    tensors = {
        "inputs": [(dims, dtype) for _, dims, dtype in manifest["inputs"]],
        "results": manifest["results"],
    }
    lines = [
        _known("temporary", 0, [(s, number_of(manifest["workspace_bytes"], p)) for s, p in pairs])
    ]
    for number, (name, rows) in enumerate(tensors.items(), 1):
        lines.append(_known(name, number, [(s, _bytes(rows, p)) for s, p in pairs]))
    return lines


def _known(name: str, style_number: int, points: Iterable[tuple[int, int | None]]) -> Series:
    return Series(name, style_number, [(size, float(n)) for size, n in points if n is not None])


def _bytes(rows: Iterable[tuple[Sequence[str], str]], point: Point) -> int | None:
    """Return the number of bytes of tensors; None if a size depends on run-time values."""
    total = 0
    for dims, dtype in rows:
        sizes = [number_of(dim, point) for dim in dims]
        known = [size for size in sizes if size is not None]
        try:
            item = np.dtype(dtype).itemsize
        except TypeError:
            return None
        if len(known) < len(sizes):
            return None
        total += item * int(np.prod(known, dtype=np.int64))
    return total


# --- tables ----------------------------------------------------------------------------------


def _cliffs(found: Measured) -> str:
    if not found.curves:
        return "<p>No dim varies.</p>"
    if not found.cliffs:
        return "<p>None was found.</p>"
    rows = "".join(
        f"<tr><td>{escape(c.dim)}={c.size}</td><td>{duration(c.us / 1e6)}</td>"
        f"<td>{escape(c.dim)}={c.size + 1}</td><td>{duration(c.next_us / 1e6)}</td>"
        f"<td>{c.next_us / c.us:.2f}</td><td>{escape(', '.join(c.kernels) or 'none')}</td></tr>"
        for c in found.cliffs
    )
    heads = "<th>size</th><th>time</th><th>next size</th><th>time</th><th>ratio</th>"
    return f"<table><tr>{heads}<th>kernels whose variant changes</th></tr>{rows}</table>"


def _points(found: Measured) -> str:
    engines = [e.name for e in found.engines if not e.reason]
    dims = list(found.base)
    heads = "".join(f"<th>{escape(x)}</th>" for x in (*dims, *map(label, engines), "difference"))
    rows = []
    for row in found.rows.values():
        times = [t for e in engines for t in [row.median(e)]]
        cells = [
            *map(str, row.point.values()),
            *("-" if t is None else duration(t) for t in times),
        ]
        error = row.differences.get(OURS)
        differs = error is not None and not error <= found.tolerance
        cells.append("-" if error is None else f"{error:.1e}{' DIFFERS' if differs else ''}")
        rows.append("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in cells) + "</tr>")
        for engine, reason in row.failed.items():
            said = escape(f"{label(engine)}: {reason}")
            rows.append(f'<tr><td colspan="{len(cells)}" class="failed">{said}</td></tr>')
    return f"<table><tr>{heads}</tr>{''.join(rows)}</table>"


def _engines(found: Measured) -> str:
    rows = "".join(
        f"<tr><td>{escape(label(e.name))}</td><td>{escape(e.version or '-')}</td>"
        f"<td>{escape(e.reason or f'ready after {e.load_s:.2f} s')}</td></tr>"
        for e in found.engines
    )
    return f"<table><tr><th>engine</th><th>version</th><th></th></tr>{rows}</table>"


__all__ = ["write_report"]
