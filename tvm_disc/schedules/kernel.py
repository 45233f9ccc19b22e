"""Kernels: what a template makes of a fused group, and the driver that runs it on the cores.

A template emits the body of ``[lo, hi)`` of its independent tasks; everything else (parameters,
symbolic dims, scratch memory, the choice between serial and parallel) is common and lives here.

    name_body(inputs..., outputs..., scratch, dims..., lo, hi)
    name(inputs..., outputs..., scratch, dims...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import tvm
from tvm import tirx
from tvm.ir import GlobalVar, PrimType

from tvm_disc.relay_passes.graph import Node, free_symbols
from tvm_disc.schedules.emit import Block, Buffer, byte_offset, i64, index_var, pointer, prim_func
from tvm_disc.schedules.gemm_micro import MicroKernels, may_alias
from tvm_disc.schedules.gemm_tile import Isa
from tvm_disc.schedules.index import IndexSpace
from tvm_disc.schedules.llvm_ops import tuned_for
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver

Expr: TypeAlias = Any


@dataclass
class Machine:
    """What templates need to know of the target, and what the kernels of a program share.

    Attributes:
        isa: vector lanes and registers.
        threads: most tasks that run at once.
        micro: the register-tile kernels built so far, shared by all contractions.
    """

    isa: Isa
    threads: int
    micro: MicroKernels = field(default_factory=MicroKernels)

    @property
    def lanes(self) -> int:
        """32-bit lanes of one vector register."""
        return self.isa.lanes_f32


@dataclass
class Group:
    """A fused group: ``nodes`` in topological order compute ``outputs`` from ``params``."""

    name: str
    kind: str
    nodes: list[Node]
    params: list[Node]
    outputs: list[Node]
    anchor: Node | None = None
    constants: frozenset[Node] = frozenset()  # params that are literals at every call

    def symbols(self) -> list[Any]:
        """Every symbolic dim that the group's code may mention."""
        exprs: list[Any] = []
        for node in (*self.params, *self.nodes):
            exprs.extend(node.shape)
            for p in node.prims:
                exprs.extend(p if isinstance(p, tuple) else (p,))
        return free_symbols(e for e in exprs if not isinstance(e, float | str))


