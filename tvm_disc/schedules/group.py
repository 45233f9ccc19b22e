"""What a template is given: a fused group, the machine, and the body that it fills in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tvm_disc.graph.nodes import Node, free_symbols
from tvm_disc.schedules.dispatch.cost_model import CostModel, Memory
from tvm_disc.schedules.dispatch.records import Records
from tvm_disc.schedules.gemm.micro_kernel import MicroKernels
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Likely, Solver
from tvm_disc.target.device import Device
from tvm_disc.target.isa import Isa
from tvm_disc.tir.builder import Block, Buffer

Expr: TypeAlias = Any


@dataclass
class Machine:
    """What templates need to know of the target, and what the kernels of a program share.

    Attributes:
        isa: vector lanes and registers.
        threads: most tasks that run at once.
        model: what the analytical model takes for the pieces of a kernel.
        records: measured times to choose variants by; None leaves it to the model.
        trees: decision trees by the key of their group, which go before everything else.
        micro: the register-tile kernels built so far, shared by all contractions.
        own_threads: whether kernels run on threads of ours (``codegen.threads``).
        memory: how its memory wants to be walked.
        templates: a user's own, (name, template) by kind of group, asked before ours.
        device: what runs the kernels, if not the processor.
        code: the functions of the program that run there.
        winograd: outputs a side of a tile of convolutions by minimal filtering; 0 for none.
    """

    isa: Isa
    threads: int
    model: CostModel = field(default_factory=CostModel)
    records: Records | None = None
    trees: Mapping[str, Any] = field(default_factory=dict)
    micro: MicroKernels = field(default_factory=MicroKernels)
    own_threads: bool = False
    memory: Memory = field(default_factory=Memory)
    templates: Mapping[str, tuple[tuple[str, Any], ...]] = field(default_factory=dict)
    device: Device | None = None
    code: list[Any] = field(default_factory=list)
    winograd: int = 2

    @property
    def lanes(self) -> int:
        """32-bit lanes of one vector register."""
        return self.isa.lanes_f32


@dataclass
class Group:
    """A fused group: ``nodes`` in topological order compute ``outputs`` from ``params``.

    Attributes:
        constants: params that are literals at every call.
        facts: constraints on the group's symbols that hold at every call.
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
        """Every symbolic dim that the group's code may mention."""
        exprs: list[Any] = []
        for node in (*self.params, *self.nodes):
            exprs.extend(node.shape)
            for p in node.prims:
                exprs.extend(p if isinstance(p, tuple) else (p,))
        return free_symbols(e for e in exprs if not isinstance(e, float | str))


def solver_of(group: Group) -> Solver:
    """A solver that knows what holds of a group's dims at every call."""
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
    """The function body a template is filling in; ``thread`` is the number of this thread among
    those of its block, on a device, where a block shares a task; ``round`` is which run of a pass
    this is."""

    block: Block
    low: Lowering
    buffers: dict[Node, Buffer]
    outputs: list[Buffer]
    scratch: Buffer | None
    lo: Expr
    hi: Expr
    thread: Expr = None
    round: Expr = None
