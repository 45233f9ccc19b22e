"""Partition of a graph of ATen operators into compiled parts and nodes that PyTorch executes.

Every supported node has a level: the maximum number of edges from a supported to an unsupported
node on a path from the inputs to it. The supported nodes of one level form one part. A part is
convex, because a path that leaves the part through an unsupported node reaches only nodes of higher
levels. The number of parts is minimal.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeAlias

from tvm_disc.frontends.torch.values import dim_of, is_number
from tvm_disc.frontends.torch.whole import writes
from tvm_disc.typing import FxNode, GraphModule, SymExpr, SymInt, TorchTensor

# Runs a part: takes and returns lists of tensors and numbers.
Runner: TypeAlias = Callable[[list[TorchTensor]], Sequence[TorchTensor]]


@dataclass(frozen=True)
class Part:
    """A convex set of nodes.

    Attributes:
        graph: a module of only these nodes.
        inputs: the nodes of the whole graph that are inputs of the part.
        outputs: the nodes of the whole graph that are results of the part.
        last: the name of the last tensor operator of the part.
    """

    graph: GraphModule
    inputs: list[FxNode]
    outputs: list[FxNode]
    last: str


@dataclass(frozen=True)
class PartitionedGraph:
    """A partitioned graph.

    Attributes:
        graph: the whole graph.
        steps: parts, and nodes that PyTorch executes, in the order of execution.
    """

    graph: GraphModule
    steps: Sequence[Part | FxNode]

    @property
    def parts(self) -> list[Part]:
        """Return the parts, in the order of execution."""
        return [s for s in self.steps if isinstance(s, Part)]

    def joined(self, run: Sequence[Runner]) -> GraphModule:
        """Return a module of the whole graph that calls ``run[k]`` for the k-th part.

        Each function takes a list of the part's inputs and returns its results.
        """
        import torch

        made = torch.fx.Graph()
        copies: dict[FxNode, FxNode] = {}
        given = [n for n in self.graph.graph.nodes if n.op in ("placeholder", "get_attr")]
        for node in given:
            copies[node] = made.node_copy(node)
        named = [n.target for n in given if n.op == "get_attr"]
        attributes = {name: operator.attrgetter(name)(self.graph) for name in named}
        for k, step in enumerate(self.steps):
            if not isinstance(step, Part):
                copies[step] = made.node_copy(step, copies.__getitem__)
                copies[step].target = _any_layout(step.target)
                continue
            name = f"part_{k}"
            attributes[name] = _caller(run[self.parts.index(step)])
            call = made.call_module(name, tuple(copies[n] for n in step.inputs))
            for at, node in enumerate(step.outputs):
                copies[node] = made.call_function(operator.getitem, (call, at))
        (end,) = (n for n in self.graph.graph.nodes if n.op == "output")
        made.node_copy(end, copies.__getitem__)
        return torch.fx.GraphModule(attributes, made)


def _caller(run: Runner) -> object:
    """Return a module that calls ``run``, because a PyTorch graph can call modules by name."""
    import torch

    class Caller(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *args: object) -> Sequence[object]:
            return run(list(args))

    return Caller()


def _any_layout(target: object) -> object:
    """Return an equivalent operator that accepts operands of any strides.

    A view is valid only for the strides of PyTorch's results, but results of parts are contiguous.
    """
    import torch

    views = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)
    return torch.ops.aten.reshape.default if target in views else target


def computes(node: FxNode) -> bool:
    """Return whether a node is a tensor operator: no arithmetic on sizes, no access to a field."""
    return (
        node.op == "call_function"
        and node.target is not operator.getitem
        and not is_number(node.meta.get("val"))
    )


def count(graph: GraphModule) -> int:
    """Return the number of tensor operators of a graph."""
    return sum(map(computes, graph.graph.nodes))


def split(graph: GraphModule, refused: Iterable[str]) -> PartitionedGraph | None:
    """Partition a graph; PyTorch executes the nodes named ``refused``.

    Each part has at least one operator that is not a view. Returns None if there is no part, or if
    nodes must not be reordered because a written tensor is read again or memory is addressed by
    strides.
    """
    nodes = [n for n in graph.graph.nodes if n.op == "call_function"]
    outside = _with_fields(nodes, set(refused))
    if not _movable(nodes, outside):
        return None
    sizes = _sizes(nodes)
    levels = _levels(nodes, outside, sizes)
    last = max(levels.values(), default=0)
    steps: list[FxNode | list[FxNode]] = [n for n in nodes if n in sizes]
    for level in range(last + 1):
        here = [n for n in nodes if n not in sizes and levels[n] == level]
        steps += [n for n in here if n in outside]
        members = [n for n in here if n not in outside]
        if any(computes(n) and not _is_view(n) for n in members):
            steps.append(members)
        else:
            steps += members
    # Operators that write into inputs run last, after all reads of the inputs.
    steps.sort(key=lambda s: not isinstance(s, list) and writes(s.target))
    inputs = [_inputs(graph, s) if isinstance(s, list) else [] for s in steps]
    read = {n for nodes in inputs for n in nodes}
    found = [
        _part(graph, s, i, read) if isinstance(s, list) else s
        for s, i in zip(steps, inputs, strict=True)
    ]
    return PartitionedGraph(graph, found) if any(isinstance(s, Part) for s in found) else None


def prefix(graph: GraphModule, length: int) -> Part:
    """Return a part with the first ``length`` tensor operators of a graph."""
    order = [n for n in graph.graph.nodes if n.op == "call_function"]
    operators = [n for n in order if computes(n)]
    stop = order.index(operators[length]) if length < len(operators) else len(order)
    return _part(graph, order[:stop], _inputs(graph, order[:stop]))


def _with_fields(nodes: Sequence[FxNode], names: set[str]) -> set[FxNode]:
    """Return the nodes in ``names``, nodes that extract fields of their results, and all writes."""
    found: set[FxNode] = set()
    for node in nodes:
        fields = node.target is operator.getitem and node.args[0] in found
        if node.name in names or fields or writes(node.target):
            found.add(node)
    return found


def _movable(nodes: Sequence[FxNode], outside: set[FxNode]) -> bool:
    written = [n for n in nodes if writes(n.target)]
    if any(u.op != "output" for n in written for u in n.users):
        return False
    strided = [n for n in nodes if n in outside and str(n.target).startswith("aten.as_strided")]
    return all(n.args[0].op == "placeholder" for n in strided)


def _sizes(nodes: Sequence[FxNode]) -> set[FxNode]:
    """Return the nodes that compute numbers from only the graph's inputs."""
    found: set[FxNode] = set()
    for node in nodes:
        fixed = all(i in found or i.op == "placeholder" for i in node.all_input_nodes)
        known = not node.meta.get("unbacked_bindings")
        if fixed and known and is_number(node.meta.get("val")) and node.users:
            found.add(node)
    return found


