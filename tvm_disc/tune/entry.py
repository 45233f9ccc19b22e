"""Variants as packed functions of their own, to be timed one by one.

variant(params..., outputs..., scratch, dims...)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import tvm
from tvm import tirx
from tvm.ir import GlobalVar, PrimType
from tvm.tirx import op as O

from tvm_disc.codegen.build import compile_tir
from tvm_disc.codegen.host_abi import (
    ANY_TYPE,
    ANY_VALUE,
    BYTE_OFFSET,
    DATA,
    TENSOR_HEADER_BYTES,
    TENSOR_OBJECT,
    i32,
    void_pointer,
)
from tvm_disc.schedules.choose import Choice
from tvm_disc.schedules.emit import Block, byte_offset
from tvm_disc.schedules.group import Group, Machine
from tvm_disc.schedules.kernel import Kernel, build_kernel
from tvm_disc.schedules.tree import Leaf
from tvm_disc.schedules.variant import Variant
from tvm_disc.shape import Solver

Expr: TypeAlias = Any


@dataclass
class Bench:
    """A group's variants, compiled: ``module[names[k]]`` runs variant k."""

    group: Group
    variants: list[Variant]
    kernels: list[Kernel]
    names: list[str]
    module: Any = None


def build_bench(
    spaces: Sequence[tuple[Group, Sequence[Variant | Choice]]],
    solver: Solver,
    machine: Machine,
    target: Any,
    library: Path | None = None,
) -> list[Bench]:
    """Compile every variant, or choice among some, of every group as a kernel of its own.

    What groups share, such as the register tiles of GEMMs, is compiled once. The code is kept as
    ``library``, and taken from there where that file exists: its name has to tell what it is of.
    """
    benches: list[Bench] = []
    functions: dict[Any, Any] = {}
    for number, (group, wanted) in enumerate(spaces):
        kernels, names = [], []
        choices = [c if isinstance(c, Choice) else _always(c) for c in wanted]
        for k, choice in enumerate(choices):
            named = replace(group, name=f"{group.name}_{number}_{k}")
            kernel = build_kernel(named, choice, solver, machine)
            kernels.append(kernel)
            names.append(f"g{number}_v{k}")
            functions.update(kernel.funcs)
            functions[GlobalVar(names[-1])] = _entry(kernel, names[-1])
        first = [c.variants[0] if isinstance(c, Choice) else c for c in wanted]
        benches.append(Bench(group, first, kernels, names))
    functions.update(machine.micro.functions)
    if library is not None and library.is_file():
        module = tvm.runtime.load_module(str(library))
    else:
        module = compile_tir(tvm.IRModule(functions), target)
        if library is not None:
            library.parent.mkdir(parents=True, exist_ok=True)
            module.export_library(str(library))
    return [replace(b, module=module) for b in benches]


def _always(variant: Variant) -> Choice:
    """The variant whatever it needs: who times it has looked."""
    return Choice([replace(variant, plan=replace(variant.plan, needs=()))], Leaf(0))


def _entry(kernel: Kernel, name: str) -> Any:
    self_handle, args = (tirx.Var(n, void_pointer()) for n in ("self_handle", "args"))
    count, result = tirx.Var("num_args", "int32"), tirx.Var("result", void_pointer())
    block = Block()
    values: list[Expr] = []
    for node in (*kernel.params, *kernel.outputs):
        values.append(byte_offset(_tensor(block, args, len(values)), 0, node.dtype))
    values.append(byte_offset(_tensor(block, args, len(values)), 0, "float32"))
    for _ in kernel.symbols:
        values.append(O.tvm_struct_get(args, i32(len(values)), i32(ANY_VALUE), "int64"))
    values.append(tirx.max_value("int64"))  # as many threads as the variant wants
    block.eval(tvm.ir.Call(kernel.entry, values, ret_ty=PrimType("int32")))
    block.eval(O.tvm_struct_set(result, i32(0), i32(ANY_TYPE), i32(0)))
    block.ret(i32(0))
    func = tirx.PrimFunc([self_handle, args, count, result], block.stmt(), PrimType("int32"))
    func = func.with_attr("calling_conv", 1)
    return func.with_attr("global_symbol", f"__tvm_ffi_{name}")


def _tensor(block: Block, args: Expr, position: int) -> Expr:
    """The address of the first element of a tensor argument."""
    kind = O.tvm_struct_get(args, i32(position), i32(ANY_TYPE), "int32")
    raw = O.tvm_struct_get(args, i32(position), i32(ANY_VALUE), void_pointer())
    skip = tirx.Select(tirx.EQ(kind, i32(TENSOR_OBJECT)), i32(TENSOR_HEADER_BYTES), i32(0))
    handle = block.bind("tensor", O.handle_add_byte_offset(raw, skip))
    data = O.tvm_struct_get(handle, i32(0), i32(DATA), void_pointer())
    start = O.tvm_struct_get(handle, i32(0), i32(BYTE_OFFSET), "uint64")
    return block.bind("data", O.handle_add_byte_offset(data, tirx.Cast("int64", start)))
