"""Generate the diagram of packages and imports: ``python -m tests.meta.packages --write``.

The diagram is a section of CONTRIBUTING.md; without ``--write`` it is printed.
"""

from __future__ import annotations

import graphlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.meta.imports import FACES, PACKAGE, graph, package_of
from tests.sections import ROOT, Section

SECTION = Section("CONTRIBUTING.md", "tests.meta.packages", "packages")
# These modules import all others, which says nothing about the layers.
OUTSIDE = {"__init__", "__main__", "paths"}


def packages(root: Path) -> dict[str, set[str]]:
    """Return the packages that each package imports."""
    found: dict[str, set[str]] = {}
    for module, targets in graph(root).items():
        package = package_of(module)
        if package not in OUTSIDE and module not in FACES:
            others = found.setdefault(package, set())
            others.update(o for o in map(package_of, targets) if o not in {package, *OUTSIDE})
    return found


def reduced(imported: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the transitive reduction: imports that others imply are omitted."""
    below: dict[str, set[str]] = {}
    for package in graphlib.TopologicalSorter(imported).static_order():
        direct = imported[package]
        below[package] = direct.union(*(below[o] for o in direct))
    return {
        package: {o for o in others if not any(o in below[x] for x in others - {o})}
        for package, others in imported.items()
    }


def picture(root: Path) -> str:
    """Return the diagram as the section of CONTRIBUTING.md."""
    imported = packages(root)
    lines = ["```mermaid", "flowchart BT"]
    for package in sorted(imported):
        folder = root / PACKAGE / package
        inside = sorted(p.parent.name for p in folder.glob("*/__init__.py"))
        label = f"{package}/" if folder.is_dir() else f"{package}.py"
        text = "<br/>".join([f"<b>{label}</b>", *(" ".join(x) for x in _rows(inside))])
        lines.append(f'    {package}["{text}"]')
    edges = reduced(imported)
    lines += [f"    {one} --> {other}" for one in sorted(edges) for other in sorted(edges[one])]
    return "\n".join([*lines, "```"])


def _rows(names: Sequence[str], width: int = 4) -> list[Sequence[str]]:
    return [names[k : k + width] for k in range(0, len(names), width)]


if __name__ == "__main__":
    SECTION.command(__doc__, lambda: picture(ROOT))
