"""Conversion of an ONNX graph: every node becomes Relay expressions of its inputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calls import Expr, converting
from tvm_disc.frontends.onnx import functions
from tvm_disc.frontends.onnx.declaration import check_node
from tvm_disc.frontends.onnx.grown import Gathered
from tvm_disc.frontends.onnx.node import OnnxNode, attributes, name_of, title
from tvm_disc.frontends.onnx.ranks import completed, declared_ranks, renamed
from tvm_disc.frontends.onnx.rows import find
from tvm_disc.frontends.onnx.size import called
from tvm_disc.frontends.onnx.table import normal
from tvm_disc.frontends.onnx.tensors import Lazy, array_of, dense_of
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.infer import Inference
from tvm_disc.relay.ops.algebra import building
from tvm_disc.support.limits import MOST_NODES
from tvm_disc.typing import FunctionProto, ModelProto, NodeProto, Proto


@dataclass
class Model:
    """State that all graphs of a model share.

    Attributes:
        infer: type inference and the known properties of expressions.
        folder: the folder of external weight files.
        functions: the model-local functions, by domain, name and overload.
        limit: the maximum number of node conversions. The nodes of a body are counted each time
            the body is converted.
        converted: the number of node conversions up to now.
    """

    infer: Inference
    folder: str = ""
    functions: Mapping[tuple[str, str, str], FunctionProto] = field(default_factory=dict)
    limit: int = MOST_NODES
    converted: int = 0

    def count(self) -> None:
        """Count one node conversion.

        Raises:
            Unsupported: the number of conversions exceeds the limit.
        """
        self.converted += 1
        if self.converted > self.limit:
            raise Unsupported(
                f"more than {self.limit} nodes have been converted, because the bodies of "
                "nested loops are converted repeatedly or unrolled; nest fewer loops"
            )


class OnnxGraph:
    """A graph or a function's body during conversion, with its values by name.

    Attributes:
        opsets: the opset version of each domain.
        outer: the enclosing graph, if this graph is a branch or a loop body.
        ranks: the ranks of values that the model declares.
        references: the attributes of the function call whose body is converted, as protos.
    """

    def __init__(
        self, model: Model, opsets: Mapping[str, int], outer: OnnxGraph | None = None
    ) -> None:
        self.model, self.opsets, self.outer = model, opsets, outer
        self.infer = model.infer
        self.values: dict[str, object] = {}
        self.ranks: dict[str, int] = {}
        self.references: dict[str, object] = {}

    # -- values --------------------------------------------------------------------------------

    def lookup(self, name: str, what: str = "value") -> Any:
        """Return a value by its name, or None for the empty name; messages call it ``what``.

        Raises:
            Unsupported: no value has this name.
        """
        if not name:
            return None
        if name in self.values:
            found = self.values[name]
            if isinstance(found, Lazy):
                found = self.values[name] = found()
            return found
        if self.outer is None:
            raise Unsupported(
                f"{what} {name!r} is undefined: no input, initializer or earlier node defines it"
            )
        found = self.values[name] = self.outer.lookup(name, what)
        return found

    def body(self) -> OnnxGraph:
        """Return an empty graph nested in this one."""
        made = OnnxGraph(self.model, self.opsets, self)
        made.references = self.references
        return made

    # -- graphs --------------------------------------------------------------------------------

    def run(self, proto: Proto) -> list[Any]:
        """Convert a graph and return its results; ``values`` must already have its inputs."""
        folder = self.model.folder
        for t in proto.initializer:
            self.values[t.name] = Lazy(_constant, array_of, t, folder)
        for s in proto.sparse_initializer:
            self.values[s.values.name] = Lazy(_constant, dense_of, s, folder)
        self.ranks = completed(declared_ranks(proto), proto.node)
        for node in proto.node:
            self.node(node)
        return [self.lookup(v.name, "output") for v in proto.output]

    def node(self, proto: Proto) -> None:
        """Convert a node and store its results in ``values``.

        Raises:
            DiscError: the conversion failed; the message has the names of operator and node.
        """
        proto = functions.instantiated(proto, self.references)
        with converting(title(proto), "ONNX ", ["ONNX "]):
            self.model.count()
            results = self._results(proto)
            self._keep(proto, results)

    def _results(self, proto: Proto) -> Any:
        domain = normal(proto.domain)
        own, opset = self.model.functions.get(called(proto)), self.opset(domain)
        inputs = [self.lookup(name) for name in proto.input]
        declared = check_node(proto, own, opset, [self._dtype(x) for x in inputs])
        if own is not None:
            return self._call(own, proto, self._opsets_of(own))
        row = find(domain, proto.op_type, opset)
        if row is not None:
            node = OnnxNode(self.infer, proto, inputs, attributes(proto), opset, self)
            with building(node):
                results = row.convert(node)
            if not declared and node.ignored():
                names = ", ".join(map(repr, node.ignored()))
                told = (
                    f"attribute {names} is"
                    if len(node.ignored()) == 1
                    else f"attributes {names} are"
                )
                warnings.warn(f"ONNX {title(proto)}: {told} ignored", stacklevel=2)
            return results
        schema = functions.schema_of(domain, proto.op_type, opset)
        if not functions.has_body(schema):
            raise Unsupported(
                f"the operator has no converter for opset {opset} of domain {domain or 'ai.onnx'!r}"
            )
        types = [self._type_proto(x) for x in inputs]
        body = functions.body_of(schema, proto, types, opset)
        if body is None:
            raise Unsupported(
                "the operator has no converter, and ONNX defines no function body for inputs of "
                "these types"
            )
        return self._call(body, proto, self._opsets_of(body), schema)

    def opset(self, domain: str) -> int:
        """Return the opset version of a domain; 1 if the model does not import the domain."""
        return self.opsets.get(normal(domain), 1)

    def _opsets_of(self, function: Proto) -> dict[str, int]:
        return {**self.opsets, **functions.opsets_of(function.opset_import)}

    def _call(
        self, function: Any, proto: Any, opsets: Mapping[str, int], schema: object = None
    ) -> list[Any]:
        """Convert a function's body for one call of the function, and return the results."""
        inner = OnnxGraph(self.model, opsets)
        given = [self.lookup(name) for name in proto.input]
        given += [None] * (len(function.input) - len(given))
        inner.values = dict(zip(function.input, given, strict=False))
        inner.references = _references(function, proto, schema)
        pairs = list(zip(function.output, proto.output, strict=False))
        inner.ranks = completed(renamed(self.ranks, pairs), function.node)
        for node in function.node:
            inner.node(node)
        return [inner.lookup(name) if outer else None for name, outer in pairs]

    def _dtype(self, x: object) -> str | None:
        """Return the element type of a tensor, or None for another value."""
        ty = self.infer.type_of(x) if isinstance(x, Expr) else None
        return ty.dtype if isinstance(ty, rt.TensorType) else None

    def _type_proto(self, x: object) -> object:
        from onnx.helper import np_dtype_to_tensor_dtype

        if not isinstance(x, Expr):
            return functions.type_proto(0, [])
        ty = self.infer.type_of(x)
        assert isinstance(ty, rt.TensorType)
        import numpy as np

        dims = [d if isinstance(d, int) else None for d in ty.shape]
        return functions.type_proto(np_dtype_to_tensor_dtype(np.dtype(ty.dtype)), dims)

    def _keep(self, proto: Proto, results: Any) -> None:
        """Store results by name; small results with known values become constants."""
        if isinstance(results, Expr) or len(proto.output) == 1:
            results = [results[0] if isinstance(results, list) else results]
        for name, value in zip(proto.output, results, strict=False):
            if name:
                self.values[name] = self._settled(value)
        missing = [n for n in proto.output[len(results) :] if n]
        if missing:
            raise Unsupported(
                f"result {missing[0]!r} is not supported: expected at most {len(results)} "
                f"result{'s' * (len(results) != 1)}, found {len(proto.output)}"
            )

    def _settled(self, value: Any) -> Any:
        if not isinstance(value, Expr) or isinstance(value, ast.Constant):
            return value
        self.infer.type_of(value)
        known = self.infer.value_of(value)
        return ast.Constant(known) if known is not None and known.size <= functions.SMALL else value


