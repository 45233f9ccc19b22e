"""TVM's calling convention: struct fields, type codes, and expressions of addresses and dims."""

from __future__ import annotations

import tvm
from tvm import tirx
from tvm.ir import PointerType, PrimType

from tvm_disc.tir.builder import Block, call, i64, storage_dtype
from tvm_disc.typing import Buffer, Expr, TVMType

# Fields of the runtime's structs, by their numbers in tvm_struct_get (TVMStructFieldKind).
DATA, SHAPE, STRIDES, NDIM, CODE, BITS, LANES, BYTE_OFFSET = range(1, 9)
DEVICE_ID, DEVICE_TYPE = 9, 10
ANY_TYPE, ANY_PADDING, ANY_VALUE, INT64_ELEM = 13, 14, 15, 17
# Type index of a tensor object, and the bytes before its DLTensor; type index of an integer.
TENSOR_OBJECT, TENSOR_HEADER_BYTES = 70, 24
INTEGER = 1
# Device types of DLPack.
CPU, CUDA = 1, 2
STATE_SLOT = "tvm_disc_state_slot"


def void_pointer() -> TVMType:
    """Return the type of an untyped pointer."""
    return PointerType(PrimType("void"), "global")


def i32(value: int) -> Expr:
    """Return an int32 literal."""
    return tirx.IntImm("int32", value)


def element_bytes(dtype: str) -> int:
    """Return the bytes of one element in memory."""
    return max(1, int(tvm.DataType(storage_dtype(dtype)).bits) // 8)


def static_cell(block: Block, slot: object) -> Buffer:
    """Emit code that gets the program's static variable, which contains the address of its
    state.
    """
    where = block.alloc("where", 1, "int64")
    block.eval(call(slot, where.data))
    address = tirx.reinterpret(PointerType(PrimType("int64"), "global"), where[i64(0)])
    return block.declare("static", block.bind("static_at", address), "int64")


def as_pointer(bits: Expr) -> Expr:
    """Return an int64 address as an untyped pointer."""
    return tirx.reinterpret(void_pointer(), bits)


def plain_dim(dim: Expr) -> str:
    """Return a dim as text."""
    return str(dim.value) if isinstance(dim, tirx.IntImm) else str(dim)
