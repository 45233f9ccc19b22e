"""Regions of the host program as TIR: workspaces, kernel calls, branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tvm import tirx
from tvm.tirx import op as O

from tvm_disc.abi.formula import ALIGNMENT_BYTES
from tvm_disc.abi.state import THREADS
from tvm_disc.codegen.host.abi import as_pointer, i32
from tvm_disc.codegen.host.device import COPY, READ
from tvm_disc.codegen.host.emission import Allocator, Emission, Exits, KeptMemory
from tvm_disc.codegen.host.memory import BEFORE, CELL_WORDS, OWNED, free_cells
from tvm_disc.codegen.plan.placement import tops
from tvm_disc.codegen.plan.program import (
    Carried,
    Cell,
    Conditional,
    Copy,
    Define,
    GuardExit,
    Home,
    Instruction,
    Launch,
    Loop,
    Outcome,
    ReadDims,
    Region,
    Storage,
    StoredTensor,
)
from tvm_disc.codegen.threads.glue import SHARE
from tvm_disc.shape.chains import joined
from tvm_disc.tir.builder import byte_offset, call, i64
from tvm_disc.tir.hoisted import Sizes
from tvm_disc.typing import UNSET, Buffer, Expr

# CPU workspaces up to this size are on the stack.
SMALL_BYTES = 4096


def _highest(values: Sequence[Expr]) -> Expr:
    return joined(values, tirx.max) if values else i64(0)


def _cell(value: StoredTensor) -> Cell:
    assert value.storage.cell is not None
    return value.storage.cell


@dataclass
class OpenRegion:
    """A region whose instructions are being emitted.

    Attributes:
        pointer, large, offsets: its workspace, whether the workspace is on the heap, and the byte
            offsets of its slots.
        cells: its cells, in the order of creation.
        held: list entries of the memory that it must release: its workspace, then its cells.
        numbers: size expressions that launches used and the variables that hold them, by the hash
            (the identity) of the expression.
    """

    pointer: Expr = UNSET
    large: Expr = UNSET
    offsets: list[Expr] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    held: list[Buffer] = field(default_factory=list)
    numbers: dict[int, tuple[Expr, Expr]] = field(default_factory=dict)


class Regions:
    """Emits the instructions of regions; other emitters register in ``emitters`` and ``settlers``.

    Invariant: when a region closes, each of its cells owns its block of memory or has transferred
    the ownership.

    The cells and workspaces of open regions form a linked list at run time, newest first
    (``host/memory.py``). The code size of an error exit does not depend on the length of the list.

    Attributes:
        open: the open regions, from the outermost.
        memory: allocator of cells and large workspaces.
        emitters: emitter per type of instruction.
        settlers: per home of a storage, emitter that allocates the storage before it is written.
    """

    def __init__(self, host: Emission, exits: Exits) -> None:
        self.host, self.exits, self.block = host, exits, host.block
        self.memory: Allocator = KeptMemory(host, exits)
        self.open: list[OpenRegion] = []
        self.places: dict[Storage, Expr] = {}
        self.cells: dict[Cell, Buffer] = {}
        self.emitters: dict[type, Callable[[Any], None]] = {
            Launch: self._launch,
            Define: self._define,
            GuardExit: self._guard,
            Copy: self._copy,
            ReadDims: self._read_dims,
            Conditional: self._if,
            Loop: self._loop,
        }
        self.settlers: dict[Home, Callable[[Storage], None]] = {
            Home.CELL: self._settle_cell,
            Home.WORKSPACE: self._settle_slot,
        }

    def give_back(self) -> None:
        """Emit the release of everything that open regions hold, before an error exit."""
        if self.holds:
            free = self.memory.free
            free_cells(self.block, self.newest(), lambda address: free(as_pointer(address)))

    @property
    def holds(self) -> bool:
        """Whether open regions hold anything."""
        return any(region.held for region in self.open)

    def newest(self) -> Expr:
        """Return the address of the newest cell or workspace of open regions, or 0."""
        held = [each for region in self.open for each in region.held]
        return tirx.reinterpret("int64", held[-1].data) if held else i64(0)

    def _new_block(self, name: str, address: Expr, owned: Expr) -> Buffer:
        """Emit a new entry of the list of memory that open regions hold."""
        made = self.block.alloc(name, CELL_WORDS, "int64")
        for word, value in ((0, address), (OWNED, owned), (BEFORE, self.newest())):
            self.block.store(made, word, value)
        self.open[-1].held.append(made)
        return made

    def drop_region(self) -> None:
        """Close a region that always ends in an error exit: nothing is released."""
        self.open.pop()

    # -- memory --------------------------------------------------------------------------------

    def _workspace(self, size_bytes: Expr) -> tuple[Expr, Expr]:
        """Emit the allocation of a workspace; return the pointer, and whether it must be freed.

        On a CPU, a small workspace is on the stack, which costs nothing.
        """
        if self.host.device:
            return self.memory.alloc(size_bytes), tirx.const(True, "bool")
        small = self.block.stack("small", SMALL_BYTES, ALIGNMENT_BYTES)
        place = self.block.alloc("place", 1, "int64")
        self.block.store(place, 0, tirx.reinterpret("int64", small.data))
        large = self.block.bind("large", size_bytes > SMALL_BYTES)
        with self.block.when(large):
            pointer = self.memory.alloc(size_bytes)
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
        if region.slots:
            pointer, large = self._workspace(total)
            here = self.open[-1]
            here.pointer, here.large, here.offsets = pointer, large, offsets
            owned = tirx.Cast("int64", large)
            self._new_block("held", tirx.reinterpret("int64", pointer), owned)

    def place(self, storage: Storage) -> Expr:
        """Return the address of a storage as an untyped pointer."""
        if storage.home is Home.INPUT:
            return self.host.inputs[storage.position]
        if storage.home is Home.CONSTANT:
            return O.handle_add_byte_offset(
                self.host.constants, i64(self.host.offsets[storage.position])
            )
        if storage.home is Home.OUTPUT:
            return self.host.outputs[storage.position]
        if storage.home is Home.CELL:
            assert storage.cell is not None
            return as_pointer(self.cells[storage.cell][i64(0)])
        return self.places[storage]

    def typed(self, storage: Storage, dtype: str) -> Expr:
        """Return the address of a storage as a pointer to its elements."""
        return byte_offset(self.place(storage), 0, dtype)

    # -- instructions --------------------------------------------------------------------------

    def region(self, region: Region) -> None:
        """Emit a whole region."""
        self.open_region(region)
        self.run(region)
        self.close_region()

    def run(self, region: Region) -> None:
        """Emit the instructions of a region that was opened."""
        for instruction in region.instructions[len(region.leading()) :]:
            self.instruction(instruction)

    def open_region(self, region: Region) -> None:
        """Open a region: emit its leading steps, then its memory; it has no cells yet.

        Leading guards and definitions come before the allocation, as the size of the workspace may
        depend on them.
        """
        for step in region.leading():
            self.instruction(step)
        self.open.append(OpenRegion())
        self._open_workspace(region)

    def close_region(self) -> None:
        """Close a region: emit the release of its cells and its workspace."""
        region = self.open.pop()
        for cell in region.cells:
            self._release(cell)
        if region.pointer is not None:
            with self.block.when(region.large):
                self.memory.free(region.pointer)

    def instruction(self, instruction: Instruction) -> None:
        """Emit one instruction."""
        self.emitters[type(instruction)](instruction)

    def _define(self, instruction: Define) -> None:
        name = str(instruction.var.name)
        self.block.define(instruction.var, self.block.number(name, i64(instruction.value)))

    def _guard(self, instruction: GuardExit) -> None:
        if instruction.found:
            text = (instruction.message, *instruction.found)
            self.exits.check_numbers(instruction.cond, text, instruction.kind)
        else:
            self.exits.check(instruction.cond, instruction.message, instruction.kind)

    def _read_dims(self, instruction: ReadDims) -> None:
        if not instruction.vars:
            return
        if self.host.device:
            source = self._from_device(instruction.source, 8 * len(instruction.vars))
        else:
            source = self.block.declare("dim", self.typed(instruction.source, "int64"), "int64")
        for k, var in enumerate(instruction.vars):
            self.block.define(var, source[i64(k)])

    def _from_device(self, storage: Storage, size_bytes: int) -> Buffer:
        """Emit a read of a GPU storage's first bytes, which waits for the kernels before it."""
        read = self.block.alloc("read", 1 + -(-size_bytes // 8), "int64")
        at = tirx.reinterpret("int64", self.place(storage))
        self.block.eval(call(READ, self.host.state, at, i64(size_bytes), read.data))
        self._unless_failed(read[i64(0)])
        first = byte_offset(read.data, 8, "int64")
        return self.block.declare("numbers", self.block.bind("numbers", first), "int64")

    def _unless_failed(self, status: Expr) -> None:
        """Emit an exit if ``status`` is not 0, which means that a call failed and raised an
        error.
        """
        with self.block.when(tirx.NE(status, i64(0))):
            self.host.fail()

    def settle(self, storage: Storage) -> None:
        """Ensure that a storage has an address before it is written."""
        if storage.home in self.settlers:
            self.settlers[storage.home](storage)

    def _settle_cell(self, storage: Storage) -> None:
        if storage.cell not in self.cells:
            assert storage.cell is not None
            self._new_cell(storage.cell)
            size = tirx.max(i64(storage.size_bytes), i64(64))
            self._set_cell(storage.cell, self.memory.alloc(size), 1)

    def _settle_slot(self, storage: Storage) -> None:
        if storage not in self.places:
            here = self.open[-1]
            at = O.handle_add_byte_offset(here.pointer, here.offsets[storage.slot])
            self.places[storage] = self.block.bind(storage.name, at)

    def _number(self, size: Expr) -> Expr:
        """Return a variable that holds a size. An expression that several launches share is
        computed once, in the open region that used it first.
        """
        if isinstance(size, int | tirx.IntImm | tirx.Var):
            return i64(size)
        for region in self.open:
            if hash(size) in region.numbers:
                return region.numbers[hash(size)][1]
        made = self.block.number("size", size)
        self.open[-1].numbers[hash(size)] = size, made
        return made

    def _launch(self, launch: Launch) -> None:
        launch = replace(launch, symbols=[self._number(s) for s in launch.symbols])
        kernel = launch.kernel
        for storage in (*launch.outputs, *([launch.scratch] if launch.scratch else [])):
            self.settle(storage)
        args = [self.typed(s, p.dtype) for s, p in zip(launch.inputs, kernel.params, strict=True)]
        args += [
            self.typed(s, o.dtype) for s, o in zip(launch.outputs, kernel.outputs, strict=True)
        ]
        null = byte_offset(self.host.null, 0, "float32")
        args.append(self.typed(launch.scratch, "float32") if launch.scratch else null)
        args += launch.symbols
        number = i64(self.host.kernel_numbers[kernel.name])
        if self.host.device:
            args.append(tirx.reinterpret("int64", self.host.record.data))
            with self.host.timed(number, launch):
                self.block.eval(call(kernel.entry, *args))
            self._unless_failed(self.host.record[i64(1)])
            return
        most = self.block.declare("words", self.host.state, "int64")[i64(THREADS)]
        # Evaluated before every parallel kernel, because the number of active calls changes.
        shared = self.host.own_threads and kernel.parallel
        if shared:
            share = self.block.alloc("share", 1, "int64")
            out = tirx.reinterpret("int64", share.data)
            self.block.eval(call(SHARE, self.host.home(), most, out))
            most = self.block.bind("share", share[i64(0)])
        args.append(most)
        with self.host.timed(number, launch):
            self.block.eval(call(kernel.entry, *args))

    def _copy(self, copy: Copy) -> None:
        self.settle(copy.target)
        if self.host.device:
            ends = [tirx.reinterpret("int64", self.place(s)) for s in (copy.target, copy.source)]
            out = self.block.alloc("copied", 1, "int64")
            self.block.eval(call(COPY, self.host.state, *ends, i64(copy.size_bytes), out.data))
            self._unless_failed(out[i64(0)])
            return
        source, target = self.typed(copy.source, "int8"), self.typed(copy.target, "int8")
        x, y = self.block.declare("from", source, "int8"), self.block.declare("to", target, "int8")
        with self.block.loop("b", i64(copy.size_bytes)) as b:
            self.block.store(y, b, x[b])

    # -- control flow --------------------------------------------------------------------------

    def _new_cell(self, cell: Cell) -> None:
        self.cells[cell] = self._new_block(cell.name, i64(0), i64(0))
        self.open[-1].cells.append(cell)

    def _set_cell(self, cell: Cell, pointer: Expr, owned: int) -> None:
        self.block.store(self.cells[cell], 0, tirx.reinterpret("int64", pointer))
        self.block.store(self.cells[cell], OWNED, i64(owned))

    def _release(self, cell: Cell) -> None:
        self._free_cell(self.cells.pop(cell))

    def _free_cell(self, buffer: Buffer) -> None:
        with self.block.when(tirx.NE(buffer[i64(OWNED)], i64(0))):
            self.memory.free(as_pointer(buffer[i64(0)]))

    def _taken(self, value: StoredTensor) -> Buffer:
        """Return a buffer of the address of ``value`` and an ownership flag. The cell of ``value``
        loses the ownership.
        """
        taken = self.block.alloc("taken", 2, "int64")
        storage = value.storage
        if storage.home is Home.CELL:
            source = self._cell_of(value)
            for k in range(2):
                self.block.store(taken, k, source[i64(k)])
            self.block.store(source, 1, i64(0))
        else:
            self.block.store(taken, 0, tirx.reinterpret("int64", self.place(storage)))
            self.block.store(taken, 1, i64(0))
        return taken

    def _move(self, taken: Buffer, target: Buffer) -> None:
        """Store a taken address and ownership flag in a cell."""
        for k in range(2):
            self.block.store(target, k, taken[i64(k)])

    def _cell_of(self, value: StoredTensor) -> Buffer:
        return self.cells[_cell(value)]

    def _dim_cells(self, dims: Sequence[object]) -> list[Buffer | None]:
        return [None if d is None else self.block.alloc("dimcell", 1, "int64") for d in dims]

    def condition(self, storage: Storage) -> Expr:
        """Return whether a boolean in memory is true."""
        if self.host.device:
            taken = tirx.NE(self._from_device(storage, 1)[i64(0)], i64(0))
            return self.block.bind("taken", taken)
        buffer = self.block.declare("cond", self.typed(storage, "bool"), "bool")
        return self.block.bind("taken", tirx.NE(buffer[i64(0)], tirx.IntImm("int8", 0)))

    def _if(self, branch: Conditional) -> None:
        cells = [self._outcome_cells(o) for o in branch.outcomes]
        taken = self.condition(branch.cond)
        with self.block.when(taken):
            self._branch(branch.then_region, branch.outcomes, cells)
        with self.block.otherwise():
            self._branch(branch.else_region, branch.outcomes, cells)
        self._define_outcomes(branch.outcomes, cells)

    def _outcome_cells(self, outcome: Outcome) -> list[Buffer | None]:
        self._new_cell(_cell(outcome.value))
        return self._dim_cells(outcome.dims)

    def _branch(
        self, region: Region, outcomes: list[Outcome], cells: list[list[Buffer | None]]
    ) -> list[Buffer]:
        """Emit a region; return the cells that hold its results."""
        self.open_region(region)
        self.run(region)
        targets = [self._cell_of(o.value) for o in outcomes]
        for target, dims, value in zip(targets, cells, region.results, strict=True):
            self._move(self._taken(value), target)
            self._store_dims(dims, value)
        self._hand_over(region.results, targets)
        self.close_region()
        return targets

    def _hand_over(self, results: Sequence[StoredTensor], targets: Sequence[Buffer]) -> None:
        """Transfer ownership of a closing region's blocks to cells of results that alias them.

        If two outcomes of a branch are the same tensor, the first outcome owns its block.
        """
        moved = {v.storage.cell for v in results if v.storage.home is Home.CELL}
        lying = [t for t, v in zip(targets, results, strict=True) if v.storage.home is Home.CELL]
        for cell in self.open[-1].cells:
            if cell not in moved:
                self._inherit(self.cells[cell], lying)

    def _inherit(self, cell: Buffer, heirs: Sequence[Buffer]) -> None:
        """Transfer ownership of a closing cell's block to the first cell that aliases it."""
        for heir in heirs:
            same = tirx.And(tirx.EQ(heir[i64(0)], cell[i64(0)]), tirx.EQ(heir[i64(1)], i64(0)))
            with self.block.when(tirx.And(tirx.NE(cell[i64(1)], i64(0)), same)):
                self.block.store(heir, 1, i64(1))
                self.block.store(cell, 1, i64(0))

    def _store_dims(self, cells: list[Buffer | None], value: StoredTensor) -> None:
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
            self.open_region(loop.header)
            self.run(loop.header)
            taken = self.condition(loop.cond)
            with self.block.when(tirx.Not(taken) if loop.until else taken):
                self._hand_over(*self._step(loop, dim_cells))
            with self.block.otherwise():
                targets = self._branch(loop.exit, loop.outcomes, outcome_cells)
                self._hand_over(loop.exit.results, targets)
                self.block.store(going, 0, i32(0))
            self.close_region()
        self._define_outcomes(loop.outcomes, outcome_cells)

    def _start_carried(self, carried: Carried) -> list[Buffer | None]:
        cell = _cell(carried.value)
        self._new_cell(cell)
        self._set_cell(cell, self.place(carried.initial.storage), 0)
        dims = self._dim_cells(carried.dims)
        self._store_dims(dims, carried.initial)
        return dims

    def _step(
        self, loop: Loop, dim_cells: list[list[Buffer | None]]
    ) -> tuple[list[StoredTensor], list[Buffer]]:
        """Emit the loop body, then the replacement of all carried values that changed; return the
        new values and their cells.
        """
        self.open_region(loop.body)
        self.run(loop.body)
        changed = [
            (c, d, v)
            for c, d, v in zip(loop.carried, dim_cells, loop.body.results, strict=True)
            if v.storage is not c.value.storage
        ]
        sizes = [[self.block.bind("next", i64(x)) for x in v.shape] for _, _, v in changed]
        # All new values are read before any cell is overwritten: the new value of one carried value
        # may be the old value of another.
        moved = [self._taken(v) for _, _, v in changed]
        renewed = [self._cell_of(c.value) for c, _, _ in changed]
        others = (self._cell_of(c.value) for c in loop.carried)
        stays = [b for b in others if not any(b is r for r in renewed)]
        for old in renewed:
            self._inherit(old, [*moved, *stays])
            self._free_cell(old)
        for cell, new, (_, cells, _), dims in zip(renewed, moved, changed, sizes, strict=True):
            self._move(new, cell)
            for at, dim in zip(cells, dims, strict=True):
                if at is not None:
                    self.block.store(at, 0, dim)
        values = [v for _, _, v in changed]
        self._hand_over(values, renewed)
        self.close_region()
        return values, renewed