@dataclass
class Kernel:
    """A compiled group before code generation.

    Attributes:
        entry: the driver to call with pointers, scratch and symbols.
        funcs: every TIR function of the kernel.
        symbols: the group's symbolic dims, in argument order.
        scratch_bytes: bytes of scratch for one call, an expression over ``symbols``.
        nodes: what the kernel computes.
        packed: for each parameter that must be given in another layout, how to pack it.
        notes: what ``explain`` says about the kernel.
    """

    name: str
    kind: str
    nodes: list[Node]
    entry: Any
    funcs: dict[Any, Any]
    params: list[Node]
    outputs: list[Node]
    symbols: list[Any]
    scratch_bytes: Expr
    packed: dict[Node, Callable[[Any], Any]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


@dataclass
class Body:
    """The function body a template is filling in."""

    block: Block
    low: Lowering
    buffers: dict[Node, Buffer]
    outputs: list[Buffer]
    scratch: Buffer | None
    lo: Expr
    hi: Expr


@dataclass
class Plan:
    """A template's answer for one group.

    Attributes:
        tasks: number of independent tasks, an expression over the group's symbols.
        work: rough cost of the whole kernel in plain operations, to choose serial or parallel.
        emit: fills in a body that runs tasks ``[lo, hi)``.
        scratch_elems: elements of scratch per concurrent task.
    """

    tasks: Expr
    work: Expr
    emit: Callable[[Body], None]
    scratch_elems: Expr | int = 0
    scratch_dtype: str = "float32"
    packed: dict[Node, Callable[[Any], Any]] = field(default_factory=dict)
    packed_dtypes: dict[Node, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    may_alias: bool = False  # the body's callees write its scratch under another name


# Below this many plain operations waking the other cores costs more than it saves (2 to 3 us).
PARALLEL_WORK = 1 << 17


def build_kernel(group: Group, plan: Plan, solver: Solver, machine: Machine) -> Kernel:
    """Turn a template's plan into TIR functions."""
    symbols = group.symbols()
    body_gv = GlobalVar(f"{group.name}_body")
    with tuned_for(machine.isa):
        funcs = {body_gv: _body_function(group, plan, solver, symbols)}
    entry = GlobalVar(group.name)
    funcs[entry] = _driver(group, plan, symbols, body_gv, machine)
    scratch = i64(plan.scratch_elems) * machine.threads * _bytes(plan.scratch_dtype)
    return Kernel(
        group.name,
        group.kind,
        group.nodes,
        entry,
        funcs,
        group.params,
        group.outputs,
        symbols,
        scratch if _uses_scratch(plan) else i64(0),
        plan.packed,
        plan.notes,
    )


def _uses_scratch(plan: Plan) -> bool:
    return not (isinstance(plan.scratch_elems, int) and plan.scratch_elems == 0)


def _bytes(dtype: str) -> int:
    return max(1, int(tvm.DataType(dtype).bits) // 8)


def _pointers(group: Group, plan: Plan) -> tuple[list[Any], list[Any], Any]:
    ins = [pointer(f"p{i}", plan.packed_dtypes.get(p, p.dtype)) for i, p in enumerate(group.params)]
    outs = [pointer(f"o{i}", o.dtype) for i, o in enumerate(group.outputs)]
    return ins, outs, pointer("scratch", plan.scratch_dtype)


def _fresh(symbols: Sequence[Any]) -> list[Any]:
    return [index_var(str(s.name)) for s in symbols]


def _body_function(group: Group, plan: Plan, solver: Solver, symbols: Sequence[Any]) -> Any:
    ins, outs, scratch = _pointers(group, plan)
    lo, hi = index_var("lo"), index_var("hi")
    block = Block()
    low = Lowering(block, IndexSpace(lambda a, b: bool(solver.known_eq(a, b))), solver)
    buffers: dict[Node, Buffer] = {}
    for i, (param, ptr) in enumerate(zip(group.params, ins, strict=True)):
        dtype = plan.packed_dtypes.get(param, param.dtype)
        buffers[param] = block.declare(f"x{i}", ptr, dtype)
        low.bind_buffer(param, buffers[param])
    outputs = [
        block.declare(f"y{i}", ptr, node.dtype)
        for i, (node, ptr) in enumerate(zip(group.outputs, outs, strict=True))
    ]
    temp = block.declare("tmp", scratch, plan.scratch_dtype) if _uses_scratch(plan) else None
    plan.emit(Body(block, low, buffers, outputs, temp, lo, hi))
    # The body mentions the module's symbols: they are its parameters under the same variables.
    func = prim_func([*ins, *outs, scratch, *symbols, lo, hi], block.stmt())
    return may_alias(func) if plan.may_alias else func


def _driver(group: Group, plan: Plan, symbols: Sequence[Any], body: Any, machine: Machine) -> Any:
    ins, outs, scratch = _pointers(group, plan)
    block = Block()

    def run(part: Expr, lo: Expr, hi: Expr) -> None:
        temp = scratch
        if _uses_scratch(plan) and part is not None:
            temp = byte_offset(
                scratch,
                part * i64(plan.scratch_elems) * _bytes(plan.scratch_dtype),
                plan.scratch_dtype,
            )
        args = [*ins, *outs, temp, *symbols, lo, hi]
        block.eval(tvm.ir.Call(body, args, ret_ty=PrimType("int32")))

    tasks = block.bind("tasks", i64(plan.tasks))
    if machine.threads <= 1:
        run(None, i64(0), tasks)
    else:
        with block.when(tirx.And(i64(plan.work) >= PARALLEL_WORK, tasks > 1)):
            rounded = tasks + (machine.threads - 1)
            chunk = block.bind("chunk", tirx.floordiv(rounded, machine.threads))
            with block.loop("part", machine.threads, kind="parallel") as part:
                run(part, tirx.min(part * chunk, tasks), tirx.min((part + 1) * chunk, tasks))
        with block.otherwise():
            run(None, i64(0), tasks)
    return prim_func([*ins, *outs, scratch, *symbols], block.stmt())
