"""From a host program to machine code: lowering, LLVM, and the constant section."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import tirx
from tvm.ir import GlobalVar, PointerType, PrimType
from tvm.tirx import op as O
from tvm.tirx import transform as T

from tvm_disc.codegen.emit_function import RAISE, object_functions, raise_function
from tvm_disc.codegen.emit_host import HostEmitter
from tvm_disc.codegen.host_abi import (
    ANY_TYPE,
    ANY_VALUE,
    BIND_CONSTANTS,
    BYTE_OFFSET,
    CONSTANTS_SLOT,
    DATA,
    ENTRY,
    TENSOR_HEADER_BYTES,
    TENSOR_OBJECT,
    i32,
    static_cell,
    void_pointer,
)
from tvm_disc.codegen.host_objects import Errors
from tvm_disc.codegen.memory import ALIGNMENT_BYTES, plan_region
from tvm_disc.codegen.program import Program
from tvm_disc.schedules.emit import Block, prim_func
from tvm_disc.schedules.kernel import Machine
from tvm_disc.shape import Solver


@dataclass
class Artifact:
    """Machine code in memory, and what it needs.

    Attributes:
        module: the runtime module; ``module["main"]`` is the program.
        constants: the constant section, a 1-D uint8 array.
        tir: the module before lowering, for dumps.
    """

    module: Any
    constants: np.ndarray
    tir: Any


def layout_constants(constants: Sequence[np.ndarray]) -> tuple[np.ndarray, list[int]]:
    """All constants in one aligned byte array, and where each begins."""
    offsets, total = [], 0
    for array in constants:
        offsets.append(total)
        total += -(-max(array.nbytes, 1) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    raw = np.zeros(total + ALIGNMENT_BYTES, np.uint8)
    skip = -raw.ctypes.data % ALIGNMENT_BYTES
    section = raw[skip : skip + total]
    for array, offset in zip(constants, offsets, strict=True):
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        section[offset : offset + array.nbytes] = data
    return section, offsets


def emit_tir(program: Program, solver: Solver, machine: Machine) -> tuple[Any, np.ndarray]:
    """The whole program as one TIR module, and its constant section."""
    for region in (program.region, *(f.region for f in program.functions)):
        plan_region(region, solver)
    section, offsets = layout_constants(program.constants)
    slot = GlobalVar(CONSTANTS_SLOT)
    functions: dict[Any, Any] = {}
    for kernel in program.kernels:
        functions.update(kernel.funcs)
    functions.update(machine.micro.functions)
    functions[slot] = _slot_function()
    functions[GlobalVar(BIND_CONSTANTS)] = _bind_constants(slot)
    errors, names = Errors(), {}
    if program.boxed:
        names, made = object_functions(program.functions, offsets, errors)
        functions.update(made)
    functions[GlobalVar(ENTRY)] = HostEmitter(program, offsets, slot, names, errors).function()
    if program.boxed:
        functions[RAISE] = raise_function(errors)
    return tvm.IRModule(functions), section


def _slot_function() -> Any:
    """Writes the address of the program's static variable to ``out``."""
    out = tirx.Var("out", PointerType(PrimType("int64"), "global"))
    block = Block()
    buffer = block.declare("cell", out, "int64")
    address = O.call_intrin(void_pointer(), "tirx.tvm_static_handle")
    block.store(buffer, 0, tirx.reinterpret("int64", block.bind("static", address)))
    return prim_func([out], block.stmt())


def _store_address(block: Block, slot: Any, pointer: Any) -> None:
    cell = static_cell(block, slot)
    block.store(cell, 0, tirx.reinterpret("int64", pointer))


def _bind_constants(slot: Any) -> Any:
    """A packed function ``(uint8 tensor) -> None``; the caller keeps the tensor alive."""
    names = ("self_handle", "args")
    self_handle, args = (tirx.Var(n, void_pointer()) for n in names)
    result, count = tirx.Var("result", void_pointer()), tirx.Var("num_args", "int32")
    block = Block()
    kind = O.tvm_struct_get(args, i32(0), i32(ANY_TYPE), "int32")
    raw = O.tvm_struct_get(args, i32(0), i32(ANY_VALUE), void_pointer())
    skip = tirx.Select(tirx.EQ(kind, i32(TENSOR_OBJECT)), i32(TENSOR_HEADER_BYTES), i32(0))
    handle = block.bind("tensor", O.handle_add_byte_offset(raw, skip))
    data = O.tvm_struct_get(handle, i32(0), i32(DATA), void_pointer())
    start = O.tvm_struct_get(handle, i32(0), i32(BYTE_OFFSET), "uint64")
    pointer = block.bind("data", O.handle_add_byte_offset(data, tirx.Cast("int64", start)))
    _store_address(block, slot, pointer)
    block.eval(O.tvm_struct_set(result, i32(0), i32(ANY_TYPE), i32(0)))
    block.ret(i32(0))
    func = tirx.PrimFunc([self_handle, args, count, result], block.stmt(), PrimType("int32"))
    func = func.with_attr("calling_conv", 1)
    return func.with_attr("global_symbol", f"__tvm_ffi_{BIND_CONSTANTS}")


# Statement simplification is left out on purpose: it would inline the bindings by which kernels
# share values, and everything else it does LLVM does as well. Vector code is written as such.
LOWERING = (
    T.SplitHostDevice,
    T.MakePackedAPI,
    T.LowerTVMBuiltin,
    T.LowerIntrin,
)


def compile_tir(mod: Any, target: Any) -> Any:
    """Lower and compile a TIR module for a CPU target."""
    mod = T.BindTarget(target.with_host(target))(mod)
    mod = tvm.transform.Sequential([p() for p in LOWERING])(mod)
    return tvm.get_global_func("target.build.llvm")(mod, target)
