"""Conversion of functional graphs of `torch.compile` to Relay modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.torch.checks import checked, symbol_number
from tvm_disc.frontends.torch.inputs import ExportedInputs
from tvm_disc.frontends.torch.table import ROWS, TAKEN_APART, row_name
from tvm_disc.frontends.torch.values import Value, dim_of, relay_dtype
from tvm_disc.frontends.torch.walk import GraphConversion, described
from tvm_disc.frontends.torch.whole import writes
from tvm_disc.relay.expr import Expr, Function, Tuple
from tvm_disc.relay.module import IRModule
from tvm_disc.typing import FxGraph, FxNode, SymInt, TorchTensor


@dataclass(frozen=True)
class TorchGraph:
    """A converted graph.

    Attributes:
        module: the Relay module.
        inputs: the positions of the graph's inputs that the program takes, in order.
        numbers: the elements of ``inputs`` whose inputs are numbers.
        outputs: for each result of the graph, ("tensor", index) or ("number", index) of a result of
            the program, or ("known", value) of a constant.
    """

    module: IRModule
    inputs: tuple[int, ...]
    numbers: frozenset[int]
    outputs: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Refusal:
    """Why a graph cannot become one program.

    Attributes:
        nodes: the names of the nodes that prevent it; empty if they are unknown.
        reason: one or several lines for the user.
    """

    nodes: frozenset[str]
    reason: str


def graph_decompositions() -> Mapping[object, object]:
    """Return the decompositions for tracing: those of operators that have no converter or are in
    ``TAKEN_APART``.
    """
    from torch._decomp import core_aten_decompositions

    def kept(op: object) -> bool:
        name = row_name(op)
        return name in ROWS and name not in TAKEN_APART

    return {op: rule for op, rule in core_aten_decompositions().items() if not kept(op)}


def from_graph(graph: FxGraph, frozen: Mapping[int, object]) -> TorchGraph | Refusal:
    """Return a graph of ATen operators as a program, or the nodes that prevent this.

    Nodes without a converter, nodes that write into tensors, and readers of inputs of unsupported
    types are refused.

    Args:
        graph: the graph module.
        frozen: inputs that become constants, by position.

    Raises:
        Unsupported: the graph as a whole cannot be a program, independently of its nodes.
    """
    holes = [n for n in graph.graph.nodes if n.op == "placeholder"]
    unreadable = [k for k, n in enumerate(holes) if _why_unreadable(n)]
    refusal = _readers([holes[k] for k in unreadable]) or _writers(graph)
    if refusal is not None:
        return refusal
    walk = GraphConversion()
    vals: list[object] = [
        None if k in unreadable else n.meta.get("val") for k, n in enumerate(holes)
    ]
    tensors = [k for k, v in enumerate(vals) if hasattr(v, "shape") and k not in frozen]
    numbers = _numbers(vals, tensors)
    taken = sorted([*tensors, *numbers])
    inputs = ExportedInputs(walk.symbols, [(holes[k].name, vals[k]) for k in taken])
    given: dict[str, object] = {}
    for k, (node, val) in enumerate(zip(holes, vals, strict=True)):
        if k in frozen:
            given[node.name] = walk.constant(frozen[k])
        elif hasattr(val, "shape"):
            given[node.name] = inputs.variables[node.name]
        else:
            given[node.name] = val.node.expr if hasattr(val, "node") else val
    made = walk.graph(graph, given)
    if walk.refused:
        return Refusal(frozenset(n.name for n in walk.refused), described(walk.problems))
    inputs.know(walk.facts)
    params = [inputs.variables[holes[k].name].expr for k in taken]
    results, outputs = _results(walk, made)
    body = results[0] if len(results) == 1 else Tuple(tuple(results))
    body = checked(body, inputs.computed, partial(symbol_number, walk.symbols))
    attrs = {}
    if inputs.constraints:
        attrs = {"constraints": tuple(inputs.constraints), "origins": tuple(inputs.origins)}
    module = IRModule.from_expr(Function(params, body, attrs=attrs))
    return TorchGraph(module, tuple(taken), frozenset(numbers), outputs)


def _results(
    walk: GraphConversion, made: Sequence[object]
) -> tuple[list[Expr], tuple[tuple[str, Any], ...]]:
    """Return the program's results, and ``TorchGraph.outputs``."""
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
        raise Unsupported("the graph has no tensor as a result")
    return results, tuple(outputs)


def _why_unreadable(hole: FxNode) -> str:
    """Return the reason why Relay cannot represent an input, or an empty string."""
    val = hole.meta.get("val")
    try:
        if hasattr(val, "shape"):
            relay_dtype(val.dtype)
    except Unsupported as error:
        return f"input {hole.name!r}: {error}"
    return ""


def _readers(unreadable: Sequence[Any]) -> Refusal | None:
    """Return the nodes that read inputs which Relay cannot represent, or None."""
    readers = {n.name: _why_unreadable(hole) for hole in unreadable for n in hole.users}
    if not readers:
        return None
    return Refusal(frozenset(readers), "\n  ".join(dict.fromkeys(readers.values())))


def _writers(graph: FxGraph) -> Refusal | None:
    """Return the nodes that write into tensors, or None."""
    nodes = [n for n in graph.graph.nodes if n.op == "call_function" and writes(n.target)]
    if not nodes:
        return None
    told = ", ".join(dict.fromkeys(str(n.target) for n in nodes))
    return Refusal(frozenset(n.name for n in nodes), f"operators that write into tensors: {told}")


def _numbers(vals: Sequence[SymInt | TorchTensor], tensors: Sequence[int]) -> list[int]:
    """Return the positions of inputs that are symbols, except symbols that are dims of tensors.

    The program computes all other numbers from symbols and dims.
    """
    sizes = {d for k in tensors for d in map(dim_of, vals[k].shape) if not isinstance(d, int)}
    found: dict[object, int] = {}
    for k, v in enumerate(vals):
        if hasattr(v, "node") and v.node.expr.is_Symbol and v.node.expr not in sizes:
            found.setdefault(v.node.expr, k)
    return list(found.values())
