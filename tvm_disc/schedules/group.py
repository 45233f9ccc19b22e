"""The arguments of a template: a fused group, the machine, and the body that it fills in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.dispatch.cost_model import CostModel, Memory
from tvm_disc.schedules.dispatch.records import Records
from tvm_disc.schedules.gemm.micro_kernel import MicroKernels
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Likely, Solver
from tvm_disc.shape.symbols import free_symbols
from tvm_disc.target.device import Device
from tvm_disc.target.isa import Isa
from tvm_disc.tir.builder import Block
from tvm_disc.typing import UNSET, Buffer, Expr, Size


@dataclass
class Machine:
    """Properties of the target, and state that the kernels of a program share.

    Attributes:
        isa: vector lanes and registers.
        threads: largest number of tasks that run concurrently.
        model: cost constants of the analytical model.
        records: measured times to choose variants by; None chooses by the model.
        trees: given decision trees by group key; they take precedence over ``records`` and
            ``model``.
        micro: the register-tile kernels built so far, shared by all contractions.
        own_threads: whether kernels run on the project's thread pool (``codegen.threads``).
        memory: properties of the memory hierarchy.
        templates: the user's (name, template) pairs by kind of group, tried before the built-in
            ones.
        device: the device that runs the kernels; None is the CPU.
        tf32: whether matmuls on a device may round operands to ten mantissa bits.
        code: the program's functions that run on the device.
        winograd: side length of a Winograd output tile; 0 disables Winograd convolutions.
        copy_bytes: as in ``Options``.
        constants: names of the files that ``model`` and ``memory`` were read from.
    """

    isa: Isa
    threads: int
    model: CostModel = field(default_factory=CostModel)
    records: Records | None = None
    trees: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    micro: MicroKernels = field(default_factory=MicroKernels)
    own_threads: bool = False
    memory: Memory = field(default_factory=Memory)
    templates: Mapping[str, tuple[tuple[str, Any], ...]] = field(default_factory=dict)
    device: Device | None = None
    tf32: bool = False
    code: list[Any] = field(default_factory=list)
    winograd: int = 2
    copy_bytes: int = 1 << 20
    constants: tuple[str, ...] = ()

    @property
    def lanes(self) -> int:
        """The number of 32-bit lanes of a vector register."""
        return self.isa.lanes_f32


@dataclass
class Group:
    """A fused group: ``nodes`` in topological order compute ``outputs`` from ``params``.

    Attributes:
        constants: params that are constant for all calls.
        facts: constraints on the group's symbols that hold for all calls.
    """

    name: str
    kind: str
    nodes: list[Node]
    params: list[Node]
    outputs: list[Node]
    anchor: Node | None = None
    constants: frozenset[Node] = frozenset()
    facts: tuple[Any, ...] = ()

    def symbols(self) -> list[Any]:
        """Return all symbolic dims that the group's code may use."""
        exprs: list[Any] = []
        for node in (*self.params, *self.nodes):
            exprs.extend(node.shape)
            for p in node.prims:
                exprs.extend(p if isinstance(p, tuple) else (p,))
        return free_symbols(e for e in exprs if not isinstance(e, float | str))


def solver_of(group: Group) -> Solver:
    """Return a solver with all facts that hold for a group's dims."""
    solver = Solver()
    for symbol in group.symbols():
        solver.declare(symbol)
    for fact in group.facts:
        if isinstance(fact, Likely):
            solver.likely(fact.expr, fact.values)
        else:
            solver.assume(fact, "at every call")
    return solver


@dataclass
class Body:
    """The function body that a template fills in.

    Attributes:
        buffers: the memory of each parameter.
        lo, hi: the range ``[lo, hi)`` of tasks that a call runs.
        algorithm: the number of the algorithm that the body runs: a literal or a parameter.
        algorithms: all values that ``algorithm`` may have.
        thread: on a device, if a thread block shares a task, the index of this thread in its block.
        round: the number of the current execution of a pass.
    """

    block: Block
    low: Lowering
    buffers: dict[Node, Buffer]
    outputs: list[Buffer]
    scratch: Buffer  # None if the plan uses no scratch memory
    lo: Expr
    hi: Expr
    algorithm: Size = 0
    algorithms: tuple[int, ...] = (0,)
    thread: Expr = UNSET
    round: Expr = UNSET
