"""Numbers of the CPU templates: each is declared with a reason; costs belong to the cost model.

The table "Numbers in templates" of docs/dispatch.md lists every numeric constant of a module with
a kind. A number that compares the times of two alternatives is a coefficient of ``CostModel`` or a
limit of ``Memory``, which measurements can correct. No kind of the table allows it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("attention", "conv", "gemm", "loops", "opaque", "rows", "transpose", "")
KINDS = ("capacity", "structure", "numerics", "operations", "fitted")
# Numbers that still compare two alternatives outside of the model. This set may only shrink.
FITTED = {
    ("attention/mask_skip.py", "FEWEST_KEYS"),
    ("attention/mask_skip.py", "FEWEST_QUERIES"),
    ("conv/channel_groups.py", "_MOST_SINGLE"),
    ("conv/macro_kernel.py", "_LEAST_BLOCKS"),
    ("conv/macro_kernel.py", "_ROW_BLOCKS"),
    ("conv/macro_kernel.py", "_SMALL_IMAGE"),
    ("conv/winograd.py", "_FEWEST_CHANNELS"),
    ("conv/zones.py", "_FEW_ROWS"),
    ("conv/zones.py", "_GAIN"),
    ("gemm/micro_kernel.py", "_STREAMED_ROWS"),
}
COST = re.compile(r"(^|_)(costs?|ns|cycles|work)$")
ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
Name = tuple[str, str]


def numbers(value: ast.expr) -> bool:
    """Whether an expression consists of numeric literals; a lone 0 or 1 is none."""
    parts = [n for n in ast.walk(value) if isinstance(n, ast.Constant)]
    named = any(isinstance(n, ast.Name | ast.Call | ast.Attribute) for n in ast.walk(value))
    kinds = {type(p.value) for p in parts}
    return bool(parts) and not named and kinds <= {int, float}


def constants(source: str) -> set[str]:
    """The names that a module binds to numbers."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        elif isinstance(node, ast.Assign):
            targets, value = list(node.targets), node.value
        else:
            continue
        if not isinstance(value, ast.Dict | ast.Set) and numbers(value):
            found |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return found


def compared(source: str) -> Iterator[str]:
    """Comparisons of a cost with a literal above one."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ORDER):
            continue
        parts = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
        names = {p.id for p in parts if isinstance(p, ast.Name)}
        names |= {p.attr for p in parts if isinstance(p, ast.Attribute)}
        literals = [p.value for p in parts if isinstance(p, ast.Constant)]
        large = any(type(v) in (int, float) and v > 1 for v in literals)
        if large and any(COST.search(name) for name in names):
            yield ast.unparse(node)


def sources(root: Path) -> dict[str, str]:
    """The modules of the CPU templates, by their path below ``schedules``."""
    top = root / "tvm_disc" / "schedules"
    files = [path for folder in FOLDERS for path in sorted((top / folder).glob("*.py"))]
    return {str(path.relative_to(top)): path.read_text(encoding="utf-8") for path in files}


def declared(page: str) -> dict[Name, str]:
    """The kind of every constant in the table of the page."""
    section = page.partition("## Numbers in templates\n")[2].partition("\n## ")[0]
    found: dict[Name, str] = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[2] in KINDS:
            for name in re.findall(r"`(\w+)`", cells[1]):
                found[cells[0].strip("`"), name] = cells[2]
    return found


def test_every_number_of_a_template_is_declared(root: Path) -> None:
    found = {(path, name) for path, text in sources(root).items() for name in constants(text)}
    known = declared((root / "docs" / "dispatch.md").read_text(encoding="utf-8"))
    rule = "make it a coefficient of CostModel, or add a row with its reason to docs/dispatch.md"
    assert found - set(known) == set(), rule
    assert set(known) - found == set(), "remove these rows from docs/dispatch.md"
    assert {name for name, kind in known.items() if kind == "fitted"} <= FITTED, rule


def test_no_cost_is_compared_with_a_literal(root: Path) -> None:
    found = [(path, text) for path, source in sources(root).items() for text in compared(source)]
    assert found == [], "name the number in CostModel"


def test_what_is_found() -> None:
    source = (
        "DOUBT = 1.15\nA, _B = 24, 15\nX: int = 1 << 20\nN = max(2, 3)\nT = ('a', 2)\nP = (1, 2)"
    )
    assert constants(source) == {"DOUBT", "A", "_B", "X", "P"}
    assert constants("def f():\n    n = 3\nKEYS = {'a': 1}\nOTHER = X * 2") == set()
    assert list(compared("if cost[node] >= 4 and n > 4: pass")) == ["cost[node] >= 4"]
    assert list(compared("if sum(n.row.cost for n in x) > 6: pass"))
    assert not list(compared("if cost[node] >= keep_ops or work > 0 or n > 7: pass"))
    table = "## Numbers in templates\n| `a.py` | `X`, `_Y` | capacity | code |\n"
    table += "| `a.py` | `Z` | cost | no |\n"
    assert declared(table + "\n## Next\n| `a.py` | `W` | capacity | code |") == {
        ("a.py", "X"): "capacity",
        ("a.py", "_Y"): "capacity",
    }
