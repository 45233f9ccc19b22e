"""Kernel calls of a program as data for ``explain`` and its graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


def outline(program: Program) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Return the kernel calls, and the copies of tensors outside of kernels, in program order: of
    ``main``, then of each function on boxed values.

    In the entry of a call, ``function`` is the name of the function that contains the call, and
    ``inside`` the branches and loops around the call, from the outermost to the innermost.
    ``reads`` has an entry per operand: the index of the call that computed it, the name of an
    input, "constant", "loop 1" for a variable or a result of a loop, "branch 1" for a result of a
    branch, or "earlier" for other values. ``bytes`` is a formula over dims for the bytes that the
    call must read and write, or "?" if they depend on run-time values. Each operand counts once;
    but rows that are copied into a buffer count twice, and the buffer does not count. ``sizes`` are
    the formulas of the kernel's symbols, without symbols that have the same name in the program.

    In the entry of a copy, ``copied`` is an entry as in ``reads``, ``to`` the target, ``before``
    the index of the next kernel call, and ``bytes`` a formula.
    """
    found = _Outline()
    found.add(program.region, "")
    for function in program.functions:
        found.writer = {}
        found.add(function.region, function.name)
    return found.calls, found.copies


def memory_outline(program: Program) -> dict[str, object] | None:
    """Return the slots in the workspace of ``main``; None if sizes depend on run-time values, or if
    a slot is written by neither a kernel nor a copy.

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


class _Outline:
    """The kernel calls and copies of regions.

    Attributes:
        writer: the entry of ``reads`` for each storage that a step wrote.
    """

    def __init__(self) -> None:
        self.calls: list[dict[str, object]] = []
        self.copies: list[dict[str, object]] = []
        self.writer: dict[Storage, int | str] = {}
        self._loops = self._branches = 0
        self._bytes = cache(_moved)

    def add(self, region: Region, function: str, inside: Sequence[str] = ()) -> None:
        """Add the steps of a region and of its inner regions."""
        for step in region.instructions:
            if isinstance(step, Launch):
                self._add_call(step, function, inside)
            elif isinstance(step, Copy):
                self._add_copy(step, function, inside)
            name, inner = self._inner(step)
            if isinstance(step, Loop):
                self.writer.update((c.value.storage, name) for c in step.carried)
            for label, each in inner:
                self.add(each, function, [*inside, f"{name}, {label}"])
            if isinstance(step, Conditional | Loop):
                self.writer.update((o.value.storage, name) for o in step.outcomes)

    def _inner(self, step: Instruction) -> tuple[str, list[tuple[str, Region]]]:
        """Return the name of a branch or loop, and its regions with the times at which they run."""
        if isinstance(step, Loop):
            self._loops += 1
            return f"loop {self._loops}", [
                ("before each iteration", step.header),
                ("each iteration", step.body),
                ("after the last iteration", step.exit),
            ]
        sides = step.regions()
        condition = ""
        if isinstance(step, Conditional):
            origin = self._origin(step.cond)
            condition = f" {f'#{origin}' if isinstance(origin, int) else origin}"
            sides = [step.then_region, step.else_region]
        if not sides:
            return "", []
        self._branches += 1
        labels = [f"if{condition} is true", f"if{condition} is false"]
        return f"branch {self._branches}", list(zip(labels, sides, strict=True))

    def _add_call(self, step: Launch, function: str, inside: Sequence[str]) -> None:
        kernel = step.kernel
        values = dict(zip(kernel.symbols, step.symbols, strict=True))
        sizes = {str(symbol.name): _text(value, {}) for symbol, value in values.items()}
        self.calls.append(
            {
                "kernel": kernel.name,
                "function": function,
                "inside": list(inside),
                "kind": kernel.kind,
                "ops": [n.op.removeprefix("relax.") for n in kernel.nodes],
                "reads": [self._origin(s) for s in step.inputs],
                "bytes": _text(self._bytes(kernel), values),
                "sizes": {name: size for name, size in sizes.items() if size != name},
            }
        )
        self.writer.update(dict.fromkeys(step.outputs, len(self.calls) - 1))

    def _add_copy(self, step: Copy, function: str, inside: Sequence[str]) -> None:
        source = self._origin(step.source)
        target = f"result {step.target.position}" if step.target.home is Home.OUTPUT else "a buffer"
        self.copies.append(
            {
                "copied": source,
                "to": target,
                "before": len(self.calls),
                "function": function,
                "inside": list(inside),
                "bytes": _text(step.size_bytes, {}),
            }
        )
        if source != "earlier":
            self.writer[step.target] = source

    def _origin(self, storage: Storage) -> int | str:
        if storage in self.writer:
            return self.writer[storage]
        if storage.home is Home.CONSTANT:
            return "constant"
        return storage.name if storage.home is Home.INPUT else "earlier"


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
