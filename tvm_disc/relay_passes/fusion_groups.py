"""Elements of a fusion plan: groups of nodes, and the values that each group outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tvm_disc.errors import WhyNot
from tvm_disc.graph.attention import Attention
from tvm_disc.graph.nodes import Node


@dataclass(eq=False)
class GroupPlan:
    """A set of nodes that become one kernel.

    Invariant: contracting every group to a point leaves the graph acyclic.

    Attributes:
        frame: for the anchor and the nodes of its epilogue, the index in ``frames`` of the index
            map.
        frames: (order of the elements, shape) of each index map; the first is the anchor's.
        span: positions of the first and the last member, including members that have left.
        attention: the parts of the attention, if the group is one.
        merged: anchors of the groups that were merged into this one.
    """

    kind: str
    anchor: Node
    members: dict[Node, None] = field(default_factory=dict)
    frame: dict[Node, int] = field(default_factory=dict)
    frames: list[tuple[object, Sequence[object]]] = field(default_factory=list)
    span: tuple[int, int] = (0, 0)
    attention: Attention | None = None
    merged: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.frames.append(((), self.anchor.shape))

    def __contains__(self, node: Node) -> bool:
        return node in self.members

    def add(self, node: Node) -> None:
        """Add a member."""
        at = node.index
        self.span = (min(self.span[0], at), max(self.span[1], at)) if self.members else (at, at)
        self.members[node] = None

    def nodes(self) -> list[Node]:
        """Return the members in program order.

        The members of an attention are sorted by its structure alone: several attentions may
        recompute one mask, which is at different positions relative to their other members, and
        their functions must still be equal.
        """
        ordered = sorted(self.members, key=lambda n: n.index)
        return _operands_first(ordered) if self.attention else ordered

    def operands(self) -> list[Node]:
        """Return the external values that the group reads, in order of first use."""
        found = (x for n in self.nodes() for x in n.inputs if x not in self.members)
        return list(dict.fromkeys(x for x in found if not x.is_scalar_const))


def _operands_first(members: Sequence[Node]) -> list[Node]:
    """Return the members in post-order from the last one."""
    inside, result = set(members), dict[Node, None]()

    def visit(node: Node) -> None:
        for x in node.inputs:
            if x in inside and x not in result:
                visit(x)
        result[node] = None

    for node in reversed(members):
        if node not in result:
            visit(node)
    return list(result)


class Homes:
    """Map from each node to the groups that contain it: several if its readers recompute it."""

    def __init__(self) -> None:
        self._of: dict[Node, list[GroupPlan]] = {}

    def __contains__(self, node: Node) -> bool:
        return node in self._of

    def __getitem__(self, node: Node) -> Sequence[GroupPlan]:
        return self._of.get(node, ())

    def __iter__(self) -> Iterator[Node]:
        return iter(self._of)

    def join(self, group: GroupPlan, node: Node) -> None:
        """Add ``node`` to a group."""
        if node not in group:
            group.add(node)
            self._of.setdefault(node, []).append(group)

    def recompute(self, group: GroupPlan, node: Node) -> None:
        """Add ``node`` to a group that recomputes it; the group that owns ``node`` does not
        change.
        """
        if node not in group:
            group.add(node)
            self._of.setdefault(node, []).insert(0, group)

    def leave(self, group: GroupPlan, node: Node) -> None:
        """Undo :meth:`join`."""
        del group.members[node]
        self._of[node].remove(group)
        if not self._of[node]:
            del self._of[node]

    def owner(self, node: Node) -> GroupPlan | None:
        """Return the group that owns ``node``; None if no group contains it.

        If another group reads ``node``, the owner stores it.
        """
        groups = self._of.get(node)
        return groups[-1] if groups else None

    def is_read_outside(self, node: Node) -> bool:
        """Return whether ``node`` is read outside of the groups that contain it."""
        return node.is_output or any(
            not self[user] or any(node not in g for g in self[user]) for user in node.users
        )


@dataclass
class FusionPlan:
    """The groups of one sequence, in program order, and the refused fusions with reasons."""

    groups: list[GroupPlan]
    refused: list[WhyNot]
    homes: Homes = field(default_factory=Homes)

    def outputs(self, group: GroupPlan) -> list[Node]:
        """Return the members that are outputs of the group."""
        homes = self.homes
        return [n for n in group.nodes() if homes.owner(n) is group and homes.is_read_outside(n)]
