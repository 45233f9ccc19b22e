"""Import rules: element-wise operators, reductions and creation.

A rule is ``rule(ctx, args, attrs) -> Tensor or tuple``; ``ctx`` is an :class:`Emitter`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, TypeAlias

import numpy as np
from tvm import relax, tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import objects, value_of
from tvm_disc.relay.kernel_ops import FUNCTIONS, function_call
from tvm_disc.relay.ops.algebra import maximum, minimum, where
from tvm_disc.typing import Expr

Attrs: TypeAlias = Mapping[str, Any]
Args: TypeAlias = Sequence[Any]
Rule: TypeAlias = Callable[[Emitter, Args, Attrs], Any]
# float64 represents all integers up to this length.
MOST_STEPS = float(1 << 53)


def unary(build: Callable[[Any], Any], dtype: str | None = None) -> Rule:
    """Return a rule for an element-wise operator of one operand."""

    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        x = args[0]
        return ctx.emit(build(ctx.expr(x)), x.dims, dtype or x.dtype)

    return rule


def binary(build: Callable[[Any, Any], Any], dtype: str | None = None) -> Rule:
    """Return a rule for an element-wise operator, with broadcasting, of two operands of the same
    dtype.
    """

    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        kind = ctx.same_dtype(args)
        (a, b), dims = ctx.operands(args)
        return ctx.emit(build(a, b), dims, dtype or kind)

    return rule


def only_on(kind: str, accepts: Callable[[str], bool], rule: Rule) -> Rule:
    """Return ``rule`` restricted to operands whose dtype ``accepts`` allows."""

    def checked(ctx: Emitter, args: Args, attrs: Attrs) -> Any:
        for x in args:
            if not accepts(x.dtype):
                message = f"expected {kind}, found {x.dtype}; cast it first"
                raise TypeMismatch(ctx.where(message))
        return rule(ctx, args, attrs)

    return checked


def on_floats(rule: Rule) -> Rule:
    """Return ``rule`` restricted to floats."""
    return only_on("floats", is_float, rule)


def on_numbers(rule: Rule) -> Rule:
    """Return ``rule`` restricted to numbers, without bools."""
    return only_on("numbers", lambda dtype: dtype != "bool", rule)


def arithmetic(rule: Rule) -> Rule:
    """Return ``rule`` restricted to numbers in programs; type inference also accepts bools."""

    def checked(ctx: Emitter, args: Args, attrs: Attrs) -> Any:
        ctx.refuse_bools(args)
        return rule(ctx, args, attrs)

    return checked


def number(ctx: Emitter, value: object, dtype: str) -> Tensor:
    """Return a dim, or an expression of dims, as a scalar tensor."""
    literal = ctx.literal(value)
    if literal is not None:
        return ctx.scalar(literal, dtype)
    dim = Tensor((), "int64", value=objects([ctx.solver.simplify(value)], ()))
    return cast(ctx, dim, dtype)


def iota(ctx: Emitter, size: object, dtype: str = "int64") -> Tensor:
    """Return the vector 0, 1, ..., size - 1."""
    return ctx.emit(R.arange(i64(0), size, i64(1), dtype), [size], dtype)


def identity(ctx: Emitter, args: Args, attrs: Attrs) -> Any:
    """Return the operand; the rule of annotations and copies."""
    return args[0]


def _where(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    dtype = ctx.same_dtype(args[1:])
    (c, a, b), dims = ctx.operands(args)
    if args[0].dtype != "bool":
        c = ctx.emit(R.astype(c, "bool"), args[0].dims, "bool").stored
    return ctx.emit(R.where(c, a, b), dims, dtype)


def _cast(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    return cast(ctx, args[0], attrs["dtype"])


def cast(ctx: Emitter, x: Tensor, dtype: str) -> Tensor:
    """Return ``x`` cast to ``dtype``."""
    if x.dtype == dtype:
        return x
    return ctx.emit(R.astype(ctx.expr(x), dtype), x.dims, dtype)


def integer_vector(ctx: Emitter, tensor: Tensor, what: str) -> Tensor:
    """Return the elements of an integer operand as an int64 vector.

    Raises:
        TypeMismatch: the operand does not hold integers.
    """
    ctx.require_integers(tensor, what)
    return ctx.reshape(cast(ctx, tensor, "int64"), [product(tensor.dims)])


def _cast_like(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    return cast(ctx, args[0], args[1].dtype)


def _clip(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x: Tensor = args[0]
    lo, hi = float(attrs["a_min"]), float(attrs["a_max"])
    if is_float(x.dtype):
        return ctx.emit(R.clip(ctx.expr(x), lo, hi), x.dims, x.dtype)
    # Limits of 64-bit integers may not be representable as float.
    kind = np.iinfo(x.dtype)
    low, high = (ctx.scalar(int(max(min(v, kind.max), kind.min)), x.dtype) for v in (lo, hi))
    return minimum(maximum(x, low), high)


def is_float(dtype: str) -> bool:
    """Return whether a dtype is a floating-point type."""
    return dtype.startswith(("float", "bfloat"))


def _round(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    return rounded(ctx, args[0])


def _round_even(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x = args[0]
    return ctx.apply("round", x) if is_float(x.dtype) else x


def rounded(ctx: Emitter, x: Tensor) -> Tensor:
    """Return ``x`` rounded with halves away from zero, unlike Relax's round."""
    if not is_float(x.dtype):
        return x
    whole = ctx.apply("trunc", x)
    rest = ctx.apply("abs", x - whole)
    up = rest >= 0.5
    # A select instead of ``whole + 0``, which would change -0.0 to 0.0.
    return where(up, whole + ctx.apply("sign", x), whole)


