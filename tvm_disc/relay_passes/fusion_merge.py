"""Merge finished groups: kernels over one domain become one kernel with several outputs.

    siblings      the groups read the same tensor, which is then loaded once
    consumers     one group reads the other's result, which is then not loaded again
    independent   the groups share only the domain: one launch, not two (horizontal fusion)

A merge is refused if it could be slower: too many streams for caches and prefetchers, a loop order
that suits only one of the kernels, or a member that prevents vectorization. A value that is
cheaper to compute than to load is not stored: its readers recompute it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_disc.errors import WhyNot
from tvm_disc.graph.axes import permutation, reduced_axes
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, is_one
from tvm_disc.relay_passes.fusion_groups import GroupPlan
from tvm_disc.relay_passes.fusion_relations import CHEAP_COST, GUARDED, Relations
from tvm_disc.shape.printing import show_shape

MAX_GROUP_NODES = 96
# Maximum number of tensors that one loop reads and writes. Merging related groups saves loads,
# merging independent groups saves only a launch.
RELATED_STREAMS, STREAMS = 16, 8
WINDOW = 12  # candidates per group; the limit makes planning linear in the number of groups


def merge_groups(plan: Relations, refused: list[WhyNot]) -> None:
    """Merge groups where it is beneficial, then recompute cheap values in their readers."""
    _Merger(plan, refused).run()


class _Merger:
    def __init__(self, plan: Relations, refused: list[WhyNot]) -> None:
        self.plan, self.refused = plan, refused
        self.domains: dict[GroupPlan, Sequence[object]] = {}

    def run(self) -> None:
        done: list[GroupPlan] = []
        ordered = [g for g in self.plan.groups if g.members and g.kind in ("row", "loop")]
        for group in sorted(ordered, key=lambda g: g.span):
            into = next((g for g in done[: -WINDOW - 1 : -1] if self._may_merge(g, group)), None)
            if into is None:
                done.append(group)
                continue
            target, other = (group, into) if group.kind == "row" else (into, group)
            if target is group:
                done[done.index(into)] = group
            target.merged += [other.anchor, *other.merged]
            for node in other.nodes():
                self.plan.homes.join(target, node)
                self.plan.homes.leave(other, node)
        for group in self.plan.groups:
            for node in group.nodes():
                self._share_out(group, node)

    # -- pairs ---------------------------------------------------------------------------------

    def _may_merge(self, a: GroupPlan, b: GroupPlan) -> bool:
        related = self._related(a, b)
        if not related and (a.kind == "row" or b.kind == "row"):
            return False
        reason = self._reason(a, b, related)
        if reason is not None and related:
            self.refused.append(WhyNot(f"{b.anchor.label} with {a.anchor.label}", reason))
        return reason is None

    def _related(self, a: GroupPlan, b: GroupPlan) -> bool:
        """Return whether the groups share a tensor that has as many elements as the domain, or
        one group reads a result of the other.
        """
        ours, theirs = a.operands(), b.operands()
        shared = set(ours) & set(theirs)
        domain = list(self.plan.domain(a))
        return (
            any(self.plan.solver.known_same_elements(list(x.shape), domain) for x in shared)
            or any(x in b for x in ours)
            or any(x in a for x in theirs)
        )

    def _reason(self, a: GroupPlan, b: GroupPlan, related: bool) -> str | None:
        plan = self.plan
        if not plan.equal(plan.domain(a), plan.domain(b)):
            ours, theirs = (show_shape(plan.domain(g)) for g in (a, b))
            return f"iteration spaces {ours} and {theirs} are not proved equal"
        if a.kind == b.kind == "row" and reduced_axes(a.anchor) != reduced_axes(b.anchor):
            first, second = (list(reduced_axes(g.anchor)) for g in (b, a))
            return f"they reduce different axes: {first} and {second}"
        if len(a.members) + len(b.members) > MAX_GROUP_NODES:
            count = len(a.members) + len(b.members)
            return f"one kernel would have {count} operators; the limit is {MAX_GROUP_NODES}"
        if not (self._reads_in_place(a, b) and self._reads_in_place(b, a)):
            return "one reads elements of the other's result that another iteration computes"
        if any(_moves_last(n) for g in (a, b) for n in g.members):
            return "one transposes the last axis, so that one loop order suits only one of them"
        if _is_guarded(a) != _is_guarded(b):
            return "one of them loads conditionally and cannot be vectorized; the other can"
        most = RELATED_STREAMS if related else STREAMS
        if (count := self._streams(a, b)) > most:
            return f"one loop would access {count} tensors; the limit is {most}"
        if between := plan.on_cycle({**a.members, **b.members}.keys()):
            return f"{between.label}, in another kernel, reads one and feeds the other"
        return None

    def _reads_in_place(self, reader: GroupPlan, source: GroupPlan) -> bool:
        """Return whether ``reader`` reads values of ``source`` only at the current position, by
        element-wise operators and reductions.
        """
        domain = self.plan.domain(reader)
        for x in reader.operands():
            if x not in source:
                continue
            if source.kind == "row" or not self.plan.equal(x.shape, domain):
                return False
            for user in (u for u in x.users if u in reader):
                in_place = user.cls is OpClass.ELEMWISE and self.plan.equal(user.shape, domain)
                if not in_place and user.cls is not OpClass.REDUCE:
                    return False
        return True

    def _streams(self, a: GroupPlan, b: GroupPlan) -> int:
        domain = list(self.plan.domain(a))
        read = {x for x in (*a.operands(), *b.operands()) if x not in a and x not in b}
        large = [x for x in read if self.plan.solver.known_same_elements(list(x.shape), domain)]
        written = [n for g in (a, b) for n in g.members if self.plan.homes.is_read_outside(n)]
        return len(large) + len(written)

    # -- cheap values --------------------------------------------------------------------------

    def _share_out(self, group: GroupPlan, node: Node) -> None:
        """Add a cheap value to every group that reads it, so that it is never stored."""
        homes = self.plan.homes
        if node.is_output or homes.owner(node) is not group or not homes.is_read_outside(node):
            return
        readers: dict[GroupPlan, None] = {}
        for user in node.users:
            if not homes[user]:
                return
            readers.update({g: None for g in homes[user] if node not in g})
        if any(g.kind not in ("loop", "row", "reduce") for g in readers):
            return
        chain = self._cheap_chain(group, node)
        for reader in readers if chain is not None else ():
            for n in chain or ():
                homes.recompute(reader, n)

    def _cheap_chain(self, group: GroupPlan, node: Node) -> list[Node] | None:
        """Return ``node`` and the nodes of ``group`` that it is computed from; None if they are
        not all element-wise operators and views, or if loading ``node`` is cheaper.
        """
        chain: dict[Node, None] = {}
        leaves: dict[Node, None] = {}
        cost, work = 0, [node]
        while work:
            n = work.pop()
            if n not in group:
                leaves[n] = None
                continue
            if n in chain:
                continue
            if n.cls not in (OpClass.ELEMWISE, OpClass.VIEW) or n.row is None:
                return None
            chain[n] = None
            cost += n.row.cost if n.cls is OpClass.ELEMWISE else 0
            work.extend(n.inputs)
        same = self.plan.solver.known_same_elements
        large = [x for x in leaves if same(list(x.shape), list(node.shape))]
        return list(chain) if cost <= CHEAP_COST and len(large) <= 1 else None


def _moves_last(node: Node) -> bool:
    if node.op != "relax.permute_dims":
        return False
    axes = permutation(node)
    wide = [k for k, d in enumerate(node.shape) if not is_one(d)]
    return bool(wide) and axes[wide[-1]] != max(axes[k] for k in wide)


def _is_guarded(group: GroupPlan) -> bool:
    return any(n.op in GUARDED for n in group.members)
