"""Operators that are defined by function bodies, which are in the model or in ONNX's schemas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvm_disc.errors import BadInput
from tvm_disc.frontends.onnx.table import normal
from tvm_disc.typing import GraphProto, NodeProto, Proto

SMALL = 64  # maximum number of elements of a known result that is stored as a constant
_NEWEST = 2**31 - 1  # the largest version that ONNX's schema lookup accepts


def opsets_of(imports: Iterable[Any]) -> dict[str, int]:
    """Return the opset versions that a model or a function imports, by domain.

    Raises:
        BadInput: a version is out of range.
    """
    for o in imports:
        if not 0 <= o.version <= _NEWEST:
            raise BadInput(
                f"opset_import of domain {normal(o.domain) or 'ai.onnx'}: expected the number of "
                f"an opset, found {o.version}; the ONNX model is damaged"
            )
    return {normal(o.domain): o.version for o in imports}


def schema_of(domain: str, name: str, opset: int) -> Any:
    """Return ONNX's schema of an operator, or None if ONNX has none."""
    import onnx

    try:
        return onnx.defs.get_schema(name, opset, normal(domain))
    except onnx.defs.SchemaError:
        return None


def has_body(schema: Proto) -> bool:
    """Return whether ONNX defines an operator by a function body."""
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def body_of(schema: Proto, proto: Proto, types: list[Any], opset: int) -> object:
    """Return the FunctionProto that defines a node's operator.

    Some bodies depend on the input types; returns None if ONNX has no body for these types.
    """
    import onnx

    if schema.has_context_dependent_function:
        raw = schema.get_context_dependent_function(
            proto.SerializeToString(), [t.SerializeToString() for t in types]
        )
        return onnx.FunctionProto.FromString(raw) if raw else None
    versions = [v for v in schema.function_opset_versions if v <= opset]
    raw = schema.get_function_with_opset_version(max(versions, default=schema.since_version))
    return onnx.FunctionProto.FromString(raw) if raw else None


def type_proto(dtype_code: int, dims: list[int | None]) -> object:
    """Return the TypeProto of a tensor."""
    import onnx

    return onnx.helper.make_tensor_type_proto(dtype_code, dims)


def instantiated(proto: Proto, attrs: dict[str, object]) -> NodeProto:
    """Return a node of a function's body with the attributes of a call.

    Each reference to an attribute of the function is replaced by the call's attribute; ``attrs``
    are the call's AttributeProtos by name.
    """
    if not any(a.ref_attr_name or a.g.node or a.graphs for a in proto.attribute):
        return proto
    made = type(proto)()
    made.CopyFrom(proto)
    del made.attribute[:]
    for a in proto.attribute:
        if not a.ref_attr_name:
            copy = made.attribute.add()
            copy.CopyFrom(a)
            for inner in (copy.g, *copy.graphs):
                _instantiate_graph(inner, attrs)
        elif a.ref_attr_name in attrs:
            copy = made.attribute.add()
            copy.CopyFrom(attrs[a.ref_attr_name])
            copy.name = a.name
    return made


def _instantiate_graph(graph: GraphProto, attrs: dict[str, object]) -> None:
    nodes = [instantiated(n, attrs) for n in graph.node]
    kept = []
    for n in nodes:
        copy = type(n)()
        copy.CopyFrom(n)
        kept.append(copy)
    del graph.node[:]
    graph.node.extend(kept)


def free_names(graph: GraphProto) -> list[str]:
    """Return the names that a subgraph reads from enclosing graphs."""
    inside = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    inside |= {s.values.name for s in graph.sparse_initializer}
    found: dict[str, None] = {}
    for node in graph.node:
        inner = [name for a in node.attribute for g in (a.g, *a.graphs) for name in free_names(g)]
        found.update(dict.fromkeys(n for n in (*node.input, *inner) if n and n not in inside))
        inside.update(node.output)
    found.update(dict.fromkeys(v.name for v in graph.output if v.name not in inside))
    return list(found)


__all__ = ["body_of", "has_body", "instantiated", "schema_of", "type_proto"]
