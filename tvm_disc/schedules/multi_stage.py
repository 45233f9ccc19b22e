"""Plans in stages: a group is split into smaller ones that run in sequence inside one kernel.

Intermediate results between stages are kept in the kernel's scratch. Each stage distributes its own
tasks over the threads. So splitting helps if the unsplit group has few tasks or uses a small tile:

    attention: scores | chain, softmax | weighted values    scores in memory instead of a tile
    rows:      reductions of a stage | ... | the rest       a few long rows, on all threads
               pieces | their reduction                     few results of long reductions
    dot:       the matmul by a library | its epilogue
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, TypeAlias

import tvm
from tvm import tirx

from tvm_disc.errors import Unsupported
from tvm_disc.graph.attention import Attention, find_attention
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, link_users, static_dim
from tvm_disc.relay.kernel_ops import UNPACK
from tvm_disc.schedules.dispatch.variant import Knobs, Need, Plan, Stage
from tvm_disc.schedules.group import Group, Machine
from tvm_disc.schedules.rows.pieces import piece_stages, takes_pieces
from tvm_disc.schedules.rows.stages import row_domain, schedule_stages
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import add, mul, product
from tvm_disc.typing import Expr

Planner: TypeAlias = Callable[[Group], Plan]

# With more rows for each thread, the threads' shares differ by less than 1/32 without splitting.
ROWS_A_THREAD = 32


@dataclass(frozen=True)
class StagedKnobs(Knobs):
    """The number of stages and their families."""

    cuts: int
    stages: str


@dataclass(frozen=True)
class Cut:
    """One stage: the kind of its group, the nodes that it computes, and its anchor."""

    kind: str
    targets: tuple[Node, ...]
    anchor: Node | None = None


def staged_plans(group: Group, solver: Solver, machine: Machine, plan: Planner) -> list[Plan]:
    """Return plans that compute a group in stages; [] if the group cannot be split usefully."""
    cuts: Sequence[Cut] = ()
    if group.kind == "row" and machine.threads > 1 and takes_pieces(group, solver):
        try:
            return [_joined(piece_stages(group, solver, machine, plan))]
        except Unsupported:
            return []
    if group.kind == "attention":
        cuts = attention_cuts(group, solver)
    elif group.kind == "row" and machine.threads > 1:
        cuts = row_cuts(group, solver, machine.threads)
    elif group.kind == "dot" and group.anchor is not None and group.outputs != [group.anchor]:
        cuts = [Cut("vendor", (group.anchor,), group.anchor), Cut("loop", tuple(group.outputs))]
    if not cuts:
        return []
    try:
        found = staged(group, cuts, plan)
        if group.kind == "attention":
            fit = _scores_fit(found, machine.memory.scores_bytes)
            found = replace(found, needs=(*found.needs, fit))
        return [found]
    except Unsupported:
        return []


def _scores_fit(plan: Plan, most: int) -> Need:
    """Return the need that the scores fit in ``most`` bytes.

    Scores grow with the square of the length and with the batch; once they exceed the cache, stages
    are not faster.
    """
    size: Expr = i64(0)
    for node in {id(t): t for s in plan.stages for t in s.targets}.values():
        size = add(size, mul(product(node.shape), tvm.DataType(node.dtype).bits // 8))
    return Need(f"the scores take at most {most / 2**20:g} MiB", i64(size) <= most)


def attention_cuts(group: Group, solver: Solver) -> list[Cut]:
    """Return the stages of attention: scores, their softmax, the matmul with the values.

    The scale and the mask are computed in the softmax stage. The matmul of the scores then has no
    epilogue, so that a plan of inner products can read a few rows of keys without packing them.
    With 12 heads, one query and 128 keys, attention takes 0.6 of the time that it takes if the
    scale and the mask are an epilogue of the scores.
    """
    assert group.anchor is not None
    found = find_attention(group.anchor, solver)
    if not isinstance(found, Attention) or any(n.op == UNPACK for n in group.nodes):
        return []  # stages would compute the padding of ragged items
    weights = [*found.softmax, *found.guard][-1]
    return [
        Cut("dot", (found.scores,), found.scores),
        Cut("row", (weights,)),
        Cut("dot", tuple(group.outputs), found.result),
    ]


def row_cuts(group: Group, solver: Solver, threads: int) -> list[Cut]:
    """Return one stage per reduction step, and a last stage for the element-wise results.

    [] if each thread has more than ``ROWS_A_THREAD`` rows, if the reduced axes are not the last, if
    there are no element-wise results, or if a result with one element per row is not a reduction.
    """
    domain = row_domain(group)
    rows = static_dim(product(domain.outer))
    if domain.tail or (rows is not None and rows > ROWS_A_THREAD * threads):
        return []
    schedule = schedule_stages(group, solver)
    if all(schedule.per_row[n] for n in group.outputs):
        return []
    cuts = []
    for stage in range(1, schedule.stages):
        reduces = [n for n in group.nodes if n.cls is OpClass.REDUCE and schedule.stage[n] == stage]
        if reduces:
            cuts.append(Cut("row", tuple(reduces)))
    per_row = [n for n in group.outputs if schedule.per_row[n]]
    if any(n.cls is not OpClass.REDUCE for n in per_row):
        return []
    rest = tuple(n for n in group.outputs if n not in per_row)
    return [*cuts, Cut("loop", rest)]


def staged(group: Group, cuts: Sequence[Cut], plan: Planner) -> Plan:
    """Return one plan for the stages.

    Raises:
        Unsupported: no template accepts a stage, or a stage requires a packed operand.
    """
    given = list(group.params)
    stages = []
    for number, cut in enumerate(cuts):
        part, sources = cut_group(group, cut, given, number)
        stages.append(Stage(part, plan(part), sources, cut.targets))
        given += [t for t in cut.targets if t not in given]
    return replace(_joined(stages), doubt="staged_doubt")


def _joined(stages: Sequence[Stage]) -> Plan:
    if any(s.plan.packed for s in stages):
        raise Unsupported("a stage requires a packed operand")
    tasks: Expr = i64(stages[0].plan.tasks)
    for s in stages[1:]:
        tasks = tirx.max(tasks, i64(s.plan.tasks))
    work: Expr = i64(0)
    for s in stages:
        work = work + s.plan.work
    families = ", ".join(s.plan.family for s in stages)
    return Plan(
        tasks=tasks,
        work=work,
        emit=_never,
        family="stages",
        knobs=StagedKnobs(len(stages), families),
        needs=tuple(need for s in stages for need in s.plan.needs),
        notes={"stages": f"{families}; each stores its whole result before the next starts"},
        guessed=all(s.plan.guessed for s in stages),
        stages=tuple(stages),
    )


def _never(_body: object) -> NoReturn:
    raise AssertionError("the stages of a plan are emitted, not the plan")


def cut_group(
    group: Group, cut: Cut, given: Iterable[Node], number: int
) -> tuple[Group, tuple[Node, ...]]:
    """Return the group that computes ``cut.targets``, and the nodes of ``given`` that it reads."""
    copies: dict[Node, Node] = {}
    sources: list[Node] = []
    known = set(given)

    def copy(node: Node) -> Node:
        if node in copies:
            return copies[node]
        if node in known:
            sources.append(node)
            made = Node("param", (), node.shape, node.dtype, var=node.var)
        else:
            made = replace(node, inputs=tuple(map(copy, node.inputs)), users=[], is_output=False)
        copies[node] = made
        return made

    outputs = [copy(t) for t in cut.targets]
    nodes = [copies[n] for n in group.nodes if n in copies and n not in known]
    params = [copies[s] for s in sources]
    link_users([*params, *nodes])
    for node in outputs:
        node.is_output = True
    anchor = None if cut.anchor is None else copies.get(cut.anchor)
    constants = frozenset(copies[s] for s in sources if s in group.constants)
    name = f"{group.name}_stage{number}"
    made = Group(name, cut.kind, nodes, params, outputs, anchor, constants)
    return made, tuple(sources)
