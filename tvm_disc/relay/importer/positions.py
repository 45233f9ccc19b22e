"""Positions that count: integer tensors whose elements are affine in their own indices.

Exporters write `mask[batch, 0, 0, key]` as a gather at `arange(b) * s + arange(s)`. Such positions
read their operand in order, each element once: the gather is the operand under another shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_disc.relay.importer.context import Dim, Emitter, i64
from tvm_disc.relay.importer.tensor import Line, Tensor
from tvm_disc.relay.importer.values import as_expr, value_of

Rule = Callable[[Emitter, Sequence[Any], Tensor], "Line | None"]


def counted(ctx: Emitter, name: str, args: Sequence[Any], result: Any) -> Any:
    """``result`` with the line its elements lie on, if one is known."""
    rule = _RULES.get(name)
    if rule is None or not isinstance(result, Tensor) or "int" not in result.dtype:
        return result
    if result.line is None and result.value is None and result.constant is None:
        result.line = rule(ctx, args, result)
    return result


def line_of(ctx: Emitter, x: Any) -> Line | None:
    """Where the elements of an operand lie; a single number lies on a flat line."""
    if not isinstance(x, Tensor):
        return None
    value = None if x.line is not None else value_of(x)
    if value is not None and value.size == 1 and "int" in x.dtype:
        return Line(ctx.dim(value.reshape(-1)[0]), (i64(0),) * x.rank)
    return x.line


def least(ctx: Emitter, x: Any) -> Dim | None:
    """The least element, where the line does not fall along any axis."""
    line = line_of(ctx, x)
    if line is None or not all(ctx.solver.known_le(i64(0), s) for s in line.steps):
        return None
    return line.start


def reads_in_order(ctx: Emitter, picks: Tensor) -> bool:
    """Whether the elements are 0, 1, 2, ... in row-major order."""
    line = picks.line
    if line is None or not ctx.same(line.start, i64(0)):
        return False
    stride: Any = i64(1)
    for dim, step in zip(reversed(picks.dims), reversed(line.steps), strict=True):
        if ctx.literal(dim) != 1 and not ctx.same(step, stride):
            return False
        stride = ctx.solver.simplify(stride * dim)
    return True


def _arange(ctx: Emitter, args: Sequence[Any], result: Tensor) -> Line | None:
    values = [value_of(a) for a in (args[0], args[2])]
    if any(v is None or v.size != 1 for v in values):
        return None
    start, step = (as_expr(v.reshape(-1)[0]) for v in values if v is not None)
    return Line(ctx.solver.simplify(start), (ctx.solver.simplify(step),))


def _same(ctx: Emitter, args: Sequence[Any], result: Tensor) -> Line | None:
    return line_of(ctx, args[0])


def _view(ctx: Emitter, args: Sequence[Any], result: Tensor) -> Line | None:
    """Dims of one come and go; what is left must be as it was."""
    line = line_of(ctx, args[0])
    if line is None:
        return None
    wide = [k for k, d in enumerate(result.dims) if ctx.literal(d) != 1]
    before = [k for k, d in enumerate(args[0].dims) if ctx.literal(d) != 1]
    pairs = [(result.dims[k], args[0].dims[j]) for k, j in zip(wide, before, strict=False)]
    if len(wide) != len(before) or not all(ctx.same(a, b) for a, b in pairs):
        return None
    kept = {k: line.steps[j] for k, j in zip(wide, before, strict=True)}
    return Line(line.start, tuple(kept.get(k, i64(0)) for k in range(result.rank)))


def _along(ctx: Emitter, x: Any, result: Tensor) -> Line | None:
    """The line of an operand in the indices of a result it is broadcast to."""
    line = line_of(ctx, x)
    if line is None:
        return None
    steps = [i64(0)] * (result.rank - x.rank)
    for dim, wide, step in zip(
        x.dims, result.dims[result.rank - x.rank :], line.steps, strict=True
    ):
        if ctx.literal(dim) != 1 and not ctx.same(dim, wide):
            return None
        steps.append(i64(0) if ctx.literal(dim) == 1 else step)
    return Line(line.start, tuple(steps))


def _add(ctx: Emitter, args: Sequence[Any], result: Tensor) -> Line | None:
    a, b = (_along(ctx, x, result) for x in args)
    if a is None or b is None:
        return None
    steps = tuple(ctx.solver.simplify(x + y) for x, y in zip(a.steps, b.steps, strict=True))
    return Line(ctx.solver.simplify(a.start + b.start), steps)


def _multiply(ctx: Emitter, args: Sequence[Any], result: Tensor) -> Line | None:
    lines = [_along(ctx, x, result) for x in args]
    for line, other in (lines, reversed(lines)):
        if line is None or other is None:
            return None
        if all(ctx.literal(s) == 0 for s in other.steps):
            k = other.start
            steps = tuple(ctx.solver.simplify(s * k) for s in line.steps)
            return Line(ctx.solver.simplify(line.start * k), steps)
    return None


_RULES: Mapping[str, Rule] = {
    "arange": _arange,
    "cast": _same,
    "copy": _same,
    "expand_dims": _view,
    "squeeze": _view,
    "reshape": _view,
    "dyn.reshape": _view,
    "broadcast_to": lambda ctx, args, result: _along(ctx, args[0], result),
    "dyn.broadcast_to": lambda ctx, args, result: _along(ctx, args[0], result),
    "add": _add,
    "multiply": _multiply,
}

__all__ = ["counted", "least", "line_of", "reads_in_order"]
