"""Convert values between their forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm import relax
from tvm.relax import op as R

from tvm_disc.graph.nodes import Node, is_one
from tvm_disc.relay.importer.context import reshape_call
from tvm_disc.relay.kernel_ops import PACK, UNPACK, kernel_call, ragged_call
from tvm_disc.relay_passes.ragged.forms import (
    MERGED,
    Dense,
    Form,
    Packed,
    Padded,
    RaggedDim,
    RaggedDims,
)
from tvm_disc.relay_passes.rewrite import Sequence_, operand_expr
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr

_ONE = i64(1)


class Values:
    """Emits values of a ragged program, and their conversions.

    Attributes:
        refused: matmul -> why it is not part of an attention.
        taps: the rows that convolutions and pooling read, see ``windows.py``.
    """

    def __init__(self, out: Sequence_, dims: RaggedDims, refused: Mapping[Node, str]) -> None:
        self.out, self.dims, self.refused = out, dims, refused
        self.taps: dict[tuple[RaggedDim, RaggedDim, int, int], tuple[Node, Node]] = {}

    def emit(self, call: Expr, shape: Sequence[Expr], like: Node) -> Node:
        """Bind a call with the dtype and the name of ``like``."""
        return self.out.emit(call, list(shape), like.dtype, like)

    def attention_reason(self, node: Node) -> str:
        """Return why a product of two values of an item is refused outside of an attention."""
        reason = self.refused.get(node)
        why = "" if reason is None else f": {reason}"
        return f"a matmul of two ragged values must be part of an attention{why}"

    # -- positions -----------------------------------------------------------------------------

    def items(self, dim: RaggedDim) -> Node:
        """Return for every row the index of its item, int64 ``[t]``."""
        return self._of_rows(dim, positions=False)

    def positions(self, dim: RaggedDim) -> Node:
        """Return the position of every row in its item, int64 ``[t]``."""
        return self._of_rows(dim, positions=True)

    def _of_rows(self, dim: RaggedDim, positions: bool) -> Node:
        name = "positions" if positions else "items"
        if name not in dim.made:
            # This operand makes the kernel depend on the size, which is read after the checks of
            # the offsets.
            operands = [operand_expr(dim.offsets), relax.ShapeExpr([dim.size])]
            call = kernel_call("disc.items", operands, [dim.rows], "int64", positions=positions)
            dim.made[name] = self.out.emit(call, [dim.rows], "int64")
        return dim.made[name]

    # -- packed --------------------------------------------------------------------------------

    def operand(
        self, form: Form, x: Node, shape: Sequence[Expr], dim: RaggedDim, at: tuple[int, int]
    ) -> Node | None:
        """Return operand ``x`` of an element-wise operator with a packed result of ``shape``.

        Returns None if the operand does not have the lengths of ``dim``.
        """
        if x.is_scalar_const:
            return x
        more = len(shape) - len(x.shape)
        if isinstance(form, Packed):
            moved = form.at if form.at[1] == MERGED else tuple(a + more for a in form.at)
            return form.node if form.dim is dim and moved == at else None
        if not isinstance(form, Dense):
            return None
        aligned = [_ONE] * more + list(x.shape)
        return self._rows(form.node, aligned, dim, at)

    def whole(self, form: Form, x: Node, dim: RaggedDim, at: tuple[int, int]) -> Node | None:
        """Return the packed value of ``x``, which has b and s at ``at``, or None."""
        if isinstance(form, Packed):
            return form.node if form.dim is dim and form.at == at else None
        return self._rows(form.node, list(x.shape), dim, at)

    def _rows(
        self, node: Node, shape: list[Expr], dim: RaggedDim, at: tuple[int, int]
    ) -> Node | None:
        """Return a dense value, broadcast to ``shape``, with one row per packed row, or None."""
        if at[1] == MERGED:
            return node if not shape or is_one(shape[0]) else None
        items, size = shape[at[0]], shape[at[1]]
        rest = [d for k, d in enumerate(shape) if k not in at]
        if is_one(items) and is_one(size):
            return self.shaped(node, [_ONE, *rest] if len(node.shape) > len(rest) else rest)
        order = [*at, *(k for k in range(len(shape)) if k not in at)]
        moved = self.permuted(self.shaped(node, shape), order)
        if is_one(items) and self.dims.solver.known_eq(size, dim.size):
            return self._picked(moved, [size, *rest], self.positions(dim), dim)
        if is_one(size) and self.dims.solver.known_eq(items, dim.items):
            return self._picked(moved, [items, *rest], self.items(dim), dim)
        if self.dims.solver.known_eq(items, dim.items) and self.dims.solver.known_eq(
            size, dim.size
        ):
            flat = self._flat(dim)
            return self._picked(moved, [items * size, *rest], flat, dim)
        return None

    def _flat(self, dim: RaggedDim) -> Node:
        """Return for every packed row its index among the ``b * s`` padded rows, int64 ``[t]``."""
        if "flat" not in dim.made:
            rows = [dim.rows]
            length = self.out.emit(R.shape_to_tensor(relax.ShapeExpr([dim.size])), [_ONE], "int64")
            items = operand_expr(self.items(dim))
            begin = self.out.emit(R.multiply(items, operand_expr(length)), rows, "int64")
            call = R.add(operand_expr(begin), operand_expr(self.positions(dim)))
            dim.made["flat"] = self.out.emit(call, rows, "int64")
        return dim.made["flat"]

    def _picked(self, node: Node, shape: list[Expr], picks: Node, dim: RaggedDim) -> Node:
        table = self.shaped(node, shape)
        call = R.take(operand_expr(table), operand_expr(picks), 0, "clip")
        return self.emit(call, [dim.rows, *shape[1:]], node)

    def shaped(self, node: Node, shape: list[Expr]) -> Node:
        """Return the value reshaped to ``shape``, or unchanged if it has this shape."""
        same = len(node.shape) == len(shape) and all(
            a.same_as(b) for a, b in zip(node.shape, shape, strict=True)
        )
        return node if same else self.emit(reshape_call(operand_expr(node), shape), shape, node)

    def permuted(self, node: Node, order: Sequence[int]) -> Node:
        """Return the value with its axes permuted to ``order``."""
        if list(order) == list(range(len(order))):
            return node
        shape = [node.shape[k] for k in order]
        return self.emit(R.permute_dims(operand_expr(node), list(order)), shape, node)

    # -- padded --------------------------------------------------------------------------------

    def padded(self, form: Form, x: Node) -> Node:
        """Return the value of the model's node ``x``, padded to the shape of ``x``."""
        if not isinstance(form, Packed):
            return form.node
        dim, stored = form.dim, form.node
        shape, at = list(x.shape), form.at
        if at[1] == MERGED:
            shape, at = [dim.items, dim.size, *stored.shape[1:]], (0, 1)
            factor = self.dims.factor(x.shape[0], dim)
            assert factor is not None
            if not is_one(factor):
                shape = [*shape[:2], factor, *shape[2:]]
                stored = self.shaped(stored, [dim.rows, *shape[2:]])
        order = [*at, *(k for k in range(len(shape)) if k not in at)]
        dims = [shape[k] for k in order]
        offsets = operand_expr(dim.offsets)
        call = ragged_call(UNPACK, operand_expr(stored), offsets, dims, stored.dtype)
        back = [order.index(k) for k in range(len(order))]
        made = self.permuted(self.emit(call, dims, stored), back)
        return self.shaped(made, list(x.shape))

    def settled(self, form: Padded) -> Form:
        """Return the result of an attention in packed form if its shape allows it, else
        ``form``.
        """
        node = form.node
        place = self.dims.place(node.shape) if form.result else None
        if place is None or place[1][1] == MERGED:
            return form
        dim, at = place
        order = [*at, *(k for k in range(len(node.shape)) if k not in at)]
        moved = self.permuted(node, order)
        stored = self.dims.stored(node.shape, dim, at)
        offsets = operand_expr(dim.offsets)
        call = ragged_call(PACK, operand_expr(moved), offsets, stored, node.dtype)
        return Packed(self.emit(call, stored, node), dim, at)


__all__ = ["Values"]
