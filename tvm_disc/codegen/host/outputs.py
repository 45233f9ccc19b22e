"""Inputs and results of the host program: tensors of the caller, and tensors that it allocates.

If the call has only input arguments, the program returns new tensors. If it also has one tensor per
result, the program writes into these and returns nothing.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Protocol

from tvm import tirx
from tvm.ir import PointerType, PrimType, StringImm
from tvm.tirx import op as O

from tvm_disc.abi.entries import DL_TENSOR, dtype_fields
from tvm_disc.codegen.host.abi import (
    ANY_PADDING,
    ANY_TYPE,
    ANY_VALUE,
    BITS,
    BYTE_OFFSET,
    CODE,
    CPU,
    CUDA,
    DATA,
    DEVICE_ID,
    DEVICE_TYPE,
    INT64_ELEM,
    NDIM,
    SHAPE,
    STRIDES,
    TENSOR_HEADER_BYTES,
    TENSOR_OBJECT,
    as_pointer,
    element_bytes,
    i32,
    plain_dim,
    void_pointer,
)
from tvm_disc.codegen.host.device import DEVICE_NUMBER
from tvm_disc.codegen.host.emission import Emission
from tvm_disc.codegen.host.memory import TENSOR
from tvm_disc.codegen.host.overlap import Spans
from tvm_disc.codegen.host.results import reference
from tvm_disc.codegen.plan.program import AllocOutput, Donor, Program, StoredTensor
from tvm_disc.tir.builder import call, i64
from tvm_disc.tir.index import product
from tvm_disc.typing import UNSET, Buffer, Expr

FEW = 32  # number of inputs that the entry reads itself; more are read by ``codegen.host.inputs``


class TensorExits(Protocol):
    """Interface that emits the early exits of a function that reads the caller's tensors."""

    def check(self, cond: Expr, message: str, kind: str = "ValueError") -> None:
        """Emit an error exit if ``cond`` is false; everything allocated is freed."""

    def fail(self) -> None:
        """Emit an exit with an error that was already raised; everything allocated is freed."""


