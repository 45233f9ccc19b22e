"""Kernel calls of a program as data for ``explain`` and its graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import tvm
from tvm import tirx

from tvm_disc.codegen.plan.formula import Formulas, formula, readable, steps_of
from tvm_disc.codegen.plan.memory import lifetimes, written
from tvm_disc.codegen.plan.program import (
    Conditional,
    Copy,
    Home,
    Launch,
    Loop,
    Program,
    Region,
    Storage,
)
from tvm_disc.errors import Unsupported
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.kernel import Kernel
from tvm_disc.tir.index import substitute
from tvm_disc.typing import Expr, Var

if TYPE_CHECKING:
    from tvm_disc.codegen.plan.program import Instruction


# operators that read a part of their first operand
_PARTIAL = (
    "relax.take",
    "relax.gather_elements",
    "relax.gather_nd",
    "relax.strided_slice",
)


def outline(program: Program) -> list[dict[str, object]]:
    """Return every kernel call in program order: of ``main``, then of each function on boxed
    values.

    ``function`` is the name of the function that contains the call. ``reads`` has an entry per
    operand: the index of the call that computed it, the name of an input, "constant", or "earlier"
    for other values. ``bytes`` is a formula over dims for the bytes that the call must read and
    write, or "?" if they depend on run-time values. Each operand counts once; but rows that are
    copied into a buffer count twice, and the buffer does not count.
    """
    calls: list[dict[str, Any]] = []
    moved = cache(_moved)
    _add(calls, program.region, "", moved)
    for function in program.functions:
        _add(calls, function.region, function.name, moved)
    return calls


def memory_outline(program: Program) -> dict[str, object] | None:
    """Return the slots in the workspace of ``main``; None if sizes depend on run-time values, or if
    no kernel or copy writes a slot.

    The entry of a slot has the call that writes it, the first and last call that access it, its
    size, and the slots directly below it. Workspaces of loops and branches are omitted.
    """
    region = program.region
    before = [0]  # number of kernel calls before each step
    for step in region.instructions:
        before.append(before[-1] + sum(isinstance(s, Launch) for s in _inner(step)))
    lives = {id(life.storage): life for life in lifetimes(region)}
    found: list[dict[str, Any]] = [{} for _ in region.slots]
    shared = Formulas()
    try:
        sizes = [shared.text(slot.size_bytes) for slot in region.slots]
    except Unsupported:
        return None
    last_call = max(before[-1] - 1, 0)
    for step in region.instructions:
        if not isinstance(step, Launch | Copy):
            continue
        for storage in written(step):
            life = lives.get(id(storage))
            if life is None or storage.slot < 0 or found[storage.slot]:
                continue
            found[storage.slot] = {
                "of": step.kernel.name if isinstance(step, Launch) else "a copy",
                "scratch": isinstance(step, Launch) and storage is step.scratch,
                "first": min(before[life.first], last_call),
                "last": min(before[min(life.last, len(before) - 1)], last_call),
                "bytes": sizes[storage.slot],
                "above": list(region.slots[storage.slot].above),
            }
    steps = [*steps_of(program.definitions), *shared.steps]
    return {"steps": steps, "calls": before[-1], "slots": found} if all(found) else None


def _inner(step: Instruction) -> Iterator[Launch | Copy]:
    return _steps(Region([step]))


def _add(
    calls: list[dict[str, Any]], region: Region, function: str, moved: Callable[[Kernel], Expr]
) -> None:
    writer: dict[Storage, int] = {}
    for step in _steps(region):
        if isinstance(step, Copy):
            if step.source in writer:
                writer[step.target] = writer[step.source]
            continue
        kernel = step.kernel
        calls.append(
            {
                "kernel": kernel.name,
                "function": function,
                "kind": kernel.kind,
                "ops": [n.op.removeprefix("relax.") for n in kernel.nodes],
                "reads": [_origin(s, writer) for s in step.inputs],
                "bytes": _text(moved(kernel), dict(zip(kernel.symbols, step.symbols, strict=True))),
            }
        )
        writer.update(dict.fromkeys(step.outputs, len(calls) - 1))


def _steps(region: Region) -> Iterator[Launch | Copy]:
    for step in region.instructions:
        if isinstance(step, Launch | Copy):
            yield step
        elif isinstance(step, Conditional):
            yield from _steps(step.then_region)
            yield from _steps(step.else_region)
        elif isinstance(step, Loop):
            for inner in (step.header, step.body, step.exit):
                yield from _steps(inner)
        for inner in step.regions():
            yield from _steps(inner)


def _origin(storage: Storage, writer: Mapping[Storage, int]) -> int | str:
    if storage in writer:
        return writer[storage]
    if storage.home is Home.CONSTANT:
        return "constant"
    return storage.name if storage.home is Home.INPUT else "earlier"


def _moved(kernel: Kernel) -> Expr:
    """Return the bytes that a kernel reads and writes, as a simplified expression of the kernel's
    symbols.
    """
    simplified: Expr = tvm.sym.Analyzer().simplify(_read_and_written(kernel))
    return simplified


def _read_and_written(kernel: Kernel) -> Expr:
    total: Expr = tirx.IntImm("int64", 0)
    if kernel.extension is not None:
        for node in kernel.touched:
            total = total + _size(node)
        return total
    users: dict[Node, list[Node]] = {}
    for node in kernel.nodes:
        for x in dict.fromkeys(node.inputs):
            users.setdefault(x, []).append(node)
    for param in kernel.params:
        packed = kernel.packed_bytes(param)
        total = total + (packed or _read(param, users.get(param, [])))
    for node in kernel.outputs:
        total = total + _size(node)
    return total


def _text(total: Expr, values: Mapping[Var, Expr]) -> str:
    try:
        return readable(formula(substitute(total, values)))
    except Unsupported:
        return "?"


def _read(param: Node, users: list[Node]) -> Expr:
    """Return the number of bytes that are read from an operand: the whole operand, or only the
    parts that operators such as slices read.
    """
    whole = _size(param)
    if not users or not all(u.op in _PARTIAL and u.inputs[0] is param for u in users):
        return whole
    parts: Expr = tirx.IntImm("int64", 0)
    for user in users:
        parts = parts + _size(user)
    return tirx.min(whole, parts)


def _size(node: Node) -> Expr:
    total: Expr = tirx.IntImm("int64", max(1, int(tvm.DataType(node.dtype).bits) // 8))
    for dim in node.shape:
        total = total * dim
    return total