def _constant(read: Callable[[Any, str], Any], proto: Proto, folder: str) -> ast.Constant:
    return ast.Constant(read(proto, folder))


def _references(function: Proto, proto: Proto, schema: Proto) -> dict[str, object]:
    """Return the attributes of a function call: those of the node, or their defaults."""
    found = {a.name: a for a in getattr(function, "attribute_proto", ())}
    if schema is not None:
        found.update(
            {n: a.default_value for n, a in schema.attributes.items() if a.default_value.name}
        )
    found.update({a.name: a for a in proto.attribute})
    return found


# -- unsupported operators -----------------------------------------------------------------------


def refuse_unknown(model: ModelProto, opsets: Mapping[str, int], own: Mapping[Any, Any]) -> None:
    """Check that each operator of a model has a converter or a function body.

    Raises:
        Unsupported: nodes have neither; the message lists their operators, opsets, names and
            inputs.
    """
    found: dict[str, None] = {}
    seen: set[object] = set()

    def scan(nodes: Iterable[Any], versions: Mapping[str, int]) -> None:
        for node in nodes:
            for a in node.attribute:
                for graph in (a.g, *a.graphs):
                    scan(graph.node, versions)
            look(node, versions)

    def look(node: NodeProto, versions: Mapping[str, int]) -> None:
        domain, key = normal(node.domain), called(node)
        opset = versions.get(domain, 1)
        if key in own:
            if key not in seen:
                seen.add(key)
                scan(own[key].node, {**versions, **functions.opsets_of(own[key].opset_import)})
        elif find(domain, node.op_type, opset) is None and not functions.has_body(
            functions.schema_of(domain, node.op_type, opset)
        ):
            found[_described(node, domain, opset)] = None

    scan(model.graph.node, opsets)
    if found:
        shown, many = "\n".join(f"  {line}" for line in list(found)[:50]), len(found)
        raise Unsupported(
            f"{many} node{'s' if many > 1 else ''} of this ONNX model cannot be imported:\n{shown}"
            + (f"\n  and {many - 50} more" if many > 50 else "")
        )


