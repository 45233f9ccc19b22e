"""Integers in memory: the arithmetic that finds a shape which only the data knows.

What it finds is read back as sizes, so that what is built of it is as simple as any dim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lowering.tensor import apply, cast, number, reduction
from tvm_disc.relay.importer.tensor import Tensor

I64 = "int64"
_WHOLE = {"axis": None, "keepdims": False, "exclude": False}


@dataclass(frozen=True)
class Numbers:
    """A tensor of int64, or of truth values, with Python's operators."""

    ctx: Emitter
    tensor: Tensor

    def _with(self, build: Callable[..., Any], other: Numbers | int, dtype: str = I64) -> Numbers:
        given = other.tensor if isinstance(other, Numbers) else self.ctx.scalar(other, I64)
        return Numbers(self.ctx, apply(self.ctx, build, self.tensor, given, dtype=dtype))

    def __add__(self, other: Numbers | int) -> Numbers:
        return self._with(R.add, other)

    def __sub__(self, other: Numbers | int) -> Numbers:
        return self._with(R.subtract, other)

    def __mul__(self, other: Numbers | int) -> Numbers:
        return self._with(R.multiply, other)

    def __floordiv__(self, other: Numbers | int) -> Numbers:
        return self._with(R.floor_divide, other)

    def __mod__(self, other: Numbers | int) -> Numbers:
        return self._with(R.floor_mod, other)

    def __lt__(self, other: Numbers | int) -> Numbers:
        return self._with(R.less, other, "bool")

    def __ge__(self, other: Numbers | int) -> Numbers:
        return self._with(R.greater_equal, other, "bool")

    def equals(self, other: Numbers | int) -> Numbers:
        """Where both are equal."""
        return self._with(R.equal, other, "bool")

    def __and__(self, other: Numbers) -> Numbers:
        return self._with(R.logical_and, other, "bool")

    def __or__(self, other: Numbers) -> Numbers:
        return self._with(R.logical_or, other, "bool")

    def least(self, other: Numbers | int) -> Numbers:
        """The smaller of both."""
        return self._with(R.minimum, other)

    def most(self, other: Numbers | int) -> Numbers:
        """The larger of both."""
        return self._with(R.maximum, other)

    def within(self, low: Numbers | int, high: Numbers | int) -> Numbers:
        """Clamped between two bounds, the upper one last."""
        return self.most(low).least(high)

    def pick(self, yes: Numbers | int, no: Numbers | int) -> Numbers:
        """``yes`` where this holds, ``no`` elsewhere."""
        both = [v.tensor if isinstance(v, Numbers) else self.ctx.scalar(v, I64) for v in (yes, no)]
        return Numbers(self.ctx, apply(self.ctx, R.where, self.tensor, *both))

    def under(self, *dims: int) -> Numbers:
        """The numbers under a shape of literals."""
        return Numbers(self.ctx, self.ctx.reshape(self.tensor, [i64(d) for d in dims]))

    def sum(self, axis: int | None = None) -> Numbers:
        """The sum along an axis, or of all."""
        return self._reduced(R.sum, axis)

    def prod(self, axis: int | None = None) -> Numbers:
        """The product along an axis, or of all."""
        return self._reduced(R.prod, axis)

    def _reduced(self, build: Callable[..., Any], axis: int | None) -> Numbers:
        return Numbers(
            self.ctx, reduction(build)(self.ctx, [self.tensor], {**_WHOLE, "axis": axis})
        )

    def at(self, place: int) -> Numbers:
        """One number of a line."""
        spots = Numbers(self.ctx, self.ctx.constant(np.arange(self._length(), dtype=I64)))
        return spots.equals(place).pick(self, 0).sum()

    def _length(self) -> int:
        return self.ctx.static(product(self.tensor.dims), "the number of sizes")

    def sizes(self, what: str, least: int = 0) -> list[Any]:
        """The numbers as sizes."""
        return self.ctx.size_arg(self.tensor, what, least)


def line(ctx: Emitter, tensor: Tensor, what: str) -> Numbers:
    """The elements of an integer operand, in one row.

    raises: TypeMismatch for an operand that is not of integers.
    """
    if "int" not in tensor.dtype:
        raise TypeMismatch(ctx.where(f"{what}: expected integers, found {tensor.dtype}"))
    return Numbers(ctx, ctx.reshape(cast(ctx, tensor, I64), [product(tensor.dims)]))


def literals(ctx: Emitter, values: Sequence[Any]) -> Numbers:
    """Numbers that are known now."""
    return Numbers(ctx, ctx.constant(np.array(values, I64)))


def dims_of(ctx: Emitter, dims: Sequence[Any]) -> Numbers:
    """Dims as numbers, in one row."""
    if not dims:
        return literals(ctx, [])
    return joined([Numbers(ctx, number(ctx, d, I64)).under(1) for d in dims])


def joined(parts: Sequence[Numbers]) -> Numbers:
    """Rows one after the other; a single number is a row of one."""
    ctx = parts[0].ctx
    flat = [ctx.reshape(p.tensor, [product(p.tensor.dims)]) for p in parts]
    if len(flat) == 1:
        return Numbers(ctx, flat[0])
    total = sum((t.dims[0] for t in flat[1:]), flat[0].dims[0])
    exprs = [ctx.expr(t) for t in flat]
    return Numbers(ctx, ctx.emit(R.concat(exprs, 0), [total], I64))


__all__ = ["Numbers", "dims_of", "joined", "line", "literals"]
