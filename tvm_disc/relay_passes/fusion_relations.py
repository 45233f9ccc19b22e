"""Relations between nodes and groups that fusion requires: shapes, costs and cycles."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.relay_passes.fusion_groups import GroupPlan, Homes
from tvm_disc.shape import Solver
from tvm_disc.typing import Expr

# Maximum cost, in plain operations, of the redundant evaluation of an inlined producer.
CHEAP_COST = 3


class Relations:
    """The groups so far, and the relations between them that the solver can prove."""

    def __init__(self, solver: Solver) -> None:
        self.solver = solver
        self.homes = Homes()
        self.groups: list[GroupPlan] = []

    def domain(self, group: GroupPlan) -> Sequence[Expr]:
        """Return the dims that a group's loops iterate over."""
        if group.kind in ("row", "reduce"):
            return group.anchor.inputs[0].shape
        return group.anchor.shape

    def within(self, domain: Sequence[object], shape: Sequence[object]) -> bool:
        """Return whether ``domain`` provably has no more elements than ``shape``.

        Leading dims that only ``shape`` has are assumed to be at least 1.
        """
        if self.solver.known_same_elements(list(domain), list(shape)):
            return True
        if len(domain) > len(shape):
            return False
        tail = list(shape)[len(shape) - len(domain) :]
        return all(self.solver.known_le(d, s) for d, s in zip(domain, tail, strict=True))

    def total_cost(self, node: Node) -> int:
        """Return the operations per element to compute a node from stored values.

        Counting stops above ``CHEAP_COST``.
        """
        total, work = 0, [node]
        while work and total <= CHEAP_COST:
            n = work.pop()
            if n.row is None or (n in self.homes and n is not node):
                continue
            if gathers_rows(n):
                # The index is computed once for a run of adjacent elements.
                total, work = total + 1, [*work, n.inputs[0]]
                continue
            total += n.row.cost if n.cls is not OpClass.VIEW else 0
            work.extend(n.inputs)
        return total

    def equal(self, a: Sequence[object], b: Sequence[object]) -> bool:
        """Return whether two shapes are proved equal."""
        return len(a) == len(b) and all(
            bool(self.solver.known_eq(x, y)) for x, y in zip(a, b, strict=True)
        )

    def same_shape(self, a: Node, b: Node) -> bool:
        """Return whether two nodes provably have the same shape."""
        return self.equal(a.shape, b.shape)

    def cycle_with(self, group: GroupPlan, node: Node) -> Node | None:
        """Return a node of an external kernel that would both read the group with ``node`` and
        feed it, or None.
        """
        return self.on_cycle(set(group.members) | {node})

    def on_cycle(self, joint: Collection[Node]) -> Node | None:
        """Return a node that reads ``joint``, in a kernel outside that would also feed it, or None.

        The backward walk continues from every node of a kernel that it reaches. It may therefore
        stop only before the first node of every kernel that has a node after the start of
        ``joint``.
        """
        lowest = min(n.index for n in joint)
        spans = (g.span for g in self.groups if g.members and g.span[1] >= lowest)
        floor = min((lo for lo, _ in spans), default=lowest)
        work = [x for m in joint for x in (*m.inputs, *m.after) if x not in joint]
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
                for x in (*f.inputs, *f.after):
                    if x in fellows:
                        continue
                    if x in joint:
                        return f
                    work.append(x)
        return None


# Operators whose operands are loaded conditionally, which prevents vectorization.
GUARDED = ("relax.concat", "relax.nn.pad", "relax.one_hot", "relax.tril", "relax.triu")


def kind_of(node: Node) -> str:
    """Return the term by which refusals name an operator that cannot join a group."""
    return "a call" if node.cls is None else node.op.removeprefix("relax.")


def column_range(node: Node) -> tuple[int, int] | None:
    """Return [begin, end) of a slice with literal bounds along the last axis, else None."""
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


def is_stored(node: Node) -> bool:
    """Return whether ``node`` must be stored: it is a result, or a reader is not a kernel.

    Readers of an index map or of an element-wise function of ``node`` alone are considered, too.
    """
    if node.is_output or any(u.row is None for u in node.users):
        return True
    return any(is_stored(u) for u in node.users if _only_changes(u))


def _only_changes(node: Node) -> bool:
    if node.cls is OpClass.ELEMWISE:
        return sum(x.op != "const" for x in node.inputs) == 1
    return node.cls is OpClass.VIEW or node.op == "relax.permute_dims"


def gathers_rows(node: Node) -> bool:
    """Return whether a node is a ``take`` along an axis other than the last, which copies
    contiguous rows.
    """
    if node.op != "relax.take" or node.attrs["axis"] is None:
        return False
    rank = len(node.inputs[0].shape)
    return bool(node.attrs["axis"] % rank < rank - 1)


def picks_by(user: Node, node: Node) -> bool:
    """Return whether ``user`` gathers rows at the indices that ``node`` computes."""
    return user.op == "relax.take" and user.inputs[1] is node
