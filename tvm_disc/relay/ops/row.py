"""The shape of one row of the operator table."""

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
    """The type of ``REQUIRED``: an attribute without a default."""

    REQUIRED = "REQUIRED"

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = Required.REQUIRED


class Pattern(enum.IntEnum):
    """Relay's own fusion class of an operator; a larger value is harder to fuse."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCE = 3
    OUT_ELEMWISE = 4
    OPAQUE = 8


# Operators whose type relation gives bool for any operand (Relay's BroadcastComp, IdentityComp).
COMPARISONS = frozenset(
    "equal not_equal less less_equal greater greater_equal isnan isinf isfinite".split()
)

# Operators that are not element-wise, and whose result has the type of the operand all the same.
KEEPS_TYPE = frozenset("nn.softmax nn.fast_softmax nn.log_softmax nn.lrn nn.l2_normalize".split())


@dataclass(frozen=True)
class Sample:
    """One example call, for tests that walk the table.

    ``inputs`` has one spec per argument: dims then a dtype, ``("n", 3, "float32")``, where a
    dim is a number or a symbol; a tuple argument is a tuple of specs.  ``out`` is the result's
    shape in the same notation (dims may be arithmetic, ``"n*2"``, or ``"?"`` when only the data
    decides it), or a tuple of shapes.  Each entry of ``sizes`` gives one value per symbol, in
    order of first appearance.  ``ranges`` bounds the random contents of an argument,
    ``values`` fixes them (entries may be symbols).
    """

    inputs: tuple[Any, ...]
    out: tuple[Any, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    sizes: tuple[tuple[int, ...], ...] = ((1, 2, 3), (5, 3, 2), (7, 4, 6))
    ranges: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    values: Mapping[int, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OpRow:
    """One operator: what it is called, what it takes, what it means.

    ``args`` are the argument names in order; a leading ``*`` marks an argument that is a tuple
    of tensors.  ``attrs`` has every attribute with its default, in the order in which Relay's
    Python functions take them; ``REQUIRED`` where there is none.  ``relay_dynamic`` is False
    where real Relay has no shape function and so cannot run the operator on dynamic shapes.
    ``reference(*arrays, **attrs)`` is the NumPy meaning, given every attribute.  ``operands``
    tells what the other operands say about the type of one that has none; ``relation`` gives the
    type of the result where a user's operator has no import rule that would.
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
        """Whether the result is boolean whatever the operands are."""
        return self.name in COMPARISONS

    @property
    def keeps_type(self) -> bool:
        """Whether the result has the type of the one operand (Relay's Identity)."""
        if len(self.args) != 1 or self.compares or self.attrs.keys() & {"dtype", "out_dtype"}:
            return False
        return self.pattern is Pattern.ELEMWISE or self.name in KEEPS_TYPE

    @property
    def tuple_args(self) -> tuple[bool, ...]:
        """For each argument, whether it is a tuple of tensors."""
        return tuple(name.startswith("*") for name in self.args)


# Operators that users registered, by name.
USER_ROWS: dict[str, OpRow] = {}
