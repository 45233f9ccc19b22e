"""The host program before it becomes TIR: values, storages and instructions.

A :class:`Region` is straight-line code; ``If`` and ``Loop`` hold regions. Shapes are expressions
over symbolic dims that are bound before the instruction that needs them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import takewhile
from typing import Any, TypeAlias

from tvm_disc.codegen.plan.constants import Constant
from tvm_disc.errors import WhyNot
from tvm_disc.schedules.kernel import Kernel

Expr: TypeAlias = Any


class Home(Enum):
    """Where a storage's bytes live."""

    INPUT = "the caller's tensor"
    CONSTANT = "the constant section of the program"
    WORKSPACE = "a slot of the region's workspace"
    OUTPUT = "a tensor returned to the caller"
    CELL = "a block of its own, reached through a mutable cell"
    BOX = "a block with a reference count"


@dataclass(eq=False)
class Storage:
    """A run of bytes. ``size_bytes`` is an expression over dims bound before first use."""

    home: Home
    size_bytes: Expr
    name: str
    slot: int = -1  # index into the region's slots, for WORKSPACE
    position: int = -1  # input, constant or output number
    cell: Cell | None = None
    box: Box | None = None


@dataclass(eq=False)
class Box:
    """A local variable that holds the address of a block with a reference count.

    Attributes:
        value: the tensor inside, if it is known to be one.
    """

    name: str
    value: Value | None = None


@dataclass(eq=False)
class Cell:
    """A mutable pointer: the address, and whether this program must release it."""

    name: str


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor at run time: compact row-major elements in a storage."""

    shape: tuple[Expr, ...]
    dtype: str
    storage: Storage


Tree: TypeAlias = "Value | tuple[Tree, ...]"


@dataclass(eq=False)
class Instruction:
    """Base of all instructions."""

    def regions(self) -> list[Region]:
        """The regions inside."""
        return []

    def reads(self) -> list[Storage]:
        """The storages it reads itself, where they are not among its fields by kind."""
        return []


@dataclass(eq=False)
class Launch(Instruction):
    """Call a kernel; ``symbols`` are the values of its symbolic dims, in its order."""

    kernel: Kernel
    inputs: list[Storage]
    outputs: list[Storage]
    symbols: list[Expr]
    scratch: Storage | None


@dataclass(eq=False)
class Define(Instruction):
    """Bind a symbolic dim to an expression over dims bound earlier."""

    var: Any
    value: Expr


@dataclass(eq=False)
class Guard(Instruction):
    """Stop unless ``cond`` holds.

    Attributes:
        message: what must hold, in the user's names.
        found: the rest of the message: texts, and int64 expressions whose values it quotes.
        kind: the kind of error.
    """

    cond: Expr
    message: str
    found: tuple[Expr | str, ...] = ()
    kind: str = "ValueError"


@dataclass(eq=False)
class Copy(Instruction):
    """Copy ``size_bytes`` from one storage to another."""

    source: Storage
    target: Storage
    size_bytes: Expr


@dataclass(eq=False)
class ReadDims(Instruction):
    """Bind symbolic dims to the first int64s in a storage (sizes computed by a kernel).

    Of a device that is one copy, and one wait, for all of them.
    """

    vars: list[Any]
    source: Storage


@dataclass(eq=False)
class AllocOutput(Instruction):
    """Allocate returned tensor ``position``."""

    value: Value


@dataclass(frozen=True)
class Slot:
    """A place in a workspace: right above the highest of ``above``, earlier slots."""

    size_bytes: Expr
    above: tuple[int, ...] = ()


@dataclass(eq=False)
class Region:
    """Straight-line code with its own workspace.

    Attributes:
        slots: the places in the workspace from the lowest up, filled in by the memory plan.
        results: what the region yields.
        boxes: the blocks it yields, in programs with boxed values.
    """

    instructions: list[Instruction] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)

    def leading_guards(self) -> list[Guard]:
        """Return the guards that stand before every other instruction."""
        head = takewhile(lambda step: isinstance(step, Guard), self.instructions)
        return [step for step in head if isinstance(step, Guard)]

    def take_guards(self) -> list[Guard]:
        """Remove the leading guards and return them."""
        head = self.leading_guards()
        del self.instructions[: len(head)]
        return head


@dataclass(eq=False)
class If(Instruction):
    """Run one of two regions; their results become ``outcomes`` (cells), with ``dims`` bound."""

    cond: Storage
    then_region: Region
    else_region: Region
    outcomes: list[Outcome]


@dataclass(eq=False)
class Outcome:
    """A value that control flow decides: its cell, and the dims that differ between paths."""

    value: Value
    dims: list[Any]  # one variable per dim, or None where the dim is the same on every path


@dataclass(eq=False)
class Carried:
    """A loop-carried tensor: the cell, the dims bound at the top of each iteration."""

    value: Value
    dims: list[Any]
    initial: Value


@dataclass(eq=False)
class Loop(Instruction):
    """``while True: header; if cond != until: body; carried = next; else: exit, break``.

    A tail-recursive function in this form needs no stack however long it runs.
    """

    carried: list[Carried]
    header: Region
    cond: Storage
    body: Region  # results: the next values of ``carried``
    exit: Region  # results: the values of the loop
    outcomes: list[Outcome]
    until: bool = False


@dataclass(eq=False)
class HostFunction:
    """A function on boxed values; ``index`` is what closures know it by, 0 for none."""

    index: int
    name: str
    params: list[Box]
    results: int
    region: Region = field(default_factory=Region)
    prologue: list[Instruction] = field(default_factory=list)  # what binds the arguments' dims


@dataclass
class Signature:
    """The entry function's tensors: (name, shape, dtype) in order."""

    inputs: list[tuple[str, tuple[Expr, ...], str]]
    outputs: Any  # nested tuples of (shape, dtype)


@dataclass
class Program:
    """A whole program.

    Attributes:
        constants: in the order of the constant section.
        kernels: every kernel once.
        peak: bytes of workspace as an expression over the input dims.
    """

    signature: Signature
    region: Region
    inputs: list[Value]
    outputs: list[Value]
    output_tree: Any
    constants: list[Constant]
    kernels: list[Kernel]
    symbols: dict[str, str] = field(default_factory=dict)
    functions: list[HostFunction] = field(default_factory=list)
    verify: bool = False  # check at the end of every call that no block is left
    boxed: bool = False  # whether it has values in blocks with reference counts
    on_device: bool = False  # whether its tensors are
    graphs: int = 0  # how many CUDA graphs of its calls are kept
    no_graphs: WhyNot | None = None  # why none are, though they were asked for

    @property
    def heaped(self) -> bool:
        """Whether calls need a heap: for boxes, and for what loops carry.

        On a device the driver's pool serves loops.
        """
        loops = not self.on_device and any(isinstance(i, Loop) for i in self.region.instructions)
        return self.boxed or loops