class CallerTensors:
    """Emits code that checks and reads the inputs, and that allocates, accepts and returns results.

    Attributes:
        program: the version that is being emitted.
        into: whether the caller passes output tensors.
        allocated: positions of outputs that are allocated so far.
    """

    def __init__(self, host: Emission, exits: TensorExits, program: Program) -> None:
        self.host, self.exits, self.block, self.program = host, exits, host.block, program
        self.args = tirx.Var("args", void_pointer())
        self.result = tirx.Var("result", void_pointer())
        self.into: Expr = UNSET
        self.allocated: list[int] = []
        self.input_dims: list[list[Expr]] = []
        self.spans: Spans | None = None

    # -- tensors of the caller ------------------------------------------------------------------

    def read(self, position: int) -> tuple[Expr, list[Expr]]:
        """Emit the checks of an input; return the address of its elements, and its dims."""
        name, shape, dtype = self.program.signature.inputs[position]
        where = f"input '{name}'"
        handle = self.handle(position, where)
        self.check_kind(handle, len(shape), dtype, where)
        dims = self.dims(handle, len(shape))
        self.check_compact(handle, dims, where)
        self.check_memory(handle, dims, where)
        return self.data(handle), dims

    def handle(self, position: int, where: str) -> Expr:
        """Emit a check that an argument is a tensor; return its DLTensor."""
        block = self.block
        at = i32(position)
        kind = block.bind("kind", O.tvm_struct_get(self.args, at, i32(ANY_TYPE), "int32"))
        # Accepts a tensor object or a borrowed DLTensor*.
        self.exits.check(
            tirx.Or(tirx.EQ(kind, i32(TENSOR_OBJECT)), tirx.EQ(kind, i32(DL_TENSOR))),
            f"{where}: expected a tensor",
            "TypeError",
        )
        raw = block.bind("raw", O.tvm_struct_get(self.args, at, i32(ANY_VALUE), void_pointer()))
        skip = tirx.Select(tirx.EQ(kind, i32(TENSOR_OBJECT)), i32(TENSOR_HEADER_BYTES), i32(0))
        return block.bind("tensor", O.handle_add_byte_offset(raw, skip))

    def _field(self, handle: Expr, field: int, dtype: object) -> Expr:
        return O.tvm_struct_get(handle, i32(0), i32(field), dtype)

    def check_kind(self, handle: Expr, rank: int, dtype: str, where: str) -> None:
        """Emit checks of a tensor's rank, dtype and device."""
        code, bits = dtype_fields(dtype)
        ndim = self._field(handle, NDIM, "int32")
        expected = "1 dim" if rank == 1 else f"{rank} dims"
        self.exits.check(tirx.EQ(ndim, i32(rank)), f"{where}: expected {expected}")
        fits = tirx.And(
            tirx.EQ(self._field(handle, CODE, "uint8"), tirx.IntImm("uint8", code)),
            tirx.EQ(self._field(handle, BITS, "uint8"), tirx.IntImm("uint8", bits)),
        )
        self.exits.check(fits, f"{where}: expected dtype {dtype}", "TypeError")
        place, name = (CUDA, "GPU") if self.host.device else (CPU, "CPU")
        self.exits.check(
            tirx.EQ(self._field(handle, DEVICE_TYPE, "int32"), i32(place)),
            f"{where}: expected a tensor on the {name}",
        )
        if self.host.device:
            number = self._field(handle, DEVICE_ID, "int32")
            self.exits.check(
                tirx.EQ(number, i32(DEVICE_NUMBER)),
                f"{where}: expected a tensor on GPU {DEVICE_NUMBER}, where the program runs",
            )

    def dims(self, handle: Expr, rank: int) -> list[Expr]:
        """Return the dims of a tensor."""
        if rank == 0:
            return []
        p64 = PointerType(PrimType("int64"), "global")
        shape = self.block.bind("shape", self._field(handle, SHAPE, p64))
        return [
            self.block.bind(f"d{a}", O.tvm_struct_get(shape, i32(a), i32(INT64_ELEM), "int64"))
            for a in range(rank)
        ]

    def check_compact(self, handle: Expr, dims: list[Expr], where: str) -> None:
        """Emit a check that a tensor is contiguous in row-major order."""
        if not dims:
            return
        p64 = PointerType(PrimType("int64"), "global")
        strides = self.block.bind("strides", self._field(handle, STRIDES, p64))
        with self.block.when(tirx.Not(tirx.isnullptr(strides))):
            expected: Expr = i64(1)
            total = product(dims)
            for axis in reversed(range(len(dims))):
                stride = O.tvm_struct_get(strides, i32(axis), i32(INT64_ELEM), "int64")
                # The stride of a dim of size 1, and all strides of an empty tensor, are arbitrary.
                free = tirx.Or(dims[axis] <= 1, tirx.EQ(total, i64(0)))
                self.exits.check(
                    tirx.Or(free, tirx.EQ(stride, expected)),
                    f"{where}: expected a contiguous row-major tensor",
                    "BufferError",
                )
                expected = self.block.bind("step", expected * dims[axis])

    def check_memory(self, handle: Expr, dims: list[Expr], where: str) -> None:
        """Emit a check that a tensor has memory; placeholder tensors, for instance those of a
        tracer, have none.
        """
        data = self._field(handle, DATA, void_pointer())
        there = tirx.Or(tirx.Not(tirx.isnullptr(data)), tirx.EQ(product(dims), i64(0)))
        self.exits.check(there, f"{where}: expected a tensor with memory, found a null pointer")

    def data(self, handle: Expr) -> Expr:
        """Return the address of a tensor's first element."""
        data = self._field(handle, DATA, void_pointer())
        start = self._field(handle, BYTE_OFFSET, "uint64")
        return O.handle_add_byte_offset(data, tirx.Cast("int64", start))

    # -- results --------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Emit the initialization of the result list and of the overlap table."""
        count = max(1, len(self.program.outputs))
        self.single = isinstance(self.program.output_tree, int)
        if self.single:
            self.any_list: Expr = self.result
        else:
            self.any_list = self.block.bind("fields", O.tvm_stack_alloca("tvm_ffi_any", count))
            for k in range(count):
                self._clear(self.any_list, k)
        if self.program.outputs:
            self.spans = Spans(self.block, self.program)
            donors = any(v.storage.donor is not None for v in self.program.outputs)
            with nullcontext() if donors else self.block.when(self.into):
                self.spans.begin([self._bytes_of_input(k) for k in range(self.spans.inputs)])

    def _bytes_of_input(self, k: int) -> tuple[Expr, Expr]:
        """Return the address of an input's first byte, and the address after its last byte."""
        size = product(self.input_dims[k]) * element_bytes(self.program.signature.inputs[k][2])
        begin = self.block.bind("begin", tirx.reinterpret("int64", self.host.inputs[k]))
        return begin, begin + size

    def _clear(self, anys: Expr, k: Expr | int) -> None:
        self._set_any(anys, k, 0, i64(0))

    def _set_any(self, anys: Expr, k: Expr | int, kind: int, value: Expr) -> None:
        at = i32(k) if isinstance(k, int) else k
        self.block.eval(O.tvm_struct_set(anys, at, i32(ANY_TYPE), i32(kind)))
        self.block.eval(O.tvm_struct_set(anys, at, i32(ANY_PADDING), i32(0)))
        self.block.eval(O.tvm_struct_set(anys, at, i32(ANY_VALUE), value))

    def alloc_output(self, instruction: AllocOutput) -> None:
        """Emit code that gets an output tensor of the value's run-time shape: a new tensor, or the
        tensor that the caller passed.
        """
        value, block = instruction.value, self.block
        k = value.storage.position
        dims = [block.bind("od", i64(d)) for d in value.shape]
        data = block.alloc(f"data{k}", 1, "int64")
        with block.when(self.into):
            self._accept(instruction, dims, data)
        with block.otherwise():
            if value.storage.donor is None:
                self._make(value, dims, data)
            else:
                self._take(instruction, value.storage.donor, dims, data)
        self.allocated.append(k)
        self.host.outputs[k] = block.bind(f"out{k}", as_pointer(data[i64(0)]))
        if value.storage.donor is not None and value.storage.donor.copies:
            begin, end = self._bytes_of_input(value.storage.donor.position)
            with block.when(tirx.NE(begin, data[i64(0)])):
                block.eval(_copied(data[i64(0)], begin, end - begin))

    def _take(self, instruction: AllocOutput, donor: Donor, dims: list[Expr], data: Buffer) -> None:
        """Emit a result in the memory of a donated input, or a new one if the input is no tensor
        object or has another shape.
        """
        block, k = self.block, donor.position
        kind = O.tvm_struct_get(self.args, i32(k), i32(ANY_TYPE), "int32")
        conditions = [tirx.EQ(block.bind("kind", kind), i32(TENSOR_OBJECT))]
        if not donor.proved:
            pairs = zip(dims, self.input_dims[k], strict=True)
            conditions += [tirx.EQ(a, b) for a, b in pairs]
        fits = block.bind("fits", tirx.all(*conditions))
        with block.when(fits):
            begin, end = self._bytes_of_input(k)
            self._refuse_shared(instruction, begin, end, but=k)
            word = O.tvm_struct_get(self.args, i32(k), i32(ANY_VALUE), "int64")
            tensor = block.bind("donated", word)
            block.eval(reference(tensor, "IncRef"))
            self._set_any(self.any_list, instruction.value.storage.position, TENSOR_OBJECT, tensor)
            block.store(data, 0, begin)
        with block.otherwise():
            self._make(instruction.value, dims, data)

    def _make(self, value: StoredTensor, dims: list[Expr], data: Buffer) -> None:
        block, k, rank = self.block, value.storage.position, len(dims)
        code, bits = dtype_fields(value.dtype)
        kind = ((code | bits << 8 | 1 << 16) << 32) | rank
        sizes = block.alloc("sizes", max(1, rank), "int64")
        for axis, dim in enumerate(dims):
            block.store(sizes, axis, dim)
        made = block.alloc("made", 2, "int64")
        size_bytes = product(dims) * element_bytes(value.dtype)
        block.eval(
            call(TENSOR, self.host.state, i64(kind), sizes.data, i64(rank), size_bytes, made.data)
        )
        self.exits.check(tirx.NE(made[i64(0)], i64(0)), "out of memory", "MemoryError")
        self._set_any(self.any_list, k, TENSOR_OBJECT, made[i64(0)])
        block.store(data, 0, made[i64(1)])

    def _accept(self, instruction: AllocOutput, dims: list[Expr], data: Buffer) -> None:
        """Emit checks of a caller's output tensor: rank, dtype, device, shape, layout, and overlap
        with memory that the call still reads.
        """
        value = instruction.value
        k = value.storage.position
        where = f"output {k}"
        handle = self.handle(len(self.program.inputs) + k, where)
        self.check_kind(handle, len(dims), value.dtype, where)
        found = self.dims(handle, len(dims))
        for axis, (expected, dim) in enumerate(zip(dims, found, strict=True)):
            text = plain_dim(value.shape[axis])
            self.exits.check(tirx.EQ(dim, expected), f"{where} axis {axis}: expected {text}")
        self.check_compact(handle, found, where)
        self.check_memory(handle, found, where)
        begin = self.block.bind("begin", tirx.reinterpret("int64", self.data(handle)))
        self.block.store(data, 0, begin)
        end = self.block.bind("end", begin + product(found) * element_bytes(value.dtype))
        donor = value.storage.donor
        self._refuse_shared(instruction, begin, end, None if donor is None else donor.position)

    def _refuse_shared(
        self, instruction: AllocOutput, begin: Expr, end: Expr, but: int | None
    ) -> None:
        """Emit an error exit if a result shares memory with data that is still needed.

        Args:
            but: the input whose memory the result may have, if it has all of it.
        """
        assert self.spans is not None
        shared = self.spans.accept(instruction, begin, end, but)
        with self.block.when(shared):
            self.exits.fail()

    def abandon(self) -> None:
        """Emit the release of new result tensors before an error exit."""
        block, count = self.block, len(self.program.outputs)
        with block.when(tirx.Not(self.into)), block.loop("k", i64(count)) as k:
            at = tirx.Cast("int32", k)
            block.eval(O.anylist_resetitem(self.any_list, at))
            self._clear(self.any_list, at)

    def give(self) -> None:
        """Emit the return of the results."""
        if not self.single:
            with self.block.when(tirx.Not(self.into)):
                self._pack(self.program.output_tree, self.result, 0)

    def _pack(self, tree: Any, target: Expr, position: int) -> None:
        """Emit the construction of nested result arrays, inner arrays first. A leaf of ``tree`` is
        the position of an output.
        """
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
        packed = O.anylist_setitem_call_packed(
            target, i32(position), StringImm("ffi.Array"), *items
        )
        self.block.eval(packed)
        for k, item in enumerate(tree):
            owner, index = (self.any_list, item) if isinstance(item, int) else (parts, k)
            self.block.eval(O.anylist_resetitem(owner, i32(index)))


def _copied(target: Expr, source: Expr, size_bytes: Expr) -> Expr:
    """Return a call of memcpy on addresses."""
    count = tirx.Cast("uint64", size_bytes)
    return O.call_extern("handle", "memcpy", as_pointer(target), as_pointer(source), count)
