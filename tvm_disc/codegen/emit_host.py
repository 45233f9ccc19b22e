"""The host program as one TIR function: entry checks, dims, guards, memory, calls, outputs.

It is written directly in TVM's packed calling convention, so that the compiled library needs
nothing but TVM's runtime and no interpreter stands between the caller and the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import tvm
from tvm import tirx
from tvm.ir import PointerType, PrimType, StringImm
from tvm.tirx import op as O
from tvm.tirx import stmt as S

from tvm_disc.codegen.memory import ALIGNMENT_BYTES
from tvm_disc.codegen.program import (
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
    Program,
    ReadDim,
    Region,
    Storage,
    Value,
)
from tvm_disc.schedules.emit import Block, Buffer, byte_offset, i64, storage_dtype
from tvm_disc.schedules.index import product

Expr: TypeAlias = Any

# Fields of the runtime's structs, as tvm_struct_get numbers them (TVMStructFieldKind).
DATA, SHAPE, STRIDES, NDIM, CODE, BITS, LANES, BYTE_OFFSET, DEVICE_TYPE = 1, 2, 3, 4, 5, 6, 7, 8, 10
ANY_TYPE, ANY_PADDING, ANY_VALUE, INT64_ELEM = 13, 14, 15, 17
TENSOR_OBJECT, TENSOR_HEADER_BYTES = 70, 24
DTYPE_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
CPU = 1
ENTRY = "main"
BIND_CONSTANTS = "tvm_disc_bind_constants"
CONSTANTS_SLOT = "tvm_disc_constants_slot"


def void_pointer() -> Any:
    """The type of an untyped pointer."""
    return PointerType(PrimType("void"), "global")


def i32(value: int) -> Expr:
    """An int32 literal."""
    return tirx.IntImm("int32", value)


def dtype_fields(dtype: str) -> tuple[int, int]:
    """(DLPack type code, bits) of a dtype."""
    if dtype == "bool":
        return DTYPE_CODES["bool"], 8
    kind = dtype.rstrip("0123456789")
    return DTYPE_CODES[kind], int(dtype[len(kind) :])


def element_bytes(dtype: str) -> int:
    """Bytes of one element in memory."""
    return max(1, int(tvm.DataType(storage_dtype(dtype)).bits) // 8)


class HostEmitter:
    """Emits one :class:`Program`."""

    def __init__(self, program: Program, constant_offsets: Sequence[int], slot_gv: Any) -> None:
        self.program = program
        self.offsets = constant_offsets
        self.slot_gv = slot_gv
        self.block = Block()
        self.params = [tirx.Var(n, void_pointer()) for n in ("self_handle", "args")]
        self.num_args = tirx.Var("num_args", "int32")
        self.result = tirx.Var("result", void_pointer())
        self.inputs: list[Expr] = []
        self.outputs: dict[int, Expr] = {}
        self.workspaces: list[tuple[Expr, list[Expr]]] = []
        self.places: dict[Storage, Expr] = {}
        self.cells: dict[Cell, Buffer] = {}
        self.open_cells: list[list[Cell]] = []
        self.constants: Expr = None

    def function(self) -> Any:
        """The packed entry function."""
        self._check_arity()
        handles = [self._tensor_handle(i) for i in range(len(self.program.inputs))]
        for i, handle in enumerate(handles):
            self._check_input(i, handle)
        self._bind_dims()
        if self.program.constants:
            self._load_constants()
        self._prepare_results()
        self._region(self.program.region, is_entry=True)
        self._return_results()
        self.block.ret(i32(0))
        func = tirx.PrimFunc(
            [self.params[0], self.params[1], self.num_args, self.result],
            self.block.stmt(),
            PrimType("int32"),
        )
        attrs = {
            "calling_conv": 1,
            "global_symbol": f"__tvm_ffi_{ENTRY}",
            "tirx.is_entry_func": True,
        }
        for key, value in attrs.items():
            func = func.with_attr(key, value)
        return func

    # -- entry ---------------------------------------------------------------------------------

    def _assert(self, cond: Expr, message: str, kind: str = "ValueError") -> None:
        self.block.add(S.AssertStmt(cond, StringImm(kind), [StringImm(message)]))

    def _check_arity(self) -> None:
        expected = len(self.program.inputs)
        names = ", ".join(n for n, _, _ in self.program.signature.inputs)
        self._assert(
            tirx.EQ(self.num_args, i32(expected)),
            f"expected {expected} inputs ({names})",
            "TypeError",
        )

    def _tensor_handle(self, position: int) -> Expr:
        args, block = self.params[1], self.block
        kind = block.bind("kind", O.tvm_struct_get(args, i32(position), i32(ANY_TYPE), "int32"))
        name = self.program.signature.inputs[position][0]
        # A tensor object, a borrowed DLTensor*, nothing else.
        self._assert(
            tirx.Or(tirx.EQ(kind, i32(TENSOR_OBJECT)), tirx.EQ(kind, i32(7))),
            f"input '{name}': expected a tensor",
            "TypeError",
        )
        raw = block.bind(
            "raw", O.tvm_struct_get(args, i32(position), i32(ANY_VALUE), void_pointer())
        )
        skip = tirx.Select(tirx.EQ(kind, i32(TENSOR_OBJECT)), i32(TENSOR_HEADER_BYTES), i32(0))
        return block.bind(f"in{position}", O.handle_add_byte_offset(raw, skip))

    def _field(self, handle: Expr, field: int, dtype: Any) -> Expr:
        return O.tvm_struct_get(handle, i32(0), i32(field), dtype)

    def _check_input(self, position: int, handle: Expr) -> None:
        name, shape, dtype = self.program.signature.inputs[position]
        code, bits = dtype_fields(dtype)
        where = f"input '{name}'"
        self._assert(
            tirx.EQ(self._field(handle, NDIM, "int32"), i32(len(shape))),
            f"{where}: expected {len(shape)} dims",
        )
        fits = tirx.And(
            tirx.EQ(self._field(handle, CODE, "uint8"), tirx.IntImm("uint8", code)),
            tirx.EQ(self._field(handle, BITS, "uint8"), tirx.IntImm("uint8", bits)),
        )
        self._assert(fits, f"{where}: expected dtype {dtype}", "TypeError")
        self._assert(
            tirx.EQ(self._field(handle, DEVICE_TYPE, "int32"), i32(CPU)),
            f"{where}: expected a tensor on the CPU",
        )
        dims = self._dims(handle, len(shape))
        self._check_compact(handle, dims, where)
        data = self._field(handle, DATA, void_pointer())
        start = self._field(handle, BYTE_OFFSET, "uint64")
        pointer = O.handle_add_byte_offset(data, tirx.Cast("int64", start))
        self.inputs.append(self.block.bind(f"data{position}", pointer))
        self._input_dims = getattr(self, "_input_dims", [])
        self._input_dims.append(dims)

    def _dims(self, handle: Expr, rank: int) -> list[Expr]:
        if rank == 0:
            return []
        p64 = PointerType(PrimType("int64"), "global")
        shape = self.block.bind("shape", self._field(handle, SHAPE, p64))
        return [
            self.block.bind(f"d{a}", O.tvm_struct_get(shape, i32(a), i32(INT64_ELEM), "int64"))
            for a in range(rank)
        ]

    def _check_compact(self, handle: Expr, dims: list[Expr], where: str) -> None:
        if not dims:
            return
        p64 = PointerType(PrimType("int64"), "global")
        strides = self.block.bind("strides", self._field(handle, STRIDES, p64))
        with self.block.when(tirx.Not(tirx.isnullptr(strides))):
            expected: Expr = i64(1)
            total = product(dims)
            for axis in reversed(range(len(dims))):
                stride = O.tvm_struct_get(strides, i32(axis), i32(INT64_ELEM), "int64")
                # A dim of one has no stride to speak of, and an empty tensor none at all.
                free = tirx.Or(dims[axis] <= 1, tirx.EQ(total, i64(0)))
                self._assert(
                    tirx.Or(free, tirx.EQ(stride, expected)),
                    f"{where}: expected a compact row-major tensor",
                    "BufferError",
                )
                expected = self.block.bind("step", expected * dims[axis])

    def _bind_dims(self) -> None:
        known: set[Any] = set()
        pending: list[tuple[Expr, Expr, str]] = []
        for (name, shape, _), dims in zip(
            self.program.signature.inputs, getattr(self, "_input_dims", []), strict=True
        ):
            for axis, (declared, actual) in enumerate(zip(shape, dims, strict=True)):
                if isinstance(declared, tirx.Var) and declared not in known:
                    known.add(declared)
                    self.block.define(declared, actual)
                else:
                    pending.append((declared, actual, f"input '{name}' axis {axis}"))
        for declared, actual, where in pending:
            self._assert(
                tirx.EQ(actual, i64(declared)), f"{where}: expected {plain_dim(declared)}"
            )

    def _load_constants(self) -> None:
        bits = self.block.bind("constants_at", static_cell(self.block, self.slot_gv)[i64(0)])
        self._assert(
            tirx.NE(bits, i64(0)),
            "the program's constants are not bound: load it with tvm_disc.load",
            "RuntimeError",
        )
        self.constants = self.block.bind("constants", as_pointer(bits))

    # -- results -------------------------------------------------------------------------------

    def _prepare_results(self) -> None:
        count = max(1, len(self.program.outputs))
        self.scratch_any = self.block.bind("temp", O.tvm_stack_alloca("tvm_ffi_any", 1))
        self._clear(self.scratch_any, 0)
        self.single = isinstance(self.program.output_tree, int)
        if self.single:
            self.any_list = self.result
        else:
            self.any_list = self.block.bind("fields", O.tvm_stack_alloca("tvm_ffi_any", count))
            for k in range(count):
                self._clear(self.any_list, k)

    def _clear(self, anys: Expr, k: int) -> None:
        self.block.eval(O.tvm_struct_set(anys, i32(k), i32(ANY_TYPE), i32(0)))
        self.block.eval(O.tvm_struct_set(anys, i32(k), i32(ANY_PADDING), i32(0)))
        self.block.eval(O.tvm_struct_set(anys, i32(k), i32(ANY_VALUE), i64(0)))

    def _alloc_output(self, instruction: AllocOutput) -> None:
        value, block = instruction.value, self.block
        k = value.storage.position
        dims = [block.bind("od", i64(d)) for d in value.shape]
        packed = O.anylist_setitem_call_packed
        block.eval(packed(self.scratch_any, i32(0), StringImm("ffi.Shape"), *dims))
        block.eval(
            packed(
                self.any_list,
                i32(k),
                StringImm("runtime.TVMTensorAllocWithScope"),
                O.anylist_getitem(self.scratch_any, i32(0)),
                StringImm(value.dtype),
                StringImm("cpu"),
                StringImm("global"),
            )
        )
        block.eval(O.anylist_resetitem(self.scratch_any, i32(0)))
        raw = O.tvm_struct_get(self.any_list, i32(k), i32(ANY_VALUE), void_pointer())
        handle = block.bind("out", O.handle_add_byte_offset(raw, i32(TENSOR_HEADER_BYTES)))
        self.outputs[k] = block.bind(f"out{k}", self._field(handle, DATA, void_pointer()))

    def _return_results(self) -> None:
        if self.single:
            return
        self._pack(self.program.output_tree, self.result, 0)

    def _pack(self, tree: Any, target: Expr, position: int) -> None:
        """Build nested arrays bottom-up; leaves are positions in the output list."""
        count = max(1, len(tree))
        parts = self.block.bind("parts", O.tvm_stack_alloca("tvm_ffi_any", count))
        items = []
        for k, item in enumerate(tree):
            if isinstance(item, int):
                items.append(O.anylist_getitem(self.any_list, i32(item)))
            else:
                self._clear(parts, k)
                self._pack(item, parts, k)
                items.append(O.anylist_getitem(parts, i32(k)))
        call = O.anylist_setitem_call_packed(target, i32(position), StringImm("ffi.Array"), *items)
        self.block.eval(call)
        for k, item in enumerate(tree):
            owner, index = (self.any_list, item) if isinstance(item, int) else (parts, k)
            self.block.eval(O.anylist_resetitem(owner, i32(index)))

    # -- memory --------------------------------------------------------------------------------

    def _alloc(self, size_bytes: Expr) -> Expr:
        args = (i32(CPU), i32(0), tirx.Cast("uint64", i64(size_bytes)), i32(2), i32(32))
        call = O.call_intrin(void_pointer(), "tirx.TVMBackendAllocWorkspace", *args)
        pointer = self.block.bind("ws", call)
        self._assert(tirx.Not(tirx.isnullptr(pointer)), "out of memory", "MemoryError")
        return pointer

    def _free(self, pointer: Expr) -> None:
        call = O.call_intrin(
            "int32", "tirx.TVMBackendFreeWorkspace", i32(CPU), i32(0), pointer
        )
        self.block.eval(call)

    def _open_workspace(self, region: Region) -> None:
        offsets: list[Expr] = []
        total: Expr = i64(0)
        for size in region.slots:
            offsets.append(total)
            rounded = tirx.floordiv(i64(size) + (ALIGNMENT_BYTES - 1), i64(ALIGNMENT_BYTES))
            total = self.block.bind("offset", total + rounded * ALIGNMENT_BYTES)
        pointer = self._alloc(tirx.max(total, i64(ALIGNMENT_BYTES))) if region.slots else None
        self.workspaces.append((pointer, offsets))

    def _close_workspace(self) -> None:
        pointer, _ = self.workspaces.pop()
        if pointer is not None:
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

    def _region(self, region: Region, is_entry: bool = False) -> None:
        self._open_region(region)
        for instruction in region.instructions:
            self._instruction(instruction, region)
        self._close_region()

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
            self.block.define(instruction.var, source[i64(0)])
        elif isinstance(instruction, AllocOutput):
            self._alloc_output(instruction)
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
            pointer, offsets = self.workspaces[-1]
            at = O.handle_add_byte_offset(pointer, offsets[storage.slot])
            self.places[storage] = self.block.bind(storage.name, at)

    def _launch(self, launch: Launch) -> None:
        kernel = launch.kernel
        for storage in (*launch.outputs, *([launch.scratch] if launch.scratch else [])):
            self._settle(storage)
        args = [
            self._typed(s, p.dtype) for s, p in zip(launch.inputs, kernel.params, strict=True)
        ]
        args += [
            self._typed(s, o.dtype) for s, o in zip(launch.outputs, kernel.outputs, strict=True)
        ]
        null = byte_offset(self.params[1], 0, "float32")
        args.append(self._typed(launch.scratch, "float32") if launch.scratch else null)
        args += [i64(s) for s in launch.symbols]
        self.block.eval(tvm.ir.Call(kernel.entry, args, ret_ty=PrimType("int32")))

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
        buffer = self.cells.pop(cell)
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

    def _define_outcomes(
        self, outcomes: list[Outcome], cells: list[list[Buffer | None]]
    ) -> None:
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
            with self.block.when(taken):
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


def static_cell(block: Block, slot: Any) -> Buffer:
    """The program's static variable, which holds the address of its constant section."""
    where = block.alloc("where", 1, "int64")
    block.eval(tvm.ir.Call(slot, [where.data], ret_ty=PrimType("int32")))
    address = tirx.reinterpret(PointerType(PrimType("int64"), "global"), where[i64(0)])
    return block.declare("static", block.bind("static_at", address), "int64")


def as_pointer(bits: Expr) -> Expr:
    """An int64 address as an untyped pointer."""
    return tirx.reinterpret(void_pointer(), bits)


def plain_dim(dim: Expr) -> str:
    """A dim as text."""
    return str(dim.value) if isinstance(dim, tirx.IntImm) else str(dim)
