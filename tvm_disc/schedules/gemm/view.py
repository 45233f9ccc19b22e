"""Index maps of a matmul: how its operands are read and where its elements are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import tvm
from tvm import tirx

from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, is_one, static_dim
from tvm_disc.schedules.conv.contraction import operand_index
from tvm_disc.schedules.gemm.integer import NumbersOfA
from tvm_disc.schedules.gemm.layouts import PanelsOfB, QuadsOfB, WordsOfB
from tvm_disc.schedules.gemm.partition import GIVEN, GemmSpec, Quantized
from tvm_disc.schedules.group import Body, Group
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver
from tvm_disc.target.dots import DOTS, QUAD
from tvm_disc.tir.builder import Block, i64, index_var
from tvm_disc.tir.index import IndexSpace, add, mul, product
from tvm_disc.typing import Expr, Size

if TYPE_CHECKING:
    from tvm_disc.schedules.packing import Packing

_ROLES = ("B", "B scale", "B zero")


class View(Protocol):
    """A matmul, or a convolution expressed as one, with its index maps.

    ``i`` counts rows of A, ``j`` columns of B, and ``g`` the items of the batch.
    """

    group: Group
    node: Node
    operands: ClassVar[tuple[str, str]]  # names of A and B in ``explain``

    @property
    def sizes(self) -> tuple[Size, Size, Size, Size]:
        """Return the sizes (batch, m, n, k)."""

    @property
    def row_stride(self) -> Size:
        """Return the row stride of the result in elements."""

    def index(self, low: Lowering, g: Expr, i: Expr, j: Expr) -> Sequence[Expr]:
        """Return the output index of element (g, i, j)."""

    def flat(self, g: Expr, i: Expr, j: Expr) -> Expr:
        """Return the row-major offset of element (g, i, j)."""

    def a_at(self, low: Lowering, g: Expr, i: Expr, k: Expr) -> Expr:
        """Return element (i, k) of A."""

    def b_at(self, low: Lowering, g: Expr, k: Expr, j: Expr) -> Expr:
        """Return element (k, j) of B."""

    def packed(self, tile: object) -> dict[str, tuple[Node, Packing]]:
        """Return the constant operands and their packings, by role (``A``, ``B``, ``B scale``,
        ``B zero``).
        """

    def refined(self, spec: GemmSpec) -> GemmSpec:
        """Return ``spec`` with the dot instruction and the layout of packed operands."""

    def fills(self, body: Body) -> dict[str, Callable[..., None]]:
        """Return functions that copy an operand faster than element by element, by role."""

    def starts_aligned(self, lanes: int) -> bool:
        """Return whether vectors of the result start at multiples of their length within a row."""


@dataclass
class MatMulView:
    """The index maps of a matmul.

    ``batch`` and ``m`` are dims of the graph. If ``shared`` consecutive batch items use one B (see
    :func:`shared_items`), they form one item of the view, and their rows are concatenated.
    """

    group: Group
    node: Node
    batch: tuple[Size, ...]
    m: Size
    n: Size
    k: Size
    dots: tuple[str, ...] = ()
    shared: int = 1
    operands: ClassVar[tuple[str, str]] = ("A", "B")

    @property
    def sizes(self) -> tuple[Size, Size, Size, Size]:
        items = product(self.batch)
        if self.shared > 1:
            items = _simplify(tirx.floordiv(items, self.shared))
        return items, self.rows, self.n, self.k

    @property
    def rows(self) -> Size:
        """Return the number of rows of an item of the view."""
        return mul(self.m, self.shared)

    @property
    def row_stride(self) -> Size:
        return self.n

    @property
    def dot(self) -> str:
        """Return the dot instruction that multiplies the operands; "" if there is none."""
        if self.rounded:
            bits = int(self.node.inputs[1].attrs["bits"])
            fits = (n for n in self.dots if DOTS[n].per == QUAD and DOTS[n].left_bits >= bits)
            return next(fits, "")
        a, b = self.node.inputs
        return exact_dot(a.dtype, b.dtype, self.dots) if self._packs() else ""

    @property
    def rounded(self) -> bool:
        """Return whether the rows of A are rounded to int8 by groups of K."""
        a = self.node.inputs[0]
        return a.row is not None and a.row.rounds and a in self.group.nodes

    def _packs(self) -> bool:
        b = self.node.inputs[1]
        return len(b.shape) == 2 and _is_weight(self.group, b)

    def index(self, low: Lowering, g: Expr, i: Expr, j: Expr) -> list[Expr]:
        """Return the matmul's output index of element (g, i, j)."""
        return [*self.row(low, g, self.node.shape)(i), j]

    def row(self, low: Lowering, g: Expr, shape: Sequence[Expr]) -> Callable[[Expr], list[Expr]]:
        """Return a function from row ``i`` of item ``g`` to its index in all axes but the last.

        Args:
            shape: shape of the result, or of another value with the same rows.
        """
        lead = shape[:-2]
        if self.shared > 1:

            def shared_row(i: Expr) -> list[Expr]:
                item, own = low.space.split(i, (i64(self.shared), self.m))
                return [*low.space.split(mul(g, self.shared) + item, lead), own]

            return shared_row
        if self.batch or not lead:
            split = low.space.split(g, lead)
            return lambda i: [*split, i]
        return lambda i: list(low.space.split(i, shape[:-1]))

    def flat(self, g: Expr, i: Expr, j: Expr) -> Expr:
        """Return the row-major offset of element (g, i, j)."""
        return add((i64(g) * i64(self.rows) + i) * i64(self.n), j)

    def a_at(self, low: Lowering, g: Expr, i: Expr, k: Expr) -> Expr:
        source, index = self.node.inputs[0], self.index(low, g, i, i64(0))
        if self.rounded:
            source = source.inputs[0]
        return low.at(source, operand_index(source, index[:-2], (index[-2], k)))

    def b_at(self, low: Lowering, g: Expr, k: Expr, j: Expr) -> Expr:
        source = self.node.inputs[1]
        lead = low.space.split(mul(g, self.shared), self.batch) if self.batch else ()
        return low.at(source, operand_index(source, list(lead), (k, j)))

    @property
    def narrow(self) -> tuple[Node, ...]:
        """Return the inputs (numbers, scale, zero) of weights that kernels dequantize, or ()."""
        b = self.node.inputs[1]
        expands = b.row is not None and b.row.expands and b in self.group.nodes
        return b.inputs if expands and all(_is_weight(self.group, x) for x in b.inputs) else ()

    @property
    def bits(self) -> int:
        """Return the bits of a quantized weight if a word holds several along K, otherwise 0."""
        bits = int(self.node.inputs[1].attrs["bits"]) if self.narrow else 0
        return bits if bits == 4 or (self.rounded and self.dot) else 0

    @property
    def rows_of_scale(self) -> int:
        """Return the number of rows of quantized weights that share one scale; 0 without scales."""
        return int(self.node.inputs[1].attrs["group"]) if len(self.narrow) > 1 else 0

    def packed(self, tile: Any) -> dict[str, tuple[Node, Packing]]:
        """Return the operands that are plain constant matrices, and their packings, by role."""
        b = self.node.inputs[1]
        if self.narrow:
            panels = PanelsOfB(tile.n_r, tile.lanes, even=False)
            words = WordsOfB(tile.n_r, tile.lanes, self.bits, unsigned=bool(self.dot))
            layouts = (words if self.bits else panels, panels, panels)
            return dict(zip(_ROLES, zip(self.narrow, layouts, strict=False), strict=False))
        if self.dot:
            per = DOTS[self.dot].per
            origin = NumbersOfA(self.node.inputs[0].dtype, per).added
            return {"B": (b, QuadsOfB(tile.n_r, tile.lanes, per, origin))}
        if self._packs():
            return {"B": (b, PanelsOfB(tile.n_r, tile.lanes))}
        return {}

    def refined(self, spec: GemmSpec) -> GemmSpec:
        if not self.narrow:
            assert not self.rounded  # rows are rounded only for quantized weights
            return replace(spec, dot=self.dot)
        scale, zero = (GIVEN if len(self.narrow) > n else None for n in (1, 2))
        found = Quantized(self.bits, self.rows_of_scale, scale, zero, self.rounded)
        return replace(spec, dot=self.dot, quantized=found)

    def fills(self, body: Body) -> dict[str, Callable[..., None]]:
        return {}

    def starts_aligned(self, lanes: int) -> bool:
        return True


