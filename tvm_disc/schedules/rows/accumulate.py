"""Vector accumulators: the partial results of a reduction inside a loop over a row.

An :class:`Accumulator` has ``width`` lanes. Each lane holds the reduction of the values that were
added to it. The error of floating-point sums is a few units in the last place for any length: a
loop adds a block of at most ``BLOCK`` vectors, or 64 single elements per lane, to one accumulator;
then the lanes are added to a second level that keeps the rounding error of every addition (Knuth's
TwoSum, as in the compensated sums of Neumaier 1974). NumPy's pairwise sum has blocks of 128 on
eight lanes.

    lane k:  sum of x[k], x[k + width], ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.elements import cast, is_float
from tvm_disc.schedules.loops.reducers import (
    ARG_REDUCTIONS,
    REDUCERS,
    accumulator,
    finish,
    is_number,
)
from tvm_disc.tir.builder import (
    Block,
    const,
    dtype_of,
    element_dtype,
    i64,
    lane_index,
    lanes_of,
    ramp,
    same_lanes,
)
from tvm_disc.typing import Buffer, Expr

Combine: TypeAlias = Callable[[Expr, Expr], Expr]

BLOCK = 16  # number of vectors that are added before their sum is added to the compensated sum
NOWHERE = (1 << 63) - 1


def make_accumulator(
    block: Block, node: Node, width: int, blocks: Expr | None = None, over_nan: bool = False
) -> Accumulator:
    """Return an accumulator for a reduction in ``blocks`` blocks; None means a single block.

    With ``over_nan``, the reduction may ignore NaN, which saves operations.
    """
    if node.op in ARG_REDUCTIONS:
        return _Extreme(block, node, width)
    dtype = accumulator(node.inputs[0].dtype)
    if blocks is not None and is_float(dtype) and node.op in ("relax.sum", "relax.mean"):
        return _BlockedSum(block, node, width, blocks)
    return Accumulator(block, node, width, over_nan)


class Accumulator:
    """The partial results of one reduction, in ``width`` lanes on the stack.

    LLVM keeps them in registers.
    """

    two_level = False

    def __init__(self, block: Block, node: Node, width: int, over_nan: bool = False) -> None:
        self.block, self.node, self.width = block, node, width
        self.dtype = accumulator(node.inputs[0].dtype)
        reducer = REDUCERS[node.op]
        self.combine: Combine = (over_nan and reducer.over_nan) or reducer.combine
        self.cells = self._cells("acc", reducer.identity(self.dtype))

    def _cells(self, name: str, initial: Expr) -> Buffer:
        cells = self.block.alloc(name, self.width, dtype_of(initial))
        self._fill(cells, initial)
        return cells

    def _fill(self, cells: Buffer, value: Expr) -> None:
        wide = tirx.Broadcast(value, self.width) if self.width > 1 else value
        self.block.store(cells, lane_index(self.width), wide)

    def step(self, value: Expr, position: Expr, mask: Expr | None = None) -> None:
        """Emit the reduction of a vector ``value`` at ``position``; masked lanes are skipped."""
        if mask is not None:
            value = self._masked(value, mask)
        at = lane_index(self.width)
        old, value = same_lanes(self.cells[at], value)
        self.block.store(self.cells, at, self.combine(old, value))

    def _masked(self, value: Expr, mask: Expr) -> Expr:
        neutral = REDUCERS[self.node.op].identity(self.dtype)
        wide = tirx.Broadcast(neutral, lanes_of(mask))
        return tirx.Select(mask, same_lanes(value, wide)[0], wide)

    def close_block(self) -> None:
        """Emit the code that ends a block of steps."""

    def close(self) -> None:
        """Emit the code that ends all blocks; single steps may follow."""

    def absorb(self, other: Accumulator) -> None:
        """Emit the combination of this accumulator with a wider one of the same reduction."""
        part = lane_index(self.width)
        pieces = [
            other.cells[ramp(i64(k), self.width) if self.width > 1 else i64(k)]
            for k in range(0, other.width, self.width)
        ]
        total = _tree([self.block.bind("piece", p) for p in pieces], self.combine)
        self.block.store(self.cells, part, self.combine(self.cells[part], total))

    def lanes(self) -> Expr:
        """Return the final value of every lane; each lane is a reduction of its own elements."""
        return finish(self.node, self.cells[lane_index(self.width)])

    def total(self) -> Expr:
        """Return the final value of the reduction over all lanes."""
        return finish(self.node, fold(self.block, self.cells, self.width, self.combine))


class _BlockedSum(Accumulator):
    """A sum of block sums (the second level), with a separate sum of their rounding errors.

    A run-time test skips the second level if there is a single block.
    """

    two_level = True

    def __init__(self, block: Block, node: Node, width: int, blocks: Expr) -> None:
        super().__init__(block, node, width)
        zero = const(0, self.dtype)
        self.sums, self.errors = self._cells("sums", zero), self._cells("errors", zero)
        self.several = blocks > 1

    def close_block(self) -> None:
        with self.block.when(self.several):
            self._add(self.block.bind("blocksum", self.cells[lane_index(self.width)]))
            self._fill(self.cells, const(0, self.dtype))

    def _add(self, x: Expr) -> None:
        block, at = self.block, lane_index(self.width)
        t, error = two_sum(block, self.sums[at], x)
        block.store(self.errors, at, self.errors[at] + error)
        block.store(self.sums, at, t)

    def absorb(self, other: Accumulator) -> None:
        pieces = [other.cells[ramp(i64(k), self.width)] for k in range(0, other.width, self.width)]
        piece = self.block.bind("piece", _tree(pieces, self.combine))
        with self.block.when(self.several):
            self._add(piece)
        with self.block.otherwise():
            self.block.store(self.cells, lane_index(self.width), piece)

    def close(self) -> None:
        at = lane_index(self.width)
        with self.block.when(self.several):
            s, e = self.block.bind("s", self.sums[at]), self.block.bind("e", self.errors[at])
            # The formula gives NaN for the error of an infinite sum, so the error is not added.
            finite = tirx.abs(s) <= same_lanes(tirx.max_value(self.dtype), s)[0]
            self.block.store(self.cells, at, tirx.Select(finite, s + e, s))


def two_sum(block: Block, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Return ``a + b`` rounded, and its rounding error (Knuth's TwoSum)."""
    a = block.bind("s", a)
    t = block.bind("t", a + b)
    other = block.bind("other", t - a)
    return t, block.bind("error", (a - (t - other)) + (b - other))


