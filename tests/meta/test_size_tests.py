"""Bodies of kernels do not compare dims with fitted numbers: the tree above them decides.

The comparisons that remain are listed here with their reasons, which docs/dispatch.md explains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad

from tests.schedules.golden.cases import CASES, Case, the_kernel

COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)

# Literals that are numbers of lanes, registers or unrolled steps: the condition of the only code
# that is right for these sizes.
VECTORS = "whole vectors or registers"
UNROLLED = "a kernel for exactly this size"
STRIDE = "N as the stride of B's rows"
FEW_ROWS = "the kernels of quantized weights exist for these rows only"
# Fitted numbers that remain, which are to become variants.
SEARCH = "fitted: the search of a mask, whose gain depends on values"
SHARED = "fitted: small images share panels"
ZONES = "fitted: panels that skip rows of taps in the padding"
LEFT: dict[str, dict[str, str]] = {
    "broadcast": {"n >= 16": VECTORS},
    "runs": {"n >= 16": VECTORS},
    "transpose": {"m >= 16": VECTORS},
    "row_sums": {f"m <= {n}": VECTORS for n in (8, 16, 32)},
    "matmul": {
        **{f"k == {n}": UNROLLED for n in (2, 3, 4)},
        **{f"n <= {n}": UNROLLED for n in (2, 4)},
        "n > 2": UNROLLED,
        "n >= 7": STRIDE,
        **{f"rest_k > {n}": UNROLLED for n in (2, 3)},
    },
    "quantized_weights": {"n <= 3": FEW_ROWS},
    "attention_masked": {f"s >= {n}": SEARCH for n in (8, 128)},
    "conv_padded": {"h <= 16": ZONES, "h * w < 512": SHARED},
}


def parts(node: Any) -> list[Any]:
    """A node and everything below it."""
    found: list[Any] = []
    tvm_ffi.structural_walk(node, (tvm_ffi.Object, lambda part: found.append(part)))
    return found


def conditions(nodes: list[Any]) -> Iterator[Any]:
    """The conditions of branches and selects."""
    for node in nodes:
        if isinstance(node, tirx.IfThenElse | tirx.Select):
            yield node.condition
        elif isinstance(node, Call) and str(getattr(node.op, "name", "")).endswith("if_then_else"):
            yield node.args[0]


class Sizes:
    """The variables and stack cells of a body that hold functions of dims alone."""

    def __init__(self, nodes: list[Any], symbols: set[str]) -> None:
        self.known = set(symbols)
        self.cells: dict[str, list[Any]] = {}
        binds = [(str(n.var.name), n.value) for n in nodes if type(n).__name__ == "Bind"]
        for node in nodes:
            if isinstance(node, tirx.BufferStore):
                self.cells.setdefault(str(node.buffer.name), []).append(node.value)
        for _ in range(3):  # a variable may be computed from other ones
            self.known |= {name for name, value in binds if self.derived(value)}

    def derived(self, expr: Any) -> bool:
        """Whether an expression reads dims and nothing else."""
        names, loads = set[str](), set[str]()
        for part in parts(expr):
            if isinstance(part, tirx.Var):
                names.add(str(part.name))
            elif isinstance(part, TensorLoad):
                loads.add(str(part.source.name))
        stored = [v for name in loads for v in self.cells.get(name, [None]) if v is not expr]
        return (
            bool(names | loads)
            and names - loads <= self.known
            and all(v is not None and self.derived(v) for v in stored)
        )


def literal(expr: Any) -> bool:
    """Whether an expression has a literal above one."""
    return any(isinstance(p, tirx.IntImm) and abs(int(p.value)) > 1 for p in parts(expr))


def fitted(nodes: list[Any], symbols: set[str]) -> set[str]:
    """The comparisons of dims with literals above one."""
    sizes, found = Sizes(nodes, symbols), set[str]()
    for condition in conditions(nodes):
        for node in parts(condition):
            whole = isinstance(node, COMPARISONS) and not str(node.ty.dtype).startswith("boolx")
            if whole and literal(node) and sizes.derived(node):
                text = re.sub(r"T\.int64\((-?\d+)\)", r"\1", str(node))
                found.add(re.sub(r"\b([a-z]+(_[a-z]+)*)(_\d+)?\b", r"\1", text))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bodies_leave_the_choice_to_the_tree(case: Case) -> None:
    kernel = the_kernel(case)
    symbols = {str(s.name) for s in kernel.symbols}
    found = set[str]()
    for gv, func in kernel.funcs.items():
        if "_body" in gv.name_hint:
            found |= fitted(parts(func.body), symbols)
    assert found == set(LEFT.get(case.name, {})), "compare sizes in a variant's cost, not in a body"


def test_a_fitted_number_is_found() -> None:
    m, k = (tirx.Var(name, "int64") for name in "mk")
    nothing = tirx.Evaluate(tirx.const(0, "int32"))
    body = tirx.IfThenElse(m * (k * 2 + 320) < m * (k * 18 + 128), nothing, None)
    assert fitted(parts(body), {"m", "k"}) == {"m * (k * 2 + 320) < m * (k * 18 + 128)"}
    assert fitted(parts(body), {"m"}) == set()
