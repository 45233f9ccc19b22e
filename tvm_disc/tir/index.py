"""Index arithmetic that avoids divisions.

If a flattened loop index is split over several dims and then linearized over the same dims, the
result is the flattened index. :class:`IndexSpace` records each split, so that the index of a read
of a contiguous buffer, a reshape or a head split costs one addition, even for symbolic dims.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import tirx
from tvm.ir import Var as IrVar
from tvm_ffi import structural_map

from tvm_disc.tir.builder import Block, dtype_of, i64, lanes_of, same_lanes, with_lanes
from tvm_disc.typing import Expr, Size, Var

Dims: TypeAlias = Sequence[Any]
SameDim: TypeAlias = Callable[[Any, Any], bool]
SmallDims: TypeAlias = Callable[[Dims], bool]


@dataclass(frozen=True, eq=False)
class _Part:
    """Index ``position`` of a split of ``origin`` over ``dims``; ``var`` is its placeholder."""

    origin: Expr
    dims: tuple[Expr, ...]
    position: int
    var: Any


class IndexSpace:
    """Splits and joins of index expressions over symbolic dims.

    Invariant: the value of a placeholder variable made by :meth:`split` is
    ``origin // prod(dims[position+1:]) % dims[position]`` (no modulo at position 0). Code that
    computes this value (:meth:`define`) is only emitted if an emitted expression uses the variable.
    """

    def __init__(self, same: SameDim, small: SmallDims = lambda dims: False) -> None:
        self._same = same
        self._small = small  # whether indices over dims fit into 32 bits
        self._parts: dict[object, _Part] = {}
        # Innermost scope last. A placeholder is bound in the scope of its first use, so a split
        # made inside a scope must not be reused outside.
        self._splits: list[dict[tuple[object, ...], tuple[Expr, ...]]] = [{}]
        # ramps whose base is known to be a multiple of their lanes
        self._aligned: dict[object, int] = {}

    def aligned(self, base: Size, lanes: int) -> Expr:
        """Return ``lanes`` consecutive indices from ``base``, a known multiple of ``lanes``."""
        result = tirx.Ramp(base, i64(1), lanes)
        self._aligned[result] = lanes
        return result

    def open_scope(self) -> None:
        """Open a scope: splits made inside are forgotten at :meth:`close_scope`."""
        self._splits.append({})

    def close_scope(self) -> None:
        """Close the innermost scope."""
        self._splits.pop()

    def split(self, index: Size, dims: Dims) -> tuple[Expr, ...]:
        """Return the indices of ``index`` over row-major ``dims``; 0 for a dim that is
        literally 1.
        """
        wide = [i for i, d in enumerate(dims) if _literal(d) != 1]
        if not wide:
            return tuple(i64(0) for _ in dims)
        if isinstance(index, int):
            index = i64(index)
        if len(wide) == 1:
            return tuple(index if i == wide[0] else i64(0) for i in range(len(dims)))
        if self._splits_whole(index, dims[wide[-1]]):
            # The vector is inside one row of the last dim, so only its first index is divided.
            starts = list(self.split(index.base, dims))
            starts[wide[-1]] = self.aligned(starts[wide[-1]], self._aligned[index])
            return tuple(starts)
        kept = tuple(dims[i] for i in wide)
        key = (index, *kept)
        parts = next((s[key] for s in self._splits if key in s), None)
        if parts is None:
            parts = tuple(self._part(index, kept, p) for p in range(len(kept)))
            self._splits[-1][key] = parts
        values = iter(parts)
        return tuple(next(values) if i in wide else i64(0) for i in range(len(dims)))

    def _splits_whole(self, index: Expr, last: Size) -> bool:
        lanes = self._aligned.get(index)
        literal = _literal(last)
        return lanes is not None and literal is not None and literal % lanes == 0

    def _part(self, origin: Expr, dims: tuple[Expr, ...], position: int) -> Expr:
        var = tirx.Var(f"i{position}", dtype_of(origin))
        self._parts[var] = _Part(origin, dims, position, var)
        return var

    def join(self, index: Sequence[Expr], dims: Dims) -> Expr:
        """Return the row-major linear index.

        If adjacent indices are all parts of one :meth:`split`, the index that was split is used.
        """
        last = next((k for k in reversed(range(len(dims))) if _literal(dims[k]) != 1), None)
        if last is not None and isinstance(index[last], tirx.Ramp):
            vector = index[last]
            if _literal(vector.stride) == 1 and all(lanes_of(i64(x)) == 1 for x in index[:last]):
                starts = [*index[:last], vector.base, *index[last + 1 :]]
                return tirx.Ramp(self.join(starts, dims), vector.stride, vector.lanes)
        terms, sizes = self._coalesce(list(index), list(dims))
        total: Expr | None = None
        for term, size in zip(terms, sizes, strict=True):
            total = term if total is None else add(mul(total, size), term)
        return i64(0) if total is None else total

    def _coalesce(self, index: list[Expr], dims: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        pairs = [(t, d) for t, d in zip(index, dims, strict=True) if _literal(d) != 1]
        changed = True
        while changed:
            changed = False
            for start in range(len(pairs)):
                run = self._run_at(pairs, start)
                if run is not None:
                    origin, length = run
                    size = product([d for _, d in pairs[start : start + length]])
                    pairs[start : start + length] = [(origin, size)]
                    changed = True
                    break
        return [t for t, _ in pairs], [d for _, d in pairs]

    def _run_at(self, pairs: list[tuple[Expr, Expr]], start: int) -> tuple[Expr, int] | None:
        first = self._parts.get(pairs[start][0])
        if first is None or first.position != 0:
            return None
        length = len(first.dims)
        if start + length > len(pairs):
            return None
        for offset in range(length):
            part = self._parts.get(pairs[start + offset][0])
            if (
                part is None
                or part.position != offset
                or not part.origin.same_as(first.origin)
                or not self._dims_match(part, first, pairs[start + offset][1], offset)
            ):
                return None
        return first.origin, length

    def _dims_match(self, part: _Part, first: _Part, dim: Expr, offset: int) -> bool:
        # The leading dim is not part of the linear index, so its extent need not be proved equal.
        return all(a.same_as(b) for a, b in zip(part.dims, first.dims, strict=True)) and (
            offset == 0 or self._same(part.dims[offset], dim)
        )

    def last_part(self, var: Var) -> tuple[Expr, Expr] | None:
        """Return (index, dim) if ``var`` is the placeholder of ``index % dim`` in a split.

        None for other variables.
        """
        part = self._parts.get(var)
        if part is None or part.position + 1 != len(part.dims):
            return None
        return part.origin, part.dims[-1]

    def unresolved(self, exprs: Sequence[Expr]) -> list[Expr]:
        """Return the placeholders in expressions, ordered so that values use earlier ones only."""
        found: dict[Any, None] = {}
        for e in exprs:
            self._collect(e, found)
        return list(found)

    def _collect(self, expr: Expr, found: dict[Var, None]) -> None:
        if isinstance(expr, tirx.IntImm | tirx.FloatImm):
            return
        names = [expr] if isinstance(expr, tirx.Var) else tirx.analysis.undefined_vars(expr)
        for var in names:
            part = self._parts.get(var)
            if part is not None and var not in found:
                self._collect(part.origin, found)
                found[var] = None

    def resolved(self, expr: Expr) -> Expr:
        """Return ``expr`` with every placeholder replaced by its definition."""
        while names := self.unresolved([expr]):
            values = {var: self.value(var) for var in names}
            expr = substitute(expr, values)
        return expr

    def rejoined(self, expr: Expr, index: Expr) -> Expr:
        """Return ``expr`` with the last part of each split of ``index`` over two dims replaced.

        The last part is replaced by ``index - first * dim``, where ``first`` is the first part. If
        ``expr`` is linear in ``index``, simplification then removes all parts.
        """
        last: dict[Expr, Expr] = {}
        for var in self.unresolved([expr]):
            part = self._parts[var]
            if part.position + 1 == len(part.dims) == 2 and part.origin.same_as(index):
                first = next(
                    p.var
                    for p in self._parts.values()
                    if p.origin.same_as(index) and p.dims is part.dims and p.position == 0
                )
                last[var] = index - first * part.dims[1]
        return substitute(expr, last)

    def value(self, var: object) -> Expr:
        """Return the expression that defines a placeholder."""
        part = self._parts[var]
        # Division by a dim of zero must not trap: the index may be computed although it is unused,
        # in one operand of a select.
        inner = product([at_least_one(d) for d in part.dims[part.position + 1 :]])
        one = _literal(inner) == 1
        outer = at_least_one(part.dims[part.position])
        # A division by a run-time value takes twice as long with 64 bits as with 32.
        unknown = _literal(inner) is None or (part.position > 0 and _literal(outer) is None)
        index, narrow = part.origin, unknown and self._small(part.dims)
        if narrow:
            index, inner, outer = (_cast("int32", x) for x in (index, inner, outer))
        quotient = index if one else _lanewise(index, inner, tirx.floordiv)
        result = quotient if part.position == 0 else _lanewise(quotient, outer, tirx.floormod)
        return _cast("int64", result) if narrow else result

    def depends_on(self, var: Var, root: Expr) -> bool:
        """Return whether ``var`` is ``root``, or a placeholder derived from it by splits."""
        part = self._parts.get(var)
        if part is None:
            return bool(var.same_as(root))
        origin = part.origin
        names = [origin] if isinstance(origin, tirx.Var) else tirx.analysis.undefined_vars(origin)
        return any(self.depends_on(v, root) for v in names)

    def define(self, block: Block, var: Any) -> None:
        """Emit ``let var = ...`` for a placeholder."""
        block.define(var, self.value(var))


def _cast(dtype: str, expr: Expr) -> Expr:
    return tirx.Cast(with_lanes(dtype, expr), expr)


def _literal(dim: Size) -> int | None:
    if isinstance(dim, int):
        return dim
    return int(dim.value) if isinstance(dim, tirx.IntImm) else None


def at_least_one(dim: Expr) -> Expr:
    """Return ``max(dim, 1)``, folded for literals."""
    literal = _literal(dim)
    return tirx.max(dim, i64(1)) if literal is None else i64(max(literal, 1))


def substitute(expr: Expr, values: Mapping[Var, Expr] | Mapping[Expr, Expr]) -> Expr:
    """Return an expression with variables replaced; a Python int is returned unchanged."""
    if not values or isinstance(expr, int | tirx.IntImm):
        return expr
    replaced: Expr = structural_map(expr, (IrVar, lambda v: values.get(v, v)), order="post")
    return replaced


def product(dims: Dims) -> Expr:
    """Return the product of ``dims`` as an int64 expression."""
    total: Expr = i64(1)
    for d in dims:
        total = mul(total, d)
    return total


def ceil_div(a: Expr, b: Size) -> Expr:
    """Return ``a / b`` rounded up, for non-negative integers."""
    return tirx.floordiv(a + (b - 1), i64(b))


def mul(a: Size, b: Size) -> Expr:
    """Return ``a * b``, folding literal ones and zeros."""
    x, y = _literal(a), _literal(b)
    if x is not None and y is not None:
        return i64(x * y)
    if x == 1:
        return i64(b)
    if y == 1:
        return i64(a)
    if x == 0 or y == 0:
        return i64(0)
    for vector, scalar in ((a, b), (b, a)):
        if isinstance(vector, tirx.Ramp):
            return tirx.Ramp(mul(vector.base, scalar), mul(vector.stride, scalar), vector.lanes)
    return _lanewise(i64(a), i64(b), lambda u, v: u * v)


def add(a: Expr, b: Size) -> Expr:
    """Return ``a + b``, folding literal zeros."""
    x, y = _literal(a), _literal(b)
    if x is not None and y is not None:
        return i64(x + y)
    if x == 0:
        return i64(b)
    if y == 0:
        return i64(a)
    for vector, scalar in ((a, b), (b, a)):
        if isinstance(vector, tirx.Ramp) and lanes_of(i64(scalar)) == 1:
            return tirx.Ramp(add(vector.base, scalar), vector.stride, vector.lanes)
    return _lanewise(i64(a), i64(b), lambda u, v: u + v)


def _lanewise(a: Expr, b: Expr, fn: Callable[[Expr, Expr], Expr]) -> Expr:
    return fn(*same_lanes(a, b))
