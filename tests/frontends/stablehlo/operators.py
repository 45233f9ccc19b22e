"""The table of StableHLO operators in docs/jax.md: each is converted, or refused with a reason."""

from __future__ import annotations

import re
from pathlib import Path

from tests.sections import Section
from tvm_disc.frontends.stablehlo.rows import FAMILIES, REFUSED

SECTION = Section("docs/jax.md", "tests.frontends.stablehlo.operators", "operators")
# of functions and regions: they have no converter of their own
STRUCTURE = ("constant", "return")


def defined() -> list[str]:
    """Return the names of all operators that JAX's StableHLO dialect defines."""
    from jaxlib.mlir.dialects import _stablehlo_ops_gen as generated

    text = Path(generated.__file__).read_text(encoding="utf-8")
    return sorted(set(re.findall(r'OPERATION_NAME = "stablehlo\.([\w-]+)"', text)))


def table() -> str:
    """Return the section of the document."""
    lines = ["| converted | operators |", "|---|---|"]
    for family, rows in FAMILIES.items():
        names = sorted(n for row in rows for n in row.name.split() if "." not in n and n != "call")
        lines.append(f"| {family} | {_code(names)} |")
    reasons: dict[str, list[str]] = {}
    for name, reason in REFUSED.items():
        reasons.setdefault(reason, []).append(name)
    lines += ["", "| refused | reason |", "|---|---|"]
    lines += [f"| {_code(names)} | {reason} |" for reason, names in reasons.items()]
    return "\n".join(lines)


def _code(names: list[str]) -> str:
    return ", ".join(f"`{n}`" for n in names)


if __name__ == "__main__":
    SECTION.command(__doc__, table)
