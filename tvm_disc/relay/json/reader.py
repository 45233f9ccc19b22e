"""Reader of legacy JSON."""

from __future__ import annotations

from tvm_disc.errors import ParseError
from tvm_disc.relay.attrs import AttrError, plain_value
from tvm_disc.relay.expr import Attrs, Call, Expr, Function
from tvm_disc.relay.json.legacy import LegacyGraph
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.ops.table import call_attrs
from tvm_disc.relay.visit import post_order


def load_json(text: str) -> object:
    """Return the Relay object in JSON written by ``tvm.ir.save_json``, usually an IRModule.

    Raises:
        ParseError: ``text`` is not legacy JSON, is damaged, or names unknown operators.
    """
    graph = LegacyGraph(text)
    loaded = graph.decode(graph.root)
    if isinstance(loaded, Expr):
        return finish(loaded, graph)
    if isinstance(loaded, IRModule):
        for func in loaded.functions.values():
            finish(func, graph)
    return loaded


def finish(root: Expr, graph: LegacyGraph) -> Expr:
    """Complete, in place, the attributes of every call of ``graph`` under ``root``; return
    ``root``.
    """
    for node in post_order(root):
        if isinstance(node, Call):
            try:
                node.attrs = call_attrs(node.op, node.attrs)
            except ParseError as error:
                raise ParseError(f"{graph.place(node)}: {error}") from None
        elif isinstance(node, Function):
            node.attrs = _function_attrs(node.attrs)
    return root


def _function_attrs(attrs: Attrs) -> Attrs:
    try:
        return {k: plain_value(v) for k, v in attrs.items()}
    except AttrError as error:
        raise ParseError(f"attributes of a function in the graph: {error}") from None
