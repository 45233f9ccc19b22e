"""Analysis of the tensors of an exported graph that share memory, or are written."""

from __future__ import annotations

import operator
from collections.abc import Iterator

from tvm_disc.frontends.torch.values import is_number
from tvm_disc.typing import ExportedProgram, FxNode

# Operators that write to the descriptor of a tensor, but not to its data.
_WITHOUT_DATA = ("aten.detach_.default",)


def written(program: ExportedProgram) -> frozenset[FxNode]:
    """Return the nodes whose memory an operator writes, through the node or through an alias.

    An operator without a schema, such as a branch or a loop, is assumed to write its operands.
    """
    classes = _Classes()
    for node in program.graph.nodes:
        if node.op == "call_function":
            shared, changed = _effects(node)
            for operand in shared:
                classes.join(node, operand)
            classes.written += changed
    found = {classes.root(node) for node in classes.written}
    return frozenset(n for n in program.graph.nodes if classes.root(n) in found)


class _Classes:
    """Union-find of nodes that may share memory."""

    def __init__(self) -> None:
        self.parents: dict[FxNode, FxNode] = {}
        self.written: list[FxNode] = []

    def root(self, node: FxNode) -> FxNode:
        while node in self.parents:
            node = self.parents[node]
        return node

    def join(self, a: FxNode, b: FxNode) -> None:
        a, b = self.root(a), self.root(b)
        if a is not b:
            self.parents[a] = b


def _effects(node: FxNode) -> tuple[list[FxNode], list[FxNode]]:
    """Return the operands that the result of a call may alias, and those that the call writes."""
    operands = list(node.all_input_nodes)
    if node.target is operator.getitem:
        return operands[:1], []
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        tensors = [n for n in (node, *operands) if not is_number(n.meta.get("val"))]
        return (tensors, tensors) if len(tensors) > 1 else ([], [])
    shared: list[FxNode] = []
    changed: list[FxNode] = []
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is None:
            continue
        value = node.args[position] if position < len(node.args) else None
        found = list(_nodes(node.kwargs.get(argument.name, value)))
        shared += found
        if argument.alias_info.is_write and str(node.target) not in _WITHOUT_DATA:
            changed += found
    aliases = any(result.alias_info is not None for result in schema.returns)
    return shared if aliases else [], changed


def _nodes(value: object) -> Iterator[FxNode]:
    if isinstance(value, list | tuple):
        for element in value:
            yield from _nodes(element)
    elif hasattr(value, "all_input_nodes"):
        yield value


__all__ = ["written"]
