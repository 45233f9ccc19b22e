"""Integer arithmetic in memory, to compute shapes from data at run time.

The results are read back as symbols, so that later shape formulas contain one symbol, not the
computation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm.relax import op as R

from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lowering.tensor import number, reduction
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.ops.algebra import where
from tvm_disc.typing import Expr

I64 = "int64"
_WHOLE = {"axis": None, "keepdims": False, "exclude": False}


def flags(ctx: Emitter, cond: Tensor) -> Tensor:
    """Return 1 where the condition holds, otherwise 0."""
    return where(cond, ctx.scalar(1, I64), 0)


def under(ctx: Emitter, x: Tensor, *dims: int) -> Tensor:
    """Return ``x`` reshaped to literal dims."""
    return ctx.reshape(x, [i64(d) for d in dims])


def total(ctx: Emitter, x: Tensor, axis: int | None = None) -> Tensor:
    """Return the sum along an axis, or of all elements."""
    found: Tensor = reduction(R.sum)(ctx, [x], {**_WHOLE, "axis": axis})
    return found


def multiplied(ctx: Emitter, x: Tensor, axis: int | None = None) -> Tensor:
    """Return the product along an axis, or of all elements."""
    found: Tensor = reduction(R.prod)(ctx, [x], {**_WHOLE, "axis": axis})
    return found


def item(ctx: Emitter, vector: Tensor, place: int) -> Tensor:
    """Return one number of a vector."""
    count = ctx.static(product(vector.dims), "the number of sizes")
    spots = ctx.constant(np.arange(count, dtype=I64))
    return total(ctx, where(spots.equal(place), vector, 0))


def literals(ctx: Emitter, values: Sequence[Sequence[int] | int]) -> Tensor:
    """Return an int64 tensor of literal numbers."""
    return ctx.constant(np.array(values, I64))


def dims_of(ctx: Emitter, dims: Sequence[Expr]) -> Tensor:
    """Return dims as an int64 vector."""
    if not dims:
        return literals(ctx, [])
    return joined(ctx, [under(ctx, number(ctx, d, I64), 1) for d in dims])


def joined(ctx: Emitter, parts: Sequence[Tensor]) -> Tensor:
    """Return vectors concatenated; a scalar is a vector of one element."""
    flat = [ctx.reshape(p, [product(p.dims)]) for p in parts]
    if len(flat) == 1:
        return flat[0]
    size = sum((t.dims[0] for t in flat[1:]), flat[0].dims[0])
    return ctx.emit(R.concat([ctx.expr(t) for t in flat], 0), [size], I64)