def operands_of(view: View) -> tuple[Callable[..., Expr], Callable[..., Expr]]:
    """Return A and B as functions of (low, g, outer, k)."""
    return view.a_at, lambda low, g, j, k: view.b_at(low, g, k, j)


def exact_dot(a: str, b: str, dots: Sequence[str]) -> str:
    """Return the dot instruction for exact sums of products of two types; "" if there is none.

    Args:
        dots: the instructions of the target, best first.
    """
    bits = _BITS.get(a, 0) if b == "int8" else 0
    return next((n for n in dots if 0 < bits <= DOTS[n].left_bits), "")


# Bits of a number of A by its type.
_BITS = {"int8": 8, "uint8": 8, "int16": 16}


def _is_weight(group: Group, node: Node) -> bool:
    return node in group.constants and all(static_dim(d) is not None for d in node.shape)


# -- items that share B --------------------------------------------------------------------------


def shared_items(group: Group, node: Node, batch: Sequence[Size], solver: Solver) -> int:
    """Return the largest proved number of consecutive batch items of a matmul that share B.

    In grouped-query attention several heads read the same keys and values (Ainslie et al., 2023):
    the graph repeats each matrix of B by a broadcast. If the index map of B proves it, the rows of
    those items are rows of one matmul, and B is packed or read once for all of them.

    The result divides the number of items; it is 1 if nothing is proved.
    """
    for items in sorted(_candidates(group, node, batch), reverse=True):
        if static_dim(_simplify(product(batch) % items)) == 0 and _shares(
            group, node, batch, items, solver
        ):
            return items
    return 1


