"""Regions of the host program as TIR: workspaces, kernel calls, branches and loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from tvm import tirx
from tvm.ir import StringImm
from tvm.tirx import op as O
from tvm.tirx import stmt as S

from tvm_disc.codegen.host.abi import as_pointer, i32
from tvm_disc.codegen.host.memory import GIVE, HOME, TAKE, THREADS
from tvm_disc.codegen.host.profile import NOW, RECORD, launch_bytes, launch_flops, launch_variant
from tvm_disc.codegen.plan.placement import ALIGNMENT_BYTES, tops
from tvm_disc.codegen.plan.program import (
    AllocOutput,
    Carried,
    Cell,
    Copy,
    Define,
    Guard,
    Home,
    If,
    Instruction,
    Launch,
    Loop,
    Outcome,
    ReadDim,
    Region,
    Storage,
    Value,
)
from tvm_disc.codegen.threads.glue import count_call, share_of
from tvm_disc.tir.builder import Block, Buffer, byte_offset, call, i64
from tvm_disc.tir.hoisted import Sizes

Expr: TypeAlias = Any
# Workspaces up to this size lie on the stack.
SMALL_BYTES = 4096


def _highest(values: Sequence[Expr]) -> Expr:
    result: Expr = values[0] if values else i64(0)
    for value in values[1:]:
        result = tirx.max(result, value)
    return result


class RegionEmitter:
    """Emits instructions into ``block``; a subclass provides inputs, constants and outputs.

    Invariant: every open region has one entry in ``workspaces`` and in ``open_cells``; a cell
    owns its block of memory or has moved it elsewhere by the time its region closes.
    """

    def __init__(self, constant_offsets: Sequence[int]) -> None:
        self.block = Block()
        self.offsets = constant_offsets
        self.inputs: list[Expr] = []
        self.outputs: dict[int, Expr] = {}
        # Of every open region: its memory, whether that was requested, and its offsets.
        self.workspaces: list[tuple[Expr, Expr, list[Expr]]] = []
        self.places: dict[Storage, Expr] = {}
        self.cells: dict[Cell, Buffer] = {}
        self.open_cells: list[list[Cell]] = []
        self.constants: Expr = None
        self.null: Expr = None
        self.state: Expr = None
        self.own_threads = False  # whether kernels run on workers that all programs share
        self.counted: Expr = None  # whether this call is one among which threads are shared
        self.profile: Expr = None  # address of the record of a timed call, or 0
        self.kernel_numbers: Mapping[str, int] = {}
        self.allocated: list[int] = []  # outputs that exist by now

    def alloc_output(self, instruction: AllocOutput) -> None:
        """Allocate a returned tensor."""
        raise NotImplementedError

    def _assert(self, cond: Expr, message: str, kind: str = "ValueError") -> None:
        """Stop unless ``cond`` holds, with nothing left allocated."""
        if not self.workspaces and not self.allocated and self.counted is None:
            self.block.add(S.AssertStmt(cond, StringImm(kind), [StringImm(message)]))
            return
        cond = self.block.bind("holds", cond)
        with self.block.when(tirx.Not(cond)):
            self._abandon()
            self.block.add(S.AssertStmt(cond, StringImm(kind), [StringImm(message)]))

    def _abandon(self) -> None:
        for cells in self.open_cells:
            for cell in cells:
                if cell in self.cells:
                    self._free_cell(self.cells[cell])
        for pointer, large, _ in self.workspaces:
            self._give_back(pointer, large)
        if self.allocated:
            self._abandon_outputs()
        self._count_call(-1)

    def _abandon_outputs(self) -> None:
        raise NotImplementedError

    def _count_call(self, change: int) -> None:
        """Tell other calls that this one begins or ends, if it is one to be counted."""
        if self.counted is not None:
            with self.block.when(self.counted):
                count_call(self.block, self._home(), change)

    def _home(self) -> Expr:
        words = self.block.declare("words", self.state, "int64")
        return self.block.bind("home", words[i64(HOME)])

    # -- memory --------------------------------------------------------------------------------

    def _alloc(self, size_bytes: Expr) -> Expr:
        found = self.block.alloc("found", 1, "int64")
        self.block.eval(call(TAKE, self.state, i64(size_bytes), found.data))
        self._assert(tirx.NE(found[i64(0)], i64(0)), "out of memory", "MemoryError")
        return self.block.bind("ws", as_pointer(found[i64(0)]))

    def _free(self, pointer: Expr) -> None:
        self.block.eval(call(GIVE, self.state, tirx.reinterpret("int64", pointer)))

    def _workspace(self, size_bytes: Expr) -> tuple[Expr, Expr]:
        """A pointer to so many bytes, and whether they are a request that must be given back.

        A small workspace lies on the stack, which costs nothing.
        """
        small = self.block.stack("small", SMALL_BYTES, ALIGNMENT_BYTES)
        place = self.block.alloc("place", 1, "int64")
        self.block.store(place, 0, tirx.reinterpret("int64", small.data))
        large = self.block.bind("large", size_bytes > SMALL_BYTES)
        with self.block.when(large):
            pointer = self._alloc(size_bytes)
            self.block.store(place, 0, tirx.reinterpret("int64", pointer))
        return self.block.bind("workspace", as_pointer(place[i64(0)])), large

    def _open_workspace(self, region: Region) -> None:
        offsets: list[Expr] = []
        ends: list[Expr] = []
        sizes = Sizes(self.block)
        for slot in region.slots:
            below = [ends[k] for k in slot.above]
            offsets.append(sizes.emit("offset", _highest(below)))
            units = tirx.floordiv(i64(slot.size_bytes) + (ALIGNMENT_BYTES - 1), ALIGNMENT_BYTES)
            end = offsets[-1] + units * ALIGNMENT_BYTES
            ends.append(sizes.emit("end", end))
        total = sizes.emit("total", _highest([ends[k] for k in tops(region.slots)]))
        pointer, large = self._workspace(total) if region.slots else (None, None)
        self.workspaces.append((pointer, large, offsets))

    def _close_workspace(self) -> None:
        self._give_back(*self.workspaces.pop()[:2])

    def _give_back(self, pointer: Expr, large: Expr) -> None:
        if pointer is not None:
            with self.block.when(large):
                self._free(pointer)

    def _place(self, storage: Storage) -> Expr:
        """The address of a storage as an untyped pointer."""
        if storage.home is Home.INPUT:
            return self.inputs[storage.position]
        if storage.home is Home.CONSTANT:
            return O.handle_add_byte_offset(self.constants, i64(self.offsets[storage.position]))
        if storage.home is Home.OUTPUT:
            return self.outputs[storage.position]
        if storage.home is Home.CELL:
            assert storage.cell is not None
            return as_pointer(self.cells[storage.cell][i64(0)])
        return self.places[storage]

    def _typed(self, storage: Storage, dtype: str) -> Expr:
        return byte_offset(self._place(storage), 0, dtype)

    # -- instructions --------------------------------------------------------------------------

    def _region(self, region: Region) -> None:
        self._open_region(region)
        self._instructions(region)
        self._close_region()

    def _instructions(self, region: Region) -> None:
        for instruction in region.instructions:
            self._instruction(instruction, region)

    def _open_region(self, region: Region) -> None:
        self.open_cells.append([])
        self._open_workspace(region)

    def _close_region(self) -> None:
        for cell in self.open_cells.pop():
            self._release(cell)
        self._close_workspace()

    def _instruction(self, instruction: Instruction, region: Region) -> None:
        if isinstance(instruction, Launch):
            self._launch(instruction)
        elif isinstance(instruction, Define):
            self.block.define(instruction.var, i64(instruction.value))
        elif isinstance(instruction, Guard):
            self._assert(instruction.cond, instruction.message)
        elif isinstance(instruction, Copy):
            self._copy(instruction)
        elif isinstance(instruction, ReadDim):
            source = self.block.declare("dim", self._typed(instruction.source, "int64"), "int64")
            self.block.define(instruction.var, source[i64(instruction.index)])
        elif isinstance(instruction, AllocOutput):
            self.alloc_output(instruction)
        elif isinstance(instruction, If):
            self._if(instruction)
        elif isinstance(instruction, Loop):
            self._loop(instruction)

    def _settle(self, storage: Storage) -> None:
        """Make sure a storage written now has an address."""
        if storage.home is Home.CELL and storage.cell not in self.cells:
            assert storage.cell is not None
            self._new_cell(storage.cell)
            self._set_cell(storage.cell, self._alloc(tirx.max(i64(storage.size_bytes), i64(64))), 1)
        elif storage.home is Home.WORKSPACE and storage not in self.places:
            pointer, _, offsets = self.workspaces[-1]
            at = O.handle_add_byte_offset(pointer, offsets[storage.slot])
            self.places[storage] = self.block.bind(storage.name, at)

    def _launch(self, launch: Launch) -> None:
        kernel = launch.kernel
        for storage in (*launch.outputs, *([launch.scratch] if launch.scratch else [])):
            self._settle(storage)
        args = [self._typed(s, p.dtype) for s, p in zip(launch.inputs, kernel.params, strict=True)]
        args += [
            self._typed(s, o.dtype) for s, o in zip(launch.outputs, kernel.outputs, strict=True)
        ]
        null = byte_offset(self.null, 0, "float32")
        args.append(self._typed(launch.scratch, "float32") if launch.scratch else null)
        args += [i64(s) for s in launch.symbols]
        most = self.block.declare("words", self.state, "int64")[i64(THREADS)]
        # Asked anew for every kernel that has parts: other calls come and go.
        shared = self.own_threads and kernel.parallel
        args.append(share_of(self.block, self._home(), most) if shared else most)
        number = i64(self.kernel_numbers[kernel.name])
        with self._timed(number, launch):
            self.block.eval(call(kernel.entry, *args))

    @contextmanager
    def _timed(self, number: Expr, launch: Launch | None = None) -> Iterator[None]:
        """What is emitted inside is recorded by calls that ask for it."""
        start = self.block.alloc("start", 1, "int64")
        asked = tirx.NE(self.profile, i64(0))
        with self.block.when(asked):
            self.block.eval(call(NOW, start.data))
        yield
        with self.block.when(asked):
            work: list[Expr] = [i64(0)] * 3
            if launch is not None:
                work = [launch_variant(launch), launch_bytes(launch), launch_flops(launch)]
            sizes = Sizes(self.block)
            variant, size, flops = (sizes.plain(number) for number in work)
            self.block.eval(call(RECORD, self.profile, number, variant, start[i64(0)], size, flops))

    def _copy(self, copy: Copy) -> None:
        self._settle(copy.target)
        source, target = self._typed(copy.source, "int8"), self._typed(copy.target, "int8")
        x, y = self.block.declare("from", source, "int8"), self.block.declare("to", target, "int8")
        with self.block.loop("b", i64(copy.size_bytes)) as b:
            self.block.store(y, b, x[b])

    # -- control flow --------------------------------------------------------------------------

    def _new_cell(self, cell: Cell) -> None:
        self.cells[cell] = self.block.alloc(cell.name, 2, "int64")
        self.block.store(self.cells[cell], 0, i64(0))
        self.block.store(self.cells[cell], 1, i64(0))
        self.open_cells[-1].append(cell)

    def _set_cell(self, cell: Cell, pointer: Expr, owned: int) -> None:
        self.block.store(self.cells[cell], 0, tirx.reinterpret("int64", pointer))
        self.block.store(self.cells[cell], 1, i64(owned))

    def _release(self, cell: Cell) -> None:
        self._free_cell(self.cells.pop(cell))

    def _free_cell(self, buffer: Buffer) -> None:
        with self.block.when(tirx.NE(buffer[i64(1)], i64(0))):
            self._free(as_pointer(buffer[i64(0)]))

    def _move(self, value: Value, target: Cell) -> None:
        """Give the bytes of ``value`` to a cell: take over a cell's block, else borrow."""
        storage = value.storage
        if storage.home is Home.CELL:
            assert storage.cell is not None
            source = self.cells[storage.cell]
            self.block.store(self.cells[target], 0, source[i64(0)])
            self.block.store(self.cells[target], 1, source[i64(1)])
            self.block.store(source, 1, i64(0))
        else:
            self._set_cell(target, self._place(storage), 0)

    def _dim_cells(self, dims: Sequence[Any]) -> list[Buffer | None]:
        return [None if d is None else self.block.alloc("dimcell", 1, "int64") for d in dims]

    def _condition(self, storage: Storage) -> Expr:
        buffer = self.block.declare("cond", self._typed(storage, "bool"), "bool")
        return self.block.bind("taken", tirx.NE(buffer[i64(0)], tirx.IntImm("int8", 0)))

    def _if(self, branch: If) -> None:
        cells = [self._outcome_cells(o) for o in branch.outcomes]
        taken = self._condition(branch.cond)
        with self.block.when(taken):
            self._branch(branch.then_region, branch.outcomes, cells)
        with self.block.otherwise():
            self._branch(branch.else_region, branch.outcomes, cells)
        self._define_outcomes(branch.outcomes, cells)

    def _outcome_cells(self, outcome: Outcome) -> list[Buffer | None]:
        assert outcome.value.storage.cell is not None
        self._new_cell(outcome.value.storage.cell)
        return self._dim_cells(outcome.dims)

    def _branch(
        self, region: Region, outcomes: list[Outcome], cells: list[list[Buffer | None]]
    ) -> None:
        self._open_region(region)
        for instruction in region.instructions:
            self._instruction(instruction, region)
        for outcome, dims, value in zip(outcomes, cells, region.results, strict=True):
            assert outcome.value.storage.cell is not None
            self._move(value, outcome.value.storage.cell)
            self._store_dims(dims, value)
        self._close_region()

    def _store_dims(self, cells: list[Buffer | None], value: Value) -> None:
        for cell, dim in zip(cells, value.shape, strict=True):
            if cell is not None:
                self.block.store(cell, 0, i64(dim))

    def _define_outcomes(self, outcomes: list[Outcome], cells: list[list[Buffer | None]]) -> None:
        for outcome, dims in zip(outcomes, cells, strict=True):
            for var, cell in zip(outcome.dims, dims, strict=True):
                if cell is not None:
                    self.block.define(var, cell[i64(0)])

    def _loop(self, loop: Loop) -> None:
        outcome_cells = [self._outcome_cells(o) for o in loop.outcomes]
        dim_cells = [self._start_carried(c) for c in loop.carried]
        going = self.block.alloc("going", 1, "int32")
        self.block.store(going, 0, i32(1))
        with self.block.loop_while(tirx.NE(going[i64(0)], i32(0))):
            for carried, dims in zip(loop.carried, dim_cells, strict=True):
                for var, cell in zip(carried.dims, dims, strict=True):
                    if cell is not None:
                        self.block.define(var, cell[i64(0)])
            self._open_region(loop.header)
            for instruction in loop.header.instructions:
                self._instruction(instruction, loop.header)
            taken = self._condition(loop.cond)
            with self.block.when(tirx.Not(taken) if loop.until else taken):
                self._step(loop, dim_cells)
            with self.block.otherwise():
                self._branch(loop.exit, loop.outcomes, outcome_cells)
                self.block.store(going, 0, i32(0))
            self._close_region()
        self._define_outcomes(loop.outcomes, outcome_cells)

    def _start_carried(self, carried: Carried) -> list[Buffer | None]:
        cell = carried.value.storage.cell
        assert cell is not None
        self._new_cell(cell)
        self._set_cell(cell, self._place(carried.initial.storage), 0)
        dims = self._dim_cells(carried.dims)
        self._store_dims(dims, carried.initial)
        return dims

    def _step(self, loop: Loop, dim_cells: list[list[Buffer | None]]) -> None:
        """Run the body, then replace every carried value that changed, all at once."""
        self._open_region(loop.body)
        for instruction in loop.body.instructions:
            self._instruction(instruction, loop.body)
        changed = [
            (c, d, v)
            for c, d, v in zip(loop.carried, dim_cells, loop.body.results, strict=True)
            if v.storage is not c.value.storage
        ]
        sizes = [[self.block.bind("next", i64(x)) for x in v.shape] for _, _, v in changed]
        for carried, _, _ in changed:
            assert carried.value.storage.cell is not None
            old = self.cells[carried.value.storage.cell]
            with self.block.when(tirx.NE(old[i64(1)], i64(0))):
                self._free(as_pointer(old[i64(0)]))
        for (carried, cells, value), dims in zip(changed, sizes, strict=True):
            assert carried.value.storage.cell is not None
            self._move(value, carried.value.storage.cell)
            for cell, dim in zip(cells, dims, strict=True):
                if cell is not None:
                    self.block.store(cell, 0, dim)
        self._close_region()
