"""A node of an ONNX graph as its converter sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Calc, Expr
from tvm_disc.relay.infer import Inference


class Node(Calc):
    """Inputs, attributes and surroundings of one node.

    Attributes:
        op: the operator's name.
        name: the node's, or that of its first result.
        inputs: an expression each; None for an optional one that is left out.
        outputs: the names of the results; empty for one that nobody wants.
        attrs: attributes by name, texts decoded.
        opset: the version of the operator's domain.
        graph: the graph that the node is in.
    """

    def __init__(
        self,
        infer: Inference,
        proto: Any,
        inputs: Sequence[Any],
        attrs: Mapping[str, Any],
        opset: int,
        graph: Any,
    ) -> None:
        super().__init__(infer)
        self.proto, self.op, self.name = proto, proto.op_type, name_of(proto)
        self.inputs, self.outputs = list(inputs), list(proto.output)
        self.attrs, self.opset, self.graph = attrs, opset, graph

    def __getitem__(self, k: int) -> Expr:
        """An input that must be there."""
        if k >= len(self.inputs) or self.inputs[k] is None:
            raise Unsupported(f"input {k} is missing")
        found = self.inputs[k]
        if not isinstance(found, Expr):
            raise Unsupported(f"input {k}: expected a tensor, found a sequence or an optional")
        return found

    def __len__(self) -> int:
        return len(self.inputs)

    def get(self, k: int) -> Any:
        """An optional input."""
        return self.inputs[k] if k < len(self.inputs) else None

    def wants(self, k: int) -> bool:
        """Whether somebody wants result ``k``."""
        return k < len(self.outputs) and bool(self.outputs[k])

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute, or its default."""
        return self.attrs.get(name, default)

    def entries(self, vector: Expr, what: str, extra: int = 0) -> Expr:
        """A vector with as many elements as the first result has dims, and ``extra`` ones, where
        nothing else tells how many it has.

        Raises:
            Unsupported: the model does not say the rank of the result either.
        """
        rank = self.graph.ranks.get(self.outputs[0])
        dims = self.literals(vector)
        if len(dims) != 1 or dims[0] is not None or rank is None:
            self.count(vector, what)
            return vector
        return self.reshape(vector, [rank + extra])

    def required(self, name: str) -> Any:
        """An attribute without a default."""
        if name not in self.attrs:
            raise Unsupported(f"attribute '{name}' is missing")
        return self.attrs[name]


def name_of(proto: Any) -> str:
    """What a node is called in messages: by itself, or by what it makes."""
    return proto.name or next((o for o in proto.output if o), "")


def title(proto: Any) -> str:
    """The operator and the name of a node."""
    return f"{proto.op_type} '{name_of(proto)}'"


def attributes(proto: Any) -> dict[str, Any]:
    """Attributes of a node by name; graphs and tensors stay as they are."""
    from onnx import helper

    return {
        a.name: _decoded(helper.get_attribute_value(a))
        for a in proto.attribute
        if not a.ref_attr_name
    }


def _decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        return [v.decode("utf-8", "replace") for v in value]
    return value


__all__ = ["Node", "attributes", "name_of", "title"]
