"""The row type of the operator table."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

AttrDefault = Any
LowerRule = Callable[..., Any]
ValueRule = Callable[..., Any]
OperandRule = Callable[..., Any]
RelationRule = Callable[..., Any]
Reference = Callable[..., Any]


class Required(enum.Enum):
    """The type of ``REQUIRED``, the marker of an attribute without a default."""

    REQUIRED = "REQUIRED"

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = Required.REQUIRED


class Pattern(enum.IntEnum):
    """Relay's fusion class of an operator; a larger value is harder to fuse."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCE = 3
    OUT_ELEMWISE = 4
    OPAQUE = 8


# Operators whose result is bool for any operand (Relay's BroadcastComp, IdentityComp).
COMPARISONS = frozenset(
    "equal not_equal less less_equal greater greater_equal isnan isinf isfinite".split()
)

# Operators that are not element-wise, but whose result has the operand's type.
KEEPS_TYPE = frozenset("nn.softmax nn.fast_softmax nn.log_softmax nn.lrn nn.l2_normalize".split())


@dataclass(frozen=True)
class Sample:
    """One example call, for tests that iterate over the table.

    Attributes:
        inputs: one spec per argument: dims then a dtype, ``("n", 3, "float32")``, where a dim is a
            number or a symbol; a tuple argument is a tuple of specs.
        out: the result's shape in the same notation, or a tuple of shapes. Dims may be arithmetic,
            ``"n*2"``, or ``"?"`` if they depend on data.
        sizes: values of the symbols, in order of first appearance, for each run.
        ranges: bounds of the random contents of an argument.
        values: fixed contents of an argument; entries may be symbols.
    """

    inputs: tuple[Any, ...]
    out: tuple[Any, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    sizes: tuple[tuple[int, ...], ...] = ((1, 2, 3), (5, 3, 2), (7, 4, 6))
    ranges: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    values: Mapping[int, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OpRow:
    """One operator: its name, arguments, attributes and semantics.

    Attributes:
        args: the argument names in order; a leading ``*`` marks a tuple of tensors.
        attrs: every attribute with its default, or ``REQUIRED``, in the order of Relay's Python
            functions.
        relay_dynamic: False if Relay has no shape function for the operator, so that Relay cannot
            run it on dynamic shapes.
        reference: ``reference(*arrays, **attrs)`` is the NumPy semantics, given every attribute.
        operands: infers the type of an untyped operand from the other operands.
        relation: computes the result type of a user's operator without an import rule.
    """

    name: str
    args: tuple[str, ...]
    attrs: Mapping[str, AttrDefault]
    pattern: Pattern
    relay_dynamic: bool
    lower: LowerRule | None = None
    value: ValueRule | None = None
    reference: Reference | None = None
    samples: tuple[Sample, ...] = ()
    operands: OperandRule | None = None
    relation: RelationRule | None = None

    @property
    def compares(self) -> bool:
        """Return whether the result is bool for any operands."""
        return self.name in COMPARISONS

    @property
    def keeps_type(self) -> bool:
        """Return whether the result has the type of the only operand (Relay's Identity)."""
        if len(self.args) != 1 or self.compares or self.attrs.keys() & {"dtype", "out_dtype"}:
            return False
        return self.pattern is Pattern.ELEMWISE or self.name in KEEPS_TYPE

    @property
    def tuple_args(self) -> tuple[bool, ...]:
        """Return for each argument whether it is a tuple of tensors."""
        return tuple(name.startswith("*") for name in self.args)


# Operators that users registered, by name.
USER_ROWS: dict[str, OpRow] = {}
