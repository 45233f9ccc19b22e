"""The object that an operator's converter receives: a node of an ONNX graph with its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any

from tvm_disc.errors import TypeMismatch, Unsupported, counted
from tvm_disc.frontends.calc import Calc, Expr, op
from tvm_disc.relay.infer import Inference
from tvm_disc.typing import GraphProto, Proto

# Attributes that have no effect if a converter does not read them. They are hints, or apply only to
# an optional input that the node does not have.
UNUSED = frozenset({"accuracy_level", "beta", "mask_filter_value"})


class OnnxNode(Calc):
    """Inputs, attributes and context of one node.

    Attributes:
        op: the operator's name.
        name: the node's name, or that of its first result if it has none.
        inputs: the inputs, with None for an omitted optional input.
        outputs: the names of the results; the name of an unused result is empty.
        attrs: attributes by name, with strings decoded.
        opset: the version of the operator's domain.
        graph: the graph that contains the node.
    """

    def __init__(
        self,
        infer: Inference,
        proto: Proto,
        inputs: Sequence[Any],
        attrs: Mapping[str, Any],
        opset: int,
        graph: GraphProto,
    ) -> None:
        super().__init__(infer)
        self.proto, self.op, self.name = proto, proto.op_type, name_of(proto)
        self.inputs, self.outputs = list(inputs), list(proto.output)
        self.attrs, self.opset, self.graph = attrs, opset, graph
        self._read: set[str] = set()

    def __getitem__(self, k: int) -> Expr:
        """Return input ``k``, or raise Unsupported if it is missing or not a tensor."""
        if k >= len(self.inputs) or self.inputs[k] is None:
            raise Unsupported(f"input {k} is missing, which the operator requires")
        found = self.inputs[k]
        if not isinstance(found, Expr):
            raise Unsupported(f"input {k}: expected a tensor, found a sequence")
        return found

    def __len__(self) -> int:
        return len(self.inputs)

    def get(self, k: int) -> Any:
        """Return input ``k``, or None if it is omitted."""
        return self.inputs[k] if k < len(self.inputs) else None

    def wants(self, k: int) -> bool:
        """Return whether result ``k`` is used."""
        return k < len(self.outputs) and bool(self.outputs[k])

    def attr(self, name: str, default: object = None) -> Any:
        """Return an attribute, or ``default`` if the node does not have it."""
        self._read.add(name)
        return self.attrs.get(name, default)

    def ints(self, name: str, default: Sequence[int] = ()) -> list[int]:
        """Return a list attribute as integers, or ``default`` if it is omitted or empty."""
        return [int(v) for v in self.attr(name) or default]

    def axis_of(self, x: Expr, default: int) -> int:
        """Return the attribute ``axis`` as a nonnegative axis of ``x``."""
        return self.axis(int(self.attr("axis", default)), self.rank(x))

    def axes_of(self, x: Expr) -> list[int]:
        """Return the attribute ``axes`` as nonnegative axes of ``x``; by default, all axes."""
        rank = self.rank(x)
        return [self.axis(a, rank) for a in self.ints("axes", range(rank))]

    def plus(self, x: Expr, k: int) -> Expr:
        """Return ``x`` plus input ``k``, if there is one."""
        return x if self.get(k) is None else x + self[k]

    def biased(self, x: Expr, k: int) -> Expr:
        """Return ``x`` plus a vector along the channels, input ``k``, if there is one."""
        return x if self.get(k) is None else op("nn.bias_add", x, self[k], axis=1)

    def of_length(self, vector: Expr, count: int, what: str) -> Expr:
        """Return ``vector``; if its length is unknown, each call checks that it is ``count``.

        Raises:
            TypeMismatch: ``vector`` is not a vector, or has another length.
        """
        dims = self.literals(vector)
        if dims == [None]:
            return self.reshape(vector, [count])
        if dims != [count]:
            found = f"{dims[0]}" if len(dims) == 1 else f"a tensor of rank {len(dims)}"
            raise TypeMismatch(
                f"{what}: expected a vector of {counted(count, 'element')}, found {found}"
            )
        return vector

    def inside(self, values: Iterable[tuple[str, object]]) -> OnnxNode:
        """Return a copy of the node in a new nested graph, which defines the given values."""
        made = copy(self)
        made.graph = self.graph.body()
        made.graph.values.update(values)
        return made

    def declared(self) -> int | None:
        """Return the rank that the model declares for the first result, or None."""
        found: int | None = self.graph.ranks.get(self.outputs[0])
        return found

    def entries(self, vector: Expr, what: str, count: Callable[[int], int] = int) -> Expr:
        """Return ``vector``, whose length determines the rank of the first result.

        If the length is unknown at compile time, the result is ``vector`` reshaped to the length
        ``count(rank)``, for the rank that the model declares. Each call then checks the length.

        Raises:
            Unsupported: the length is unknown, and the model does not declare the rank.
            TypeMismatch: the declared rank is impossible for the operator.
        """
        if self.literals(vector) != [None]:
            self.count(vector, what)
            return vector
        return self.reshape(vector, [self.implied(f"the number of elements of {what}", count)])

    def implied(self, what: str, count: Callable[[int], int] = int) -> int:
        """Return ``count(rank)`` for the rank that the model declares for the first result.

        Raises:
            Unsupported: the model does not declare the rank.
            TypeMismatch: ``count(rank)`` is negative.
        """
        rank, name = self.declared(), self.outputs[0]
        if rank is None:
            raise Unsupported(
                f"{what}, which determines the rank of the result, must be known at compile time; "
                f"declare it in the shape of that input, or declare the rank of {name!r} by a shape"
            )
        if count(rank) < 0:
            raise TypeMismatch(f"{what} cannot give rank {rank}, which is declared for {name!r}")
        return count(rank)

    def required(self, name: str) -> Any:
        """Return an attribute, or raise Unsupported if the node does not have it."""
        if name not in self.attrs:
            raise Unsupported(f"attribute '{name}' is missing")
        self._read.add(name)
        return self.attrs[name]

    def ignored(self) -> list[str]:
        """Return the names of attributes that the converter has not read but may affect results.

        Values of 0 and 1 are excluded: exporters write these defaults for features that a node
        does not use.
        """
        left = set(self.attrs) - self._read - UNUSED
        return sorted(name for name in left if not _is_default(self.attrs[name]))


def _is_default(value: object) -> bool:
    return isinstance(value, int | float) and value in (0, 1)


def name_of(proto: Proto) -> str:
    """Return the name of a node for messages, or that of its first result if it has none."""
    return proto.name or next((o for o in proto.output if o), "")


def title(proto: Proto) -> str:
    """Return the operator and the name of a node."""
    return f"{proto.op_type} '{name_of(proto)}'"


def attributes(proto: Proto) -> dict[str, Any]:
    """Return the attributes of a node by name; graphs and tensors remain protos."""
    from onnx import helper

    return {
        a.name: _decoded(helper.get_attribute_value(a))
        for a in proto.attribute
        if not a.ref_attr_name
    }


def _decoded(value: object) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        return [v.decode("utf-8", "replace") for v in value]
    return value


__all__ = ["OnnxNode", "attributes", "name_of", "title"]
