"""Small packed functions: called by name with tensors and integers, locally or through TVM's
RPC.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import tirx
from tvm.ir import PrimType
from tvm.tirx import op as O

from tvm_disc.codegen.host.abi import (
    ANY_PADDING,
    ANY_TYPE,
    ANY_VALUE,
    BYTE_OFFSET,
    DATA,
    INTEGER,
    TENSOR_HEADER_BYTES,
    TENSOR_OBJECT,
    i32,
    void_pointer,
)
from tvm_disc.tir.builder import Block, byte_offset
from tvm_disc.typing import Expr, PrimFunc


@dataclass
class Arguments:
    """Arguments of a packed function."""

    block: Block
    handle: Expr

    def integer(self, position: int) -> Expr:
        """Return an int64 argument."""
        return O.tvm_struct_get(self.handle, i32(position), i32(ANY_VALUE), "int64")

    def data(self, position: int, dtype: str) -> Expr:
        """Return the address of a tensor argument's first element."""
        block = self.block
        kind = O.tvm_struct_get(self.handle, i32(position), i32(ANY_TYPE), "int32")
        raw = O.tvm_struct_get(self.handle, i32(position), i32(ANY_VALUE), void_pointer())
        skip = tirx.Select(tirx.EQ(kind, i32(TENSOR_OBJECT)), i32(TENSOR_HEADER_BYTES), i32(0))
        tensor = block.bind("tensor", O.handle_add_byte_offset(raw, skip))
        data = O.tvm_struct_get(tensor, i32(0), i32(DATA), void_pointer())
        start = O.tvm_struct_get(tensor, i32(0), i32(BYTE_OFFSET), "uint64")
        first = block.bind("data", O.handle_add_byte_offset(data, tirx.Cast("int64", start)))
        return byte_offset(first, 0, dtype)


class Entry:
    """A function in TVM's packed calling convention that is being emitted."""

    def __init__(self) -> None:
        names = ("self_handle", "args", "result")
        self.self_handle, self.args, self.result = (tirx.Var(n, void_pointer()) for n in names)
        self.count, self.block = tirx.Var("num_args", "int32"), Block()

    def function(self, name: str) -> PrimFunc:
        """Return the complete function under the name by which it is called."""
        self.block.ret(i32(0))
        params = [self.self_handle, self.args, self.count, self.result]
        func = tirx.PrimFunc(params, self.block.stmt(), PrimType("int32"))
        func = func.with_attr("calling_conv", 1)
        return func.with_attr("global_symbol", f"__tvm_ffi_{name}")


def packed(name: str, emit: Callable[[Block, Arguments], object]) -> PrimFunc:
    """Return the packed function ``name``; ``emit`` returns its integer result, or None."""
    entry = Entry()
    block, result = entry.block, entry.result
    value = emit(block, Arguments(block, entry.args))
    kind = 0 if value is None else INTEGER
    block.eval(O.tvm_struct_set(result, i32(0), i32(ANY_TYPE), i32(kind)))
    block.eval(O.tvm_struct_set(result, i32(0), i32(ANY_PADDING), i32(0)))
    if value is not None:
        block.eval(O.tvm_struct_set(result, i32(0), i32(ANY_VALUE), value))
    return entry.function(name)