class _Extreme(Accumulator):
    """The accumulator of argmax and argmin: the extreme and its first position, in each lane.

    NaN counts as the extreme, as in NumPy. Of equal values, the lower position is chosen, so lanes
    without elements (identity, ``NOWHERE``) are never chosen.
    """

    def __init__(self, block: Block, node: Node, width: int) -> None:
        super().__init__(block, node, width)
        self.where = self._cells("where", tirx.IntImm("int64", NOWHERE))

    def _better(self, value: Expr, at: Expr, best: Expr, where: Expr) -> Expr:
        ahead = value > best if self.node.op == "relax.argmax" else value < best
        earlier = at < where
        tie: Expr = tirx.EQ(value, best)
        if not is_float(self.dtype):
            return tirx.Or(ahead, tirx.And(tie, earlier))
        # The key is 1 for NaN, else 0. The larger key is preferred, then the better value, then the
        # lower position.
        fresh, seen = self._nan_key(value), self._nan_key(best)
        tie = tirx.Or(tie, fresh + seen > same_lanes(const(1, self.dtype), value)[0])
        within = tirx.Or(ahead, tirx.And(tie, earlier))
        return tirx.Or(fresh > seen, tirx.And(fresh >= seen, within))

    def _nan_key(self, value: Expr) -> Expr:
        zero, one = (same_lanes(const(k, self.dtype), value)[0] for k in (0, 1))
        return self.block.bind("key", tirx.Select(is_number(value), zero, one))

    def _update(self, value: Expr, at: Expr, old: Expr, where: Expr, slot: Expr) -> None:
        block = self.block
        value, at = block.bind("v", value), block.bind("at", at)
        old, where = block.bind("old", old), block.bind("w", where)
        better = self._better(value, at, old, where)
        block.store(self.cells, slot, tirx.Select(better, value, old))
        block.store(self.where, slot, tirx.Select(better, at, where))

    def step(self, value: Expr, position: Expr, mask: Expr | None = None) -> None:
        if mask is not None:
            value = self._masked(value, mask)
        slot = lane_index(self.width)
        old, value = same_lanes(self.cells[slot], value)
        position = same_lanes(position, old)[0]
        self._update(value, position, old, self.where[slot], slot)

    def absorb(self, other: Accumulator) -> None:
        assert isinstance(other, _Extreme)
        slot = lane_index(self.width)
        for k in range(0, other.width, self.width):
            part = ramp(i64(k), self.width)
            old, where = self.cells[slot], self.where[slot]
            self._update(other.cells[part], other.where[part], old, where, slot)

    def _position(self, where: Expr) -> Expr:
        zero, nowhere = same_lanes(i64(0), where)[0], same_lanes(i64(NOWHERE), where)[0]
        # ``NOWHERE`` marks a lane without elements. If all lanes are without elements, the row is
        # empty, and the result is 0.
        return cast(tirx.Select(where < nowhere, where, zero), self.node.dtype)

    def lanes(self) -> Expr:
        return self._position(self.where[lane_index(self.width)])

    def total(self) -> Expr:
        width = self.width
        while width > 1:
            width //= 2
            low, high = (ramp(i64(b), width) if width > 1 else i64(b) for b in (0, width))
            self._update(self.cells[high], self.where[high], self.cells[low], self.where[low], low)
        return self._position(self.where[i64(0)])


