"""Import rules: random numbers, bit-exact to Relay's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lowering.slice import sliced
from tvm_disc.relay.importer.lowering.tensor import Args, Attrs, Rule, cast, number
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.kernel_ops import kernel_call, reinterpret_call
from tvm_disc.relay.ops.algebra import maximum, where
from tvm_disc.typing import Size

U64 = "uint64"


def _state(ctx: Emitter, key: Tensor) -> None:
    if key.dtype != U64 or key.rank != 1:
        raise TypeMismatch(
            ctx.where(f"expected a key of uint64 and rank 1, found {key.dtype} of rank {key.rank}")
        )
    ctx.require_eq(key.dims[0], i64(10), "a key must have 10 elements")


def _threefry(ctx: Emitter, key: Tensor, mode: str, size: Size, count: Size) -> Tensor:
    """Return ``size`` words from the state ``key``, from which ``count`` numbers are drawn.

    A count that is known only at run time is passed as a tensor.
    """
    dims, known = [ctx.dim(size)], ctx.literal(ctx.dim(count))
    args = [ctx.expr(key)]
    if known is None:
        args.append(ctx.expr(number(ctx, ctx.dim(count), "int64")))
    given = {"mode": mode, "count": -1 if known is None else known}
    return ctx.emit(kernel_call("disc.threefry", args, dims, U64, **given), dims, U64)


def _words(ctx: Emitter, key: Tensor, shape: Sequence[object]) -> tuple[Tensor, Tensor]:
    """Return (next state, random words)."""
    _state(ctx, key)
    dims = [ctx.dim(d) for d in shape]
    count = ctx.solver.simplify(product(dims))
    words = _threefry(ctx, key, "bits", count, count)
    after = _threefry(ctx, key, "after", i64(10), count)
    return after, ctx.reshape(words, dims)


def _generate(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, Tensor]:
    return _words(ctx, args[0], [int(d) for d in attrs["out_shape"]])


def _split(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, Tensor]:
    _state(ctx, args[0])
    left, right = (_threefry(ctx, args[0], side, 10, 0) for side in ("left", "right"))
    return left, right


def _unit(ctx: Emitter, key: Tensor, shape: Sequence[object], dtype: str) -> tuple[Tensor, Tensor]:
    """Return (next state, numbers in ``[0, 1)``), made from random mantissas of numbers in [1,
    2).
    """
    if dtype not in ("float32", "float64"):
        raise TypeMismatch(ctx.where(f"expected float32 or float64, found {dtype}"))
    after, words = _words(ctx, key, shape)
    kind, drop, ones, at = (U64, 12, 1023, 52) if dtype == "float64" else ("uint32", 9, 127, 23)
    words = cast(ctx, words, kind)
    fraction = words >> drop
    whole = ctx.apply("bitwise_or", fraction, ones << at)
    numbers = ctx.emit(reinterpret_call(ctx.expr(whole), whole.dims, dtype), whole.dims, dtype)
    return after, numbers - 1.0


def _uniform(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, Tensor]:
    key, *bounds = args
    after, unit = _unit(
        ctx, key, [int(d) for d in attrs["out_shape"]], attrs["out_dtype"] or "float32"
    )
    low, high = (_single(ctx, b, unit.dtype) for b in bounds)
    span = high - low
    return after, unit * span + low


def _single(ctx: Emitter, number: Tensor, dtype: str) -> Tensor:
    return cast(ctx, ctx.reshape(number, []), dtype)


def _normal(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, Tensor]:
    """Return (next state, normal numbers), by the Box-Muller transform."""
    key, mean, scale = args
    shape = [int(d) for d in attrs["out_shape"]]
    after, unit = _unit(ctx, key, [2, *shape], attrs["out_dtype"] or "float32")
    parts = [sliced(ctx, unit, {0: (i64(k), i64(1), 1)}) for k in range(2)]
    first, second = (ctx.reshape(p, list(map(i64, shape))) for p in parts)
    logs = ctx.apply("log", 1.0 - first)
    radius = ctx.apply("sqrt", logs * -2.0)
    wave = ctx.apply("sin", second * (2.0 * math.pi))
    mean, scale = (_single(ctx, x, unit.dtype) for x in (mean, scale))
    drawn = radius * wave * scale
    return after, drawn + mean


def _multinomial(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, Tensor]:
    """Return (next state, columns): the first possible column whose cumulative probability exceeds
    a uniform number.

    On a GPU, running sums are computed in a different order, so rounding may make them decrease.
    The rule therefore selects the column with the least positive excess.
    """
    key, probs = args
    samples = int(attrs["num_samples"])
    chances = maximum(cast(ctx, probs, "float32"), 0.0)
    last = probs.rank - 1
    kept = [*probs.dims[:-1], i64(1)]
    total = ctx.emit(R.sum(ctx.expr(chances), [last], keepdims=True), kept, "float32")
    parts = chances / total
    bounds = ctx.emit(R.cumsum(ctx.expr(parts), last, "float32", False), parts.dims, "float32")
    after, unit = _unit(ctx, key, [*probs.dims[:-1], samples], "float32")
    lead = list(probs.dims[:-1])
    column = ctx.reshape(bounds, [*lead, probs.dims[-1], i64(1)])
    apart = column - ctx.reshape(unit, [*lead, i64(1), i64(samples)])
    zero = ctx.scalar(0.0, "float32")
    above = apart > zero
    chances = ctx.reshape(chances, [*lead, probs.dims[-1], i64(1)])
    possible = chances > zero
    above = above & possible
    shown = where(above, apart, 1.0)
    call = R.argmin(ctx.expr(shown), last)
    return after, cast(ctx, ctx.emit(call, [*lead, i64(samples)], "int64"), "int32")


LOWER: Mapping[str, Rule] = {
    "random.threefry_generate": _generate,
    "random.threefry_split": _split,
    "random.uniform": _uniform,
    "random.normal": _normal,
    "random.multinomial": _multinomial,
}
