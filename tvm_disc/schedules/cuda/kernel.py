"""The device functions of a group's variants, and the host function that selects and launches them.

    name_k(inputs..., outputs..., scratch, dims..., tasks, blocks, round)  on the device
    name(inputs..., outputs..., scratch, dims..., record)                  on the host

The host function evaluates the decision tree, computes the number of blocks, and launches the
kernel. The device functions of a program are numbered in order of creation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeAlias

import tvm
from tvm import tirx
from tvm.ir import GlobalVar, PointerType, PrimType

from tvm_disc.abi.state import CAPABILITY
from tvm_disc.errors import Unsupported
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.branches import emit_choice, pointers, some_element, uses_scratch
from tvm_disc.schedules.cuda.block import DeviceBlock, bound_to
from tvm_disc.schedules.cuda.vector import ACCESS_BYTES, Aligned, OnCapability
from tvm_disc.schedules.dispatch.variant import Choice, Grid, Need, Pass, Plan, Run, Variant
from tvm_disc.schedules.group import Body, Group, Machine
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import Block, byte_offset, call, i64, index_var, prim_func
from tvm_disc.tir.hoisted import Sizes
from tvm_disc.tir.index import IndexSpace, add, mul
from tvm_disc.tir.llvm_ops import tuned_for
from tvm_disc.typing import UNSET, Buffer, Expr, PrimFunc

# (block, lowering with operands bound, pointers, record of the call) -> whether the work is done
Ahead: TypeAlias = Callable[[Block, Lowering, Mapping[Node, Any], Any], Any]

# (record, number of the function, blocks, threads, arguments, number of arguments). The record of a
# call contains the address of the program's state, and whether an error occurred. The upper 32 bits
# of ``threads`` are the bytes of dynamic shared memory.
LAUNCH = GlobalVar("tvm_disc_launch_kernel")
MOST_BLOCKS = 1 << 20
# Number of launched blocks relative to the number that the device runs at once. If there are more
# tasks, each thread executes several, with the number of launched threads as stride.
WAVES = 8
# number of threads if each one has private scratch memory
SCRATCH_THREADS = 64
GAP_BYTES = 256
# largest number of kernel arguments, each of 8 bytes: CUDA allows 32764 bytes since 12.1
MOST_WORDS = 4095


@dataclass(frozen=True)
class DeviceFunction:
    """A kernel for the device.

    Attributes:
        name: the symbol by which the host finds the kernel.
        func: the TIR function, with threads and blocks bound.
        room_bytes: bytes of dynamic shared memory of a block.
    """

    name: str
    func: Any
    room_bytes: int = 0


def with_runs(choice: Choice) -> Choice:
    """Return the choice with the number of threads limited in plans with private scratch memory."""
    runs = [
        replace(v, run=Run(SCRATCH_THREADS)) if _own_scratch(v.plan) else v for v in choice.variants
    ]
    return Choice(runs, choice.tree, choice.features)


def device_functions(
    group: Group,
    choice: Choice,
    solver: Solver,
    machine: Machine,
    space: IndexSpace,
    ahead: Ahead | None = None,
) -> dict[GlobalVar, PrimFunc]:
    """Return the host function of a kernel, and append its device functions to ``machine.code``.

    Args:
        ahead: emits an attempt that precedes the decision tree, for instance a call of cuBLASLt.
    """
    symbols = group.symbols()
    _check_words(group)
    numbers: dict[str, int] = {}
    for plan in (p for v in choice.variants for p in _widths(v.plan)):
        if plan.key in numbers:
            continue
        numbers[plan.key] = len(machine.code)
        for part in _passes(plan):
            name = f"k{len(machine.code)}_{group.name}"[:100]
            with tuned_for(machine.isa):
                func = _device_function(group, plan, part, solver, symbols, space)
            room_bytes = (part.grid or Grid()).room_bytes
            machine.code.append(DeviceFunction(name, func, room_bytes))
    some = some_element(group.outputs, solver)
    driver = _Driver(group, choice, numbers, solver, machine)
    if ahead is None:
        driver.launches(some)
    else:
        driver.tried(ahead, space, some)
    return {GlobalVar(group.name): driver.function()}


def _check_words(group: Group) -> None:
    """Check that a kernel does not have too many arguments.

    Raises:
        Unsupported: there are more than the driver allows.
    """
    own = len(group.params), len(group.outputs), len(group.symbols())
    if sum(own) + 4 > MOST_WORDS:  # scratch memory, tasks, blocks and the round
        operands, results, dims = own
        raise Unsupported(
            f"{group.name}: a kernel on a GPU has at most {MOST_WORDS - 4} operands, results and "
            f"dims in all, found {operands}, {results} and {dims}; split the operator, for example "
            "into a concatenation of concatenations"
        )


def _widths(plan: Plan) -> Iterator[Plan]:
    """Yield a plan and its ``wide`` plans, from narrow to wide."""
    at: Plan | None = plan
    while at is not None:
        yield at
        at = at.wide


def _own_scratch(plan: Plan) -> bool:
    """Return whether every thread has private scratch memory."""
    return uses_scratch(plan) and not plan.passes


def _passes(plan: Plan) -> tuple[Pass, ...]:
    """Return the launches of a plan, in order."""
    threads = SCRATCH_THREADS if uses_scratch(plan) else Grid().threads
    return plan.passes or (Pass(plan.tasks, plan.emit, plan.grid or Grid(threads)),)


def share_bytes(plan: Plan) -> Expr:
    """Return the distance in bytes between the scratch memory of two threads."""
    size = max(1, int(tvm.DataType(plan.scratch_dtype).bits) // 8)
    each = add(mul(i64(plan.scratch_elems), size), GAP_BYTES)
    return tirx.floordiv(each + 63, i64(64)) * 64


def _device_function(
    group: Group,
    plan: Plan,
    part: Pass,
    solver: Solver,
    symbols: Sequence[object],
    space: IndexSpace,
) -> PrimFunc:
    grid = part.grid
    ins, outs, scratch = pointers(group, plan)
    tasks, blocks, turn = index_var("tasks"), index_var("blocks"), index_var("round")
    lane, number = tirx.Var("threadIdx.x", "int32"), tirx.Var("blockIdx.x", "int32")
    block = DeviceBlock()
    low = Lowering(block, space, solver)
    thread = block.bind("thread", tirx.Cast("int64", lane))
    mine = block.bind("block", tirx.Cast("int64", number))
    buffers: dict[Node, Buffer] = {}
    for i, (param, ptr) in enumerate(zip(group.params, ins, strict=True)):
        buffers[param] = block.declare(f"x{i}", ptr, param.dtype)
        low.bind_buffer(param, buffers[param])
    outputs = [
        block.declare(f"y{i}", ptr, node.dtype)
        for i, (node, ptr) in enumerate(zip(group.outputs, outs, strict=True))
    ]
    first: Expr = mine
    stride: Expr = blocks
    if not grid.shared:
        first, stride = block.bind("first", mine * grid.threads + thread), blocks * grid.threads
    temp: Buffer = UNSET
    if plan.passes:
        temp = block.declare("tmp", scratch, plan.scratch_dtype)
    elif uses_scratch(plan):
        at = byte_offset(scratch, first * Sizes(block).plain(share_bytes(plan)), plan.scratch_dtype)
        temp = block.declare("tmp", block.bind("own", at), plan.scratch_dtype)
    # All threads of a block execute the same number of steps, so that a step may contain barriers.
    steps = tirx.max(tirx.truncdiv(tasks - first + stride - 1, stride), i64(0))
    with low.loop("step", block.bind("steps", steps)) as step:
        task = block.bind("task", first + step * stride)
        part.emit(
            Body(block, low, buffers, outputs, temp, task, task + 1, thread=thread, round=turn)
        )
    body = bound_to(block.stmt(), lane, "threadIdx.x", tirx.IntImm("int32", grid.threads))
    body = bound_to(body, number, "blockIdx.x", tirx.Cast("int32", blocks))
    params = [*ins, *outs, scratch, *symbols, tasks, blocks, turn]
    return tirx.PrimFunc(params, body, PrimType("void"))


class _Driver:
    """Emits the host function, which evaluates the tree and launches the selected variant."""

    def __init__(
        self,
        group: Group,
        choice: Choice,
        numbers: dict[str, int],
        solver: Solver,
        machine: Machine,
    ) -> None:
        assert machine.device is not None
        self.device = machine.device
        self.group, self.choice, self.numbers, self.solver = group, choice, numbers, solver
        self.symbols = group.symbols()
        self.ins, self.outs, self.scratch = pointers(group, choice.variants[0].plan)
        self.record = index_var("record")
        self.block = Block()

    def launches(self, some: Expr | None) -> None:
        """Emit the tree and the launches; nothing is launched if all results are empty."""
        emit_choice(self.block, self.choice, some, self._launch)

    def tried(self, ahead: Ahead, space: IndexSpace, some: Expr | None) -> None:
        """Emit the attempt ``ahead``, and the launches in case that the attempt fails."""
        pointers = dict(zip(self.group.params, self.ins, strict=True))
        pointers |= dict(zip(self.group.outputs, self.outs, strict=True))
        with nullcontext() if some is None else self.block.when(Sizes(self.block).plain(some)):
            low = Lowering(self.block, space, self.solver)
            for param in self.group.params:
                buffer = self.block.declare("x", pointers[param], param.dtype)
                low.bind_buffer(param, buffer)
            taken = ahead(self.block, low, pointers, self.record)
            with self.block.when(tirx.Not(taken)):
                self.launches(None)

    def function(self) -> PrimFunc:
        """Return the host function of the kernel."""
        params = [*self.ins, *self.outs, self.scratch, *self.symbols, self.record]
        return prim_func(params, self.block.stmt())

    def _launch(self, variant: Variant) -> None:
        """Emit the launch of a variant's plan, or of the widest plan whose needs hold."""
        self._launch_widest(variant.plan)

    def _launch_widest(self, plan: Plan) -> None:
        met = None if plan.wide is None else self._met(plan.wide.needs)
        if plan.wide is None or met is None:
            self._launch_plan(plan)
            return
        with self.block.when(met):
            self._launch_widest(plan.wide)
        with self.block.otherwise():
            self._launch_plan(plan)

    def _met(self, needs: Sequence[Need]) -> Expr | None:
        """Return the run-time test of the needs that are not proved; None if a need never holds."""
        tests: list[Expr] = []
        for need in needs:
            proved = need.proved(self.solver)
            if proved is False:
                return None
            if isinstance(need, Aligned):
                tests.append(self._aligned())
            elif isinstance(need, OnCapability):
                tests.append(self._capability(need.capability))
            elif proved is None:
                tests.append(Sizes(self.block).plain(need.cond))
        return reduce(tirx.And, tests, tirx.const(True, "bool"))

    def _aligned(self) -> Expr:
        """Return the test that operands and results are aligned to the access size."""
        words = (tirx.reinterpret("int64", p) for p in (*self.ins, *self.outs))
        bits = reduce(tirx.bitwise_or, words)
        return tirx.EQ(tirx.bitwise_and(bits, i64(ACCESS_BYTES - 1)), i64(0))

    def _capability(self, number: int) -> Expr:
        """Return the test that the GPU has this compute capability."""
        record = self._words(self.record)
        return tirx.EQ(self._words(record[i64(0)])[i64(CAPABILITY)], i64(number))

    def _words(self, address: Expr) -> Buffer:
        kind = PointerType(PrimType("int64"), "global")
        return self.block.declare("state", tirx.reinterpret(kind, address), "int64")

    def _launch_plan(self, plan: Plan) -> None:
        first = self.numbers[plan.key]
        for k, part in enumerate(_passes(plan)):
            if part.rounds is None:
                self._run(plan, part, first + k, i64(0))
                continue
            rounds = self.block.bind("rounds", Sizes(self.block).plain(i64(part.rounds)))
            with self.block.loop("round", rounds) as turn:
                self._run(plan, part, first + k, turn)

    def _most_blocks(self, grid: Grid) -> int:
        """Return the largest number of blocks of a launch; a block may execute several tasks."""
        if grid.shared:
            return MOST_BLOCKS
        held = self.device.multiprocessors * max(1, self.device.costs.threads_held // grid.threads)
        return WAVES * held

    def _run(self, plan: Plan, part: Pass, number: int, turn: Expr) -> None:
        block, grid = self.block, part.grid
        tasks = block.bind("tasks", Sizes(block).plain(i64(part.tasks)))
        per = 1 if grid.shared else grid.threads
        most = 1 if _own_scratch(plan) else self._most_blocks(grid)
        wanted = tirx.truncdiv(tasks + (per - 1), i64(per))
        blocks = block.bind("blocks", tirx.min(wanted, i64(most)))
        with block.when(tasks > 0):
            words = [*(tirx.reinterpret("int64", p) for p in (*self.ins, *self.outs, self.scratch))]
            words += [*self.symbols, tasks, blocks, turn]
            stack = block.stack("words", 8 * len(words), 8)
            given = block.declare("given", byte_offset(stack.data, 0, "int64"), "int64")
            for k, word in enumerate(words):
                block.store(given, k, word)
            threads, count = i64(grid.threads | grid.room_bytes << 32), i64(len(words))
            launch = call(LAUNCH, self.record, i64(number), blocks, threads, given.data, count)
            block.eval(launch)


__all__ = ["LAUNCH", "Ahead", "DeviceFunction", "device_functions", "share_bytes", "with_runs"]
