"""What a transpose moves, for the walks of its template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.dispatch.choose import moved_bytes
from tvm_disc.schedules.group import Body, Group, Machine
from tvm_disc.schedules.lowering import Reader
from tvm_disc.schedules.rows.stages import bytes_of
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import ceil_div, product

Expr: TypeAlias = Any

SHARE_ELEMS = 4096  # what the tasks count


@dataclass
class TransposeWork:
    """A group around permutations ``moves``, which all move the axes ``b_run`` and ``a_run``.

    ``a_run``: axes of the result that are the operand's innermost; ``b_run``: the result's own.
    """

    group: Group
    moves: list[Node]
    a_run: tuple[int, int]
    b_run: tuple[int, int]
    domain: tuple[Any, ...]
    machine: Machine

    def __post_init__(self) -> None:
        self.a_dims = self.domain[slice(*self.a_run)]
        self.b_dims = self.domain[slice(*self.b_run)]
        inside = {*range(*self.a_run), *range(*self.b_run)}
        self.outer_axes = [k for k in range(len(self.domain)) if k not in inside]

    def sides(self) -> tuple[Expr, Expr]:
        """Elements of the operand's innermost run, and of the result's."""
        return product(self.a_dims), product(self.b_dims)

    def shorter(self) -> Expr:
        """The length of the shorter side."""
        return tirx.min(*self.sides())

    def words(self) -> int:
        """Of four bytes, in the widest element that is moved."""
        return max(max(bytes_of(m.dtype) // 4, 1) for m in self.moves)

    def moved_twice(self) -> Expr:
        """Bytes moved where lines of cache are met several times, in pieces."""
        return moved_bytes(self.group) * 2

    def cost(self) -> int:
        """Plain operations of an element beside moving it."""
        return sum(n.row.cost for n in self.group.nodes if n.row and n not in self.moves)

    def outer_dims(self) -> list[Any]:
        """Those that neither run has."""
        return [self.domain[k] for k in self.outer_axes]

    def tasks(self) -> Expr:
        """Shares of the elements; every kind of tile has its own tasks."""
        return ceil_div(product(self.domain), SHARE_ELEMS)

    def index(self, body: Body, outer: Sequence[Expr], a: Expr, b: Expr) -> list[Expr]:
        """Of the result."""
        space = body.low.space
        index: list[Expr] = [i64(0)] * len(self.domain)
        for axis, value in zip(self.outer_axes, outer, strict=True):
            index[axis] = value
        index[slice(*self.a_run)] = space.split(a, self.a_dims)
        index[slice(*self.b_run)] = space.split(b, self.b_dims)
        return index

    def values(self, body: Body, moved: Mapping[Node, Expr], index: Sequence[Expr]) -> list[Expr]:
        """The outputs at ``index``, where the permutations are what has been ``moved``."""
        low = body.low
        for move, value in moved.items():
            low.bind_reader(move, _constant(value))
        found = [low.at(n, index) for n in self.group.outputs]
        for move in moved:
            low.drop_reader(move)
        return found


def part_of(body: Body, tasks: Expr, own: Expr) -> Body:
    """The same share of ``own`` tasks as the body's of ``tasks``.

    What a task is depends on the shape. One number that chooses between the counts would make
    TVM's analyzer follow every combination of the choices inside.
    """
    block = body.block
    total, own = block.number("total", tirx.max(tasks, i64(1))), block.number("own", own)
    lo = block.number("lo", tirx.truncdiv(body.lo * own, total))
    return replace(body, lo=lo, hi=block.number("hi", tirx.truncdiv(body.hi * own, total)))


def _constant(value: Expr) -> Reader:
    return lambda index: value