def _levels(nodes: Sequence[FxNode], outside: set[FxNode], sizes: set[FxNode]) -> dict[FxNode, int]:
    """Return the level of every node.

    Unsupported nodes that draw random numbers or whose result nothing reads get levels in the order
    of the graph, so that their order is preserved.
    """
    found: dict[FxNode, int] = {}
    drawn = 0
    for node in nodes:
        before = [i for i in node.all_input_nodes if i in found and i not in sizes]
        own = node in outside
        level = max((found[i] + (own and i not in outside) for i in before), default=0)
        if own and _is_ordered(node):
            level = drawn = max(level, drawn)
        found[node] = level
    return found


def _is_ordered(node: FxNode) -> bool:
    import torch

    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags or not node.users


def _is_view(node: FxNode) -> bool:
    returns = getattr(getattr(node.target, "_schema", None), "returns", ())
    return bool(returns) and all(r.alias_info is not None for r in returns)


# -- graph of a part -----------------------------------------------------------------------------


def _part(
    graph: GraphModule,
    members: list[FxNode],
    inputs: list[FxNode],
    read: Set[FxNode] = frozenset(),
) -> Part:
    """Return the part of the nodes ``members``.

    Its results are the nodes that other nodes read, and those in ``read``.
    """
    import torch

    inside = set(members)
    outputs = [n for n in members if n in read or any(u not in inside for u in n.users)]
    made = torch.fx.Graph()
    copies: dict[FxNode, FxNode] = {}
    for node in inputs:
        copies[node] = made.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in members:
        for attribute in (i for i in node.all_input_nodes if i.op == "get_attr"):
            if attribute not in copies:
                copies[attribute] = made.node_copy(attribute)
        copies[node] = made.node_copy(node, copies.__getitem__)
    made.output(tuple(copies[n] for n in outputs))
    last = [n.name for n in members if computes(n)][-1]
    return Part(torch.fx.GraphModule(graph, made), inputs, outputs, last)


def _inputs(graph: GraphModule, members: Sequence[FxNode]) -> list[FxNode]:
    """Return the inputs of a part: the nodes that it reads, and nodes whose values have the other
    symbols of its sizes.
    """
    inside = set(members)
    read = (i for n in members for i in n.all_input_nodes if i.op != "get_attr")
    found = dict.fromkeys(i for i in read if i not in inside)
    have = {s for i in found for s in _plain_symbols(i)}
    wanted = {s for n in (*found, *members) for s in _symbols(n.meta.get("val"))}
    sources = _sources(graph)
    for symbol in sorted(wanted - have, key=str):
        source = sources.get(symbol)
        if source is not None and source not in inside:
            found.setdefault(source)
    return list(found)


def _sources(graph: GraphModule) -> Mapping[SymExpr, FxNode]:
    """Return for each symbol the first node that is the symbol, or else the first tensor of which
    it is a dim.
    """
    numbers: dict[SymExpr, FxNode] = {}
    tensors: dict[SymExpr, FxNode] = {}
    for node in graph.graph.nodes:
        kept = numbers if is_number(node.meta.get("val")) else tensors
        for symbol in _plain_symbols(node):
            kept.setdefault(symbol, node)
    return {**tensors, **numbers}


def _plain_symbols(node: FxNode) -> list[SymExpr]:
    """Return the symbols that are a dim of a node's value, or the value itself."""
    val = node.meta.get("val")
    dims = [dim_of(d) for d in val.shape] if hasattr(val, "shape") else []
    if hasattr(val, "node"):
        dims = [val.node.expr]
    return [d for d in dims if getattr(d, "is_Symbol", False)]


def _symbols(val: TorchTensor | SymInt) -> set[SymExpr]:
    if isinstance(val, list | tuple):
        return {s for v in val for s in _symbols(v)}
    if hasattr(val, "shape"):
        return {s for d in val.shape for s in getattr(dim_of(d), "free_symbols", ())}
    return set(val.node.expr.free_symbols) if hasattr(val, "node") else set()


__all__ = ["Part", "PartitionedGraph", "Runner", "computes", "count", "prefix", "split"]
