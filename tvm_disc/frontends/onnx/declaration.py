"""Checks the attributes and the number of inputs of a node against its operator's declaration."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.onnx import functions
from tvm_disc.frontends.onnx.table import normal
from tvm_disc.typing import FunctionProto, NodeProto


@dataclass(frozen=True)
class Declaration:
    """The attributes and inputs that nodes of an operator may have.

    Attributes:
        source: the origin of the declaration, for messages.
        attributes: the names of the declared attributes.
        most_inputs: the maximum number of inputs.
    """

    source: str
    attributes: frozenset[str]
    most_inputs: int

    def check(self, proto: NodeProto) -> None:
        """Check the node; a converter would silently ignore an unknown attribute.

        Raises:
            Unsupported: an attribute is unknown, or the node has too many inputs.
        """
        unknown = sorted({a.name for a in proto.attribute} - self.attributes)
        if unknown:
            raise Unsupported(self._unknown(unknown))
        given = max((k for k, name in enumerate(proto.input, 1) if name), default=0)
        if given > self.most_inputs:
            inputs = "1 input" if self.most_inputs == 1 else f"{self.most_inputs} inputs"
            raise Unsupported(
                f"expected at most {inputs} for {self.source}, found {given}; remove the others"
            )

    def _unknown(self, names: list[str]) -> str:
        near = difflib.get_close_matches(names[0], sorted(self.attributes), n=3)
        known = ", ".join(sorted(self.attributes)) or "none"
        shown = f"attribute{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"expected {known}"
        verb = "are" if len(names) > 1 else "is"
        return f"{shown} {verb} unknown to {self.source}; {hint}"


@cache
def declared_by_onnx(domain: str, name: str, opset: int) -> Declaration | None:
    """Return the declaration of ONNX's schema, or None if ONNX does not define the operator."""
    schema = functions.schema_of(domain, name, opset)
    if schema is None:
        return None
    source = f"version {schema.since_version} of the operator"
    return Declaration(source, frozenset(schema.attributes), schema.max_input)


def declared_by_function(function: FunctionProto) -> Declaration:
    """Return the declaration of a function of the model."""
    names = {*function.attribute, *(a.name for a in function.attribute_proto)}
    return Declaration(
        f"the model's function {function.name!r}", frozenset(names), len(function.input)
    )


def check_node(proto: NodeProto, function: FunctionProto | None, opset: int) -> bool:
    """Check a node against its operator's declaration; return whether a declaration exists.

    ONNX Runtime refuses the same nodes.

    Raises:
        Unsupported: the declaration does not allow the node, see :meth:`Declaration.check`.
    """
    if function is not None:
        found: Declaration | None = declared_by_function(function)
    else:
        found = declared_by_onnx(normal(proto.domain), proto.op_type, opset)
    if found is not None:
        found.check(proto)
    return found is not None


__all__ = ["Declaration", "check_node", "declared_by_function", "declared_by_onnx"]
