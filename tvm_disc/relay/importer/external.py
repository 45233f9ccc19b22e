"""Descriptions of boxed inputs and results, with which the runtime converts them.

A description is plain data, so that a saved program can contain it:

  ["tensor", dims, dtype]    an unknown dim is None
  ["tuple", fields]
  ["data", name]             ``types[name]`` lists (constructor, fields) by tag
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.relay import types as rt
from tvm_disc.relay.importer.kinds import (
    DataKind,
    Hole,
    Kind,
    TensorKind,
    TupleKind,
    from_type,
    parts,
    resolve,
)
from tvm_disc.relay.importer.tensor import Boxed, Closure
from tvm_disc.typing import Expr


@dataclass
class External:
    """The boxed inputs and results of a program.

    Attributes:
        inputs: the descriptions, by name, of inputs that are not tensors.
        result: nested lists of descriptions; None for a tensor.
        types: the data types that descriptions reference.
        structure: the nesting of tensors in a front end's source, for the runtime; may be empty.
    """

    inputs: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    structure: str = ""
    types: dict[str, Any] = field(default_factory=dict)


class Describer:
    """Describes kinds as nested lists; ``types`` receives each data type once."""

    def __init__(self, definitions: Mapping[str, rt.TypeData], types: dict[str, Any]) -> None:
        self.definitions, self.types = definitions, types

    def kind(self, kind: Kind, where: str) -> Any:
        """Return the description of a kind.

        Raises:
            Unsupported: the kind contains a function or a reference, which have no external form.
        """
        kind = resolve(kind)
        if isinstance(kind, TensorKind):
            return ["tensor", list(kind.dims), kind.dtype]
        if isinstance(kind, TupleKind):
            return ["tuple", [self.kind(k, where) for k in kind.fields]]
        if not isinstance(kind, DataKind):
            raise Unsupported(
                f"{where}: expected tensors, tuples and data types, found {kind}; functions and "
                "references cannot be inputs or results of a compiled program"
            )
        name = str(kind)
        if name not in self.types:
            data = self.definitions[kind.name]
            found = dict(zip((v.name for v in data.type_vars), kind.args, strict=True))
            self.types[name] = []  # a data type may be recursive
            self.types[name] += [
                [
                    c.name,
                    [self.kind(from_type(t, lambda v: found[v.name], 0), where) for t in c.inputs],
                ]
                for c in data.constructors
            ]
        return ["data", name]

    def value(self, value: Expr) -> Any:
        """Return the description of a result: a list for a tuple, None for a tensor.

        Raises:
            Unsupported: the result is, or contains, a function or a reference.
        """
        if isinstance(value, tuple):
            return [self.value(v) for v in value]
        if isinstance(value, Closure):
            raise Unsupported("a function cannot be a result of a compiled program")
        if not isinstance(value, Boxed):
            return None
        _settle(value.kind)
        return self.kind(value.kind, "the result")


def _settle(kind: Kind) -> None:
    """Bind element types that no use determines to the empty tuple, as for an empty list."""
    kind = resolve(kind)
    for part in parts(kind):
        if isinstance(part, Hole):
            part.link = TupleKind(())
        else:
            _settle(part)
