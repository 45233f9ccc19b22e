"""A node of an ONNX graph as its converter sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any

from tvm_disc.errors import TypeMismatch, Unsupported
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

    def inside(self, values: Iterable[tuple[str, Any]]) -> Node:
        """The node in a graph of its own, where names stand for other values."""
        made = copy(self)
        made.graph = self.graph.body()
        made.graph.values.update(values)
        return made

    def declared(self) -> int | None:
        """The rank of the first result, if the model declares it."""
        found: int | None = self.graph.ranks.get(self.outputs[0])
        return found

    def entries(self, vector: Expr, what: str, count: Callable[[int], int] = int) -> Expr:
        """A vector on whose length the rank of the first result depends: where nothing else tells
        it, it is ``count`` of the rank that the model declares, which every call must have.

        Raises:
            Unsupported: the model does not say the rank of the result either.
            TypeMismatch: no length fits the rank.
        """
        if self.literals(vector) != [None]:
            self.count(vector, what)
            return vector
        return self.reshape(vector, [self.implied(f"the number of elements of {what}", count)])

    def implied(self, what: str, count: Callable[[int], int] = int) -> int:
        """A number on which the rank of the first result depends, by the rank that the model
        declares.

        Raises:
            Unsupported: it declares none.
            TypeMismatch: no number fits the rank.
        """
        rank, name = self.declared(), self.outputs[0]
        if rank is None:
            raise Unsupported(
                f"{what}, which decides the rank of the result, must be known at compile time; "
                f"give it in the shape of the input, or declare the rank of {name!r} by a shape"
            )
        if count(rank) < 0:
            raise TypeMismatch(f"{what} cannot make rank {rank}, which is declared of {name!r}")
        return count(rank)

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
