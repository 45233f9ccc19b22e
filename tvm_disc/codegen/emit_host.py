"""The host program as one TIR function: entry checks, dims, guards, memory, calls, outputs.

It is written directly in TVM's packed calling convention, so that the compiled library needs
nothing but TVM's runtime and no interpreter stands between the caller and the kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tvm import tirx
from tvm.ir import PointerType, PrimType, StringImm
from tvm.tirx import op as O

from tvm_disc.codegen.emit_function import raised
from tvm_disc.codegen.heap import RELEASE, START, Reg, call, word_pointer
from tvm_disc.codegen.host_abi import (
    ANY_PADDING,
    ANY_TYPE,
    ANY_VALUE,
    BITS,
    BYTE_OFFSET,
    CODE,
    CPU,
    DATA,
    DEVICE_TYPE,
    ENTRY,
    INT64_ELEM,
    NDIM,
    SHAPE,
    STRIDES,
    TENSOR_HEADER_BYTES,
    TENSOR_OBJECT,
    as_pointer,
    dtype_fields,
    i32,
    plain_dim,
    static_cell,
    void_pointer,
)
from tvm_disc.codegen.host_objects import Errors, ObjectEmitter, address_on_stack
from tvm_disc.codegen.program import AllocOutput, HostFunction, Program
from tvm_disc.schedules.emit import i64
from tvm_disc.schedules.index import product

Expr: TypeAlias = Any


class HostEmitter(ObjectEmitter):
    """Emits one :class:`Program`."""

    def __init__(
        self,
        program: Program,
        constant_offsets: Sequence[int],
        slot_gv: Any,
        functions: Mapping[HostFunction, Any],
        errors: Errors,
    ) -> None:
        super().__init__(constant_offsets, functions, errors)
        self.program = program
        self.slot_gv = slot_gv
        self.params = [tirx.Var(n, void_pointer()) for n in ("self_handle", "args")]
        self.num_args = tirx.Var("num_args", "int32")
        self.result = tirx.Var("result", void_pointer())
        self.null = self.params[1]
        self.input_dims: list[list[Expr]] = []

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
        if self.program.boxed:
            self._start_heap()
        self._region(self.program.region)
        if self.program.boxed:
            self._stop_heap()
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
        self.input_dims.append(dims)

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
            self.program.signature.inputs, self.input_dims, strict=True
        ):
            for axis, (declared, actual) in enumerate(zip(shape, dims, strict=True)):
                if isinstance(declared, tirx.Var) and declared not in known:
                    known.add(declared)
                    self.block.define(declared, actual)
                else:
                    pending.append((declared, actual, f"input '{name}' axis {axis}"))
        for declared, actual, where in pending:
            self._assert(tirx.EQ(actual, i64(declared)), f"{where}: expected {plain_dim(declared)}")

    def _load_constants(self) -> None:
        bits = self.block.bind("constants_at", static_cell(self.block, self.slot_gv)[i64(0)])
        self._assert(
            tirx.NE(bits, i64(0)),
            "the program's constants are not bound: load it with tvm_disc.load",
            "RuntimeError",
        )
        self.constants = self.block.bind("constants", as_pointer(bits))

    # -- boxed values --------------------------------------------------------------------------

    def _start_heap(self) -> None:
        cell = self.block.alloc("heap_cell", 1, "int64")
        self.block.eval(call(START, cell.data))
        address = self.block.bind("heap_at", cell[i64(0)])
        self._assert(tirx.NE(address, i64(0)), "out of memory", "MemoryError")
        self.heap = self.block.bind("heap", tirx.reinterpret(word_pointer(), address))
        self.regs = self.block.declare("regs", self.heap, "int64")
        self.block.store(self.regs, Reg.STACK, address_on_stack(self))
        if self.constants is not None:
            self.block.store(self.regs, Reg.CONSTANTS, tirx.reinterpret("int64", self.constants))

    def _stop_heap(self) -> None:
        live = self.block.bind("live", self.regs[i64(Reg.LIVE)])
        self.block.eval(call(RELEASE, self.heap))
        self.heap = None
        if self.program.verify:
            self._assert(tirx.EQ(live, i64(0)), "blocks are left at the end of the call")

    def leave(self) -> None:
        """Give the heap back and raise."""
        if self.heap is None:
            super().leave()
            return
        code = self.block.bind("code", self.regs[i64(Reg.ERROR)])
        self.block.eval(call(RELEASE, self.heap))
        self.block.eval(raised(code, self.null))

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

    def alloc_output(self, instruction: AllocOutput) -> None:
        """Allocate a returned tensor of the value's run-time shape."""
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