def _described(node: NodeProto, domain: str, opset: int) -> str:
    inputs = ", ".join(name or "(omitted)" for name in node.input) or "none"
    return (
        f"{node.op_type} (domain {domain or 'ai.onnx'}, opset {opset}), "
        f"node '{name_of(node)}', inputs: {inputs}"
    )


def results_of(values: Sequence[object], names: Sequence[str]) -> Expr:
    """Return the result of ``main``: one tensor, or a tuple of several results.

    A result that is a sequence becomes a tuple of its elements.

    Raises:
        Unsupported: a result is an empty optional.
    """
    made = [_result(value, name) for value, name in zip(values, names, strict=True)]
    return made[0] if len(made) == 1 else ast.Tuple(tuple(made))


def _result(value: object, name: str) -> Expr:
    if isinstance(value, list):
        return ast.Tuple(tuple(_result(v, name) for v in value))
    if isinstance(value, Gathered):
        raise Unsupported(
            f"result {name!r}: expected a tensor, found a sequence that a loop has extended; "
            "concatenate it by ConcatFromSequence"
        )
    if not isinstance(value, Expr):
        raise Unsupported(f"result {name!r}: expected a tensor, found an empty optional")
    return value


__all__ = ["Model", "OnnxGraph", "refuse_unknown", "results_of"]
