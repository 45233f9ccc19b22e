"""The table of StableHLO operators in docs/jax.md: each is converted, or refused with a reason."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from tvm_disc.frontends.stablehlo.rows import FAMILIES, REFUSED

BEGIN = "<!-- begin: python -m tests.frontends.stablehlo.operators --write -->"
END = "<!-- end: operators -->"
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "jax.md"
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


def section(text: str) -> tuple[str, str, str]:
    """Return the text before the table, the table, and the text after it."""
    before, begin, rest = text.partition(f"{BEGIN}\n")
    inside, end, after = rest.partition(f"\n{END}")
    assert begin and end, f"expected the lines {BEGIN!r} and {END!r}"
    return before + begin, inside, end + after


def main() -> None:
    """Print the table, or write it into docs/jax.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/jax.md")
    if not parser.parse_args().write:
        print(table())
        return
    before, _, after = section(DOCUMENT.read_text(encoding="utf-8"))
    DOCUMENT.write_text(before + table() + after, encoding="utf-8")


if __name__ == "__main__":
    main()
