"""Host program before it is emitted as TIR: values, storages and instructions.

A :class:`Region` is straight-line code; ``Conditional`` and ``Loop`` contain regions. Shapes are
expressions over symbolic dims that are bound before the instruction that uses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import takewhile
from typing import Any, TypeAlias

from tvm_disc.codegen.plan.constants import ProgramConstant
from tvm_disc.errors import WhyNot
from tvm_disc.schedules.kernel import Kernel
from tvm_disc.typing import Expr


class Home(Enum):
    """Kind of memory of a storage."""

    INPUT = "the caller's tensor"
    CONSTANT = "the constant section of the program"
    WORKSPACE = "a slot of the region's workspace"
    OUTPUT = "a tensor returned to the caller"
    CELL = "a separate block, referenced by a mutable cell"
    BOX = "a block with a reference count"


@dataclass(frozen=True)
class Donor:
    """The input whose memory a result takes, if the caller donates it.

    Attributes:
        copies: the result begins as a copy of the input's elements if it has other memory.
        proved: the shapes are equal for all calls; otherwise each call compares them.
        shape: the shape of the input if it is updated in place, else None: only a result of this
            shape, not a view of a different shape, may be the caller's tensor.
    """

    position: int
    copies: bool = False
    proved: bool = True
    shape: tuple[Expr, ...] | None = None


@dataclass(eq=False)
class Storage:
    """A contiguous block of bytes. ``size_bytes`` is an expression of dims that are bound before
    the first use of the storage.
    """

    home: Home
    size_bytes: Expr
    name: str
    slot: int = -1  # index into the region's slots, for WORKSPACE
    position: int = -1  # index of the input, constant or output
    cell: Cell | None = None
    box: Box | None = None
    donor: Donor | None = None  # of an OUTPUT


@dataclass(eq=False)
class Box:
    """A local variable that holds the address of a reference-counted block.

    Attributes:
        value: the tensor in the box, if the box is known to contain a tensor.
    """

    name: str
    value: StoredTensor | None = None


@dataclass(eq=False)
class Cell:
    """A mutable pointer: an address, and whether the program must free it."""

    name: str


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """A tensor at run time: contiguous row-major elements in a storage."""

    shape: tuple[Expr, ...]
    dtype: str
    storage: Storage


Tree: TypeAlias = "StoredTensor | tuple[Tree, ...]"


@dataclass(eq=False)
class Instruction:
    """Base of all instructions."""

    def regions(self) -> list[Region]:
        """Return the regions inside of the instruction."""
        return []

    def reads(self) -> list[Storage]:
        """Return the storages that the instruction reads, for types of instructions that are not
        defined in this module; :func:`.memory.touched` knows the others.
        """
        return []


@dataclass(eq=False)
class Launch(Instruction):
    """A kernel call; ``symbols`` are the values of the kernel's symbolic dims, in the kernel's
    order.
    """

    kernel: Kernel
    inputs: list[Storage]
    outputs: list[Storage]
    symbols: list[Expr]
    scratch: Storage | None


@dataclass(eq=False)
class Define(Instruction):
    """Binds a symbolic dim to an expression over dims bound earlier."""

    var: Any
    value: Expr


@dataclass(eq=False)
class GuardExit(Instruction):
    """An error exit if ``cond`` is false.

    Attributes:
        message: the required condition, in the user's names.
        found: the rest of the message: texts, and int64 expressions whose values are inserted.
        kind: the Python name of the error's class.
    """

    cond: Expr
    message: str
    found: tuple[Expr | str, ...] = ()
    kind: str = "ValueError"


@dataclass(eq=False)
class Copy(Instruction):
    """A copy of ``size_bytes`` from one storage to another."""

    source: Storage
    target: Storage
    size_bytes: Expr


@dataclass(eq=False)
class ReadDims(Instruction):
    """Binds symbolic dims to the first int64s in a storage (sizes computed by a kernel).

    On a GPU, one copy and one wait read all of them.
    """

    vars: list[Any]
    source: Storage


@dataclass(eq=False)
class AllocOutput(Instruction):
    """Allocates the tensor of a result, or accepts the caller's."""

    value: StoredTensor


