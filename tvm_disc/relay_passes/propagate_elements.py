"""What operators say about the elements of integer and boolean tensors.

Positions that count along an axis (`arange` and views of it) and bounds of elements decide the
wrapping of negative positions that importers put before every gather, and keep gathers inside
their operand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tvm import tirx

from tvm_disc.relay.importer.values import is_number
from tvm_disc.relay_passes.propagate_context import Context, Known, Tuple_

Args: TypeAlias = Sequence[Any]


def annotate(ctx: Context, call: Any, args: Args, result: Any) -> None:
    """Add what is known of the elements of ``result``."""
    rule = ELEMENTS.get(ctx.operator)
    if rule is not None and isinstance(result, Known) and args and args[0] is not result:
        rule(ctx, call, args, result)


def _same_elements(ctx: Context, call: Any, args: Args, result: Known) -> None:
    """The result holds elements of its first operand, and no others."""
    x = args[0]
    if isinstance(x, Known):
        result.low, result.high, result.uniform = x.low, x.high, x.uniform


def _cast(ctx: Context, call: Any, args: Args, result: Known) -> None:
    x = args[0]
    if isinstance(x, Known) and x.dtype[:3] == result.dtype[:3] and x.dtype != "bool":
        _same_elements(ctx, call, args, result)
        result.axes = x.axes


def _expand_dims(ctx: Context, call: Any, args: Args, result: Known) -> None:
    x = args[0]
    _same_elements(ctx, call, args, result)
    if isinstance(x, Known) and x.axes is not None and len(x.axes) == 1:
        rank = result.rank
        new = {int(a) % rank for a in call.attrs.axis}
        kept = [k for k in range(rank) if k not in new]
        result.axes = (kept[x.axes[0]],)


def _view(ctx: Context, call: Any, args: Args, result: Known) -> None:
    """A reshape of positions along the one dim that is not 1."""
    x = args[0]
    _same_elements(ctx, call, args, result)
    if not isinstance(x, Known) or x.axes is None or len(x.axes) != 1:
        return
    wide = [k for k, d in enumerate(result.dims) if ctx.literal(d) != 1]
    before = [k for k, d in enumerate(x.dims) if ctx.literal(d) != 1]
    if before == [x.axes[0]] and len(wide) == 1:
        result.axes = (wide[0],)


def _broadcast_to(ctx: Context, call: Any, args: Args, result: Known) -> None:
    x = args[0]
    _same_elements(ctx, call, args, result)
    if isinstance(x, Known) and x.axes is not None and len(x.axes) == 1:
        axis = x.axes[0] + result.rank - x.rank
        if ctx.same(x.dims[x.axes[0]], result.dims[axis]):
            result.axes = (axis,)


def _concat(ctx: Context, call: Any, args: Args, result: Known) -> None:
    if not isinstance(args[0], Tuple_):
        return
    fields = [f for f in args[0].fields if isinstance(f, Known)]
    if len(fields) != len(args[0].fields):
        return
    lows = [None if f.low is None else ctx.literal(f.low) for f in fields]
    if all(v is not None for v in lows):
        result.low = tirx.IntImm("int64", min(v for v in lows if v is not None))
    last = result.rank - 1
    axis = 0 if call.attrs.axis is None else int(call.attrs.axis) % result.rank
    single = all(f.axes is not None and len(f.axes) == 1 for f in fields)
    if single and axis == last and all(ctx.literal(f.dims[last]) == 1 for f in fields):
        result.axes = tuple(f.axes[0] for f in fields if f.axes is not None)


def _compared(
    always: Callable[[Known, Known], tuple[Any, Any]],
) -> Callable[[Context, Any, Args, Known], None]:
    """``always`` gives two expressions: where the first is at least the second, the comparison
    is true everywhere; where it is less in every case, false everywhere."""

    def rule(ctx: Context, call: Any, args: Args, result: Known) -> None:
        a, b = args[:2]
        if not isinstance(a, Known) or not isinstance(b, Known):
            return
        low, high = always(a, _number(ctx, b))
        if low is not None and ctx.solver.known_le(tirx.IntImm("int64", 0), low):
            result.uniform = True
        elif high is not None and ctx.solver.known_lt(high, tirx.IntImm("int64", 0)):
            result.uniform = False

    return rule


def _number(ctx: Context, x: Known) -> Known:
    """A scalar with its value as bounds."""
    value = ctx.known_value(x)
    if value is None or value.size != 1 or not is_number(value.reshape(-1)[0]):
        return x
    number = value.reshape(-1)[0]
    if int(number) != number:
        return x
    literal = tirx.IntImm("int64", int(number))
    return Known(x.dims, x.dtype, x.expr, low=literal, high=literal)


def _minus(a: Any, b: Any, offset: int = 0) -> Any:
    return None if a is None or b is None else a - b + offset


ELEMENTS: Mapping[str, Callable[[Context, Any, Args, Known], None]] = {
    "expand_dims": _expand_dims,
    "reshape": _view,
    "squeeze": _view,
    "broadcast_to": _broadcast_to,
    "permute_dims": _same_elements,
    "strided_slice": _same_elements,
    "take": _same_elements,
    "gather_elements": _same_elements,
    "gather_nd": _same_elements,
    "index_tensor": _same_elements,
    "astype": _cast,
    "concat": _concat,
    # a >= b  <=>  a - b >= 0;  a < b  <=>  b - a - 1 >= 0.
    "greater_equal": _compared(lambda a, b: (_minus(a.low, b.high), _minus(a.high, b.low))),
    "greater": _compared(lambda a, b: (_minus(a.low, b.high, -1), _minus(a.high, b.low, -1))),
    "less_equal": _compared(lambda a, b: (_minus(b.low, a.high), _minus(b.high, a.low))),
    "less": _compared(lambda a, b: (_minus(b.low, a.high, -1), _minus(b.high, a.low, -1))),
}

__all__ = ["annotate"]