def _candidates(group: Group, node: Node, batch: Sequence[Size]) -> set[int]:
    """Return the sizes of the broadcast axes of B and of its operands, for :func:`shared_items`."""
    b = node.inputs[1]
    found = {static_dim(batch[-1])} if batch and len(b.shape) > 2 and is_one(b.shape[-3]) else set()
    for n in _computed(group, b):
        if n.op == "relax.broadcast_to":
            before = n.inputs[0].shape
            skipped = len(n.shape) - len(before)
            for axis, dim in enumerate(n.shape):
                if axis < skipped or is_one(before[axis - skipped]):
                    found.add(static_dim(dim))
    return {size for size in found if size is not None and size > 1}


# Operators that copy elements: an element depends on its index only through the element it copies.
_MAPS = frozenset(f"relax.{n}" for n in ("broadcast_to", "permute_dims", "strided_slice"))


def _shares(group: Group, node: Node, batch: Sequence[Size], items: int, solver: Solver) -> bool:
    """Return whether B of item ``g * items + t`` is proved equal to B of item ``g * items``, for
    all ``g`` and all ``t < items``.

    The proof compares which elements of which operands an element of B is computed from.
    """
    b = node.inputs[1]
    if not all(_maps(n) for n in _computed(group, b)):
        return False
    space = IndexSpace(lambda x, y: bool(solver.known_eq(x, y)))
    g, t, k, j = (index_var(name) for name in "gtkj")

    def reads(item: Expr) -> list[tuple[Node, Expr]]:
        found: dict[Expr, tuple[Node, Expr]] = {}
        low = Lowering(Block(), space, solver)
        for p in group.params:
            low.bind_reader(p, low.recorder(p, found))
        low.at(b, operand_index(b, list(space.split(item, batch)), (k, j)))
        return list(found.values())

    analyzer = tvm.sym.Analyzer()
    analyzer.bind(t, tvm.ir.Range(i64(0), i64(items)))
    first, other = reads(g * items), reads(g * items + t)
    return len(first) == len(other) and all(
        x is y and static_dim(analyzer.simplify(space.resolved(q) - space.resolved(p))) == 0
        for (x, p), (y, q) in zip(first, other, strict=True)
    )


def _computed(group: Group, node: Node) -> list[Node]:
    """Return the nodes from which a group computes ``node``, itself included."""
    found: dict[Node, None] = {}
    work = [node] if node not in group.params else []
    while work:
        n = work.pop()
        if n not in found:
            found[n] = None
            work += [x for x in n.inputs if x not in group.params]
    return list(found)


def _maps(node: Node) -> bool:
    return node.is_scalar_const or node.cls in (OpClass.ELEMWISE, OpClass.VIEW) or node.op in _MAPS


def _simplify(expr: Expr) -> Expr:
    simple: Expr = tvm.sym.Analyzer().simplify(expr)
    return simple
