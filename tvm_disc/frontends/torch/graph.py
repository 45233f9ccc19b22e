"""Functional graphs of `torch.compile` as Relay modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.torch.inputs import Inputs
from tvm_disc.frontends.torch.table import ROWS, TAKEN_APART, row_name
from tvm_disc.frontends.torch.values import Value, dim_of
from tvm_disc.frontends.torch.walk import Walk, refuse
from tvm_disc.relay import Expr, Function, IRModule, Tuple


@dataclass(frozen=True)
class Graph:
    """A graph as a program.

    Attributes:
        module: the Relay module.
        inputs: which of the graph's inputs the program takes, in order.
        numbers: those of them that are numbers.
        outputs: what each result of the graph is: one of the program, or a value known now.
    """

    module: IRModule
    inputs: tuple[int, ...]
    numbers: frozenset[int]
    outputs: tuple[tuple[str, Any], ...]


def graph_decompositions() -> Mapping[Any, Any]:
    """What PyTorch shall take apart while it traces: all that the table lacks."""
    from torch._decomp import core_aten_decompositions

    def kept(op: Any) -> bool:
        name = row_name(op)
        return name in ROWS and name not in TAKEN_APART

    return {op: rule for op, rule in core_aten_decompositions().items() if not kept(op)}


def from_graph(graph: Any, frozen: Mapping[int, Any]) -> Graph:
    """The program of a graph of ATen operators that writes into nothing.

    Args:
        frozen: inputs that become constants, by position.

    Raises:
        Unsupported: naming every node that has no meaning here.
    """
    walk = Walk()
    holes = [n for n in graph.graph.nodes if n.op == "placeholder"]
    vals = [n.meta.get("val") for n in holes]
    tensors = [k for k, v in enumerate(vals) if hasattr(v, "shape") and k not in frozen]
    sizes = _sizes(vals, tensors)
    numbers = [k for k, v in enumerate(vals) if hasattr(v, "node") and v.node.expr not in sizes]
    taken = sorted([*tensors, *numbers])
    inputs = Inputs(walk.symbols, [(holes[k].name, vals[k]) for k in taken])
    given: dict[str, Any] = {}
    for k, (node, val) in enumerate(zip(holes, vals, strict=True)):
        if k in frozen:
            given[node.name] = walk.constant(frozen[k])
        elif hasattr(val, "shape"):
            given[node.name] = inputs.variables[node.name]
        else:
            given[node.name] = val.node.expr if hasattr(val, "node") else val
    made = walk.graph(graph, given)
    refuse(walk.problems)
    inputs.know(walk.facts)
    results: list[Expr] = []
    outputs: list[tuple[str, Any]] = []
    for value in made:
        if isinstance(value, Value):
            outputs.append(("tensor", len(results)))
            results.append(value.expr)
        elif value is None or isinstance(value, bool | int | float):
            outputs.append(("known", value))
        else:
            outputs.append(("number", len(results)))
            results.append(walk.maker.tensor(value).expr)
    if not results:
        raise Unsupported("a graph without tensors as results")
    body = results[0] if len(results) == 1 else Tuple(tuple(results))
    attrs = {"constraints": tuple(inputs.constraints)} if inputs.constraints else {}
    params = [inputs.variables[holes[k].name].expr for k in taken]
    module = IRModule.from_expr(Function(params, body, attrs=attrs))
    return Graph(module, tuple(taken), frozenset(numbers), tuple(outputs))


def _sizes(vals: list[Any], tensors: list[int]) -> set[Any]:
    """The symbols that are dims of tensors."""
    return {d for k in tensors for d in map(dim_of, vals[k].shape) if not isinstance(d, int)}
