"""Element-wise, broadcast and injective work.

    single   a thread computes one element of every output
    lanes    a thread computes adjacent elements, with accesses of 16 bytes

The adjacent elements of a thread are in one row. A row is the longest suffix of dims in which no
read requires a division, so that a thread divides only once. If the row is the complete domain, the
last thread computes the remaining elements one by one. Otherwise the row length must be a multiple
of the number of lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.cost import moved_ns
from tvm_disc.schedules.cuda.vector import (
    ALIGNED,
    MOST_FACTS,
    Lanes,
    distinct,
    lanes_of_nodes,
    multiple_need,
    stand_in,
)
from tvm_disc.schedules.dispatch.variant import Grid, Knobs, Need
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loops.template import uncertain_dims
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64, index_var
from tvm_disc.tir.index import IndexSpace, add, mul, product
from tvm_disc.typing import Expr

THREADS = 256


@dataclass(frozen=True)
class ElementKnobs(Knobs):
    """Number of elements per thread."""

    lanes: int = 1


def plan_elements(group: Group, solver: Solver, machine: Machine) -> Plan:
    """Return a plan with a thread per element.

    If most reads allow it, a thread of its ``wide`` plan computes several adjacent elements.
    """
    single = single_elements(group, solver, machine)
    vectors = _Vectors.of(group, solver)
    if vectors is None:
        return single
    lanes = vectors.lanes
    together = replace(
        single,
        tasks=tirx.floordiv(product(vectors.domain) + (lanes - 1), i64(lanes)),
        emit=vectors.emit,
        knobs=ElementKnobs(lanes),
        needs=vectors.needs,
    )
    facts = ", ".join(n.text for n in vectors.needs)
    return replace(single, wide=together, notes={**single.notes, "lanes": f"{lanes} if {facts}"})


def single_elements(group: Group, solver: Solver, machine: Machine) -> Plan:
    """Return a plan with a thread per element; adjacent threads compute adjacent elements."""
    domain = tuple(group.outputs[0].shape)
    cost = sum(n.row.cost for n in group.nodes if n.row is not None)
    assert machine.device is not None
    return Plan(
        tasks=product(domain),
        work=product(domain) * cost,
        emit=lambda body: _single(group, domain, body, body.lo),
        knobs=ElementKnobs(),
        grid=Grid(THREADS),
        cost=partial(moved_ns, machine.device, group),
        notes={"threads": f"one for each element, {THREADS} a block"},
    )


def _single(group: Group, domain: Sequence[object], body: Body, flat: Expr) -> None:
    low = body.low
    with low.scope():
        values = _values(low, group.outputs, domain, low.space.split(flat, domain), flat)
        for node, buffer, value in zip(group.outputs, body.outputs, values, strict=True):
            low.store(buffer, flat, value, node.dtype)


def _values(
    low: Lowering,
    outputs: Sequence[Node],
    domain: Sequence[object],
    index: Sequence[Expr],
    flat: Expr,
) -> list[Expr]:
    """Return the element of every output at an index of the domain."""
    same = (low.solver.known_same_shape(n.shape, domain) for n in outputs)
    return [
        low.at(n, index if s else low.space.split(flat, n.shape))
        for n, s in zip(outputs, same, strict=True)
    ]


class _Vectors:
    """A group whose threads compute adjacent elements of rows; a row has the dims from ``split``
    on.
    """

    def __init__(self, group: Group, solver: Solver) -> None:
        self.group, self.solver = group, solver
        self.domain = tuple(group.outputs[0].shape)
        own = [n for n in (*group.params, *group.outputs) if n.shape]
        self.lanes = lanes_of_nodes([*own, *group.outputs], len(group.nodes))
        self.unsure = uncertain_dims(group, solver)
        self.split, self.facts = 0, list[Expr]()

    @classmethod
    def of(cls, group: Group, solver: Solver) -> _Vectors | None:
        """Return the vectors of a group.

        None if too few of its reads are of adjacent elements, or if more than ``MOST_FACTS`` facts
        are required.
        """
        made = cls(group, solver)
        for split in range(max(len(made.domain), 1)):
            made.split, made.facts = split, []
            if made._dry():
                return made if len(made.needs) <= MOST_FACTS + 1 else None
        return None

    @property
    def inner(self) -> Expr:
        """The number of elements of a row."""
        return product(self.domain[self.split :])

    @property
    def needs(self) -> tuple[Need, ...]:
        """The conditions under which the vector code may run."""
        same = [Need(f"{d} == {t}", tirx.EQ(i64(d), i64(t))) for d, t in self.unsure.values()]
        return (*same, *(multiple_need(s, self.lanes) for s in self.facts), ALIGNED)

    def _dry(self) -> bool:
        """Return whether a row requires no division and at least half of its reads are vectors.

        Sets ``facts`` to the sizes that must be multiples of the number of lanes.
        """
        low = Lowering(
            DeviceBlock(), IndexSpace(lambda a, b: bool(self.solver.known_eq(a, b))), self.solver
        )
        buffers = {n: stand_in(n) for n in self.group.params}
        begin = index_var("j")
        lanes = Lanes(low, self.lanes, begins=[begin], symbols=self.group.symbols())
        outer = low.space.split(index_var("r"), self.domain[: self.split])
        flat = add(mul(index_var("r"), self.inner), begin) if self.split else begin
        with lanes.reading(buffers), low.without_broadcast(self.unsure):
            self._values(low, outer, add(begin, lanes.lane), add(flat, lanes.lane))
        if any(low.space.depends_on(v, lanes.lane) for v in low.defined):
            return False
        edge = lanes.facts(i64(self.inner)) if self.split else []
        self.facts = distinct([*lanes.wanted, *(edge or ())])
        return edge is not None and lanes.together >= lanes.single

    def _values(self, low: Lowering, outer: Sequence[Expr], j: Expr, flat: Expr) -> list[Expr]:
        index = [*outer, *low.space.split(j, self.domain[self.split :])]
        return _values(low, self.group.outputs, self.domain, index, flat)

    def emit(self, body: Body) -> None:
        """Emit the elements that one thread computes."""
        block, flat = body.block, body.block.bind("flat", body.lo * self.lanes)
        if self.split or self.solver.known_divides(self.lanes, self.inner):
            self._together(body, flat)
            return
        total = block.bind("total", self.inner)
        with block.when(flat + self.lanes <= total):
            self._together(body, flat)
        with block.otherwise(), body.low.loop("rest", total - flat) as rest:
            unsure = self.unsure
            with body.low.without_broadcast(unsure) if unsure else nullcontext():
                _single(self.group, self.domain, body, block.bind("at", flat + rest))

    def _together(self, body: Body, flat: Expr) -> None:
        block, low = body.block, body.low
        with low.scope(), low.without_broadcast(self.unsure):
            j, outer = flat, list[Expr]()
            if self.split:
                # One division for all elements; ``split`` uses 32 bits if the domain allows it.
                r, _ = low.space.split(flat, (product(self.domain[: self.split]), self.inner))
                low.resolve([r])
                j = block.bind("j", flat - mul(r, self.inner))
                outer = list(low.space.split(r, self.domain[: self.split]))
                low.resolve(outer)
            symbols = self.group.symbols()
            lanes = Lanes(low, self.lanes, self.facts, [flat, j], symbols)
            cells = [block.alloc("out", self.lanes, str(b.dtype)) for b in body.outputs]
            with lanes.reading(body.buffers):
                for k, lane in enumerate(lanes.each()):
                    values = self._values(low, outer, add(j, lane), add(flat, lane))
                    for node, cell, value in zip(self.group.outputs, cells, values, strict=True):
                        low.store(cell, i64(k), value, node.dtype)
            for cell, buffer in zip(cells, body.outputs, strict=True):
                lanes.copy(buffer, flat, cell, i64(0))


__all__ = ["THREADS", "plan_elements", "single_elements"]
