"""Check whether a caller's output tensor shares memory with data that is still needed.

Every output must be compared with every other tensor. The call fills a table with one row per
tensor, and one loop over the table makes the comparisons. Code size is therefore linear in the
number of tensors, not quadratic.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from tvm import tirx
from tvm.ir import GlobalVar, PointerType, PrimType, StringImm
from tvm.tirx import op as O

from tvm_disc.codegen.host.abi import i32
from tvm_disc.codegen.host.memory import text_address, words
from tvm_disc.codegen.host.packed import Arguments, packed
from tvm_disc.codegen.plan.memory import last_reads
from tvm_disc.codegen.plan.program import AllocOutput, Program
from tvm_disc.tir.builder import Block, call, i64, prim_func
from tvm_disc.tir.imports import provide
from tvm_disc.typing import Buffer, Expr, PrimFunc

OVERLAP, FAIL = GlobalVar("tvm_disc_overlap"), GlobalVar("tvm_disc_fail")
# A row of the table: first byte, end, and the number of accepted results up to which the tensor is
# needed. Rows of inputs come first, then rows of results. An accepted result is always needed.
ROW, ALWAYS = 3, 1 << 62


def overlap_function(inputs: Sequence[str], outputs: int) -> PrimFunc:
    """Return ``overlap(spans, now, k, begin, end, found)``.

    Result ``k`` is the ``now``-th result to be accepted. If its bytes overlap those of a row that
    is still needed, ``found`` becomes 1 and an error is raised.
    """
    spans_ptr, found_ptr = words("spans"), words("found")
    now, position, begin, end = (tirx.Var(n, "int64") for n in ("now", "k", "begin", "end"))
    block = Block()
    spans = block.declare("s", spans_ptr, "int64")
    found = block.declare("f", found_ptr, "int64")
    other = block.alloc("other", 1, "int64")
    block.store(other, 0, i64(-1))
    with block.loop("row", len(inputs) + outputs) as row:
        first = block.bind("first", spans[row * ROW])
        last = block.bind("last", spans[row * ROW + 1])
        apart = tirx.any(last <= begin, end <= first, begin >= end, first >= last)
        with block.when(tirx.And(spans[row * ROW + 2] > now, tirx.Not(apart))):
            block.store(other, 0, row)
    block.store(found, 0, i64(0))
    with block.when(other[i64(0)] >= 0):
        block.store(found, 0, i64(1))
        results = [f"output {k}" for k in range(outputs)]
        names = [f"input '{name}'" for name in inputs] + results
        parts = block.alloc("parts", 4, "int64")
        _choose(block, parts, 0, position, results)
        _text(block, parts, 1, ": shares memory with ")
        _choose(block, parts, 2, other[i64(0)], names)
        _text(block, parts, 3, ", which is still needed")
        set_raised = "TVMFFIErrorSetRaisedFromCStrParts"
        block.eval(O.call_extern("int32", set_raised, StringImm("ValueError"), parts.data, i32(4)))
    return prim_func([spans_ptr, now, position, begin, end, found_ptr], block.stmt())


# TIR can return an error only by an assertion, which raises a new error. A call of one of these
# functions returns an error code and keeps the error that was raised before. A module can refer to
# each name only once.
FAILED, LEFT = "disc.failed", "disc.left"
for _name in (FAILED, LEFT):
    provide(f"""
define linkonce_odr i32 @{_name}(ptr %s, ptr %a, i32 %n, ptr %r) {{
  ret i32 -1
}}
""")


def fail_function(name: GlobalVar = FAIL, code: str = FAILED) -> PrimFunc:
    """Return the packed function ``()`` that fails with the error that was already raised."""

    def emit(block: Block, args: Arguments) -> None:
        block.eval(O.call_cpacked(code, args.handle))

    return packed(str(name.name_hint), emit)


def failed(null: Expr) -> Expr:
    """Return a call that fails: the caller returns with the error that was already raised."""
    return O.call_cpacked(str(FAIL.name_hint), null)


def _choose(block: Block, parts: Buffer, at: int, chosen: Expr, names: Sequence[str]) -> None:
    for k, name in enumerate(names):
        with block.when(tirx.EQ(chosen, i64(k))):
            _text(block, parts, at, name)


def _text(block: Block, parts: Buffer, at: int, text: str) -> None:
    block.store(parts, at, text_address(text))


class Spans:
    """Emits the overlap table of a call with output tensors."""

    def __init__(self, block: Block, program: Program) -> None:
        self.block, self.program = block, program
        self.inputs = len(program.signature.inputs)
        self.rows = self.inputs + len(program.outputs)
        stack = block.stack("spans", 8 * ROW * self.rows, 8)
        kind = PointerType(PrimType("int64"), "global")
        self.table = block.declare(
            "table", block.bind("t", tirx.reinterpret(kind, stack.data)), "int64"
        )
        instructions = program.region.instructions
        self.order = [i for i in instructions if isinstance(i, AllocOutput)]

    def begin(self, ranges: Sequence[tuple[Expr, Expr]]) -> None:
        """Emit the rows of the inputs, with their byte ranges, and empty rows for the results."""
        needed = self._needed()
        for k, (first, last) in enumerate(ranges):
            self._row(k, (first, last, i64(needed[k])))
        for k in range(self.inputs, self.rows):
            self._row(k, (i64(0), i64(0), i64(0)))

    def accept(
        self, instruction: AllocOutput, begin: Expr, end: Expr, but: int | None = None
    ) -> Expr:
        """Emit the comparison of a result with all rows, then the result's row; return an
        expression for whether the result overlaps a needed tensor.

        Args:
            but: the position of an input whose memory the result may take as a whole.
        """
        position, block = instruction.value.storage.position, self.block
        if but is not None:
            same = tirx.EQ(self.table[i64(but * ROW)], begin)
            needed = self.table[i64(but * ROW + 2)]
            block.store(self.table, but * ROW + 2, tirx.Select(same, i64(0), needed))
        found = block.alloc("shared", 1, "int64")
        now = i64(self.order.index(instruction))
        block.eval(call(OVERLAP, self.table.data, now, i64(position), begin, end, found.data))
        self._row(self.inputs + position, (begin, end, i64(ALWAYS)))
        return tirx.NE(found[i64(0)], i64(0))

    def _row(self, k: int, values: tuple[Expr, Expr, Expr]) -> None:
        for word, value in enumerate(values):
            self.block.store(self.table, k * ROW + word, value)

    def _needed(self) -> list[int]:
        """Return for each input the number of results accepted before its last use.

        A boxed value may alias any input: in a program with boxed values, all inputs are needed
        until the call ends.
        """
        if self.program.boxed:
            return [ALWAYS] * self.inputs
        counts = [0] * self.inputs
        instructions = self.program.region.instructions
        steps = [k for k, step in enumerate(instructions) if isinstance(step, AllocOutput)]
        for position, last in last_reads(self.program.region).items():
            counts[position] = bisect_left(steps, last)
        return counts
