"""The data that a transpose moves, as used by the plans of its template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.dispatch.choose import moved_bytes
from tvm_disc.schedules.group import Body, Group, Machine
from tvm_disc.schedules.lowering import Reader
from tvm_disc.schedules.rows.stages import bytes_of
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import ceil_div, product
from tvm_disc.typing import Expr

SHARE_ELEMS = 4096  # elements per task


@dataclass
class TransposeWork:
    """A group whose permutations ``moves`` all move the same axes, ``a_run`` and ``b_run``.

    ``a_run``: the axes of the result that are the innermost axes of the operand. ``b_run``: the
    innermost axes of the result. Both are ranges [begin, end) of axes of the result.
    """

    group: Group
    moves: list[Node]
    a_run: tuple[int, int]
    b_run: tuple[int, int]
    domain: tuple[Expr, ...]
    machine: Machine

    def __post_init__(self) -> None:
        self.a_dims = self.domain[slice(*self.a_run)]
        self.b_dims = self.domain[slice(*self.b_run)]
        inside = {*range(*self.a_run), *range(*self.b_run)}
        self.outer_axes = [k for k in range(len(self.domain)) if k not in inside]

    def sides(self) -> tuple[Expr, Expr]:
        """Return the number of elements of the operand's innermost run, and of the result's."""
        return product(self.a_dims), product(self.b_dims)

    def shorter(self) -> Expr:
        """Return the length of the shorter side."""
        return tirx.min(*self.sides())

    def words(self) -> int:
        """Return the number of 32-bit words in the widest element that is moved."""
        return max(max(bytes_of(m.dtype) // 4, 1) for m in self.moves)

    def moved_twice(self) -> Expr:
        """Return twice the bytes of the group: an estimate for plans that use a part of each cache
        line at a time, so that lines are transferred more than once.
        """
        return moved_bytes(self.group) * 2

    def cost(self) -> int:
        """Return the plain operations per element in addition to moving it."""
        return sum(n.row.cost for n in self.group.nodes if n.row and n not in self.moves)

    def outer_dims(self) -> list[Expr]:
        """Return the dims that belong to neither run."""
        return [self.domain[k] for k in self.outer_axes]

    def tasks(self) -> Expr:
        """Return the number of tasks, the same for all plans; see :func:`part_of`."""
        return ceil_div(product(self.domain), SHARE_ELEMS)

    def index(self, body: Body, outer: Sequence[Expr], a: Expr, b: Expr) -> list[Expr]:
        """Return the result index for positions in the outer dims and the two runs."""
        space = body.low.space
        index: list[Expr] = [i64(0)] * len(self.domain)
        for axis, value in zip(self.outer_axes, outer, strict=True):
            index[axis] = value
        index[slice(*self.a_run)] = space.split(a, self.a_dims)
        index[slice(*self.b_run)] = space.split(b, self.b_dims)
        return index

    def values(self, body: Body, moved: Mapping[Node, Expr], index: Sequence[Expr]) -> list[Expr]:
        """Return the outputs at ``index``, reading the values in ``moved`` for the permutations."""
        low = body.low
        for move, value in moved.items():
            low.bind_reader(move, _constant(value))
        found = [low.at(n, index) for n in self.group.outputs]
        for move in moved:
            low.drop_reader(move)
        return found


def part_of(body: Body, tasks: Expr, own: Expr) -> Body:
    """Return a body that runs the same fraction of ``own`` tasks as ``body`` runs of ``tasks``.

    Plans have a common number of tasks for this reason: if a variable selected between numbers that
    depend on the shape, TVM's analyzer would expand every combination of the selects inside.
    """
    block = body.block
    total, own = block.number("total", tirx.max(tasks, i64(1))), block.number("own", own)
    lo = block.number("lo", tirx.truncdiv(body.lo * own, total))
    return replace(body, lo=lo, hi=block.number("hi", tirx.truncdiv(body.hi * own, total)))


def _constant(value: Expr) -> Reader:
    return lambda index: value