@dataclass(frozen=True)
class Slot:
    """A part of a workspace; its offset is the maximum end of the earlier slots in ``above``."""

    size_bytes: Expr
    above: tuple[int, ...] = ()


@dataclass(eq=False)
class Region:
    """Straight-line code with its own workspace.

    Attributes:
        slots: the slots of the workspace from the lowest up, filled in by the memory plan.
        results: the values that the region returns.
        boxes: the boxes that the region returns, in programs with boxed values.
    """

    instructions: list[Instruction] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    results: list[StoredTensor] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)

    def leading(self) -> list[GuardExit | Define]:
        """Return the guards and definitions before all other instructions."""
        head = takewhile(lambda step: isinstance(step, GuardExit | Define), self.instructions)
        return [step for step in head if isinstance(step, GuardExit | Define)]

    def take_leading(self) -> list[GuardExit | Define]:
        """Remove the leading guards and definitions, and return them."""
        head = self.leading()
        del self.instructions[: len(head)]
        return head


@dataclass(eq=False)
class Conditional(Instruction):
    """Runs one of two regions; the results of the region that ran are stored in ``outcomes``."""

    cond: Storage
    then_region: Region
    else_region: Region
    outcomes: list[Outcome]


@dataclass(eq=False)
class Outcome:
    """A result of control flow: its value, and variables for the dims that differ between paths."""

    value: StoredTensor
    dims: list[Any]  # one variable per dim, or None if the dim is the same on every path


@dataclass(eq=False)
class Carried:
    """A loop-carried tensor: its value, and the dims that are bound at the start of each
    iteration.
    """

    value: StoredTensor
    dims: list[Any]
    initial: StoredTensor


@dataclass(eq=False)
class Loop(Instruction):
    """``while True: header; if cond != until: body; carried = next; else: exit, break``.

    A tail-recursive function in this form needs constant stack space.
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
    """A function on boxed values; closures refer to it by ``index``, which starts at 1."""

    index: int
    name: str
    params: list[Box]
    results: int
    region: Region = field(default_factory=Region)
    prologue: list[Instruction] = field(default_factory=list)  # binds the dims of the arguments


@dataclass
class Signature:
    """The entry function's tensors: (name, shape, dtype) in order."""

    inputs: list[tuple[str, tuple[Expr, ...], str]]
    outputs: Any  # (shape, dtype) of each result, flattened


@dataclass
class Program:
    """A whole program.

    Attributes:
        constants: the constants in the order of the constant section.
        kernels: the distinct kernels.
        definitions: symbols that a call computes first, from symbols of the inputs and earlier
            definitions.
        attrs: attributes of the module's main function.
        donations: for each donated input the result that takes its memory, or why there is none.
    """

    signature: Signature
    region: Region
    inputs: list[StoredTensor]
    outputs: list[StoredTensor]
    output_tree: object
    constants: list[ProgramConstant]
    kernels: list[Kernel]
    symbols: dict[str, str] = field(default_factory=dict)
    definitions: list[Define] = field(default_factory=list)
    attrs: Mapping[str, object] = field(default_factory=dict)
    functions: list[HostFunction] = field(default_factory=list)
    donations: dict[str, int | WhyNot] = field(default_factory=dict)
    verify: bool = False  # check at the end of every call that no block is leaked
    boxed: bool = False  # the program has values in reference-counted blocks
    on_device: bool = False  # tensors are on a GPU
    graphs: int = 0  # maximum number of cached CUDA graphs
    no_graphs: WhyNot | None = None  # why CUDA graphs are impossible although requested

    @property
    def heaped(self) -> bool:
        """Whether calls need a heap, for boxed values or for loop-carried values.

        On a GPU, loop-carried values use the driver's memory pool instead.
        """
        loops = not self.on_device and any(isinstance(i, Loop) for i in self.region.instructions)
        return self.boxed or loops
