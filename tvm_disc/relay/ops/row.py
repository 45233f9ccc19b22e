"""The entry type of the operator table."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

AttrDefault = Any
LowerRule = Callable[..., Any]
ValueRule = Callable[..., Any]
RelationRule = Callable[..., Any]
Reference = Callable[..., Any]


class Required(enum.Enum):
    """The type of ``REQUIRED``, the marker of an attribute without a default."""

    REQUIRED = "REQUIRED"

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = Required.REQUIRED


class FusionClass(enum.IntEnum):
    """Relay's fusion class of an operator; a larger value is harder to fuse."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCE = 3
    OUT_ELEMWISE = 4
    OPAQUE = 8


ELEMWISE, BROADCAST, INJECTIVE, REDUCE, OUT_ELEMWISE, OPAQUE = FusionClass


@dataclass(frozen=True)
class OpRow:
    """One operator: its name, arguments, attributes and semantics.

    Attributes:
        args: the argument names in order; a leading ``*`` marks a tuple of tensors.
        attrs: every attribute with its default, or ``REQUIRED``, in the order of Relay's Python
            functions.
        reference: ``reference(*arrays, **attrs)`` is the NumPy semantics, given every attribute.
        relation: computes the result type of a user's operator without an import rule.
        compares: the result is bool for any operands (Relay's BroadcastComp, IdentityComp).
        keeps_type: the result has the type of the only operand (Relay's Identity).
    """

    name: str
    args: tuple[str, ...]
    attrs: Mapping[str, AttrDefault]
    pattern: FusionClass
    lower: LowerRule | None = None
    value: ValueRule | None = None
    reference: Reference | None = None
    relation: RelationRule | None = None
    compares: bool = False
    keeps_type: bool = False

    @property
    def tuple_args(self) -> tuple[bool, ...]:
        """Return for each argument whether it is a tuple of tensors."""
        return tuple(name.startswith("*") for name in self.args)


def op(
    name: str,
    args: str,
    pattern: FusionClass,
    reference: Reference | None = None,
    attrs: Mapping[str, AttrDefault] = MappingProxyType({}),
    *,
    compares: bool = False,
    keeps_type: bool | None = None,
) -> OpRow:
    """Return the table entry of an operator whose operand names are ``args``, separated by spaces.

    By default an element-wise operator of one operand keeps its type, unless ``compares`` is set or
    an attribute names the type of the result.
    """
    names = tuple(args.split())
    if keeps_type is None:
        typed = compares or attrs.keys() & {"dtype", "out_dtype"}
        keeps_type = pattern is ELEMWISE and len(names) == 1 and not typed
    return OpRow(
        name,
        names,
        attrs,
        pattern,
        reference=reference,
        compares=compares,
        keeps_type=keeps_type,
    )


# Operators that users registered, by name.
USER_ROWS: dict[str, OpRow] = {}
