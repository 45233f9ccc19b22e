"""Number of nodes of an ONNX model after inlining, checked before any node is converted.

The body of a function is converted once per call. The body of a loop is converted repeatedly, until
the types of its state no longer change. A file of 3 kB can expand to 2**30 nodes: thirty functions,
each of which calls the next one twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm_disc.errors import Unsupported, shown
from tvm_disc.frontends.onnx.table import normal
from tvm_disc.support.limits import LOOP_BODY, MOST_DEPTH, most_nodes
from tvm_disc.typing import GraphProto, NodeProto, Proto

Key: TypeAlias = tuple[str, str, str]  # domain, name and overload
Functions: TypeAlias = Mapping[Key, Any]


@dataclass(frozen=True)
class Size:
    """Size of a graph or a function after inlining: the number of nodes, and the nesting depth of
    bodies and calls.
    """

    nodes: int
    depth: int


def function_key(proto: Proto) -> Key:
    """Return (domain, name, overload), which identify a function in a model."""
    return normal(proto.domain), proto.name, getattr(proto, "overload", "")


def called(node: NodeProto) -> Key:
    """Return the key that a function must have for the node to be a call of it."""
    return normal(node.domain), node.op_type, getattr(node, "overload", "")


def node_limit(graph: GraphProto, functions: Functions) -> int:
    """Return the maximum number of nodes that a model may have after inlining.

    Raises:
        Unsupported: the model has more nodes; a function calls itself; or bodies are nested too
            deep.
    """
    written = sum(1 for body in (graph, *functions.values()) for _ in _nodes(body))
    sizes: dict[Key, Size] = {}
    for key in functions:
        _measure(key, functions, sizes)
    found, limit = _size("the graph", graph, sizes), most_nodes(written)
    if found.nodes > limit:
        largest = max(sizes, key=lambda key: sizes[key].nodes, default=None)
        of_it = ""
        if largest is not None:
            of_it = f"; one call of function {_named(largest)} is {sizes[largest].nodes} nodes"
        raise Unsupported(
            f"the ONNX model has {written} nodes, and {found.nodes} after functions are inlined "
            f"and bodies of loops are converted {LOOP_BODY} times; at most {limit} are allowed "
            f"for a model of this size{of_it}. Call functions less often, or nest fewer loops"
        )
    return limit


def _measure(start: Key, functions: Functions, sizes: dict[Key, Size]) -> None:
    """Add the sizes of a function and of all its callees to ``sizes``.

    The search is iterative, because calls may be nested deeper than Python's recursion limit.

    Raises:
        Unsupported: a function calls itself.
    """
    path: list[Key] = []
    left = [(start, False)]
    while left:
        key, done = left.pop()
        if done:
            path.pop()
            sizes[key] = _size(f"function {_named(key)}", functions[key], sizes)
        elif key in path:
            circle = [*path[path.index(key) :], key]
            raise Unsupported(
                "ONNX functions cannot call themselves, found "
                f"{' -> '.join(map(_named, circle[:20]))}; write a Loop instead"
            )
        elif key not in sizes:
            path.append(key)
            left.append((key, True))
            inner = {called(node) for node, _, _ in _nodes(functions[key])}
            left += [(k, False) for k in sorted(inner & functions.keys()) if k not in sizes]


def _size(what: str, body: GraphProto, sizes: Mapping[Key, Size]) -> Size:
    nodes = depth = 0
    for node, times, level in _nodes(body):
        own = sizes.get(called(node), Size(0, 0))
        nodes += times * (1 + own.nodes)
        depth = max(depth, level + own.depth + 1)
        if depth > MOST_DEPTH:
            raise Unsupported(
                f"{what} of the ONNX model: bodies of branches and loops and calls of functions "
                f"are nested more than {MOST_DEPTH} deep at node {shown(node.name)} of operator "
                f"{shown(node.op_type)}; reduce the nesting"
            )
    return Size(nodes, depth)


def _nodes(body: GraphProto) -> Iterator[tuple[Any, int, int]]:
    """Yield (node, number of conversions, depth) for every node, including nested bodies."""
    left: list[tuple[Sequence[Any], int, int]] = [(body.node, 1, 0)]
    while left:
        nodes, times, level = left.pop()
        for node in nodes:
            yield node, times, level
            for a in node.attribute:
                more = LOOP_BODY if a.name == "body" else 1
                left += [(g.node, times * more, level + 1) for g in (a.g, *a.graphs) if g.node]


def _named(key: Key) -> str:
    return shown(".".join(part for part in key if part))


__all__ = ["called", "function_key", "node_limit"]
