"""Analysis of nested results, tail recursion, and the kernel calls of regions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_disc.codegen.plan.program import (
    Conditional,
    Copy,
    Launch,
    Loop,
    Program,
    Region,
    Storage,
    StoredTensor,
)
from tvm_disc.errors import Unsupported
from tvm_disc.relay.expressions import expressions
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Binding, Expr, GlobalVar, TVMFunction


def leaves(tree: Any) -> list[StoredTensor]:
    """Return the tensors of a nested result, in order."""
    if isinstance(tree, tuple):
        return [leaf for item in tree for leaf in leaves(item)]
    return [tree]


def rebuild(tree: object, values: Iterator[object]) -> Any:
    """Return ``tree`` with its tensors replaced, in order."""
    if isinstance(tree, tuple):
        return tuple(rebuild(item, values) for item in tree)
    return next(values)


def symbols_of(value: StoredTensor) -> set[Expr]:
    """Return the symbols in the dims of a value."""
    return {v for d in value.shape for v in tirx.analysis.undefined_vars(i64(d))}


def written_in(region: Region, storage: Storage) -> bool:
    """Return whether an instruction of ``region`` writes ``storage``; inner regions do not
    count.
    """
    for instruction in region.instructions:
        if isinstance(instruction, Launch) and storage in instruction.outputs:
            return True
        if isinstance(instruction, Copy) and instruction.target is storage:
            return True
    return False


def calls(expr: Expr, gv: object) -> bool:
    """Return whether ``expr`` calls ``gv``."""
    return any(
        isinstance(e, tvm.ir.Call) and isinstance(e.op, tvm.ir.GlobalVar) and e.op.same_as(gv)
        for e in expressions(expr)
    )


def loop_form(func: TVMFunction, gv: GlobalVar) -> tuple[list[Expr], Expr, list[Expr]]:
    """Split a tail recursion ``f(x) = ...; if c then f(y) else z``.

    Returns:
        the bindings before the branch, the branch's binding, and the bindings that repack its
            result.

    Raises:
        Unsupported: the function does not have this form.
    """
    bindings = [b for block in func.body.blocks for b in block.bindings]
    position = next(
        (
            k
            for k, b in enumerate(bindings)
            if isinstance(b, relax.VarBinding)
            and isinstance(b.value, relax.If)
            and calls(b.value, gv)
        ),
        None,
    )
    tail = [] if position is None else bindings[position + 1 :]
    if position is None or not all(only_repacks(b) for b in tail):
        raise Unsupported(
            f"function {gv.name_hint}: only tail recursion of the form "
            "'if (cond) { f(next) } else { result }' is compiled in this release"
        )
    return bindings[:position], bindings[position], tail


def only_repacks(binding: Binding) -> bool:
    """Return whether a binding only takes a tuple apart, constructs one, renames a value, or is a
    ``match_cast``.
    """
    if isinstance(binding, relax.MatchCast):
        return True
    kinds = (tvm.ir.Tuple, tvm.ir.TupleGetItem, tvm.ir.Var)
    return isinstance(binding.value, kinds)


def program_launches(program: Program) -> list[str]:
    """Return the kernel names of a program's calls: those of ``main``, then those of each function
    on boxed values.
    """
    regions = [program.region, *(f.region for f in program.functions)]
    return [name for region in regions for name in launches(region)]


def launches(region: Region) -> list[str]:
    """Return the kernel names of the calls in a region; a call in a loop or branch is listed
    once.
    """
    names: list[str] = []
    for instruction in region.instructions:
        if isinstance(instruction, Launch):
            names.append(instruction.kernel.name)
        elif isinstance(instruction, Conditional):
            names += launches(instruction.then_region) + launches(instruction.else_region)
        elif isinstance(instruction, Loop):
            for inner in (instruction.header, instruction.body, instruction.exit):
                names += launches(inner)
        for region in instruction.regions():
            names += launches(region)
    return names


def first_write(region: Region, storage: Storage) -> int:
    """Return the position of the instruction that first writes a storage."""
    for k, instruction in enumerate(region.instructions):
        if isinstance(instruction, Launch) and storage in instruction.outputs:
            return k
        if isinstance(instruction, Copy) and instruction.target is storage:
            return k
    raise AssertionError(f"{storage.name} is never written")
