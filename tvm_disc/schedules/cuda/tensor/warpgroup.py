"""Code of a matmul tile that uses warpgroup instructions (compute capability 9.0).

Four warps multiply 64 rows of A by all columns of the tile, and read both operands from shared
memory, asynchronously:

    start the copies of the first slices
    for each slice s of k:
        wait for the copy of slice s; barrier of the block
        start the products of slice s
        start the copy of slice s + stages - 2 to the stage of slice s - 2, which is free
        wait for the products of slice s - 1

The products of a slice continue while copies are started, and across the next barrier. A row of an
operand has 128 bytes, to which the instructions apply their 128-byte swizzle. An operand with
columns along a row is stored in blocks of 64 columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from tvm_disc.schedules.cuda.tensor.instructions import CHUNK_BYTES, i32, word
from tvm_disc.schedules.cuda.tensor.tile import (
    WARP,
    TensorKnobs,
    TensorPlan,
    TensorTile,
    TileOperand,
)
from tvm_disc.schedules.group import Body
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr

SLICE = 64  # steps of k per slice: 64 elements are a row of 128 bytes
STEP = 16  # steps of k per instruction
ROWS = 64  # rows per warpgroup
WARPS = 4  # warps per warpgroup
ROW_BYTES = 128
ALIGNMENT = 1024  # alignment of dynamic shared memory, in bytes


@dataclass(frozen=True)
class GroupKnobs(TensorKnobs):
    """A tile with warp instructions, or with warpgroup instructions if ``group``."""

    group: bool = False

    @property
    def room_bytes(self) -> int:
        """Bytes of dynamic shared memory, for the stages of both operands, and later the sums."""
        stages = self.stages * (self.m + self.n) * ROW_BYTES
        sums = self.threads // WARP * 16 * (self.n + 8) * 4
        return ALIGNMENT + max(stages, sums) if self.group else 0


def group_tile(m: int, n: int, stages: int, parts: int = 1) -> tuple[GroupKnobs, GroupKnobs]:
    """Return the knobs of a tile with warp instructions, and with warpgroup instructions."""
    across = 4 if m > 64 else 2
    warps = GroupKnobs(m, n, SLICE // 2, 2, across, 2, parts)
    down = m // ROWS * WARPS
    return warps, GroupKnobs(m, n, SLICE, down, 1, stages, parts, wide=True, group=True)


class WarpgroupPlan(TensorPlan):
    """A matmul with warpgroup instructions; its operands are stored as matrices."""

    def emit(self, body: Body) -> None:
        _GroupTile(self, body).emit()


class _GroupOperand(TileOperand):
    """An operand in shared memory, from where the instructions read it."""

    def _fragment_addresses(self) -> list[Expr]:
        return []

    def _bytes(self, row: Expr, chunk: Expr) -> Expr:
        if self.side.along_k:
            return super()._bytes(row, chunk)
        each = i32(ROW_BYTES // CHUNK_BYTES)
        block = tirx.truncdiv(chunk, each)
        place = tirx.bitwise_xor(chunk - block * each, tirx.bitwise_and(row, i32(7)))
        return (block * i32(SLICE) + row) * i32(ROW_BYTES) + place * i32(CHUNK_BYTES)

    def place(self, step: int, stage: Expr) -> Expr:
        """Return the shared address of the operand of one instruction.

        Args:
            step: number of the instruction, which reads ``STEP`` steps of k.
        """
        step_bytes = STEP * (2 if self.side.along_k else ROW_BYTES)
        return self.base + self._shift(stage) + word(step * step_bytes)


class _GroupTile(TensorTile):
    """Emits the computation of one tile of the result."""

    operand: type[TileOperand] = _GroupOperand

    def _shared(self, elements: int) -> tuple[None, Expr]:
        return None, self.calls.room("room_at")

    def _slices_ahead(self) -> None:
        """Emit the loop over slices.

        Copies after the last slice write zeros, or data of the next part of k, to stages that are
        not read.
        """
        block, low, ahead = self.block, self.low, self.knobs.stages - 2
        stages = block.alloc("stages", 2, "int32")  # current stage, free stage
        for number in range(ahead):
            self._copies(i64(number * SLICE), i32(number))
        block.store(stages, 0, i32(0))
        block.store(stages, 1, i32(ahead))
        group = block.bind("group", tirx.shift_right(self.warp, i32(2)))
        begin_a = block.bind("group_at", word(group * i32(ROWS * ROW_BYTES)))
        with low.loop("slice", self.count) as number:
            self.calls.wait(ahead - 1)
            self.calls.group_fence()
            block.barrier()
            stage = block.bind("stage", stages[i64(0)])
            free = block.bind("free", stages[i64(1)])
            self._start(stage, begin_a)
            self._copies(block.bind("begin", (number + ahead) * SLICE), free)
            block.store(stages, 0, self._next(stage))
            block.store(stages, 1, self._next(free))
            self.calls.group_wait(1)
        self.calls.group_wait(0)
        for s in range(0, self.products * 4, 4):
            self.calls.group_settle(self.sums, s)
        self.calls.wait(0)
        self.calls.group_fence()
        block.barrier()

    def _start(self, stage: Expr, begin_a: Expr) -> None:
        """Start the products of the slice in ``stage``.

        Args:
            begin_a: offset of the warpgroup's rows of A.
        """
        a, b = self.a, self.b
        assert isinstance(a, _GroupOperand) and isinstance(b, _GroupOperand)
        forms = f"{int(not a.side.along_k)}{int(not b.side.along_k)}"
        self.calls.group_begin()
        for step in range(SLICE // STEP):
            places = a.place(step, stage) + begin_a, b.place(step, stage)
            self.calls.group_multiply(f"{self.dtype}_{self.knobs.n}_{forms}", self.sums, *places)
        self.calls.group_commit()


__all__ = ["GroupKnobs", "WarpgroupPlan", "group_tile"]
