"""Assignment of nodes to loops in the *row* (stitch) template.

Nodes are assigned to stages. The result of a reduction is known one stage after its operand. Each
stage is one loop over the row that feeds all reductions of that stage. A value that a later stage
reads is recomputed if it is cheap, and kept otherwise.

    softmax: max | exp -> row, sum | row / sum
"""

from __future__ import annotations

from dataclasses import dataclass, field

import tvm

from tvm_disc.graph.axes import reduced_axes
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, is_one
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.elements import is_below_maximum
from tvm_disc.schedules.kernel import Group
from tvm_disc.shape import Solver
from tvm_disc.typing import Expr


@dataclass
class RowShape:
    """The domain ``outer x inner x tail`` of a row group; ``inner`` is reduced.

    Without a tail, a row is contiguous. Otherwise it is a column whose stride is the size of the
    tail.
    """

    outer: tuple[Expr, ...]
    inner: tuple[Expr, ...]
    tail: tuple[Expr, ...] = ()
    full: tuple[Expr, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.full = (*self.outer, *self.inner, *self.tail)


@dataclass
class Schedule:
    """The assignment of nodes to stages.

    Attributes:
        stage: the first loop in which a node can be computed.
        per_row: whether a node has one value per row.
        kept: nodes that are stored in their stage for later stages.
        storage: index of the output whose memory a kept node uses; None for scratch memory.
        over_nan: maxima that may ignore NaN; see :func:`passes_over_nan`.
    """

    stage: dict[Node, int]
    per_row: dict[Node, bool]
    kept: list[Node]
    stages: int
    storage: dict[Node, int | None] = field(default_factory=dict)
    over_nan: frozenset[Node] = frozenset()


def row_domain(group: Group) -> RowShape:
    """Return the domain of a row group, derived from its first reduction."""
    node = next(n for n in group.nodes if n.cls is OpClass.REDUCE)
    shape, axes = tuple(node.inputs[0].shape), reduced_axes(node)
    begin = min(axes, default=len(shape))
    end = max(axes, default=len(shape) - 1) + 1
    if all(is_one(d) for d in shape[end:]):
        end = len(shape)
    return RowShape(shape[:begin], shape[begin:end], shape[end:])


def schedule_stages(group: Group, solver: Solver, keep_ops: float = CostModel.keep_ops) -> Schedule:
    """Return the schedule of a row group.

    A value that a later stage reads is kept if it is an output, or if its recomputation takes at
    least ``keep_ops`` plain operations per element.
    """
    stage: dict[Node, int] = {}
    per_row: dict[Node, bool] = {}
    cost: dict[Node, int] = {}
    domain = row_domain(group)
    for node in group.nodes:
        own = max((stage.get(x, 0) for x in node.inputs), default=0)
        reduces = node.cls is OpClass.REDUCE
        stage[node] = own + 1 if reduces else own
        per_row[node] = (
            reduces
            or _one_per_row(node, domain, per_row)
            or _stored_per_row(node, group, domain, solver)
        )
        cost[node] = sum(cost.get(x, 1) for x in node.inputs if not per_row.get(x, False)) + (
            node.row.cost if node.row else 0
        )
        if reduces:
            cost[node] = 0
    kept = [
        n
        for n in _used_later(group, stage, cost, keep_ops)
        if not per_row[n] and solver.known_same_shape(n.shape, domain.full)
    ]
    schedule = Schedule(stage, per_row, kept, max(stage.values(), default=0) + 1)
    schedule.storage = _assign_storage(group, schedule)
    schedule.over_nan = frozenset(n for n in group.nodes if passes_over_nan(n, group))
    return schedule


def passes_over_nan(most: Node, group: Group) -> bool:
    """Return whether a maximum may ignore NaN, as in softmax and its logarithm.

    The maximum may ignore NaN if it is only subtracted from its own operand, and if all results are
    computed by arithmetic from the sum of the exponentials. That sum is NaN if any element is NaN,
    even if the maximum is not.
    """
    inside, outputs = set(group.nodes), set(group.outputs)
    shifted = [u for u in most.users if u in inside]
    if most.op != "relax.max" or most in outputs or not shifted:
        return False
    if not all(is_below_maximum(u) and u.inputs[1] is most for u in shifted):
        return False
    exponentials = {u for n in shifted for u in n.users if u in inside and u.op == "relax.exp"}
    sums = {
        u
        for n in exponentials
        for u in n.users
        if u.op == "relax.sum"
        and reduced_axes(u) == reduced_axes(most)
        and len(u.shape) == len(most.shape)
    }
    own = {*shifted, *exponentials}
    return outputs.isdisjoint(own) and all(
        u in own or u in sums or _is_arithmetic_with(u, sums)
        for n in own
        for u in n.users
        if u in inside
    )


def _is_arithmetic_with(node: Node, sums: set[Node]) -> bool:
    """Return whether ``node`` combines an operand with a sum, its logarithm or a quotient by it."""
    made = {x for x in node.inputs if x.op in ("relax.log", "relax.divide")}
    others = {*node.inputs, *(x.inputs[-1] for x in made)}
    arithmetic = ("relax.subtract", "relax.multiply", "relax.divide")
    return node.op in arithmetic and not sums.isdisjoint(others)


def _one_per_row(node: Node, domain: RowShape, per_row: dict[Node, bool]) -> bool:
    """Return whether a node has a row's shape, and is computed from nodes with one value per row.

    Other nodes of that shape, such as a dim as a tensor, are functions of an index.
    """
    return any(per_row.get(x, False) for x in node.inputs) and _is_row_shape(node, domain)


def _stored_per_row(node: Node, group: Group, domain: RowShape, solver: Solver) -> bool:
    """Return whether a node is an output of a row's shape.

    It need not depend on a reduction. The loops along a row store only outputs of the domain's
    shape.
    """
    if node not in group.outputs or not _is_row_shape(node, domain):
        return False
    return not solver.known_same_shape(node.shape, domain.full)


def _is_row_shape(node: Node, domain: RowShape) -> bool:
    begin = len(domain.outer)
    if len(node.shape) == len(domain.full):
        return all(is_one(d) for d in node.shape[begin : begin + len(domain.inner)])
    if len(node.shape) <= begin + len(domain.tail):
        return True
    # A row's shape may end with dims of 1, which a reduction over earlier axes kept.
    return not domain.tail and all(is_one(d) for d in node.shape[begin:])


def _used_later(
    group: Group, stage: dict[Node, int], cost: dict[Node, int], keep_ops: float
) -> list[Node]:
    """Return the nodes to keep: a later loop reads them, directly or through recomputed users."""
    last: dict[Node, int] = {}
    found: list[Node] = []
    for node in reversed(group.nodes):
        mine = last.get(node, 0)
        if node in group.outputs:
            mine = max(mine, stage[node])
        if node.cls is OpClass.REDUCE:
            mine = stage[node] - 1
        elif mine > stage[node] and (cost[node] >= keep_ops or node in group.outputs):
            found.append(node)
            mine = stage[node]
        for x in node.inputs:
            last[x] = max(last.get(x, 0), mine)
    return found[::-1]


def _assign_storage(group: Group, sched: Schedule) -> dict[Node, int | None]:
    storage: dict[Node, int | None] = {}
    free = [
        i
        for i, out in enumerate(group.outputs)
        if not sched.per_row.get(out, True)
        and sched.stage[out] == sched.stages - 1
        and out not in sched.kept
    ]
    for node in sched.kept:
        slot = next((i for i in free if group.outputs[i].dtype == node.dtype), None)
        if node in group.outputs:
            slot = group.outputs.index(node)
        elif slot is not None:
            free.remove(slot)
        storage[node] = slot
    return storage


def bytes_of(dtype: str) -> int:
    """Return the bytes of one element in memory."""
    return max(1, int(tvm.DataType(dtype).bits) // 8)
