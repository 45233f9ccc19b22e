"""Instructions on reference-counted boxes.

An instruction takes over the reference of its ``consumed`` boxes, borrows its ``used`` boxes, and
defines its ``made`` boxes with a new reference. :mod:`ownership` inserts ``Dup`` and ``Drop``
accordingly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from tvm_disc.codegen.plan.program import (
    Box,
    HostFunction,
    Instruction,
    Region,
    Storage,
    StoredTensor,
)


@dataclass(eq=False)
class BoxInstruction(Instruction):
    """Base class of the instructions on boxes.

    Attributes:
        TAKES, SEES, MAKES: names of the fields whose boxes the instruction consumes, borrows and
            defines.
    """

    TAKES: ClassVar[tuple[str, ...]] = ()
    SEES: ClassVar[tuple[str, ...]] = ()
    MAKES: ClassVar[tuple[str, ...]] = ()

    @property
    def consumed(self) -> list[Box]:
        """The boxes whose reference the instruction consumes."""
        return self._boxes(self.TAKES)

    @property
    def used(self) -> list[Box]:
        """The boxes that the instruction reads without consuming their reference."""
        return self._boxes(self.SEES)

    @property
    def made(self) -> list[Box]:
        """The boxes that the instruction defines."""
        return self._boxes(self.MAKES)

    def _boxes(self, names: tuple[str, ...]) -> list[Box]:
        values = (getattr(self, name) for name in names)
        found = [x if isinstance(x, list) else [x] for x in values]
        return [box for boxes in found for box in boxes if isinstance(box, Box)]


@dataclass(eq=False)
class Unbox(BoxInstruction):
    """Access the tensor in a box; the symbols in ``binds`` are bound to its dims."""

    SEES: ClassVar = ("box",)

    value: StoredTensor
    box: Box
    binds: list[Any]  # a symbol for each dim, or None


@dataclass(eq=False)
class BoxView(BoxInstruction):
    """Box a tensor without a copy.

    The elements are in the block ``owner``, to which the new box has a reference, or in memory that
    outlives the call.
    """

    TAKES: ClassVar = ("owner",)
    MAKES: ClassVar = ("target",)

    target: Box
    value: StoredTensor
    owner: Box | None

    def reads(self) -> list[Storage]:
        return [self.value.storage]


@dataclass(eq=False)
class BoxCopy(BoxInstruction):
    """Box a copy of a tensor."""

    MAKES: ClassVar = ("target",)

    target: Box
    value: StoredTensor

    def reads(self) -> list[Storage]:
        return [self.value.storage]


@dataclass(eq=False)
class MakeNode(BoxInstruction):
    """Make a node with a tag and fields; without fields it is an integer, not a block."""

    TAKES: ClassVar = ("fields",)
    MAKES: ClassVar = ("target",)

    target: Box
    tag: int
    fields: list[Box]


@dataclass(eq=False)
class MakeClosure(BoxInstruction):
    """Make a closure of a function and its captures."""

    TAKES: ClassVar = ("captures",)
    MAKES: ClassVar = ("target",)

    target: Box
    function: HostFunction
    captures: list[Box]


@dataclass(eq=False)
class GetField(BoxInstruction):
    """Read a field of a node, or the content of a reference."""

    SEES: ClassVar = ("source",)
    MAKES: ClassVar = ("target",)

    target: Box
    source: Box
    index: int


@dataclass(eq=False)
class SetField(BoxInstruction):
    """Replace the content of a reference."""

    TAKES: ClassVar = ("value",)
    SEES: ClassVar = ("source",)

    source: Box
    value: Box


@dataclass(eq=False)
class HasTag:
    """Condition that a node was made by a given constructor; ``plain``: the constructor has no
    fields.
    """

    box: Box
    tag: int
    plain: bool


@dataclass(eq=False)
class Choose(BoxInstruction):
    """Run one of two regions; the boxes that the region returns become ``outcomes``."""

    cond: Storage | HasTag
    then_region: Region
    else_region: Region
    outcomes: list[Box] = field(default_factory=list)

    @property
    def used(self) -> list[Box]:
        return [self.cond.box] if isinstance(self.cond, HasTag) else []

    @property
    def made(self) -> list[Box]:
        return self.outcomes

    def regions(self) -> list[Region]:
        return [self.then_region, self.else_region]

    def reads(self) -> list[Storage]:
        return [self.cond] if isinstance(self.cond, Storage) else []


@dataclass(eq=False)
class Invoke(BoxInstruction):
    """Call a function or a closure; ``last`` marks a tail call."""

    TAKES: ClassVar = ("args", "callee")
    MAKES: ClassVar = ("results",)

    callee: HostFunction | Box
    args: list[Box]
    results: list[Box]
    last: bool = False


def last_calls(region: Region) -> list[Invoke]:
    """Return the tail calls of a function's body."""
    found = [i for i in region.instructions if isinstance(i, Invoke) and i.last]
    return found + [c for i in region.instructions for r in i.regions() for c in last_calls(r)]


@dataclass(eq=False)
class Return(BoxInstruction):
    """Return the results to the caller."""

    TAKES: ClassVar = ("boxes",)

    boxes: list[Box]


@dataclass(eq=False)
class Fail(BoxInstruction):
    """Stop with an error; all blocks are freed with the heap."""

    message: str


@dataclass(eq=False)
class Decode(BoxInstruction):
    """Build an input from its serialized form."""

    MAKES: ClassVar = ("target",)

    target: Box
    codes: StoredTensor
    blob: StoredTensor

    def reads(self) -> list[Storage]:
        return [self.codes.storage, self.blob.storage]


@dataclass(eq=False)
class Measure(BoxInstruction):
    """Bind the sizes of a result's serialized form: words of codes, bytes of tensors."""

    SEES: ClassVar = ("source",)

    source: Box
    words: Any
    blob_bytes: Any


@dataclass(eq=False)
class Encode(BoxInstruction):
    """Write the serialized form of the result that was measured last."""

    SEES: ClassVar = ("source",)

    source: Box
    codes: StoredTensor
    blob: StoredTensor


@dataclass(eq=False)
class Dup(BoxInstruction):
    """Increment a reference count."""

    box: Box


@dataclass(eq=False)
class Drop(BoxInstruction):
    """Decrement a reference count. If it becomes 0, the block and all blocks that only it
    references are freed.
    """

    box: Box
