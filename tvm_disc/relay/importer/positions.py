"""Facts about the elements of integer tensors: arithmetic progressions (lines) and bounds.

Exporters write `mask[batch, 0, 0, key]` as a gather at `arange(b) * s + arange(s)`. Such positions
read each element of their operand once, in order, so that the gather is a reshape of the operand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_disc.relay.importer.context import Dim, Emitter, i64, product
from tvm_disc.relay.importer.tensor import Progression, Tensor
from tvm_disc.relay.importer.values import as_expr, is_number, value_of
from tvm_disc.typing import Expr

Rule = Callable[[Emitter, Sequence[Any], Tensor], "Progression | None"]
Bounds = tuple["Dim | None", "Dim | None"]

MOST = 1 << 62


def counted(ctx: Emitter, name: str, args: Sequence[Any], result: Tensor) -> None:
    """Set the progression of ``result``, or the progressions of its columns, if known."""
    if "int" not in result.dtype:
        return
    if name == "concatenate":
        result.columns = _columns(ctx, args[0], result)
    elif name == "cast":
        result.columns = args[0].columns
    rule = _RULES.get(name)
    if rule is not None and result.line is None:
        result.line = rule(ctx, args, result)


def line_of(ctx: Emitter, x: object) -> Progression | None:
    """Return the progression of an operand, or None if unknown; a single number has step 0."""
    if not isinstance(x, Tensor) or "int" not in x.dtype:
        return None
    if x.line is None:
        value = value_of(x)
        if value is not None and value.size == 1:
            return Progression(ctx.dim(value.reshape(-1)[0]), (i64(0),) * x.rank)
        x.line = _line_of_literal(x)
    return x.line


def _line_of_literal(x: Tensor) -> Progression | None:
    """Return the progression of a literal if its elements have equal differences, else None.

    At most one axis may have a size other than 1.
    """
    numbers = _numbers(x)
    if numbers is None or numbers.size < 2 or max(numbers.shape) != numbers.size:
        return None
    flat = numbers.reshape(-1)
    step = int(flat[1]) - int(flat[0])
    if not (np.diff(flat) == step).all():
        return None
    steps = [step if d == numbers.size else 0 for d in numbers.shape]
    return Progression(i64(int(flat[0])), tuple(i64(s) for s in steps))


def _numbers(x: Tensor) -> np.ndarray | None:
    """Return the elements if they are known numbers of magnitude below 2**62."""
    array = _integers(x)
    if array is None:
        return None
    array = array.astype("int64") if array.dtype.kind in "ib" else array
    return array if int(array.min()) > -MOST and int(array.max()) < MOST else None


def _integers(x: Tensor) -> np.ndarray | None:
    """Return the elements if they are known integers or bools, in their type."""
    array = x.constant
    if array is None and x.value is not None and all(is_number(v) for v in x.value.reshape(-1)):
        array = np.array(x.value.tolist())
    return None if array is None or not array.size or array.dtype.kind not in "iub" else array


def bounds(ctx: Emitter, x: object) -> Bounds:
    """Return a lower and an upper bound of the elements, each None if unknown."""
    if not isinstance(x, Tensor) or not ("int" in x.dtype or x.dtype == "bool"):
        return None, None
    if x.low is None and x.high is None:
        x.low, x.high = _bounds(ctx, x)
    return x.low, x.high


def _bounds(ctx: Emitter, x: Tensor) -> Bounds:
    numbers = _integers(x)
    if numbers is not None:
        low, high = int(numbers.min()), int(numbers.max())
        if low > -MOST and high < MOST:
            return i64(low), i64(high)
    line = line_of(ctx, x)
    if line is None or not all(ctx.solver.known_le(i64(0), s) for s in line.steps):
        return None, None
    far = [s * (d - 1) for s, d in zip(line.steps, x.dims, strict=True) if ctx.literal(s) != 0]
    return line.start, ctx.solver.simplify(sum(far, line.start))


def same_everywhere(ctx: Emitter, x: object) -> int | None:
    """Return the value that all elements have, or None if that is not known."""
    low, high = bounds(ctx, x)
    if low is None or high is None or ctx.literal(low) is None:
        return None
    return ctx.literal(low) if ctx.literal(low) == ctx.literal(high) else None


def _counting_axes(ctx: Emitter, line: Progression, dims: Sequence[Dim]) -> list[int] | None:
    """Return the axes along which the elements count 0, 1, 2, ... in row-major order.

    Elements repeat along the other axes. Returns None if the elements are not of this form.
    """
    if not ctx.same(line.start, i64(0)):
        return None
    axes: list[int] = []
    stride: Expr = i64(1)
    for axis in reversed(range(len(dims))):
        step = line.steps[axis]
        if ctx.literal(dims[axis]) == 1 or ctx.literal(step) == 0:
            continue
        if not ctx.same(step, stride):
            return None
        axes.insert(0, axis)
        stride = ctx.solver.simplify(stride * dims[axis])
    return axes


def read_in_place(
    ctx: Emitter, data: Tensor, first: int, lines: Sequence[Progression | None], dims: Sequence[Dim]
) -> Tensor | None:
    """Return ``data`` at positions of shape ``dims`` along the axes from ``first``, as a view.

    ``lines`` has one progression of positions per axis. If each axis is read completely and in
    order, the result is ``data`` with dims of 1 inserted, broadcast along the axes of ``dims`` that
    no position depends on. Otherwise returns None.
    """
    counting: list[int] = []
    for k, line in enumerate(lines):
        axes = None if line is None else _counting_axes(ctx, line, dims)
        if axes is None:
            return None
        count, size = product([dims[a] for a in axes]), data.dims[first + k]
        if not ctx.same(count, size):
            ctx.solver.wish_eq(count, size, ctx.where("the positions read all elements in order"))
            return None
        counting += axes
    if counting != sorted(set(counting)):
        return None
    before, after = data.dims[:first], data.dims[first + len(lines) :]
    narrow = [d if a in counting else i64(1) for a, d in enumerate(dims)]
    view = ctx.reshape(data, [*before, *narrow, *after])
    return ctx.broadcast(view, [*before, *dims, *after], full=True)


def _arange(ctx: Emitter, args: Sequence[Tensor], result: Tensor) -> Progression | None:
    values = [value_of(a) for a in (args[0], args[2])]
    if any(v is None or v.size != 1 for v in values):
        return None
    start, step = (as_expr(v.reshape(-1)[0]) for v in values if v is not None)
    return Progression(ctx.solver.simplify(start), (ctx.solver.simplify(step),))


def _same(ctx: Emitter, args: Sequence[object], result: Tensor) -> Progression | None:
    return line_of(ctx, args[0])


def _view(ctx: Emitter, args: Sequence[Expr], result: Tensor) -> Progression | None:
    """Return the progression after dims of 1 are inserted or removed; None for other reshapes."""
    line = line_of(ctx, args[0])
    if line is None:
        return None
    wide = [k for k, d in enumerate(result.dims) if ctx.literal(d) != 1]
    before = [k for k, d in enumerate(args[0].dims) if ctx.literal(d) != 1]
    pairs = [(result.dims[k], args[0].dims[j]) for k, j in zip(wide, before, strict=False)]
    if len(wide) != len(before) or not all(ctx.same(a, b) for a, b in pairs):
        return None
    kept = {k: line.steps[j] for k, j in zip(wide, before, strict=True)}
    return Progression(line.start, tuple(kept.get(k, i64(0)) for k in range(result.rank)))


def line_along(ctx: Emitter, x: Expr, dims: Sequence[Dim]) -> Progression | None:
    """Return the progression of an operand after broadcasting it to ``dims``; None if unknown."""
    line = line_of(ctx, x)
    if line is None:
        return None
    steps = [i64(0)] * (len(dims) - x.rank)
    for dim, wide, step in zip(x.dims, dims[len(steps) :], line.steps, strict=True):
        if ctx.literal(dim) != 1 and not ctx.same(dim, wide):
            return None
        steps.append(i64(0) if ctx.literal(dim) == 1 else step)
    return Progression(line.start, tuple(steps))


def _broadcast(ctx: Emitter, args: Sequence[Expr], result: Tensor) -> Progression | None:
    return line_along(ctx, args[0], result.dims)


def _columns(ctx: Emitter, parts: Sequence[Any], result: Tensor) -> tuple[Progression, ...] | None:
    """Return the progressions of the parts of a concatenation along the last axis.

    Returns None if a part does not have size 1 along this axis, or has no known progression.
    """
    if not result.rank or ctx.literal(result.dims[-1]) != len(parts):
        return None
    lines = [line_of(ctx, p) for p in parts]
    if any(p.rank != result.rank or ctx.literal(p.dims[-1]) != 1 for p in parts):
        return None
    found = tuple(Progression(line.start, line.steps[:-1]) for line in lines if line is not None)
    return found if len(found) == len(parts) else None


def columns_of(ctx: Emitter, x: Tensor) -> tuple[Progression, ...] | None:
    """Return the progression of each coordinate along the last axis of ``x``, if known."""
    return x.columns or _columns(ctx, [x], x)


def _add(ctx: Emitter, args: Sequence[Expr], result: Tensor) -> Progression | None:
    a, b = (line_along(ctx, x, result.dims) for x in args)
    if a is None or b is None:
        return None
    steps = tuple(ctx.solver.simplify(x + y) for x, y in zip(a.steps, b.steps, strict=True))
    return Progression(ctx.solver.simplify(a.start + b.start), steps)


def _multiply(ctx: Emitter, args: Sequence[Expr], result: Tensor) -> Progression | None:
    lines = [line_along(ctx, x, result.dims) for x in args]
    for line, other in (lines, reversed(lines)):
        if line is None or other is None:
            return None
        if all(ctx.literal(s) == 0 for s in other.steps):
            k = other.start
            steps = tuple(ctx.solver.simplify(s * k) for s in line.steps)
            return Progression(ctx.solver.simplify(line.start * k), steps)
    return None


_RULES: Mapping[str, Rule] = {
    "arange": _arange,
    "cast": _same,
    "copy": _same,
    "expand_dims": _view,
    "squeeze": _view,
    "reshape": _view,
    "dyn.reshape": _view,
    "broadcast_to": _broadcast,
    "dyn.broadcast_to": _broadcast,
    "add": _add,
    "multiply": _multiply,
}

__all__ = [
    "bounds",
    "columns_of",
    "counted",
    "line_along",
    "line_of",
    "read_in_place",
    "same_everywhere",
]
