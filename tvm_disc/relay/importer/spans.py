"""Ranges of integer tensors that come from literals.

Importers of other frameworks wrap every index: ``where(i < 0, i + n, i)``. For positions that were
literals, such as a table of positions cut to a length, the test is decided here and disappears.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_disc.relay.importer.context import Emitter
from tvm_disc.relay.importer.lowering.tensor import filled
from tvm_disc.relay.importer.lowering.transform import broadcast_dims_to
from tvm_disc.relay.importer.positions import least, line_of
from tvm_disc.relay.importer.tensor import Tensor

Span = tuple[int, int]

# Operators whose result holds only elements of their first operand.
_MOVES = frozenset(
    "reshape dyn.reshape expand_dims squeeze transpose strided_slice dyn.strided_slice copy "
    "broadcast_to dyn.broadcast_to take gather gather_nd".split()
)
_TESTS: Mapping[str, Callable[[Span, Span], bool | None]] = {
    "less": lambda a, b: True if a[1] < b[0] else False if a[0] >= b[1] else None,
    "greater_equal": lambda a, b: True if a[0] >= b[1] else False if a[1] < b[0] else None,
}


def span_of(x: Any) -> Span | None:
    """The least and the greatest element, if known."""
    if not isinstance(x, Tensor):
        return None
    known = x.span is None and x.constant is not None and x.constant.size
    if known and x.constant is not None and x.constant.dtype.kind in "iub":
        x.span = int(np.min(x.constant)), int(np.max(x.constant))
    return x.span


def decided(ctx: Emitter, name: str, args: Sequence[Any]) -> Tensor | None:
    """The result of an operator that the ranges of its operands decide."""
    if name == "where":
        cond = span_of(args[0])
        if cond is None or cond[0] != cond[1]:
            return None
        dims = ctx.broadcast_dims([a.dims for a in args])
        chosen = args[1] if cond[0] else args[2]
        found = broadcast_dims_to(ctx, chosen, dims)
        found.span = span_of(chosen)
        return found
    if name not in _TESTS or len(args) != 2:
        return None
    a, b = span_of(args[0]), span_of(args[1])
    answer = None if a is None or b is None else _TESTS[name](a, b)
    if answer is None and _never_below(ctx, *args):
        answer = name != "less"
    if answer is None:
        return None
    dims = ctx.broadcast_dims([x.dims for x in args])
    result = filled(ctx, dims, ctx.scalar(answer, "bool"), "bool")
    result.span = (int(answer), int(answer))
    return result


def _never_below(ctx: Emitter, a: Any, b: Any) -> bool:
    """Whether every element of ``a`` is at least the number ``b``."""
    limit, low = line_of(ctx, b), least(ctx, a)
    if limit is None or low is None or any(ctx.literal(s) != 0 for s in limit.steps):
        return False
    return bool(ctx.solver.known_le(limit.start, low))


def ranged(ctx: Emitter, name: str, args: Sequence[Any], result: Any) -> Any:
    """``result`` with its range; a tensor of one repeated number needs no operand."""
    if name not in _MOVES or not isinstance(result, Tensor) or result.constant is not None:
        return result
    span = span_of(args[0])
    if span is None or result.value is not None:
        return result
    if span[0] == span[1]:
        result = filled(ctx, result.dims, ctx.scalar(span[0], result.dtype), result.dtype)
    result.span = span
    return result
