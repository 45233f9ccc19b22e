"""Plan fusion: groups grow around anchors, and every refusal has a reason.

Fusion requires relations between shapes, never values (DISC, EuroMLSys'21, section 4.2): whether
two shapes are equal, have the same number of elements, or differ by a broadcast. The passes run in
order of priority: contractions take their element-wise consumers, row reductions take all operators
on the same rows, the rest becomes loops, and index maps are merged into their readers.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_disc.errors import WhyNot
from tvm_disc.graph.attention import feeds_scores, find_attention, is_lanewise
from tvm_disc.graph.axes import is_contiguous, permutation, reduced_axes
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import BYTES, Node, is_one, widened_from, zero_point
from tvm_disc.relay.kernel_ops import PACK, UNPACK
from tvm_disc.relay_passes.fusion_groups import FusionPlan, GroupPlan
from tvm_disc.relay_passes.fusion_merge import MAX_GROUP_NODES, merge_groups
from tvm_disc.relay_passes.fusion_relations import (
    CHEAP_COST,
    GUARDED,
    Relations,
    column_range,
    is_stored,
    kind_of,
    picks_by,
)
from tvm_disc.shape import Solver
from tvm_disc.shape.printing import show_shape
from tvm_disc.typing import Expr


def plan_fusion(nodes: Sequence[Node], solver: Solver, enabled: bool = True) -> FusionPlan:
    """Return a plan for ``nodes``, which are in program order and have their users linked."""
    return _Planner(nodes, solver, enabled).run()


class _Planner(Relations):
    def __init__(self, nodes: Sequence[Node], solver: Solver, enabled: bool) -> None:
        super().__init__(solver)
        self.nodes, self.enabled = list(nodes), enabled
        self.refused: list[WhyNot] = []
        self.attempts: dict[int, tuple[Node, Node]] = {}

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
        if self.enabled:
            merge_groups(self, self.refused)
        refused = [why for why in self.refused if self._lasting(why)]
        plan = FusionPlan([g for g in self.groups if g.members], refused, self.homes)
        plan.groups.sort(key=lambda g: max(n.index for n in g.members))
        for group in plan.groups[::-1]:
            if not plan.outputs(group):  # every reader recomputes the members
                for node in group.nodes():
                    self.homes.leave(group, node)
                plan.groups.remove(group)
        return plan

    def _open(self, kind: str, anchor: Node) -> GroupPlan:
        group = GroupPlan(kind, anchor)
        self.groups.append(group)
        self._join(group, anchor)
        return group

    def _join(self, group: GroupPlan, node: Node) -> None:
        self.homes.join(group, node)

    def _refuse(self, node: Node, group: GroupPlan, reason: str) -> None:
        why = WhyNot(f"{node.label} into {group.anchor.label}", reason)
        self.refused.append(why)
        self.attempts[id(why)] = (node, group.anchor)

    def _lasting(self, why: WhyNot) -> bool:
        """Return whether a refusal is final; False if the node has joined the group since then."""
        node, anchor = self.attempts.get(id(why), (None, None))
        return node is None or anchor is None or not any(anchor in g for g in self.homes[node])

    # -- attention -----------------------------------------------------------------------------

    def _attention(self, node: Node) -> None:
        """Open a group for the attention that contains a matmul, if there is one.

        Nothing outside reads an intermediate result, so the group cannot be part of a cycle.
        """
        found = find_attention(node, self.solver)
        if found is None:
            return
        if not isinstance(found, WhyNot):
            taken = next((n for n in found.nodes() if n in self.homes), None)
            if taken is not None:
                reason = f"{taken.label} is part of another attention"
                found = WhyNot(f"{node.label} as attention", reason)
        if isinstance(found, WhyNot):
            self.refused.append(found)
        else:
            group = self._open("attention", node)
            group.attention = found
            for part in found.nodes():
                self._join(group, part)
            group.frame[node] = 0
            self._grow_epilogue(group)

    def _attention_operand_reason(self, group: GroupPlan, node: Node) -> str | None:
        """Return why an attention cannot compute an operand, or None.

        Kernels evaluate operands in vectors: Q, K and V once, and a mask once per head.
        """
        assert group.attention is not None
        masks = feeds_scores(group.attention, node, lambda n: n in group)
        if node.cls is OpClass.VIEW or self._pure_move(node):
            if masks and node.op == "relax.permute_dims" and not self._keeps_last(node):
                return "adjacent keys would not be contiguous in memory"
            return None
        if not is_lanewise(node):
            return "it cannot be vectorized"
        if masks and self.total_cost(node) > CHEAP_COST:
            return "every head would recompute it"
        return None

    def _is_expanded(self, node: Node, homes: Sequence[GroupPlan]) -> bool:
        """Return whether attentions read fewer elements if they compute ``node`` themselves."""
        if any(g.kind != "attention" for g in homes) or self.total_cost(node) > CHEAP_COST:
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
            self._round_rows(group)
            self._read_bytes(group)
            self._grow_epilogue(group)

    def _round_rows(self, group: GroupPlan) -> None:
        """Add to a matmul the rounding of its rows to int8, and the dequantization of its weights.

        The matmul rounds the rows while it packs them.
        """
        if group.kind != "dot":
            return
        rows, weights = group.anchor.inputs
        if rows.row is None or not rows.row.rounds or rows.is_output or weights.is_output:
            return
        products = {*rows.users, *weights.users}
        if all(
            n.cls is OpClass.DOT
            and _expands(n.inputs[1])
            and n.inputs[0] is not weights
            and n.inputs[1] is not rows
            for n in products
        ):
            self._join(group, rows)
            self._join(group, weights)

    def _read_bytes(self, group: GroupPlan) -> None:
        """Fuse the cast and zero-point subtraction of the data, so that the kernel reads bytes."""
        centred = group.anchor.inputs[0]
        if group.anchor.weighted and _only_convolved(centred):
            wide = centred.inputs[0]
            if not wide.is_output and all(map(_only_convolved, wide.users)):
                self._join(group, centred)
                self._join(group, wide)

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
            # A view keeps the element order, so views of one value with equal shapes share an index
            # map.
            group.frame[node] = self._frame(group, group.frames[frame][0], node.shape)
            return None
        if node.op == "relax.permute_dims":
            if not self._keeps_last(node):
                return "it transposes the last axis, so the kernel's stores would be strided"
            order = ("permute", frame, permutation(node))
            group.frame[node] = self._frame(group, order, node.shape)
            return None
        if node.op == PACK:
            if group.kind != "attention":
                return "only an attention kernel can store the rows of a ragged batch item by item"
            group.frame[node] = self._frame(group, ("pack", frame), node.shape)
            return None
        if node.op == "relax.strided_slice":
            return self._part_reason(group, node, frame)
        if node.cls is not OpClass.ELEMWISE:
            return f"{kind_of(node)} cannot be fused as an epilogue: it is not element-wise"
        if self._widened_elsewhere(group, node):
            return f"the kernels that read its result cast {node.inputs[0].dtype} themselves"
        if len({group.frame[x] for x in inside}) != 1:
            return "its operands order their elements differently"
        if not all(self.same_shape(x, node) for x in inside):
            return f"it broadcasts the kernel's result to the shape {show_shape(node.shape)}"
        if between := self.cycle_with(group, node):
            return (
                f"fusing would create a cycle: {between.label} reads a result of this kernel, and "
                f"another operand of {kind_of(node)} depends on {kind_of(between)}"
            )
        group.frame[node] = frame
        return None

    def _widened_elsewhere(self, group: GroupPlan, node: Node) -> bool:
        """Return whether a cast from bytes is left to its readers.

        This holds if every reader is in a later kernel, which can read the bytes and cast them.
        """
        if node.op != "relax.astype" or node.inputs[0].dtype not in BYTES:
            return False
        chain, ends = [node], set[tuple[Node, Node]]()
        for n in chain:
            for user in n.users:
                if widened_from(user):
                    chain.append(user)
                else:
                    ends.add((user, n))
        if not ends or any(n.is_output for n in chain):
            return False

        def follows(x: Node) -> bool:
            source = widened_from(x) or x
            return x not in chain and x not in group and source.index > group.anchor.index

        def elsewhere(user: Node, n: Node) -> bool:
            if user.weighted:
                return user.inputs[0] is n and zero_point(n) is not None
            return user.cls is OpClass.ELEMWISE and any(map(follows, user.inputs))

        return all(elsewhere(*end) for end in ends)

    def _frame(self, group: GroupPlan, order: object, shape: Sequence[object]) -> int:
        for k, (known, dims) in enumerate(group.frames):
            if known == order and self.equal(dims, shape):
                return k
        group.frames.append((order, shape))
        return len(group.frames) - 1

    def _part_reason(self, group: GroupPlan, node: Node, frame: int) -> str | None:
        """Return why a slice cannot be stored by the matmul's epilogue, or None.

        The result of a matmul is stored in slices if every reader takes a slice and at least one
        slice must be stored. Otherwise the slices become index maps of their readers.
        """
        whole = node.inputs[0]
        if group.kind != "dot" or not self.equal(whole.shape[-1:], group.anchor.shape[-1:]):
            return "the kernels that read the slice compute it"
        if whole.is_output or not all(column_range(u) for u in whole.users):
            return "another operator reads the whole product, not a slice of columns"
        if not any(is_stored(u) for u in whole.users):
            return "the kernels that read the slices compute them"
        order = ("part", frame, column_range(node))
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
        """Add the element-wise consumers of a reduction that is not row-wise."""
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
            # A refused node may be accepted after another node has joined the group.
            seen -= {n for n in again if n not in self.homes}

    def _row_reason(
        self, group: GroupPlan, node: Node, domain: Sequence[Expr], axes: Sequence[int]
    ) -> str | None:
        if len(group.members) >= MAX_GROUP_NODES:
            return f"the kernel already has {MAX_GROUP_NODES} operators, which is the limit"
        if node.cls is OpClass.REDUCE:
            if node.op not in ROW_REDUCTIONS:
                return f"{kind_of(node)} is not a reduction that row kernels compute"
            shape, found = node.inputs[0].shape, list(reduced_axes(node))
            if not self.equal(shape, domain):
                other = show_shape(domain)
                return (
                    f"it reduces a value of shape {show_shape(shape)}, which is not proved equal "
                    f"to {other}, the shape that this kernel reduces"
                )
            if found != list(axes):
                return f"it reduces the axes {found}; this kernel reduces {list(axes)}"
        elif node.cls is OpClass.ELEMWISE:
            if not self.equal(node.shape, domain) and not self._is_row_value(node, domain, axes):
                rows, own = show_shape(domain), show_shape(node.shape)
                return (
                    f"its shape {own} is not proved to be {rows}, which this kernel reduces, or "
                    "one value per row"
                )
            if any(x in group and not self._aligned(x, node, domain, axes) for x in node.inputs):
                return "an iteration would read values of other rows, which are not computed yet"
        elif node.cls is OpClass.VIEW:
            if not (self._is_row_value(node, domain, axes) and node.inputs[0] in group):
                own = show_shape(node.shape)
                return (
                    "a row kernel can contain a view only of its own values, to one value per row; "
                    f"this view has shape {own}"
                )
        else:
            return f"{kind_of(node)} is neither element-wise nor a reduction along the rows"
        if node.cls is OpClass.VIEW and not self._row_view(node, domain, axes):
            return "its operand does not have exactly one value per row"
        if between := self.cycle_with(group, node):
            return f"fusing would create a cycle through {between.label}, in another kernel"
        return None

    def _is_row_value(self, node: Node, domain: Sequence[Expr], axes: Sequence[int]) -> bool:
        """Return whether a node has one value per row of the domain.

        Its shape is then the domain with the reduced axes removed, or with size 1 in their place.
        """
        outer = [d for a, d in enumerate(domain) if a not in axes]
        kept = [1 if a in axes else d for a, d in enumerate(domain)]
        return self.equal(node.shape, outer) or self.equal(node.shape, kept)

    def _row_view(self, node: Node, domain: Sequence[Expr], axes: Sequence[int]) -> bool:
        return self._is_row_value(node.inputs[0], domain, axes)

    def _aligned(
        self, source: Node, node: Node, domain: Sequence[object], axes: Sequence[int]
    ) -> bool:
        """Return whether ``source``, broadcast into ``node``, is read at the current row."""
        kept = [1 if a in axes else d for a, d in enumerate(domain)]
        outer = [d for a, d in enumerate(domain) if a not in axes]
        if self.equal(node.shape, domain):
            return self.equal(source.shape, domain) or self.equal(source.shape, kept)
        return self.equal(source.shape, node.shape) or (
            self.equal(source.shape, outer) and self.equal(node.shape, outer)
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
        """Return the groups that read ``node``, or None if anything else reads it."""
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
        """Add ``node`` to every group that reads it, unless this would slow down a reader.

        Returns whether ``node`` was added.
        """
        cost = node.row.cost if node.row is not None else 0
        free = cost <= 1 and not any(_is_computed(x) for x in node.inputs)
        again = free or node.cls is OpClass.VIEW or self._pure_move(node) or _expands(node)
        if len(homes) > 1 and not (again or widened_from(node) or self._is_expanded(node, homes)):
            stored = f"{len(homes)} kernels read it, so it is stored"
            self.refused.append(WhyNot(node.label, stored))
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
        moves = ("relax.permute_dims", "relax.broadcast_to", "relax.strided_slice", UNPACK)
        return node.op in moves

    def _inline_reason(self, group: GroupPlan, node: Node) -> str | None:
        if len(group.members) >= MAX_GROUP_NODES:
            return f"the kernel already has {MAX_GROUP_NODES} operators, which is the limit"
        if group.kind == "opaque":
            return f"{kind_of(group.anchor)} reads its operands from memory"
        movement = node.cls is OpClass.VIEW or self._pure_move(node)
        if group.kind == "dot" and _expands(node) and group.anchor.inputs[1] is node:
            return None
        tiled = group.kind in ("dot", "conv") and not movement
        if tiled and (widened_from(node) is None or self._is_operand(group, node)):
            return (
                f"an operand of a {kind_of(group.anchor)} kernel may only be a view, a "
                "permutation, a slice or a broadcast of one tensor"
            )
        if group.kind == "attention":
            return self._attention_operand_reason(group, node)
        if group.kind == "conv" and node.cls is not OpClass.VIEW and self._is_operand(group, node):
            return "a convolution reads its operands directly from memory"
        if movement:
            return None
        if self.within(self.domain(group), node.shape):
            return None
        if self.total_cost(node) <= CHEAP_COST:
            return None
        if self._varies_outside_only(group, node):
            return None
        guard = next((u for u in node.users if u in group and u.op in GUARDED), None)
        if guard is not None:
            return (
                f"{kind_of(guard)} would compute it under a condition, which prevents vectorization"
            )
        return "a broadcast would recompute it for every element"

    def _is_operand(self, group: GroupPlan, node: Node) -> bool:
        """Return whether the anchor reads ``node``, directly or through views and moves of
        elements.

        The subtraction of a zero point in front of a convolution is followed, too.
        """
        inside = [u for u in node.users if u in group]
        centred = group.anchor.inputs[0]
        less = (centred, centred.inputs[0]) if zero_point(centred) else ()
        moved = [u for u in inside if u.cls is OpClass.VIEW or self._pure_move(u) or u in less]
        return group.anchor in inside or any(self._is_operand(group, u) for u in moved)

    def _varies_outside_only(self, group: GroupPlan, node: Node) -> bool:
        """Return whether ``node`` has one value per inner loop and is computed once for it.

        The typical case is the indices of a gather along the leading dims.
        """
        domain = self.domain(group)
        shape = list(node.shape)
        return (
            len(shape) < len(domain)
            and self.equal(shape, domain[: len(shape)])
            and all(picks_by(u, node) or u in group for u in node.users)
            and not is_one(domain[-1])
        )

    def _trim_views(self, group: GroupPlan) -> None:
        """Remove views at the border of a group.

        Outside of a group a view costs nothing: it only changes the shape of a parameter or result.
        """
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


def _only_convolved(node: Node) -> bool:
    """Return whether a value is bytes minus a zero point, and only convolutions read it."""
    if zero_point(node) is None or node.is_output:
        return False
    return all(n.weighted and n.inputs[0] is node for n in node.users)


def _expands(node: Node) -> bool:
    """Return whether a node dequantizes weights; a matmul can do this while it reads them."""
    return node.row is not None and node.row.expands


def _is_computed(node: Node) -> bool:
    """Return whether a node is more than a view of an input."""
    while node.cls is OpClass.VIEW:
        node = node.inputs[0]
    return node.row is not None


_ARG = ("relax.argmax", "relax.argmin")


ROW_REDUCTIONS = ("relax.sum", "relax.mean", "relax.max", "relax.min", "relax.prod", *_ARG)