def _tree(values: Sequence[Expr], combine: Combine) -> Expr:
    while len(values) > 1:
        pairs = [combine(*values[k : k + 2]) for k in range(0, len(values) - 1, 2)]
        values = [*pairs, *values[2 * len(pairs) :]]
    return values[0]


def fold(block: Block, cells: Buffer, width: int, combine: Combine) -> Expr:
    """Return the reduction of the ``width`` lanes of ``cells``, a power of 2, by halving."""
    while width > 1:
        width //= 2
        if width >= 4:
            low, high = ramp(i64(0), width), ramp(i64(width), width)
            block.store(cells, low, combine(cells[low], cells[high]))
        else:
            for k in range(width):
                block.store(cells, k, combine(cells[i64(k)], cells[i64(k + width)]))
    return cells[i64(0)]


def fold_rows(block: Block, cells: Buffer, rows: int, combine: Combine) -> Expr:
    """Return a vector of ``rows`` results, each the reduction of all lanes of a row of ``cells``.

    The lanes of a row are halved as in :func:`fold`. In each step, the halves of two vectors are
    stored in one vector, until one vector is left. ``rows`` must be a power of two, and at most the
    number of lanes of a row.
    """
    lanes = int(cells.shape[0]) // rows
    order = _pairing(rows)
    parts = [cells[ramp(i64(order.index(p) * lanes), lanes)] for p in range(rows)]
    parts = [block.bind("part", p) for p in parts]
    groups = 1
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [_halved(block, pair, groups, lanes, combine) for pair in pairs]
        groups *= 2
    (result,) = parts
    while lanes_of(result) > rows:
        result = _halved(block, (result,), groups, lanes_of(result), combine)
    return result


def _pairing(rows: int) -> list[int]:
    """Return the row number for each leaf of the tree, so that the results are in order of rows."""
    trees = [[k] for k in range(rows)]
    while len(trees) > 1:
        pairs = zip(trees[::2], trees[1::2], strict=True)
        trees = [[x for pair in zip(a, b, strict=True) for x in pair] for a, b in pairs]
    return trees[0]


def _halved(
    block: Block, vectors: Sequence[Expr], groups: int, lanes: int, combine: Combine
) -> Expr:
    """Return the combination of the two halves of every group of lanes.

    The groups of several vectors are interleaved.
    """
    size = lanes // groups
    picks = [
        [
            v * lanes + g * size + h + k
            for g in range(groups)
            for v in range(len(vectors))
            for k in range(size // 2)
        ]
        for h in (0, size // 2)
    ]
    halves = [
        tirx.Shuffle(list(vectors), [tirx.IntImm("int32", p) for p in pick]) for pick in picks
    ]
    # A buffer hides the value from TVM's analyzer, which would expand every choice of a maximum;
    # LLVM removes it.
    cell = block.alloc("part", groups * len(vectors) * (size // 2), element_dtype(vectors[0]))
    low, high = (block.bind("half", h) for h in halves)
    block.store(cell, ramp(i64(0), int(cell.shape[0])), combine(low, high))
    return block.bind("part", cell[ramp(i64(0), int(cell.shape[0]))])
