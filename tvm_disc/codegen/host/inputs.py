"""Functions that each check and read a part of the inputs, for programs with many inputs.

LLVM's time grows faster than the length of a function: an entry with 400 inputs took three times as
long to compile as two entries with 200 inputs. The entry of a program with many inputs therefore
calls one function per `PART` inputs, which writes their addresses and dims to a table on the
entry's stack.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm import tirx
from tvm.ir import PointerType, PrimType, StringImm
from tvm.tirx import op as O
from tvm.tirx import stmt as S

from tvm_disc.codegen.host.abi import ANY_VALUE, as_pointer, i32, void_pointer
from tvm_disc.codegen.host.emission import Emission
from tvm_disc.codegen.host.outputs import CallerTensors
from tvm_disc.codegen.host.packed import Arguments, packed
from tvm_disc.codegen.plan.program import Program
from tvm_disc.tir.builder import Block, i64
from tvm_disc.typing import Buffer, Expr, PrimFunc

PART = 16
WORD_BYTES = 8


class _Asserts:
    """Emits exits of a function without allocations: an assertion raises the error and returns."""

    def __init__(self, block: Block) -> None:
        self._block = block

    def check(self, cond: Expr, message: str, kind: str = "ValueError") -> None:
        """Emit an error exit if ``cond`` is false."""
        self._block.add(S.AssertStmt(cond, StringImm(kind), [StringImm(message)]))

    def fail(self) -> None:
        """Emit nothing: the assertion that raised the error has returned from the function."""


def input_functions(program: Program, device: bool) -> dict[str, PrimFunc]:
    """Return the functions ``(args, table)`` that read the parts of the inputs, by name."""
    return {_name(first): _function(program, first, device) for first in _parts(program)}


def read_inputs(block: Block, args: Expr, program: Program) -> tuple[list[Expr], list[list[Expr]]]:
    """Emit calls of :func:`input_functions`; return each input's address and dims.

    The values are reads of the table, so that none of them stays in a register between its uses.
    """
    stack = block.stack("inputs", WORD_BYTES * sum(_words(program)), WORD_BYTES)
    table = block.declare("table", block.bind("t", _words_at(stack.data)), "int64")
    for first in _parts(program):
        block.eval(O.call_cpacked(_name(first), args, table.data))
    data, dims, at = [], [], 0
    for count in _words(program):
        data.append(as_pointer(table[i64(at)]))
        dims.append([table[i64(at + 1 + axis)] for axis in range(count - 1)])
        at += count
    return data, dims


def _parts(program: Program) -> Iterator[int]:
    """Yield the position of the first input of each part."""
    yield from range(0, len(program.inputs), PART)


def _name(first: int) -> str:
    return f"tvm_disc_inputs_{first}"


def _words(program: Program) -> list[int]:
    """Return the number of table words of each input: its address and its dims."""
    return [1 + len(shape) for _, shape, _ in program.signature.inputs]


def _words_at(pointer: Expr) -> Expr:
    return tirx.reinterpret(PointerType(PrimType("int64"), "global"), pointer)


def _function(program: Program, first: int, device: bool) -> PrimFunc:
    words = _words(program)

    def emit(block: Block, args: Arguments) -> None:
        host = Emission((), {})
        host.block, host.device = block, device
        tensors = CallerTensors(host, _Asserts(block), program)
        bound: list[Any] = [
            block.bind(name, O.tvm_struct_get(args.handle, i32(k), i32(ANY_VALUE), void_pointer()))
            for k, name in enumerate(("inputs", "table"))
        ]
        tensors.args, table = bound
        cells = block.declare("cells", block.bind("t", _words_at(table)), "int64")
        at = sum(words[:first])
        for position in range(first, min(first + PART, len(words))):
            _write(block, cells, at, *tensors.read(position))
            at += words[position]

    return packed(_name(first), emit)


def _write(block: Block, cells: Buffer, at: int, data: Expr, dims: list[Expr]) -> None:
    for word, value in enumerate((tirx.reinterpret("int64", data), *dims)):
        block.store(cells, at + word, value)


__all__ = ["input_functions", "read_inputs"]