def _trunc_divide(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    ctx.same_dtype(args)
    quotient: Tensor = args[0] / args[1]
    return ctx.apply("trunc", quotient) if is_float(quotient.dtype) else quotient


# -- reductions --------------------------------------------------------------------------------


def reduce_axes(ctx: Emitter, x: Tensor, attrs: Attrs) -> list[int]:
    """Return the axes to reduce, from ``axis``, ``exclude`` and their defaults.

    Raises:
        TypeMismatch: ``exclude`` is given without ``axis``.
    """
    axis = attrs["axis"]
    if axis is None and attrs["exclude"]:
        raise TypeMismatch(ctx.where("exclude=True: expected the axes to keep, found axis=None"))
    if axis is None:
        return list(range(x.rank))
    axes = {ctx.axis(a, x.rank) for a in ((axis,) if isinstance(axis, int) else axis)}
    if attrs["exclude"]:
        return sorted(set(range(x.rank)) - axes)
    return sorted(axes) or list(range(x.rank))


def _reduced(dims: Sequence[Expr], axes: Sequence[int], keep: bool) -> list[Expr]:
    if keep:
        return [i64(1) if a in axes else d for a, d in enumerate(dims)]
    return [d for a, d in enumerate(dims) if a not in axes]


def reduction(build: Callable[..., Any]) -> Rule:
    """Return a rule for a reduction over ``axis``; without axes the result is the operand."""

    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        x: Tensor = args[0]
        keep = bool(attrs["keepdims"])
        axes = reduce_axes(ctx, x, attrs)
        if not axes:
            return x
        call = build(ctx.expr(x), axes, keepdims=keep)
        return ctx.emit(call, _reduced(x.dims, axes, keep), x.dtype)

    return rule


def _mean(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, axes = args[0], reduce_axes(ctx, args[0], attrs)
    return averaged(ctx, x, axes, bool(attrs["keepdims"])) if axes else x


def averaged(ctx: Emitter, x: Tensor, axes: Sequence[int], keep: bool = True) -> Tensor:
    """Return the mean over some axes; for integers, the int64 sum divided with truncation."""
    dims = _reduced(x.dims, axes, keep)
    if is_float(x.dtype):
        return ctx.emit(R.mean(ctx.expr(x), axes, keepdims=keep), dims, x.dtype)
    wide = cast(ctx, x, "int64")
    total = ctx.emit(R.sum(ctx.expr(wide), axes, keepdims=keep), dims, "int64")
    count = number(ctx, product([x.dims[a] for a in axes]), "int64")
    return cast(ctx, total / count, x.dtype)


def _any(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return the disjunction, as ``not min(not x)``, which is False for an empty operand."""
    none: Tensor = reduction(R.min)(ctx, [~args[0]], attrs)
    return ~none


def _arg(build: Callable[..., Any]) -> Rule:
    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        x, keep = args[0], bool(attrs["keepdims"])
        axes = reduce_axes(ctx, x, attrs)
        dims = _reduced(x.dims, axes, keep)
        x = cast(ctx, x, "int8") if x.dtype == "bool" else x
        x, axis = _axes_as_one(ctx, x, axes)
        size = x.dims[axis]
        last = bool(attrs["select_last_index"])
        operand = ctx.emit(R.flip(ctx.expr(x), axis), x.dims, x.dtype) if last else x
        call = build(ctx.expr(operand), axis, keepdims=False)
        index = ctx.emit(call, [d for a, d in enumerate(x.dims) if a != axis], "int64")
        if last:
            index = number(ctx, size - 1, "int64") - index
        return ctx.reshape(cast(ctx, index, "int32"), dims)

    return rule


def _axes_as_one(ctx: Emitter, x: Tensor, axes: Sequence[int]) -> tuple[Tensor, int]:
    """Return ``x`` with some axes merged into one, in row-major order, and the merged axis."""
    if len(axes) == 1:
        return x, axes[0]
    kept = [a for a in range(x.rank) if a not in axes]
    order = [*kept, *axes]
    dims = [x.dims[a] for a in order]
    if order != list(range(x.rank)):
        x = ctx.emit(R.permute_dims(ctx.expr(x), order), dims, x.dtype)
    return ctx.reshape(x, [*dims[: len(kept)], product(dims[len(kept) :])]), len(kept)


def _variance(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, mean = args[0], args[1] if len(args) > 1 else None
    ctx.same_dtype(args)
    axes, keep = reduce_axes(ctx, x, attrs), bool(attrs["keepdims"])
    kept = _reduced(x.dims, axes, True)
    if mean is None:
        mean = averaged(ctx, x, axes)
    else:
        wanted = kept if mean.rank == x.rank else _reduced(x.dims, axes, False)
        if mean.rank != len(wanted):
            ranks = " or ".join(map(str, sorted({len(wanted), x.rank})))
            text = f"expected a mean of rank {ranks}, found rank {mean.rank}"
            raise TypeMismatch(ctx.where(text))
        for a, (d, e) in enumerate(zip(mean.dims, wanted, strict=True)):
            ctx.require_eq(d, e, f"axis {a} of the mean must have the size of the result")
        mean = ctx.reshape(mean, kept)
    centred = x - mean
    square = centred * centred
    total = ctx.emit(
        R.sum(ctx.expr(square), axes, keepdims=keep), _reduced(x.dims, axes, keep), x.dtype
    )
    count = product([x.dims[a] for a in axes]) - (1 if attrs["unbiased"] else 0)
    return total / number(ctx, count, x.dtype)


# -- creation ----------------------------------------------------------------------------------


def _shape_given(ctx: Emitter, attrs: Attrs, rest: Args) -> list[Expr]:
    if rest:
        return [ctx.dim(d) for d in ctx.size_arg(rest[0], "the shape")]
    return [ctx.dim(d) for d in (attrs["shape"] or ())]


def filled(ctx: Emitter, dims: Sequence[Expr], fill: Tensor, dtype: str) -> Tensor:
    """Return a tensor filled with one value."""
    fill = cast(ctx, fill, dtype)
    return ctx.emit(R.full(relax.ShapeExpr(list(dims)), ctx.expr(fill), dtype), dims, dtype)


def _full(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    return filled(ctx, _shape_given(ctx, attrs, args[1:]), args[0], attrs["dtype"] or args[0].dtype)


def _filled_with(value: float) -> Rule:
    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        dtype = attrs["dtype"] or "float32"
        return filled(ctx, _shape_given(ctx, attrs, args), ctx.scalar(value, dtype), dtype)

    return rule


def _like(value: float) -> Rule:
    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        x = args[0]
        return filled(ctx, x.dims, ctx.scalar(value, x.dtype), x.dtype)

    return rule


def _full_like(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    return filled(ctx, args[0].dims, args[1], args[0].dtype)


def arange(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return ``start, start + step, ...`` below ``stop``; the step of an integer range must be
    known.

    A range with literal bounds is folded, unless it is too long.
    """
    if all(a.constant is not None for a in args[:3]):
        literals = [a.constant.reshape(()).item() for a in args[:3]]
        count = (literals[1] - literals[0]) / literals[2] if literals[2] else inf
        if ctx.literals.folding.allows(count, 3):
            ctx.literals.folding.spend(int(count), 3)
            return ctx.constant(np.arange(*literals).astype(attrs["dtype"]))
    if any(is_float(a.dtype) and not _is_whole(a) for a in args[:3]):
        return _float_range(ctx, args[:3], attrs["dtype"])
    bounds = []
    for a in args[:3]:
        value = value_of(a)
        if value is None and a.constant is not None and a.constant.size == 1:
            literal = float(a.constant.reshape(-1)[0])
            value = np.array([int(literal)], dtype=object) if literal == int(literal) else None
        if value is None:
            value = np.array(ctx.read_numbers(a, "a bound of the range"), dtype=object)
        bounds.append(ctx.dim(value.reshape(-1)[0]))
    start, stop, step = bounds
    stride = ctx.literal(step)
    if stride is None or stride == 0:
        found = "0" if stride == 0 else "one that depends on dims or data"
        wanted = "a step that is known at compile time and not 0"
        raise Unsupported(ctx.where(f"expected {wanted}, found {found}"))
    span = stop - start if stride > 0 else start - stop
    size = ctx.solver.simplify(_ceil_div(_at_least_zero(span), abs(stride)))
    call = R.arange(start, stop, step, attrs["dtype"])
    return ctx.emit(call, [size], attrs["dtype"])


def _is_whole(a: Tensor) -> bool:
    """Return whether a bound is known to be an integer."""
    if a.constant is not None and a.constant.size == 1:
        return float(a.constant.reshape(())).is_integer()
    return value_of(a) is not None


def _float_range(ctx: Emitter, args: Args, dtype: str) -> Tensor:
    """Return a range whose length is computed from data: ``ceil((stop - start) / step)``, at
    least 0.
    """
    if args[2].constant is not None and not args[2].constant.any():
        raise Unsupported(ctx.where("expected a step other than 0, found 0"))
    start, stop, step = (cast(ctx, ctx.reshape(a, []), "float64") for a in args)
    steps = (stop - start) / step
    whole = ctx.emit(R.ceil(steps.expr), [], "float64")
    count = maximum(whole, 0)
    # A length that is too large or NaN becomes -1, which the size guard refuses.
    fits = whole < MOST_STEPS
    exprs = [ctx.expr(x) for x in (fits, count, ctx.scalar(-1, "float64"))]
    length = cast(ctx, ctx.emit(R.where(*exprs), [], "float64"), "int64")
    (size,) = ctx.size_arg(length, "the length of the range")
    scaled = iota(ctx, size, "float64") * step
    return cast(ctx, scaled + start, dtype)


def _at_least_zero(x: Expr) -> Expr:
    return tirx.max(x, i64(0))


def _ceil_div(x: Expr, k: int) -> Expr:
    return x if k == 1 else tirx.floordiv(x + (k - 1), i64(k))


def _shape_of(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    raise TypeMismatch(ctx.where("shape_of is always a compile-time value"))


_REAL = (
    "acos acosh asin asinh atan atanh cos cosh erf exp log rsqrt sigmoid sin sinh sqrt tan tanh"
).split()
_UNARY = "abs ceil floor trunc".split()
_BINARY = "add maximum minimum multiply".split()
_ARITHMETIC = "divide floor_divide floor_mod mod power subtract".split()
_COMPARE = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]


def _on_truths(rule: Rule) -> Rule:
    return only_on("bools", lambda dtype: dtype == "bool", rule)


def _on_bits(rule: Rule) -> Rule:
    return only_on("integers or bools", lambda dtype: not is_float(dtype), rule)


def _on_integers(rule: Rule) -> Rule:
    return only_on("integers", lambda dtype: "int" in dtype, rule)


LOWER: Mapping[str, Rule] = {
    **{name: unary(getattr(R, name)) for name in _UNARY},
    **{name: on_floats(unary(getattr(R, name))) for name in _REAL},
    **{name: on_numbers(unary(getattr(R, name))) for name in ("negative", "sign")},
    **{name: binary(getattr(R, name)) for name in _BINARY},
    **{name: arithmetic(binary(getattr(R, name))) for name in _ARITHMETIC},
    **{
        f"bitwise_{name}": _on_bits(binary(getattr(R, f"bitwise_{name}")))
        for name in ("and", "or", "xor")
    },
    "bitwise_not": _on_bits(unary(R.bitwise_not)),
    **{
        f"logical_{name}": _on_truths(binary(getattr(R, f"logical_{name}")))
        for name in ("and", "or", "xor")
    },
    "logical_not": _on_truths(unary(R.logical_not)),
    **{name: _on_integers(binary(getattr(R, name))) for name in ("left_shift", "right_shift")},
    **{name: binary(getattr(R, name), "bool") for name in _COMPARE},
    **{name: unary(getattr(R, name), "bool") for name in ("isnan", "isinf", "isfinite")},
    "trunc_divide": on_numbers(_trunc_divide),
    "round": _round,
    "trunc_mod": on_numbers(binary(R.mod)),
    "fast_exp": on_floats(unary(R.exp)),
    "fast_erf": on_floats(unary(R.erf)),
    "fast_tanh": on_floats(unary(R.tanh)),
    **{name: on_floats(unary(function_call(name))) for name in FUNCTIONS},
    "round_even": on_numbers(_round_even),
    "where": _where,
    "cast": _cast,
    "cast_like": _cast_like,
    "clip": on_numbers(_clip),
    "copy": identity,
    "annotation.stop_fusion": identity,
    "annotation.checkpoint": identity,
    "annotation.cast_hint": identity,
    "device_copy": identity,
    "on_device": identity,
    "sum": reduction(R.sum),
    "mean": on_numbers(_mean),
    "max": reduction(R.max),
    "min": reduction(R.min),
    "prod": reduction(R.prod),
    "all": _on_truths(reduction(R.min)),
    "any": _on_truths(_any),
    "argmax": _arg(R.argmax),
    "argmin": _arg(R.argmin),
    "variance": on_numbers(_variance),
    "full": _full,
    "dyn.full": _full,
    "zeros": _filled_with(0),
    "dyn.zeros": _filled_with(0),
    "ones": _filled_with(1),
    "dyn.ones": _filled_with(1),
    "zeros_like": _like(0),
    "ones_like": _like(1),
    "full_like": _full_like,
    "shape_of": _shape_of,
}
