"""Checks the attributes and the inputs of a node against its operator's declaration."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.frontends.onnx import functions
from tvm_disc.frontends.onnx.dtypes import DTYPES
from tvm_disc.frontends.onnx.table import normal
from tvm_disc.typing import FunctionProto, NodeProto

# The name in ONNX's schemas of each element type.
_NAMES = {
    dtype: {"float32": "tensor(float)", "float64": "tensor(double)"}.get(dtype, f"tensor({dtype})")
    for dtype in DTYPES.values()
}


@dataclass(frozen=True)
class Input:
    """An input of a declaration.

    Attributes:
        variable: the name of the type that all inputs of this variable share, or an empty string.
        types: the element types that the input may have.
    """

    name: str
    variable: str
    types: frozenset[str]


@dataclass(frozen=True)
class Declaration:
    """The attributes and inputs that nodes of an operator may have.

    Attributes:
        source: the origin of the declaration, for messages.
        attributes: the names of the declared attributes.
        most_inputs: the maximum number of inputs.
        inputs: the declared inputs; the last one repeats if more are allowed. Empty if no types
            are declared.
    """

    source: str
    attributes: frozenset[str]
    most_inputs: int
    inputs: tuple[Input, ...] = ()

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

    def check_types(self, dtypes: Sequence[str | None]) -> None:
        """Check the element types of a node's inputs, with None for inputs to skip.

        Raises:
            TypeMismatch: an input has a type that the declaration excludes, or two inputs whose
                types must be equal have different ones.
        """
        bound: dict[str, tuple[str, str]] = {}
        for k, dtype in enumerate(dtypes if self.inputs else ()):
            if dtype is None:
                continue
            wanted = self.inputs[min(k, len(self.inputs) - 1)]
            if dtype not in wanted.types:
                known = ", ".join(d for d in _NAMES if d in wanted.types) or "no tensor"
                raise TypeMismatch(
                    f"input {k} ({wanted.name!r}): {self.source} accepts {known}, found {dtype}"
                )
            name, other = bound.setdefault(wanted.variable or f"{k}", (wanted.name, dtype))
            if dtype != other:
                raise TypeMismatch(
                    f"input {k} ({wanted.name!r}): expected {other}, the type of {name!r}, "
                    f"found {dtype}"
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
    inputs = tuple(_declared(p) for p in schema.inputs)
    return Declaration(source, frozenset(schema.attributes), schema.max_input, inputs)


def _declared(parameter: Any) -> Input:
    types = frozenset(dtype for dtype, name in _NAMES.items() if name in parameter.types)
    shared = parameter.is_homogeneous and "(" not in parameter.type_str
    return Input(parameter.name, parameter.type_str if shared else "", types)


def declared_by_function(function: FunctionProto) -> Declaration:
    """Return the declaration of a function of the model."""
    names = {*function.attribute, *(a.name for a in function.attribute_proto)}
    return Declaration(
        f"the model's function {function.name!r}", frozenset(names), len(function.input)
    )


def check_node(
    proto: NodeProto, function: FunctionProto | None, opset: int, dtypes: Sequence[str | None]
) -> bool:
    """Check a node against its operator's declaration; return whether a declaration exists.

    ONNX Runtime refuses the same nodes. ``dtypes`` are the element types of the inputs.

    Raises:
        Unsupported, TypeMismatch: the declaration does not allow the node, see
            :meth:`Declaration.check` and :meth:`Declaration.check_types`.
    """
    if function is not None:
        found: Declaration | None = declared_by_function(function)
    else:
        found = declared_by_onnx(normal(proto.domain), proto.op_type, opset)
    if found is not None:
        found.check(proto)
        found.check_types(dtypes)
    return found is not None


__all__ = ["Declaration", "check_node", "declared_by_function", "declared_by_onnx"]
