"""Integer arithmetic in memory, to compute shapes from data at run time.

The results are read back as sizes, so that expressions of them are as simple as for any dim.
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
    """A tensor of int64 or bool with Python's operators."""

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
        """Return element-wise equality."""
        return self._with(R.equal, other, "bool")

    def __and__(self, other: Numbers) -> Numbers:
        return self._with(R.logical_and, other, "bool")

    def __or__(self, other: Numbers) -> Numbers:
        return self._with(R.logical_or, other, "bool")

    def least(self, other: Numbers | int) -> Numbers:
        """Return the element-wise minimum."""
        return self._with(R.minimum, other)

    def most(self, other: Numbers | int) -> Numbers:
        """Return the element-wise maximum."""
        return self._with(R.maximum, other)

    def within(self, low: Numbers | int, high: Numbers | int) -> Numbers:
        """Return the numbers clamped to ``low`` and then to ``high``."""
        return self.most(low).least(high)

    def pick(self, yes: Numbers | int, no: Numbers | int) -> Numbers:
        """Return ``yes`` where this condition holds, otherwise ``no``."""
        both = [v.tensor if isinstance(v, Numbers) else self.ctx.scalar(v, I64) for v in (yes, no)]
        return Numbers(self.ctx, apply(self.ctx, R.where, self.tensor, *both))

    def under(self, *dims: int) -> Numbers:
        """Return the numbers reshaped to literal dims."""
        return Numbers(self.ctx, self.ctx.reshape(self.tensor, [i64(d) for d in dims]))

    def sum(self, axis: int | None = None) -> Numbers:
        """Return the sum along an axis, or of all elements."""
        return self._reduced(R.sum, axis)

    def prod(self, axis: int | None = None) -> Numbers:
        """Return the product along an axis, or of all elements."""
        return self._reduced(R.prod, axis)

    def _reduced(self, build: Callable[..., Any], axis: int | None) -> Numbers:
        return Numbers(
            self.ctx, reduction(build)(self.ctx, [self.tensor], {**_WHOLE, "axis": axis})
        )

    def at(self, place: int) -> Numbers:
        """Return one number of a vector."""
        spots = Numbers(self.ctx, self.ctx.constant(np.arange(self._length(), dtype=I64)))
        return spots.equals(place).pick(self, 0).sum()

    def _length(self) -> int:
        return self.ctx.static(product(self.tensor.dims), "the number of sizes")

    def sizes(self, what: str, least: int = 0) -> list[Any]:
        """Return the numbers as sizes, guarded to be at least ``least``."""
        return self.ctx.size_arg(self.tensor, what, least)


def line(ctx: Emitter, tensor: Tensor, what: str) -> Numbers:
    """Return the elements of an integer operand as a vector.

    Raises:
        TypeMismatch: the operand does not hold integers.
    """
    if "int" not in tensor.dtype:
        raise TypeMismatch(ctx.where(f"{what}: expected integers, found {tensor.dtype}"))
    return Numbers(ctx, ctx.reshape(cast(ctx, tensor, I64), [product(tensor.dims)]))


def literals(ctx: Emitter, values: Sequence[Any]) -> Numbers:
    """Return a tensor of literal numbers."""
    return Numbers(ctx, ctx.constant(np.array(values, I64)))


def dims_of(ctx: Emitter, dims: Sequence[Any]) -> Numbers:
    """Return dims as a vector of numbers."""
    if not dims:
        return literals(ctx, [])
    return joined([Numbers(ctx, number(ctx, d, I64)).under(1) for d in dims])


def joined(parts: Sequence[Numbers]) -> Numbers:
    """Return vectors concatenated; a scalar is a vector of one element."""
    ctx = parts[0].ctx
    flat = [ctx.reshape(p.tensor, [product(p.tensor.dims)]) for p in parts]
    if len(flat) == 1:
        return Numbers(ctx, flat[0])
    total = sum((t.dims[0] for t in flat[1:]), flat[0].dims[0])
    exprs = [ctx.expr(t) for t in flat]
    return Numbers(ctx, ctx.emit(R.concat(exprs, 0), [total], I64))


__all__ = ["Numbers", "dims_of", "joined", "line", "literals"]
