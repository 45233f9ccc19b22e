"""Long reductions in pieces: each piece is reduced, then the results of the pieces.

A reduction to few results has few tasks, but its pieces are independent tasks. The size of a piece
does not depend on the number of threads, so that the result is the same for any number of threads:

    partial[.., p, ..] = reduce x[.., SIZE * p : SIZE * (p + 1), ..]      as many tasks as pieces
    y = f(reduce partial)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from tvm import tirx

from tvm_disc.graph.axes import reduced_axes
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, link_users, static_dim
from tvm_disc.schedules.dispatch.choose import moved_bytes
from tvm_disc.schedules.dispatch.variant import Plan, Stage
from tvm_disc.schedules.elements import cast, is_float
from tvm_disc.schedules.group import Body, Group, Machine
from tvm_disc.schedules.loops.reducers import ARG_REDUCTIONS, REDUCERS, accumulator
from tvm_disc.schedules.rows.loops import Along, RowWork
from tvm_disc.schedules.rows.panels import Panels
from tvm_disc.schedules.rows.stages import row_domain, schedule_stages
from tvm_disc.schedules.rows.template import is_vectorizable
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import add, mul, product
from tvm_disc.typing import Expr

Planner: TypeAlias = Callable[[Group], Plan]

# number of elements of a piece: of one row, or of several rows over all columns
PIECE_ELEMS = 1 << 15
PIECE_ROWS = 16  # fewest rows of a piece of columns, a multiple of the rows that are read together


def takes_pieces(group: Group, solver: Solver) -> bool:
    """Return whether a group consists of reductions that can be computed in pieces."""
    nodes = _reductions(group)
    length = static_dim(product(row_domain(group).full))
    schedule = schedule_stages(group, solver)
    return (
        (length is None or length > PIECE_ELEMS)
        and schedule.stages == 2
        and not schedule.kept
        and all(schedule.per_row[n] for n in group.outputs)
        and len({(len(n.inputs[0].shape), reduced_axes(n)) for n in nodes}) == 1
        and all(_reduces_again(n) for n in nodes)
        and is_vectorizable(group)
    )


def _reductions(group: Group) -> list[Node]:
    return [n for n in group.nodes if n.cls is OpClass.REDUCE]


def _reduces_again(node: Node) -> bool:
    """Return whether reducing the pieces' results yields the node's value, as accurately."""
    return (
        node.op not in ARG_REDUCTIONS
        and node.dtype == accumulator(node.inputs[0].dtype)
        and (is_float(node.dtype) or not REDUCERS[node.op].mean)
    )


def _kept_dtype(node: Node) -> str:
    """Return the dtype of partial results; float sums use float64, to keep their accuracy."""
    summed = node.op in ("relax.sum", "relax.mean") and is_float(node.dtype)
    return "float64" if summed else node.dtype


def piece_stages(group: Group, solver: Solver, machine: Machine, plan: Planner) -> list[Stage]:
    """Return the two stages of a group in pieces; ``plan`` plans the second stage.

    :func:`takes_pieces` must hold for the group.

    Raises:
        Unsupported: no template accepts the second stage.
    """
    nodes = _reductions(group)
    pieces = Pieces.of(group, solver, machine)
    partials = [
        Node("param", (), pieces.shape_of(n), _kept_dtype(n), var=tirx.Var(f"partial{k}", "handle"))
        for k, n in enumerate(nodes)
    ]
    first = replace(pieces.work.group, outputs=partials)
    cost = sum(n.row.cost for n in first.nodes if n.row is not None)
    work = product(pieces.work.domain.full) * cost
    begin = Plan(
        pieces.tasks(),
        work,
        pieces.emit,
        steps=pieces.tasks(),  # a piece has the fixed cost of a row
        scratch_elems=pieces.scratch_elems(),
        family="pieces",
        moved=moved_bytes(first),
    )
    rest, sources = _rest_of(group, dict(zip(nodes, partials, strict=True)))
    end = Stage(rest, plan(rest), sources, tuple(group.outputs))
    return [Stage(first, begin, tuple(first.params), tuple(partials)), end]


def _upstream(group: Group) -> Group:
    """Return the part of the group up to its reductions."""
    needed = set(_reductions(group))
    for node in reversed(group.nodes):
        if node in needed:
            needed.update(node.inputs)
    nodes = [n for n in group.nodes if n in needed]
    params = [p for p in group.params if p in needed]
    constants = frozenset(p for p in params if p in group.constants)
    return replace(
        group,
        name=f"{group.name}_pieces",
        nodes=nodes,
        params=params,
        outputs=_reductions(group),
        constants=constants,
    )


def _rest_of(group: Group, partials: dict[Node, Node]) -> tuple[Group, tuple[Node, ...]]:
    """Return the part of the group after the partial results, and the nodes that it reads."""
    copies: dict[Node, Node] = {}
    sources: list[Node] = []
    nodes: list[Node] = []  # operators, each after its operands

    def parameter(node: Node) -> Node:
        if node not in copies:
            sources.append(node)
            copies[node] = Node("param", (), node.shape, node.dtype, var=node.var)
        return copies[node]

    def copy(node: Node) -> Node:
        if node in partials:
            given, op = parameter(partials[node]), node.op
            again = "relax.sum" if REDUCERS[op].mean else op
            axes = {"axis": list(reduced_axes(node)), "keepdims": node.attrs["keepdims"]}
            made = replace(node, op=again, inputs=(given,), attrs=axes, users=[], is_output=False)
            if given.dtype == node.dtype:
                return made
            nodes.append(replace(made, dtype=given.dtype))
            narrow = {"dtype": node.dtype}
            return replace(made, op="relax.astype", inputs=(nodes[-1],), attrs=narrow)
        inputs = tuple(map(taken, node.inputs))
        return replace(node, inputs=inputs, users=[], is_output=False)

    def taken(node: Node) -> Node:
        if node in group.params:
            return parameter(node)
        if node not in copies:
            copies[node] = copy(node)
            if node in group.nodes:  # node is not a literal
                nodes.append(copies[node])
        return copies[node]

    outputs = [taken(n) for n in group.outputs]
    params = [copies[s] for s in sources]
    link_users([*params, *nodes])
    for node in outputs:
        node.is_output = True
    constants = frozenset(copies[s] for s in sources if s in group.constants)
    name = f"{group.name}_rest"
    return Group(name, "row", nodes, params, outputs, None, constants), tuple(sources)


@dataclass
class Pieces:
    """The plan of the first stage; a task is a piece of a row, or a panel of a piece of columns."""

    work: RowWork
    panels: Panels

    @staticmethod
    def of(group: Group, solver: Solver, machine: Machine) -> Pieces:
        """Return the pieces of a group's reductions."""
        part = _upstream(group)
        sched = schedule_stages(part, solver)
        work = RowWork(part, row_domain(part), sched, machine.lanes, [], "float32")
        return Pieces(work, Panels(work, machine.threads))

    def _size(self) -> Expr:
        """Return the number of positions of the reduced dims in one piece."""
        tail = tirx.max(product(self.work.domain.tail), i64(1))
        if not self.work.domain.tail:
            return i64(PIECE_ELEMS)
        rows = tirx.truncdiv(i64(PIECE_ELEMS), tail * PIECE_ROWS) * PIECE_ROWS
        return tirx.max(rows, i64(PIECE_ROWS))

    def _count(self) -> Expr:
        return self.panels.pieces(self._size())

    def shape_of(self, node: Node) -> tuple[Expr, ...]:
        """Return the shape of partial results, in which the first reduced dim counts pieces."""
        axes, shape = reduced_axes(node), list(node.inputs[0].shape)
        for axis in axes:
            shape[axis] = i64(1)
        shape[axes[0]] = self._count()
        return tuple(shape)

    def tasks(self) -> Expr:
        """Return the number of pieces of all rows, or of panels of all pieces."""
        if self.work.domain.tail:
            return mul(self.panels.tasks(), self._count())
        return mul(product(self.work.domain.outer), self._count())

    def scratch_elems(self) -> int:
        """Return the float32 elements of scratch memory that a task needs."""
        return self.panels.scratch_elems() if self.work.domain.tail else 0

    def emit(self, body: Body) -> None:
        """Emit tasks ``[lo, hi)``."""
        if self.work.domain.tail:
            self._columns(body)
        else:
            self._rows(body)

    def _columns(self, body: Body) -> None:
        low, size = body.low, body.block.number("size", self._size())
        columns = product(self.work.domain.tail)
        for span in self.panels.spans(body, size):
            start = body.block.bind("start", add(mul(span.piece, columns), span.begin))
            for _, at, values in span.results(wide=True):
                for buffer, value in zip(body.outputs, values, strict=True):
                    low.store(buffer, add(at, start), value, str(buffer.dtype))

    def _rows(self, body: Body) -> None:
        block, low, size = body.block, body.low, self._size()
        count = block.number("pieces", self._count())
        length = block.bind("whole", product(self.work.domain.inner))
        with low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            o = block.number("o", tirx.truncdiv(t, count))
            begin = block.number("begin", (t - o * count) * size)
            left = block.number("left", tirx.min(length - begin, size))
            outer = low.space.split(o, self.work.domain.outer)
            walk = Piece(self.work, body, outer, begin, left)
            found = walk.accumulate(0, o, i64(0))
            for buffer, (_, acc) in zip(body.outputs, found, strict=True):
                dtype = str(buffer.dtype)
                low.store(buffer, t, cast(acc.total(), dtype), dtype)


class Piece(Along):
    """Emits the ``length`` positions of a row from position ``begin`` on."""

    def __init__(
        self, work: RowWork, body: Body, outer: tuple[Expr, ...], begin: Expr, length: Expr
    ) -> None:
        super().__init__(work, body, outer)
        self.begin, self.length = begin, length

    def _index(self, j: Expr) -> list[Expr]:
        return super()._index(add(j, self.begin))


__all__ = ["piece_stages", "takes_pieces"]
