"""Which nodes become one kernel: groups grown around anchors, each refusal with its reason.

Fusion needs relations between shapes, never values (DISC, EuroMLSys'21, section 4.2): whether two
shapes are equal, have as many elements, or differ by a broadcast. The order of the passes is the
policy: contractions take their element-wise consumers, rows take everything that lives on a row,
what remains becomes loops, and index maps vanish into whoever reads through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tvm_disc.errors import WhyNot
from tvm_disc.relay_passes.attention import feeds_scores, find_attention, is_lanewise
from tvm_disc.relay_passes.axes import is_contiguous, permutation, reduced_axes
from tvm_disc.relay_passes.core_ops import OpClass
from tvm_disc.relay_passes.fusion_groups import FusionPlan, GroupPlan, Homes
from tvm_disc.relay_passes.graph import Node, is_one, static_dim
from tvm_disc.shape import Solver

Expr: TypeAlias = Any

# An inlined producer may be evaluated this many plain operations' worth of extra times.
CHEAP_COST = 3
MAX_GROUP_NODES = 96


def plan_fusion(nodes: Sequence[Node], solver: Solver, enabled: bool = True) -> FusionPlan:
    """Group ``nodes`` (in program order, users linked)."""
    return _Planner(nodes, solver, enabled).run()


class _Planner:
    def __init__(self, nodes: Sequence[Node], solver: Solver, enabled: bool) -> None:
        self.nodes, self.solver, self.enabled = list(nodes), solver, enabled
        self.homes = Homes()
        self.groups: list[GroupPlan] = []
        self.refused: list[WhyNot] = []

    def run(self) -> FusionPlan:
        for node in self.nodes if self.enabled else ():
            if node.cls is OpClass.DOT:
                self._attention(node)
        for node in self.nodes:
            if node in self.homes:
                continue
            if node.cls in (OpClass.DOT, OpClass.CONV):
                self._contraction(node)
        for node in self.nodes:
            if node.cls is OpClass.REDUCE and node not in self.homes:
                self._reduction(node)
        for node in reversed(self.nodes):
            if node not in self.homes:
                self._rest(node)
        for group in self.groups:
            self._trim_views(group)
        self._drop_dead_copies()
        kept = [g for g in self.groups if g.members]
        kept.sort(key=lambda g: max(n.index for n in g.members))
        return FusionPlan(kept, self.refused, self.homes)

    def _open(self, kind: str, anchor: Node) -> GroupPlan:
        group = GroupPlan(kind, anchor)
        self.groups.append(group)
        self._join(group, anchor)
        return group

    def _join(self, group: GroupPlan, node: Node) -> None:
        self.homes.join(group, node)

    def _refuse(self, node: Node, group: GroupPlan, reason: str) -> None:
        self.refused.append(WhyNot(f"{node.name} ({node.op}) into {group.anchor.name}", reason))

    # -- attention -----------------------------------------------------------------------------

    def _attention(self, node: Node) -> None:
        """Nothing inside is read from outside, so the group cannot be part of a cycle."""
        found = find_attention(node, self.solver)
        if isinstance(found, WhyNot):
            self.refused.append(found)
        elif found is not None:
            group = self._open("attention", node)
            group.attention = found
            for part in found.nodes():
                self._join(group, part)
            group.frame[node] = 0
            self._grow_epilogue(group)

    def _attention_operand_reason(self, group: GroupPlan, node: Node) -> str | None:
        """Operands are evaluated by vectors: once for Q, K and V, once per head for a mask."""
        assert group.attention is not None
        masks = feeds_scores(group.attention, node, lambda n: n in group)
        if node.cls is OpClass.VIEW or self._pure_move(node):
            if masks and node.op == "relax.permute_dims" and not self._keeps_last(node):
                return "neighbouring keys would not be neighbours in memory"
            return None
        if not is_lanewise(node):
            return "it is not evaluated by vectors"
        if masks and self._total_cost(node) > CHEAP_COST:
            return "every head would compute it again"
        return None

    def _is_expanded(self, node: Node, homes: Sequence[GroupPlan]) -> bool:
        """Whether attentions read less than ``node`` holds by computing it themselves."""
        if any(g.kind != "attention" for g in homes) or self._total_cost(node) > CHEAP_COST:
            return False
        leaves: set[Node] = set()
        work = [node]
        while work:
            n = work.pop()
            for x in n.inputs:
                (leaves.add if x in self.homes or x.row is None else work.append)(x)
        return not any(self.solver.known_same_elements(x.shape, node.shape) for x in leaves)

    # -- contractions --------------------------------------------------------------------------

    def _contraction(self, node: Node) -> None:
        group = self._open("dot" if node.cls is OpClass.DOT else "conv", node)
        group.frame[node] = 0
        if self.enabled:
            self._grow_epilogue(group)

    def _grow_epilogue(self, group: GroupPlan) -> None:
        work = list(group.anchor.users)
        while work:
            work.sort(key=lambda n: n.index)
            node = work.pop(0)
            if node in self.homes or node.row is None:
                continue
            reason = self._epilogue_reason(group, node)
            if reason is not None:
                self._refuse(node, group, reason)
                continue
            self._join(group, node)
            work.extend(u for u in node.users if u not in self.homes and u not in work)

    def _epilogue_reason(self, group: GroupPlan, node: Node) -> str | None:
        inside = [x for x in node.inputs if x in group]
        frame = group.frame[inside[0]]
        if node.cls is OpClass.VIEW:
            # Views keep the order of the elements: two ways to one shape are one index map.
            group.frame[node] = self._frame(group, group.frames[frame][0], node.shape)
            return None
        if node.op == "relax.permute_dims":
            if not self._keeps_last(node):
                return "a transpose of the last axis would scatter the tile's stores"
            order = ("permute", frame, permutation(node))
            group.frame[node] = self._frame(group, order, node.shape)
            return None
        if node.op == "relax.strided_slice":
            return self._part_reason(group, node, frame)
        if node.cls is not OpClass.ELEMWISE:
            return f"{_kind_of(node)} does not follow on a tile"
        if len({group.frame[x] for x in inside}) != 1:
            return "operands reach it through different index maps"
        if not all(self._same_shape(x, node) for x in inside):
            return "the tile would be broadcast"
        if self._makes_cycle(group, node):
            return "another operand is computed from this group"
        group.frame[node] = frame
        return None

    def _frame(self, group: GroupPlan, order: Any, shape: Sequence[Any]) -> int:
        for k, (known, dims) in enumerate(group.frames):
            if known == order and self._equal(dims, shape):
                return k
        group.frames.append((order, shape))
        return len(group.frames) - 1

    def _part_reason(self, group: GroupPlan, node: Node, frame: int) -> str | None:
        """A product is stored in parts if every reader takes a part, and one part is stored
        anyway: else the slices are index maps of their readers."""
        whole = node.inputs[0]
        if group.kind != "dot" or not self._equal(whole.shape[-1:], group.anchor.shape[-1:]):
            return "a slice is an index map of its readers"
        if whole.is_output or not all(_column_range(u) for u in whole.users):
            return "the product is also read whole"
        if not any(_is_stored(u) for u in whole.users):
            return "the slices are index maps of their readers"
        order = ("part", frame, _column_range(node))
        group.frame[node] = self._frame(group, order, node.shape)
        return None

    def _keeps_last(self, node: Node) -> bool:
        axes = permutation(node)
        return axes[-1] == len(axes) - 1

    # -- rows ----------------------------------------------------------------------------------

    def _reduction(self, node: Node) -> None:
        rowwise = is_contiguous(node) and node.op in ROW_REDUCTIONS
        group = self._open("row" if rowwise else "reduce", node)
        if not self.enabled:
            return
        if rowwise:
            self._grow_row(group)
        else:
            self._grow_reduce(group)

    def _grow_reduce(self, group: GroupPlan) -> None:
        """A reduction over other axes still takes its element-wise consumers."""
        group.frame[group.anchor] = 0
        self._grow_epilogue(group)

    def _grow_row(self, group: GroupPlan) -> None:
        domain = group.anchor.inputs[0].shape
        axes = reduced_axes(group.anchor)
        work = [*group.anchor.inputs, *group.anchor.users]
        seen: set[Node] = set()
        while work:
            node = work.pop()
            if node in seen or node in self.homes or node.row is None:
                continue
            seen.add(node)
            reason = self._row_reason(group, node, domain, axes)
            if reason is not None:
                self._refuse(node, group, reason)
                continue
            self._join(group, node)
            again = [*node.inputs, *node.users]
            work.extend(again)
            # A refusal may have been for want of a member that has just joined.
            seen -= {n for n in again if n not in self.homes}

    def _row_reason(
        self, group: GroupPlan, node: Node, domain: Sequence[Any], axes: Sequence[int]
    ) -> str | None:
        if len(group.members) >= MAX_GROUP_NODES:
            return "the group is full"
        if node.cls is OpClass.REDUCE:
            same = node.op in ROW_REDUCTIONS and self._equal(node.inputs[0].shape, domain)
            if not same or list(reduced_axes(node)) != list(axes):
                return "it reduces another row"
        elif node.cls is OpClass.ELEMWISE:
            if not self._equal(node.shape, domain) and not self._is_row_value(node, domain, axes):
                return "its shape is not proved to be the row's"
            if any(x in group and not self._aligned(x, node, domain, axes) for x in node.inputs):
                return "it reads a row value at another position"
        elif node.cls is OpClass.VIEW:
            if not (self._is_row_value(node, domain, axes) and node.inputs[0] in group):
                return "a view of the whole row"
        else:
            return f"{_kind_of(node)} is not row-wise"
        if node.cls is OpClass.VIEW and not self._row_view(node, domain, axes):
            return "a view that regroups rows"
        if self._makes_cycle(group, node):
            return "it depends on this group through another kernel"
        return None

    def _is_row_value(self, node: Node, domain: Sequence[Any], axes: Sequence[int]) -> bool:
        """One value per row: the outer dims, with or without the reduced ones as 1."""
        outer = [d for a, d in enumerate(domain) if a not in axes]
        kept = [1 if a in axes else d for a, d in enumerate(domain)]
        return self._equal(node.shape, outer) or self._equal(node.shape, kept)

    def _row_view(self, node: Node, domain: Sequence[Any], axes: Sequence[int]) -> bool:
        return self._is_row_value(node.inputs[0], domain, axes)

    def _aligned(
        self, source: Node, node: Node, domain: Sequence[Any], axes: Sequence[int]
    ) -> bool:
        """Whether ``source``, broadcast into ``node``, is read at the row being computed."""
        kept = [1 if a in axes else d for a, d in enumerate(domain)]
        outer = [d for a, d in enumerate(domain) if a not in axes]
        if self._equal(node.shape, domain):
            return self._equal(source.shape, domain) or self._equal(source.shape, kept)
        return self._equal(source.shape, node.shape) or (
            self._equal(source.shape, outer) and self._equal(node.shape, outer)
        )

    # -- loops ---------------------------------------------------------------------------------

    def _rest(self, node: Node) -> None:
        if node.row is None:
            return
        if node.cls is OpClass.OPAQUE:
            self._open("opaque", node)
            return
        if node.cls is OpClass.REDUCE:
            self._open("reduce", node)
            return
        if not self.enabled:
            if node.cls is not OpClass.VIEW:
                self._open("loop", node)
            return
        homes = self._consumers(node)
        if homes is not None and self._inline(node, homes):
            return
        if node.cls is not OpClass.VIEW:
            self._open("loop", node)

    def _consumers(self, node: Node) -> list[GroupPlan] | None:
        """The groups that read ``node``, None if anything else does."""
        if node.is_output or not node.users:
            return None
        homes: dict[int, GroupPlan] = {}
        for user in node.users:
            readers = self.homes[user] if user.row is not None else ()
            if not readers:
                return None
            for g in readers:
                homes[id(g)] = g
        return list(homes.values())

    def _inline(self, node: Node, homes: list[GroupPlan]) -> bool:
        """Make ``node`` part of every group that reads it, if no reader loses by it."""
        cost = node.row.cost if node.row is not None else 0
        free = cost <= 1 and not any(x.row is not None for x in node.inputs)
        again = free or node.cls is OpClass.VIEW or self._pure_move(node)
        if len(homes) > 1 and not (again or self._is_expanded(node, homes)):
            self.refused.append(WhyNot(f"{node.name} ({node.op})", f"{len(homes)} kernels read it"))
            return False
        for group in homes:
            reason = self._inline_reason(group, node)
            if reason is not None:
                self._refuse(node, group, reason)
                return False
        for group in homes:
            self._join(group, node)
        return True

    def _pure_move(self, node: Node) -> bool:
        return node.op in ("relax.permute_dims", "relax.broadcast_to", "relax.strided_slice")

    def _inline_reason(self, group: GroupPlan, node: Node) -> str | None:
        if len(group.members) >= MAX_GROUP_NODES:
            return "the group is full"
        if group.kind == "opaque":
            return "the consumer has a kernel of its own"
        movement = node.cls is OpClass.VIEW or self._pure_move(node)
        if group.kind in ("dot", "conv") and not movement:
            return "only index maps are evaluated while a tile is loaded"
        if group.kind == "attention":
            return self._attention_operand_reason(group, node)
        if movement:
            return None
        if self._within(self._domain(group), node.shape):
            return None
        if self._total_cost(node) <= CHEAP_COST:
            return None
        if self._varies_outside_only(group, node):
            return None
        guard = next((u for u in node.users if u in group and u.op in GUARDED), None)
        if guard is not None:
            return f"in a branch of {guard.op} it would be computed element by element"
        return "a broadcast would compute it again for every copy"

    def _varies_outside_only(self, group: GroupPlan, node: Node) -> bool:
        """Whether ``node`` has one value per inner loop, so that it is computed once for it.

        The indices of a gather along the leading dims are the case that matters.
        """
        domain = self._domain(group)
        shape = list(node.shape)
        return (
            len(shape) < len(domain)
            and self._equal(shape, domain[: len(shape)])
            and all(_picks_by(u, node) or u in group for u in node.users)
            and not is_one(domain[-1])
        )

    def _domain(self, group: GroupPlan) -> Sequence[Any]:
        if group.kind in ("row", "reduce"):
            return group.anchor.inputs[0].shape
        return group.anchor.shape

    def _within(self, domain: Sequence[Any], shape: Sequence[Any]) -> bool:
        """Whether ``domain`` has provably no more elements than ``shape``."""
        if self.solver.known_same_elements(list(domain), list(shape)):
            return True
        if len(domain) > len(shape):
            return False
        tail = list(shape)[len(shape) - len(domain) :]
        return all(self.solver.known_le(d, s) for d, s in zip(domain, tail, strict=True))

    def _total_cost(self, node: Node) -> int:
        """Operations of one element down to values in memory, cut off early."""
        total, work = 0, [node]
        while work and total <= CHEAP_COST:
            n = work.pop()
            if n.row is None or (n in self.homes and n is not node):
                continue
            if _gathers_rows(n):
                # The index is computed once for a run of neighbours.
                total, work = total + 1, [*work, n.inputs[0]]
                continue
            total += n.row.cost if n.cls is not OpClass.VIEW else 0
            work.extend(n.inputs)
        return total

    # -- relations -----------------------------------------------------------------------------

    def _equal(self, a: Sequence[Any], b: Sequence[Any]) -> bool:
        return len(a) == len(b) and all(
            bool(self.solver.known_eq(x, y)) for x, y in zip(a, b, strict=True)
        )

    def _same_shape(self, a: Node, b: Node) -> bool:
        return self._equal(a.shape, b.shape)

    def _makes_cycle(self, group: GroupPlan, node: Node) -> bool:
        """Whether joining would let a kernel outside both feed one and read the other."""
        return self.on_cycle(set(group.members) | {node})

    def on_cycle(self, joint: set[Node]) -> bool:
        """Whether a kernel outside ``joint`` would both read it and feed it.

        A walk backwards may leave a kernel at any of its nodes, so it may stop only before the
        first node of every kernel that reaches past the start of ``joint``.
        """
        lowest = min(n.index for n in joint)
        spans = (g.span for g in self.groups if g.members and g.span[1] >= lowest)
        floor = min((lo for lo, _ in spans), default=lowest)
        work = [x for m in joint for x in m.inputs if x not in joint]
        seen: set[Node] = set()
        while work:
            n = work.pop()
            if n in seen or n.index < min(floor, lowest):
                continue
            seen.add(n)
            home = self.homes.owner(n)
            fellows = home.members if home is not None else {n: None}
            for f in fellows:
                seen.add(f)
                for x in f.inputs:
                    if x in joint:
                        return True
                    work.append(x)
        return False

    def _trim_views(self, group: GroupPlan) -> None:
        """Views at the border are free outside: leading ones rename a parameter, trailing ones
        an output."""
        changed = True
        while changed:
            changed = False
            for node in group.nodes():
                if node.cls is not OpClass.VIEW:
                    continue
                leading = not any(x in group for x in node.inputs)
                trailing = not any(u in group for u in node.users)
                if leading or trailing:
                    self.homes.leave(group, node)
                    changed = True

    def _drop_dead_copies(self) -> None:
        self.groups = [g for g in self.groups if g.members]


# Operators whose operands are read in branches, where nothing is evaluated by vectors.
GUARDED = ("relax.concat", "relax.nn.pad", "relax.one_hot", "relax.tril", "relax.triu")


def _kind_of(node: Node) -> str:
    """What a refusal calls an operator that has no place in a group."""
    return "a call" if node.cls is None else f"{node.op} ({node.cls.name.lower()})"


def _column_range(node: Node) -> tuple[int, int] | None:
    """[begin, end) of a slice of literal bounds along the last axis, else None."""
    if node.op != "relax.strided_slice":
        return None
    axes, begin, end, *steps = ([static_dim(p) for p in part] for part in node.prims)
    last = len(node.shape) - 1
    if axes not in ([last], [-1]) or steps not in ([], [[1]]):
        return None
    width = static_dim(node.shape[-1])
    if begin[0] is None or end[0] is None or begin[0] < 0 or end[0] - begin[0] != width:
        return None
    return begin[0], end[0]


def _is_stored(node: Node) -> bool:
    """Whether something other than a kernel reads ``node``, also through index maps."""
    if node.is_output or any(u.row is None for u in node.users):
        return True
    maps = [u for u in node.users if u.cls is OpClass.VIEW or u.op == "relax.permute_dims"]
    return any(_is_stored(u) for u in maps)


def _gathers_rows(node: Node) -> bool:
    """A ``take`` along an axis before the last: neighbours of a row stay neighbours."""
    if node.op != "relax.take" or node.attrs["axis"] is None:
        return False
    rank = len(node.inputs[0].shape)
    return bool(node.attrs["axis"] % rank < rank - 1)


_ARG = ("relax.argmax", "relax.argmin")


def _picks_by(user: Node, node: Node) -> bool:
    return user.op == "relax.take" and user.inputs[1] is node


ROW_REDUCTIONS = ("relax.sum", "relax.mean", "relax.max", "relax.min", "relax.prod", *_ARG)
