"""Forms of a value in a ragged program, and the dims that are ragged.

Dense    the value of the model. A dim ``s`` has the largest length, and element i along this
         dim does not depend on the length of an item.
Packed   one row per element of an item: ``[b, .., s, ..]`` is stored as ``[t, ...]``, where t
         is the sum of the lengths.
Padded   the value of the model, whose elements after the end of an item are undefined. Only
         the kernels of attention read it, one item at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tvm import tirx

from tvm_disc.graph.axes import cofactor
from tvm_disc.graph.nodes import Node, is_one
from tvm_disc.shape import Solver
from tvm_disc.shape.symbols import free_symbols
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import product, substitute
from tvm_disc.typing import Expr, Var

MERGED = -1  # the second axis of ``Packed.at`` if items and rows are one axis


@dataclass(eq=False)
class RaggedDim:
    """A dim whose size depends on the item.

    Attributes:
        items: the number of items, b.
        size: the largest length: the symbol s of the model, or an expression of it if the dim is
            derived.
        rows: the sum of the lengths, t.
        fewest: the smallest length of an item.
        inputs: names of the inputs that have the dim.
        offsets: the checked offsets ``[b + 1]``, int64.
        made: values computed from the offsets, by name.
        root: the dim of an input from which this dim is derived; None for a dim of inputs.
    """

    items: Var
    size: Expr
    rows: Var
    fewest: Var
    inputs: list[str]
    offsets: Node
    made: dict[str, Node] = field(default_factory=dict)
    root: RaggedDim | None = None

    @property
    def name(self) -> str:
        """The name of the first input that has the dim."""
        return (self.root or self).inputs[0]

    @property
    def symbol(self) -> Var:
        """The symbol of the largest length of the inputs; ``size`` is an expression of it."""
        size = (self.root or self).size
        assert isinstance(size, tirx.Var)
        return size

    @property
    def offsets_name(self) -> str:
        """The name of the input of offsets, or of the computed offsets of a derived dim."""
        return f"{self.name if self.root is None else self.rows.name}_offsets"


@dataclass(frozen=True, eq=False)
class Dense:
    """A value with the shape of the model."""

    node: Node


@dataclass(frozen=True, eq=False)
class Packed:
    """A value stored as ``[t, rest...]``.

    Attributes:
        at: the axes of b and s in the shape of the model; (0, MERGED) if axis 0 is ``b * s * c``,
            stored as ``t * c``.
    """

    node: Node
    dim: RaggedDim
    at: tuple[int, int]

    def axis(self, axis: int) -> int:
        """Return the stored axis of an axis of the model that is neither b nor s."""
        if self.at[1] == MERGED:
            return axis
        assert axis not in self.at
        return 1 + axis - sum(a < axis for a in self.at)


@dataclass(frozen=True, eq=False)
class Padded:
    """A value whose elements after the end of an item are undefined.

    ``result`` is set if the value is the result of an attention.
    """

    node: Node
    result: bool = False


Form: TypeAlias = Dense | Packed | Padded


class RaggedDims:
    """The ragged dims of a program, and where they occur in shapes."""

    def __init__(self, dims: Sequence[RaggedDim], solver: Solver) -> None:
        self.dims, self.solver = list(dims), solver

    def sizes_in(self, exprs: Sequence[object]) -> list[RaggedDim]:
        """Return the dims of inputs whose symbol occurs in expressions."""
        symbols = free_symbols(e for e in exprs if not isinstance(e, float | str))
        roots = [d for d in self.dims if d.root is None]
        return [d for d in roots if any(d.size.same_as(s) for s in symbols)]

    def of(self, size: Expr) -> RaggedDim | None:
        """Return the dim that has this largest length, or None."""
        return next((d for d in self.dims if self.solver.known_eq(size, d.size)), None)

    def axes_of(self, shape: Sequence[Expr]) -> list[int]:
        """Return the axes whose size contains the symbol of a ragged dim."""
        return [k for k, d in enumerate(shape) if self.sizes_in([d])]

    def place(self, shape: Sequence[Expr]) -> tuple[RaggedDim, tuple[int, int]] | None:
        """Return (dim, ``at``) with which a value of this shape is packed, see :class:`Packed`;
        None if it cannot be packed.
        """
        axes = self.axes_of(shape)
        if len(axes) != 1:
            return None
        [axis] = axes
        [root, *others] = self.sizes_in([shape[axis]])
        if others:
            return None
        dim = self.of(shape[axis])
        if dim is not None:
            items = [k for k, d in enumerate(shape) if self.solver.known_eq(d, dim.items)]
            return (dim, (items[0], axis)) if len(items) == 1 else None
        related = [d for d in self.dims if (d.root or d) is root and axis == 0]
        dim = next((d for d in related if self.factor(shape[0], d) is not None), None)
        return None if dim is None else (dim, (0, MERGED))

    def factor(self, size: Expr, dim: RaggedDim) -> Expr | None:
        """Return c if a size is ``b * s * c``, else None."""
        if dim.root is None:
            found: Expr | None = cofactor(size, (dim.items, dim.symbol), self.solver)
            return found
        values: dict[Expr, Expr] = {dim.items: i64(1), dim.symbol: i64(self._unit(dim))}
        factor: Expr = self.solver.simplify(substitute(size, values))
        whole = self.solver.known_eq(size, dim.items * dim.size * factor)
        return factor if whole else None

    def _unit(self, dim: RaggedDim) -> int:
        """Return the smallest length of the root for which the derived length is positive."""
        low, high = 0, 1 << 32
        while low < high:
            middle = (low + high) // 2
            size = self.solver.const(substitute(i64(dim.size), {dim.symbol: i64(middle)}))
            low, high = (low, middle) if size is not None and size > 0 else (middle + 1, high)
        return low

    def stored(self, shape: Sequence[Expr], dim: RaggedDim, at: tuple[int, int]) -> list[Expr]:
        """Return the stored shape of a packed value of this shape."""
        if at[1] == MERGED:
            factor = self.factor(shape[0], dim)
            assert factor is not None
            return [dim.rows if is_one(factor) else dim.rows * factor, *shape[1:]]
        return [dim.rows, *(d for k, d in enumerate(shape) if k not in at)]

    def same_place(
        self, a: Sequence[Expr], at: tuple[int, int], b: Sequence[Expr], to: tuple[int, int]
    ) -> bool:
        """Return whether a view from shape ``a`` to shape ``b`` moves the axes b and s from ``at``
        to ``to``.

        This holds if the numbers of elements before, between and after the two axes are equal.
        """
        if MERGED in (at[1], to[1]):
            return {at, to} <= {(0, 1), (0, MERGED)}
        pairs = zip(_runs(a, at), _runs(b, to), strict=True)
        ordered = (at[0] < at[1]) == (to[0] < to[1])
        return ordered and all(self.solver.known_eq(product(x), product(y)) for x, y in pairs)


def _runs(shape: Sequence[Expr], at: tuple[int, int]) -> list[Sequence[Expr]]:
    first, second = sorted(at)
    return [shape[:first], shape[first + 1 : second], shape[second + 1 :]]


__all__ = ["MERGED", "Dense", "Form", "Packed", "Padded", "RaggedDim", "RaggedDims"]
